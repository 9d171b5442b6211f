//! Serves `Runtime.Invoke` on the thread that runs the JavaScript: on a shard's own port, with the
//! gRPC framing, and for the front of the same thread, without any encoding ([`inline`]).
//!
//! ```text
//!  DATA ─► Messages ─► InvokeHead ─► admit ─► fetch, scheduled ─► Reply: head, body, trailers
//!  the thread's own front ──┘                              └────► InlineReply: head, body
//! ```
//!
//! A failure is a gRPC Trailers-Only response; see [`tenon_proto::failure`]. When the caller resets
//! the stream or its connection breaks, the future of [`serve`] or [`serve_hop`] is dropped,
//! which cancels the invocation unless a scheduled event caused it.

mod inline;
mod messages;
mod remainder;
mod reply;

use std::cell::Cell;
use std::convert::Infallible;
use std::mem;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use tenon_engine::{
    Body, CallContext, FetchRequest, FetchResponse, Piece, ResponseBody, ScheduledEvent,
};
use tenon_hop::server::Response as HopResponse;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::runtime::{self, INVOKE_PATH, InvokeHead, Scheduled};
use tokio::task::spawn_local;
use tokio::time::Instant;
use tonic::Status;

use crate::shard::{Admitted, Answer, Shard};
pub(crate) use inline::InlineServer;
use messages::{Messages, too_large};
use reply::Reply;

/// Time after arrival that the queues take for the deadline of a request without a timeout: such a
/// request queues behind more urgent ones, but not behind all later ones.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Serves one request on the connection of a router that speaks the protocol of [`tenon_hop`].
pub async fn serve_hop(
    shard: Rc<Shard>,
    timeout: Duration,
    body: tenon_hop::Incoming,
) -> HopResponse<Reply> {
    match invoke(&shard, Some(timeout), body).await {
        Ok(reply) => HopResponse::Reply(reply),
        Err(failure) => HopResponse::Failure(reply::status(&failure)),
    }
}

/// Serves one HTTP request of any other caller.
pub async fn serve(
    shard: Rc<Shard>,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Infallible> {
    if !is_grpc(&request) {
        let mut response = Response::new(Reply::default());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Ok(response);
    }
    if request.uri().path() != INVOKE_PATH {
        return Ok(
            Status::unimplemented(format!("unknown method {}", request.uri().path())).into_http()
        );
    }
    let timeout = timeout(request.headers());
    Ok(match invoke(&shard, timeout, request.into_body()).await {
        Ok(reply) => reply.into_http(),
        Err(failure) => Status::from(&failure).into_http(),
    })
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE);
    request.method() == Method::POST
        && content_type.is_some_and(|value| runtime::is_grpc(value.as_bytes()))
}

async fn invoke<B: HttpBody<Data = Bytes> + Unpin + 'static>(
    shard: &Rc<Shard>,
    timeout: Option<Duration>,
    body: B,
) -> Result<Reply, Failure> {
    let mut messages = Messages::new(body);
    let head = messages.head().await?;
    let takes_trailers = head.takes_trailers;
    let (answer, is_cold) =
        run(shard, timeout, head, |first, limit| messages.body(first, limit)).await?;
    Ok(Reply::of(answer, is_cold, takes_trailers))
}

/// Runs a request. Returns the answer, and whether the request has waited for a start of its
/// isolate.
///
/// # Arguments
/// * `timeout` - the time that the request may take, or `None` if the caller set no limit.
/// * `body` - returns the request's body, if the body is not complete in the head. The arguments
///   are the first bytes of the body, and its maximum length.
async fn run(
    shard: &Rc<Shard>,
    timeout: Option<Duration>,
    mut head: InvokeHead,
    body: impl FnOnce(Bytes, u64) -> Body,
) -> Result<(Answer, bool), Failure> {
    let digest = digest(&head)?;
    let observation = shard.metrics().begin(digest);
    let (worker, request_id) = (mem::take(&mut head.worker), head.request_id.clone());
    let progress = Progress { phase: Cell::new(Phase::Start), is_cold: Cell::new(false) };
    let deadline = Instant::now() + timeout.unwrap_or(DEFAULT_TIMEOUT);
    // The future is large, so it is pinned where it is created.
    let answer = pin!(answer(shard, &worker, head, digest, deadline, body, &progress));
    let outcome = match timeout {
        None => answer.await,
        Some(timeout) => tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
            Err(Failure::new(
                FailureCode::WallLimitExceeded,
                progress.phase.get(),
                "the caller's deadline has passed",
            ))
        }),
    };
    match outcome {
        Ok(answer) => {
            observation.end(None);
            Ok((answer, progress.is_cold.get()))
        }
        Err(failure) => {
            observation.end(Some(failure.code));
            report(&failure, &worker, digest, &request_id);
            Err(failure)
        }
    }
}

fn digest(head: &InvokeHead) -> Result<RevisionDigest, Failure> {
    RevisionDigest::try_from(&head.digest[..])
        .map_err(|error| Failure::new(FailureCode::BadRequest, Phase::Admission, error.to_string()))
}

