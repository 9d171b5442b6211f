//! The reasons why invocations fail: one stable code for the client, the router and the log.
//!
//! Between processes, a failure is a gRPC status with a `google.rpc.ErrorInfo` of domain
//! `tenon.dev`. Details of a tenant's code are not part of the status. The node logs them.

use std::collections::HashMap;
use std::fmt;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

const DOMAIN: &str = "tenon.dev";

/// Defines the codes: each with its meaning as documentation, its name, and its HTTP and gRPC
/// status.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $http:literal, $grpc:ident;)+) => {
        /// The stable code of a failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FailureCode { $($(#[doc = $doc])+ $variant,)+ }

        impl FailureCode {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the name used in responses, metrics and logs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns the code with this name, or `None` if no code has it. The inverse of
            /// [`as_str`](Self::as_str).
            pub fn from_name(name: &str) -> Option<Self> {
                find(Self::ALL, |code| code.as_str() == name)
            }

            /// Returns the meaning of the code, in sentences, as the reference states it.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// Returns the HTTP status of the response to the client.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$variant => $http,)+ }
            }

            const fn grpc_code(self) -> Code {
                match self { $(Self::$variant => Code::$grpc,)+ }
            }
        }
    };
}

codes! {
    /// No Worker has a route for this host and path.
    WorkerNotFound = "worker_not_found", 404, NotFound;
    /// The rule of the HTTPRoute that matches the request names no Worker that exists and that it may
    /// use.
    NoBackend = "no_backend", 500, FailedPrecondition;
    /// The request is not valid HTTP.
    BadRequest = "bad_request", 400, InvalidArgument;
    /// The request asks for a WebSocket version other than 13.
    UpgradeRequired = "upgrade_required", 426, InvalidArgument;
    /// The body exceeds `limits.requestBodyMiB`.
    RequestTooLarge = "request_too_large", 413, ResourceExhausted;
    /// The body paused for more than 30 s, or arrived at less than 500 bytes per second, before the
    /// Worker answered.
    RequestTimeout = "request_timeout", 408, DeadlineExceeded;
    /// The handler threw, or its promise was rejected.
    WorkerException = "worker_exception", 500, Unknown;
    /// The modules did not compile, or threw during evaluation.
    WorkerStartFailed = "worker_start_failed", 500, FailedPrecondition;
    /// The handler ended, or can make no more progress, without a response.
    NoResponse = "no_response", 500, Unknown;
    /// The invocation exceeded `limits.cpuMs`.
    CpuLimitExceeded = "cpu_limit_exceeded", 503, ResourceExhausted;
    /// The invocation exceeded `limits.wallMs`.
    WallLimitExceeded = "wall_limit_exceeded", 504, DeadlineExceeded;
    /// The isolate exceeded `limits.memoryMiB`.
    MemoryLimitExceeded = "memory_limit_exceeded", 503, ResourceExhausted;
    /// The client, the Worker or its namespace has exceeded `rateLimits`.
    RateLimited = "rate_limited", 429, ResourceExhausted;
    /// Workers called one another more than 16 times in a row.
    LoopDetected = "loop_detected", 508, FailedPrecondition;
    /// There is no capacity for this request now.
    Overloaded = "overloaded", 503, Unavailable;
    /// Every node that could answer is shutting down.
    Draining = "draining", 503, Unavailable;
    /// The Worker runs elsewhere on this node: on a lane if a shard responds with this code, and on
    /// its shard if a lane does. Routers follow this code; clients never see it.
    Moved = "moved", 503, Unavailable;
    /// The revision crashed or hung a process of a node, so nodes refuse it for a time. Another
    /// revision of the Worker is not refused.
    WorkerQuarantined = "worker_quarantined", 503, Unavailable;
    /// The node cannot fetch the code from the operator now.
    RevisionUnavailable = "revision_unavailable", 503, Unavailable;
    /// The router cannot fetch the Worker's static files from the operator now.
    AssetsUnavailable = "assets_unavailable", 503, Unavailable;
    /// No node of the Worker's pool is reachable.
    NoNode = "no_node", 503, Unavailable;
    /// The node was lost while it ran the invocation.
    NodeLost = "node_lost", 502, Unavailable;
    /// An internal fault of the platform.
    Internal = "internal", 500, Internal;
}

