//! The span of a request: whether the request has one, to which trace it belongs, and which context
//! the Worker gets.
//!
//! ```text
//!  traceparent of a trusted proxy, or of a calling Worker's node ─► continued, if it is sampled
//!  traceparent of other clients ─► a new trace with a link       ─┐
//!  none                         ─► a new trace                   ─┴─► sampled by the ratio
//! ```
//!
//! The Worker of a request that has a span gets the span's context in place of the sender's. Any
//! other Worker gets the headers of the sender.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use tenon_proto::invoke::HeadSink;
use tenon_proto::runtime::{Header, InvokeHead};
use tenon_spans::context::{TRACEPARENT, TRACESTATE};
use tenon_spans::{Context, OpenSpan, Origin};

use crate::meters::Outcome;
use crate::thread::RouterThread;
use crate::trace::{LoggedRequest, Trace};

/// The sender of a request, and the trace that it states.
pub(crate) enum Lineage<'a> {
    Client {
        headers: &'a HeaderMap,
        is_trusted: bool,
    },
    /// The sender is a node or an operator.
    Process {
        context: Option<Context>,
        /// Whether the request is a call of another Worker, and not a scheduled event.
        is_call: bool,
    },
}

impl Lineage<'_> {
    /// Returns the lineage of a call, or of a scheduled event.
    pub(crate) fn of_call(head: &InvokeHead) -> Self {
        let context = Context::parse(head.trace.as_bytes());
        // A calling Worker may have spans of its own in the same trace.
        let stated = head.headers.iter().find(|header| header.name == TRACEPARENT.as_str());
        let stated = stated.and_then(|header| Context::parse(&header.value));
        let context = context.map(|context| match stated {
            Some(stated) if stated.trace == context.trace => {
                Context { span: stated.span, ..context }
            }
            _ => context,
        });
        Self::Process { context, is_call: head.depth > 0 }
    }

    /// Returns the origin of the request's trace.
    fn origin(&self) -> Origin {
        match self {
            Self::Client { headers, is_trusted } => match Context::of(headers) {
                None => Origin::Nothing,
                Some(context) if *is_trusted => Origin::Parent(context),
                Some(context) => Origin::Untrusted(context),
            },
            Self::Process { context, .. } => context.map_or(Origin::Nothing, Origin::Parent),
        }
    }
}

/// Begins the span of a request, if it has one.
///
/// # Arguments
/// * `describe` - returns the request.
pub(crate) fn begin<'a>(
    thread: &RouterThread,
    lineage: &Lineage<'_>,
    started: Instant,
    describe: impl FnOnce() -> LoggedRequest<'a>,
) -> Option<Box<OpenSpan>> {
    let spans = thread.spans.as_ref()?;
    let parent = match lineage {
        Lineage::Client { headers, is_trusted: true } => Context::of(headers),
        Lineage::Client { .. } => None,
        // The call belongs to a request that is not sampled.
        Lineage::Process { context: None, is_call: true } => return None,
        Lineage::Process { context, .. } => *context,
    };
    if !spans.samples(parent.as_ref(), thread.random() as u64) {
        return None;
    }
    let mut open = spans.begin(&lineage.origin(), started, || thread.random());
    describe().describe(&mut open.span);
    Some(open)
}

/// Adds the outcome of a request to its span, and returns the span, which ends with the response. A
/// request that has failed without a span gets one, which has ended already; the result is then
/// `None`.
pub(crate) fn answered(
    thread: &RouterThread,
    trace: &mut Trace,
    lineage: &Lineage<'_>,
    request: &LoggedRequest<'_>,
    outcome: Outcome,
    took: Duration,
) -> Option<Box<OpenSpan>> {
    if let Some(mut open) = trace.span.take() {
        open.answered(|span| trace.describe(span, outcome));
        return Some(open);
    }
    if let Some(spans) = &thread.spans
        && trace.records_failure(outcome)
    {
        spans.record_error(
            &lineage.origin(),
            took,
            || thread.random(),
            |span| {
                request.describe(span);
                trace.describe(span, outcome);
            },
        );
    }
    None
}

/// Returns whether the context of a request's span replaces a header of the client. A new trace
/// must not have the `tracestate` of another one.
pub(crate) fn replaces(name: &HeaderName, is_trusted: bool) -> bool {
    *name == TRACEPARENT || !is_trusted && *name == TRACESTATE
}

/// Writes the context of a request's span to the request that the Worker gets.
pub(crate) fn write(context: &Context, head: &mut impl HeadSink) {
    let context = context.to_string();
    head.header(TRACEPARENT.as_str(), context.as_bytes());
    head.trace(&context);
}

/// Sets the context of a call's span in the call that the Worker gets.
pub(crate) fn set(context: &Context, head: &mut InvokeHead) {
    head.trace = context.to_string();
    head.headers.retain(|header| header.name != TRACEPARENT.as_str());
    let value = Bytes::from(head.trace.clone());
    head.headers.push(Header { name: TRACEPARENT.as_str().to_owned(), value });
}