/// The progress of a request that has no answer yet.
struct Progress {
    /// The phase that the request has reached, which a failure at the deadline names.
    phase: Cell<Phase>,
    /// Whether the request has waited for a start of its isolate.
    is_cold: Cell<bool>,
}

async fn answer(
    shard: &Rc<Shard>,
    worker: &str,
    head: InvokeHead,
    digest: RevisionDigest,
    deadline: Instant,
    body: impl FnOnce(Bytes, u64) -> Body,
    progress: &Progress,
) -> Result<Answer, Failure> {
    let mut admitted = shard.admit(worker, digest, deadline, head.stay).await?;
    progress.is_cold.set(admitted.is_cold());
    let mut limit = admitted.request_body_bytes();
    if head.requests_tunnel() {
        admitted = admitted.with_tunnel()?;
        // A tunnel's bytes follow the head; they are not a body.
        limit = u64::MAX;
    }
    if announced_length(&head) > limit {
        return Err(too_large(limit, Phase::Admission));
    }
    let body = if head.more_body { body(head.body, limit) } else { Body::Full(head.body) };
    let InvokeHead {
        request_id,
        method,
        url,
        headers,
        depth,
        services,
        scheduled,
        trace,
        entry,
        ..
    } = head;
    let trace = (!trace.is_empty()).then(|| trace.into());
    let call_context = CallContext { depth, services, trace };
    progress.phase.set(Phase::Handler);
    match scheduled {
        Some(Scheduled { cron, time_ms }) => {
            handle(admitted, ScheduledEvent { request_id, cron, time_ms, call_context }).await
        }
        None => {
            admitted
                .fetch(FetchRequest { request_id, method, url, headers, body, entry, call_context })
                .await
        }
    }
}

/// Delivers a scheduled event in its own task: because an event is delivered only once, its
/// invocation continues even if the caller disconnects. The Worker's wall-clock limit applies.
async fn handle(admitted: Admitted, event: ScheduledEvent) -> Result<Answer, Failure> {
    let failed = || {
        Failure::new(
            FailureCode::Internal,
            Phase::Handler,
            "the platform failed to run the handler",
        )
    };
    let permits = spawn_local(admitted.scheduled(event)).await.unwrap_or_else(|_| Err(failed()))?;
    let response = FetchResponse {
        status: 204,
        headers: Vec::new(),
        body: ResponseBody::Full(Piece::default()),
    };
    Ok(Answer { response, permits, is_hot: false })
}

/// Returns the length of the request's body that is known before the body arrives, in bytes: the
/// larger of `Content-Length` and the length of the inline body.
fn announced_length(head: &InvokeHead) -> u64 {
    let header = head
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str()));
    let announced = header.and_then(|header| std::str::from_utf8(&header.value).ok()?.parse().ok());
    announced.unwrap_or(0).max(head.body.len() as u64)
}

fn report(failure: &Failure, worker: &str, digest: RevisionDigest, request_id: &str) {
    let (revision, code, phase) = (digest.short(), failure.code.as_str(), failure.phase.as_str());
    // A log line for each shed request would add to the overload; metrics count these requests.
    if matches!(failure.code, FailureCode::Overloaded | FailureCode::Draining | FailureCode::Moved)
    {
        tracing::debug!(worker, revision, request_id, code, phase, "{}", failure.message);
    } else {
        tracing::warn!(worker, revision, request_id, code, phase, "{}", failure.message);
    }
}

/// Returns the caller's timeout, if the caller set one. The Worker's own wall-clock limit applies
/// as well.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse_timeout(headers.get(GRPC_TIMEOUT)?.to_str().ok()?)
}

/// Parses a gRPC timeout: up to eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(value * 3600)),
        "M" => Some(Duration::from_secs(value * 60)),
        "S" => Some(Duration::from_secs(value)),
        "m" => Some(Duration::from_millis(value)),
        "u" => Some(Duration::from_micros(value)),
        "n" => Some(Duration::from_nanos(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tenon_proto::runtime::Header;

    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        assert_eq!(parse_timeout("3S"), Some(Duration::from_secs(3)));
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("10u"), Some(Duration::from_micros(10)));
        for bad in ["", "S", "3", "123456789m", "3x", "-3S", "+3S", "é"] {
            assert_eq!(parse_timeout(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_announced_length_is_at_least_the_inline_length() {
        let length = |announced: Option<&'static str>, inline: &'static str| {
            let header = |value| Header {
                name: "Content-Length".to_owned(),
                value: Bytes::from_static(value),
            };
            let headers = announced.map(|value| header(value.as_bytes())).into_iter().collect();
            announced_length(&InvokeHead {
                headers,
                body: Bytes::from_static(inline.as_bytes()),
                ..InvokeHead::default()
            })
        };
        assert_eq!(length(None, "four"), 4);
        assert_eq!(length(Some("9000"), "four"), 9000);
        assert_eq!(length(Some("2"), "four"), 4);
        assert_eq!(length(Some("many"), "four"), 4);
    }
}
