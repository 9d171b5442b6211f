//! Records where a request went, for the access log, for the span of the request, and for a client
//! that requests debug headers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Version};
use tenon_proto::id::WorkerId;
use tenon_proto::runtime::ResponseHead;
use tenon_spans::{Context, OpenSpan, Span};
use tenon_table::Shard;

use crate::meters::{Outcome, version_number};

const DEBUG: HeaderName = HeaderName::from_static("tenon-debug");
const WORKER: HeaderName = HeaderName::from_static("tenon-worker");
const NODE: HeaderName = HeaderName::from_static("tenon-node");
const SHARD: HeaderName = HeaderName::from_static("tenon-shard");
const REQUEST_ID: HeaderName = HeaderName::from_static("tenon-request-id");

/// The request as the access log and its span show it.
pub(crate) struct LoggedRequest<'a> {
    pub(crate) request_id: &'a str,
    pub(crate) peer: IpAddr,
    /// The calling Worker, if there is one.
    pub(crate) caller: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) scheme: &'a str,
    pub(crate) host: Option<&'a str>,
    pub(crate) path: &'a str,
    pub(crate) protocol: Version,
}

/// Returns whether a client requests debug headers.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    headers.get(DEBUG).is_some_and(|value| value == "1")
}

/// The record of where a request went.
pub(crate) struct Trace {
    /// Whether the response has debug headers.
    pub(crate) adds_debug_headers: bool,
    /// Whether the access log has a line for the request.
    pub(crate) is_logged: bool,
    /// The span of the request, if it has one.
    pub(crate) span: Option<Box<OpenSpan>>,
    /// Whether the request gets a span if it fails.
    pub(crate) records_failures: bool,
    worker: Option<WorkerId>,
    shard: Option<Arc<Shard>>,
    attempts: u32,
    /// Whether the request has waited for a cold start, if the node has answered.
    is_cold: Option<bool>,
}

impl Trace {
    /// Creates the record of one request.
    ///
    /// # Arguments
    /// * `adds_debug_headers` - whether the response has debug headers.
    /// * `is_logged` - whether the access log has a line for the request.
    pub(crate) fn new(adds_debug_headers: bool, is_logged: bool) -> Self {
        Self {
            adds_debug_headers,
            is_logged,
            span: None,
            records_failures: false,
            worker: None,
            shard: None,
            attempts: 0,
            is_cold: None,
        }
    }

    /// Returns whether names must be kept. All threads share the reference counts of names, so
    /// names are cloned only if needed.
    fn is_wanted(&self) -> bool {
        self.adds_debug_headers || self.is_logged || self.span.is_some()
    }

    /// Returns the context that the Worker gets, if the request has a span.
    pub(crate) fn context(&self) -> Option<Context> {
        self.span.as_ref().map(|span| span.context())
    }

    /// Records the Worker that serves the request.
    pub(crate) fn record_worker(&mut self, worker: &WorkerId) {
        self.worker = self.is_wanted().then(|| worker.clone());
    }

    /// Records an attempt on a shard.
    pub(crate) fn record_attempt(&mut self, shard: &Arc<Shard>) {
        self.attempts += 1;
        self.shard = self.is_wanted().then(|| shard.clone());
    }

    /// Returns whether the request gets a span because of its outcome.
    pub(crate) fn records_failure(&self, outcome: Outcome) -> bool {
        self.records_failures && outcome.is_error()
    }

    /// Records that a shard has answered.
    pub(crate) fn record_answer(&mut self, shard: &Arc<Shard>, head: &ResponseHead) {
        self.is_cold = Some(head.cold);
        if head.status >= 500 {
            self.record_failed_shard(shard);
        }
    }

    /// Records that the request has failed, or that an attempt has failed, on a shard.
    pub(crate) fn record_failed_shard(&mut self, shard: &Arc<Shard>) {
        if self.records_failures {
            self.shard = Some(shard.clone());
        }
    }

