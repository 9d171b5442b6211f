//! One span, in the form in which OTLP encodes it. This module is pure.
//!
//! The names of attributes are those of OpenTelemetry's semantic conventions, or begin with
//! `tenon.`. Texts are bounded, because clients choose some of them.

use std::num::{NonZeroU64, NonZeroU128};
use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{self, Status};

use crate::context::Context;

/// The maximum length of an attribute's text, in bytes.
const MAX_TEXT: usize = 256;

/// The number of attributes for which a span has room from the beginning.
const ATTRIBUTES: usize = 20;

/// The context that the sender of a request stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The request begins a trace.
    Nothing,
    /// The request continues the trace of a sender that is trusted.
    Parent(Context),
    /// The request begins a trace, which refers to the trace of a sender that is not trusted.
    /// Otherwise a client could add spans to any trace.
    Untrusted(Context),
}

impl Origin {
    /// Returns the context in which a span is recorded.
    ///
    /// # Arguments
    /// * `random` - returns random bits.
    pub fn begin(&self, mut random: impl FnMut() -> u128) -> Context {
        // Both ids are random. The id 0 is invalid, so it becomes 1 if it is drawn.
        let trace = match self {
            Self::Parent(parent) => parent.trace,
            Self::Nothing | Self::Untrusted(_) => {
                NonZeroU128::new(random()).unwrap_or(NonZeroU128::MIN)
            }
        };
        let span = NonZeroU64::new(random() as u64).unwrap_or(NonZeroU64::MIN);
        Context { trace, span, is_sampled: true }
    }
}

/// The record of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span(v1::Span);

impl Span {
    /// Creates the span of a request that this process serves.
    pub fn server(context: &Context, origin: &Origin, started: SystemTime) -> Self {
        let mut span = v1::Span {
            trace_id: context.trace.get().to_be_bytes().to_vec(),
            span_id: context.span.get().to_be_bytes().to_vec(),
            kind: SpanKind::Server.into(),
            // The trace is sampled.
            flags: 1,
            start_time_unix_nano: nanoseconds(started),
            attributes: Vec::with_capacity(ATTRIBUTES),
            ..v1::Span::default()
        };
        match origin {
            Origin::Nothing => {}
            Origin::Parent(parent) => {
                span.parent_span_id = parent.span.get().to_be_bytes().to_vec();
            }
            Origin::Untrusted(context) => span.links.push(Link {
                trace_id: context.trace.get().to_be_bytes().to_vec(),
                span_id: context.span.get().to_be_bytes().to_vec(),
                ..Link::default()
            }),
        }
        Self(span)
    }

    /// Sets the name. The number of different names must be small.
    pub fn name(&mut self, name: &'static str) {
        self.0.name = name.to_owned();
    }

    /// Adds text. At most the first 256 bytes are kept, without a part of a character.
    pub fn text(&mut self, key: &'static str, text: &str) {
        let text = text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
        self.attribute(key, Value::StringValue(text));
    }

    /// Adds a number.
    pub fn number(&mut self, key: &'static str, number: i64) {
        self.attribute(key, Value::IntValue(number));
    }

    /// Adds a Boolean value.
    pub fn flag(&mut self, key: &'static str, is_set: bool) {
        self.attribute(key, Value::BoolValue(is_set));
    }

    /// Records that the request has failed. Only the first reason is kept. The number of different
    /// reasons must be small.
    pub fn fail(&mut self, reason: &str) {
        if self.0.status.is_none() {
            self.0.status = Some(Status { code: StatusCode::Error.into(), message: String::new() });
            self.text("error.type", reason);
        }
    }

    /// Sets the time at which the request ended.
    ///
    /// # Arguments
    /// * `took` - the time since the request started.
    pub fn end(&mut self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.end_time_unix_nano = self.0.start_time_unix_nano.saturating_add(took);
    }

    pub(crate) fn into_message(self) -> v1::Span {
        self.0
    }

    fn attribute(&mut self, key: &'static str, value: Value) {
        self.0.attributes.push(attribute(key, value));
    }
}

/// Returns an attribute of a span or of a resource.
pub(crate) fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATED: &[u8] = b"00-000000000000000000000000000000ab-00000000000000cd-01";

    fn span(origin: Origin) -> v1::Span {
        let mut random = 0x1000;
        let context = origin.begin(|| {
            random += 0x10;
            random
        });
        Span::server(&context, &origin, SystemTime::UNIX_EPOCH + Duration::from_secs(7))
            .into_message()
    }

    fn ids(low: u128) -> (Vec<u8>, Vec<u8>) {
        (low.to_be_bytes().to_vec(), (low as u64).to_be_bytes().to_vec())
    }

    #[test]
    fn a_request_continues_only_the_trace_of_a_trusted_sender() {
        let stated = Context::parse(STATED).unwrap();
        let continued = span(Origin::Parent(stated));
        assert_eq!(continued.trace_id, ids(0xab).0);
        assert_eq!((continued.parent_span_id, continued.span_id), (ids(0xcd).1, ids(0x1010).1));
        assert!(continued.links.is_empty());
        let begun = span(Origin::Untrusted(stated));
        assert_eq!((begun.trace_id, begun.span_id), (ids(0x1010).0, ids(0x1020).1));
        assert!(begun.parent_span_id.is_empty());
        assert_eq!(begun.links[0].trace_id, ids(0xab).0);
        assert!(span(Origin::Nothing).links.is_empty());
    }

    #[test]
    fn a_span_lasts_as_long_as_its_request() {
        let context = Context::parse(STATED).unwrap();
        let mut span = Span::server(&context, &Origin::Nothing, SystemTime::UNIX_EPOCH);
        span.end(Duration::from_millis(3));
        assert_eq!(span.into_message().end_time_unix_nano, 3_000_000);
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let context = Context::parse(STATED).unwrap();
        let mut span = Span::server(&context, &Origin::Nothing, SystemTime::UNIX_EPOCH);
        span.text("url.path", &"é".repeat(1000));
        span.text("url.path", &format!("/{}", "é".repeat(1000)));
        let lengths: Vec<usize> = span
            .0
            .attributes
            .iter()
            .map(|attribute| {
                let Some(Value::StringValue(text)) = attribute.value.clone().unwrap().value else {
                    panic!("the attribute is not text");
                };
                text.len()
            })
            .collect();
        assert_eq!(lengths, [256, 255]);
    }

    #[test]
    fn the_first_reason_for_a_failure_is_kept() {
        let context = Context::parse(STATED).unwrap();
        let mut span = Span::server(&context, &Origin::Nothing, SystemTime::UNIX_EPOCH);
        span.fail("node_lost");
        span.fail("500");
        let span = span.into_message();
        assert_eq!(span.status.unwrap().code(), StatusCode::Error);
        assert_eq!(span.attributes.len(), 1);
    }
}