impl FailureCode {
    /// Returns whether a response to a client can have this code. Other codes are only for routers.
    pub fn reaches_clients(self) -> bool {
        self != Self::Moved
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The phase of an invocation in which it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The time before any JavaScript of this invocation could run. The request can safely be sent
    /// elsewhere.
    Admission,
    /// The fetch, compilation and evaluation of the Worker's modules. The handler has not been
    /// called.
    Start,
    /// The run of the handler.
    Handler,
    /// The time after the response has begun.
    Response,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Admission, Self::Start, Self::Handler, Self::Response];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Start => "start",
            Self::Handler => "handler",
            Self::Response => "response",
        }
    }
}

/// A failed invocation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} in {}: {message}", phase.as_str())]
pub struct Failure {
    pub code: FailureCode,
    pub phase: Phase,
    /// A sentence for the client about the platform, never about the tenant's code.
    pub message: String,
    /// The position in the author's files where the code threw, if it threw. The position is for
    /// the author, so it is not part of a gRPC status.
    pub place: Option<Place>,
}

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    /// Number of the line, from 1.
    pub line: u32,
    /// Number of the column, in UTF-16 code units, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Failure {
    pub fn new(code: FailureCode, phase: Phase, message: impl Into<String>) -> Self {
        Self { code, phase, message: message.into(), place: None }
    }

    /// Returns whether the same request may be sent elsewhere without delay: the handler has not
    /// been called here, and may be callable elsewhere.
    pub fn may_retry_elsewhere(&self) -> bool {
        matches!(self.phase, Phase::Admission | Phase::Start)
            && matches!(
                self.code,
                FailureCode::Draining
                    | FailureCode::Overloaded
                    | FailureCode::RevisionUnavailable
                    | FailureCode::Moved
            )
    }
}

impl From<&Failure> for Status {
    fn from(failure: &Failure) -> Self {
        let metadata = HashMap::from([("phase".to_owned(), failure.phase.as_str().to_owned())]);
        let details = ErrorDetails::with_error_info(failure.code.as_str(), DOMAIN, metadata);
        Self::with_error_details(failure.code.grpc_code(), failure.message.clone(), details)
    }
}

impl From<&Status> for Failure {
    /// Converts a status. A status without Tenon's `ErrorInfo` becomes [`FailureCode::Internal`] in
    /// [`Phase::Handler`], because the handler may have been called.
    fn from(status: &Status) -> Self {
        let info = status.get_details_error_info().filter(|info| info.domain == DOMAIN);
        let code = info.as_ref().and_then(|info| FailureCode::from_name(&info.reason));
        let phase = info.and_then(|info| {
            info.metadata.get("phase").and_then(|name| find(&Phase::ALL, |p| p.as_str() == name))
        });
        Self {
            code: code.unwrap_or(FailureCode::Internal),
            phase: phase.unwrap_or(Phase::Handler),
            message: status.message().to_owned(),
            place: None,
        }
    }
}

fn find<T: Copy>(all: &[T], predicate: impl Fn(T) -> bool) -> Option<T> {
    all.iter().copied().find(|candidate| predicate(*candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_survives_the_conversion_to_a_status() {
        for code in FailureCode::ALL {
            for phase in Phase::ALL {
                let failure = Failure::new(*code, phase, "why");
                assert_eq!(Failure::from(&Status::from(&failure)), failure);
            }
        }
    }

    #[test]
    fn a_status_of_another_origin_is_internal_and_the_handler_may_have_run() {
        let failure = Failure::from(&Status::unavailable("connection reset"));
        assert_eq!((failure.code, failure.phase), (FailureCode::Internal, Phase::Handler));
        assert!(!failure.may_retry_elsewhere());
    }

    #[test]
    fn only_invocations_that_have_not_run_may_be_retried() {
        let draining = |phase| Failure::new(FailureCode::Draining, phase, "");
        assert!(draining(Phase::Admission).may_retry_elsewhere());
        assert!(!draining(Phase::Handler).may_retry_elsewhere());
        assert!(
            !Failure::new(FailureCode::WorkerException, Phase::Start, "").may_retry_elsewhere()
        );
    }
}