    /// Records the Worker of a request that has failed, or whose response is an error.
    pub(crate) fn record_failed_worker(&mut self, worker: &WorkerId) {
        if self.records_failures {
            self.worker = Some(worker.clone());
        }
    }

    /// Writes the debug headers of a response.
    pub(crate) fn write(&self, headers: &mut HeaderMap, request_id: &str) {
        let mut put = |name, value: &str| {
            // Request ids have been checked, and names come from Kubernetes, so all of them are
            // valid.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        put(REQUEST_ID, request_id);
        if let Some(worker) = &self.worker {
            put(WORKER, worker.as_str());
        }
        if let Some(shard) = &self.shard {
            put(NODE, &shard.node);
            put(SHARD, &shard.id.to_string());
        }
    }

    /// Writes the request's line of the access log.
    pub(crate) fn log(&self, request: &LoggedRequest<'_>, outcome: Outcome, took: Duration) {
        let code = match outcome {
            Outcome::Answered(_) => None,
            Outcome::Failed(code) => Some(code.as_str()),
        };
        tracing::info!(
            target: "tenon::access",
            request_id = request.request_id,
            peer = %request.peer,
            caller = request.caller,
            method = request.method,
            host = request.host,
            path = request.path,
            protocol = ?request.protocol,
            trace_id = self.context().map(|context| tracing::field::display(context.trace_id())),
            status = outcome.status(),
            code,
            duration_us = took.as_micros() as u64,
            worker = self.worker.as_ref().map(WorkerId::as_str),
            node = self.shard.as_ref().map(|shard| &*shard.node),
            shard = self.shard.as_ref().map(|shard| tracing::field::display(shard.id)),
            attempts = self.attempts,
        );
    }

    /// Adds the outcome of a request to its span.
    pub(crate) fn describe(&self, span: &mut Span, outcome: Outcome) {
        if let Some(worker) = &self.worker {
            span.text("tenon.worker", worker.as_str());
        }
        if let Some(shard) = &self.shard {
            span.text("tenon.node", &shard.node);
            span.text("tenon.shard", &shard.id.to_string());
        }
        span.number("tenon.attempts", self.attempts.into());
        if let Some(is_cold) = self.is_cold {
            span.flag("faas.coldstart", is_cold);
        }
        span.number("http.response.status_code", outcome.status().into());
        match outcome {
            Outcome::Failed(code) if outcome.is_error() => span.fail(code.as_str()),
            Outcome::Answered(status) if outcome.is_error() => span.fail(status.as_str()),
            Outcome::Failed(code) => span.text("error.type", code.as_str()),
            Outcome::Answered(_) => {}
        }
    }
}

impl LoggedRequest<'_> {
    /// Adds the request to its span.
    pub(crate) fn describe(&self, span: &mut Span) {
        let method = known_method(self.method);
        span.name(method.unwrap_or("HTTP"));
        span.text("http.request.method", method.unwrap_or("_OTHER"));
        if method.is_none() {
            span.text("http.request.method_original", self.method);
        }
        span.text("url.scheme", self.scheme);
        span.text("url.path", self.path);
        span.text("network.protocol.version", version_number(self.protocol));
        span.text("client.address", &self.peer.to_canonical().to_string());
        span.text("tenon.request_id", self.request_id);
        self.host.inspect(|host| span.text("server.address", host));
        self.caller.inspect(|caller| span.text("tenon.caller", caller));
    }
}

/// Returns the name of a well-known method, or `None` for any other word that a client sends.
fn known_method(method: &str) -> Option<&'static str> {
    // The last two names are the router's own, for method calls and scheduled events.
    const NAMES: [&str; 11] = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "CONNECT",
        "OPTIONS",
        "TRACE",
        "PATCH",
        "RPC",
        "SCHEDULED",
    ];
    NAMES.into_iter().find(|name| *name == method)
}
