//! Records where a request went, for the access log and for a client that requests debug headers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Version};
use tenon_proto::id::WorkerId;

use crate::meters::Outcome;
use crate::table::Shard;

const DEBUG: HeaderName = HeaderName::from_static("tenon-debug");
const WORKER: HeaderName = HeaderName::from_static("tenon-worker");
const NODE: HeaderName = HeaderName::from_static("tenon-node");
const SHARD: HeaderName = HeaderName::from_static("tenon-shard");
const REQUEST_ID: HeaderName = HeaderName::from_static("tenon-request-id");

/// The request as the access log shows it.
pub(crate) struct LoggedRequest<'a> {
    pub(crate) request_id: &'a str,
    pub(crate) peer: IpAddr,
    /// The calling Worker, if there is one.
    pub(crate) caller: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) host: Option<&'a str>,
    pub(crate) path: &'a str,
    pub(crate) protocol: Version,
}

/// Returns whether a client requests debug headers.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    headers.get(DEBUG).is_some_and(|value| value == "1")
}

/// The record of where a request went, for debug headers and the access log.
pub(crate) struct Trace {
    pub(crate) for_caller: bool,
    pub(crate) for_log: bool,
    worker: Option<WorkerId>,
    shard: Option<Arc<Shard>>,
    attempts: u32,
}

impl Trace {
    /// Creates the record of one request.
    ///
    /// # Arguments
    /// * `for_caller`: whether the response has debug headers.
    /// * `for_log`: whether the access log has a line for the request.
    pub(crate) fn new(for_caller: bool, for_log: bool) -> Self {
        Self { for_caller, for_log, worker: None, shard: None, attempts: 0 }
    }

    /// Returns whether names must be kept. All threads share the reference counts of names, so
    /// names are cloned only if needed.
    fn is_wanted(&self) -> bool {
        self.for_caller || self.for_log
    }

    pub(crate) fn worker(&mut self, worker: &WorkerId) {
        self.worker = self.is_wanted().then(|| worker.clone());
    }

    pub(crate) fn shard(&mut self, shard: &Arc<Shard>) {
        self.attempts += 1;
        self.shard = self.is_wanted().then(|| shard.clone());
    }

    pub(crate) fn write(&self, headers: &mut HeaderMap, request_id: &str) {
        let mut put = |name, value: &str| {
            // Names come from Kubernetes and are valid in headers.
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

    pub(crate) fn log(&self, request: &LoggedRequest<'_>, outcome: Outcome, took: Duration) {
        let (status, code) = match outcome {
            Outcome::Answered(status) => (status.as_u16(), None),
            Outcome::Failed(code) => (code.http_status(), Some(code.as_str())),
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
            status,
            code,
            duration_us = took.as_micros() as u64,
            worker = self.worker.as_ref().map(WorkerId::as_str),
            node = self.shard.as_ref().map(|shard| &*shard.node),
            shard = self.shard.as_ref().map(|shard| tracing::field::display(shard.id)),
            attempts = self.attempts,
        );
    }
}
