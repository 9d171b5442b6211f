//! One attempt: sends a request to a shard over its link, or runs it on the shard of this thread,
//! and returns the head of the reply, or the error.
//!
//! An attempt belongs to one thread.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use hyper::client::conn::http2::SendRequest;
use tenon_clients::quota::Peer;
use tenon_hop::client;
use tenon_proto::failure::Failure;
use tenon_proto::frame::FrameError;
use tenon_proto::invoke::{Next, ReadError, Reader};
use tenon_proto::runtime::{InvokeResponse, ResponseHead, invoke_response::Part};
use tokio::task::spawn_local;
use tonic::{Code, Status};

use crate::upstream::bulkhead::BulkheadPermit;
use crate::upstream::connection::{STREAM_WINDOW, Sender};
use crate::upstream::heads::Heads;
use crate::upstream::inline::{self, ReplyParts};
use crate::upstream::link::{Link, Unreachable};
use crate::upstream::reply_body::{ReplyBody, broken, send_rest};
use crate::upstream::retry::AttemptError;
use crate::upstream::upload::{AttemptBody, Upload};

/// The memory that the rest of a reply takes while its client is behind, in bytes: a window of data
/// from its node, and the same amount of data that is being written.
pub(crate) const SLOW_CLIENT: usize = 2 * STREAM_WINDOW as usize;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// A reply whose head has arrived.
pub(crate) struct Reply {
    pub(crate) head: ResponseHead,
    /// The rest of the reply. Without `head.more_body` it is only the end of the stream.
    pub(crate) rest: Rest,
}

/// The part of a reply after its head.
pub(crate) struct Rest {
    source: RestSource,
    /// The permit of the shard, held until this value is dropped or the request becomes a tunnel.
    permit: Option<BulkheadPermit>,
}

enum RestSource {
    /// The stream of a connection to a shard.
    Stream(Reader<ReplyBody>),
    /// The body and the trailers from the shard of this thread, or `None` after their end.
    Inline(Option<ReplyParts>),
}

/// Sends the head and the body, and waits for the reply's head without a timeout.
///
/// # Arguments
/// * `peer` - the client address whose share of the bulkhead the request takes.
/// * `stays` - whether the lane that receives the request must run it.
/// * `timeout` - the timeout that is sent to the node, rounded up to seconds.
/// * `sent` - set to true as soon as the request may have been sent.
///
/// # Errors
/// Fails if the bulkhead has no permit, or if the shard cannot be reached, refuses or fails the
/// request, or is lost before the head of its reply.
pub(crate) async fn invoke(
    link: &Rc<Link>,
    peer: Peer,
    heads: &Heads<'_>,
    stays: bool,
    upload: Option<&Rc<Upload>>,
    timeout: Duration,
    sent: &Cell<bool>,
) -> Result<Reply, AttemptError> {
    let permit = link.acquire(peer).ok_or(AttemptError::Full)?;
    if let Some(shard) = link.inline() {
        sent.set(true);
        let reply = inline::invoke(&**shard, heads, upload, timeout, permit).await;
        return reply.map_err(|error| caused_by(upload, error));
    }
    let _waiting = link.begin_wait();
    let sender = link.sender().await.map_err(|Unreachable(how)| AttemptError::Unreachable(how))?;
    sent.set(true);
    let writes = link.writes();
    let exchange = async {
        let body = match sender {
            Sender::Hop(sender) => call(&sender, &heads.framed(stays), upload, timeout)?,
            Sender::Complete(sender) => {
                request(sender, link, heads.framed(stays), upload, timeout).await?
            }
        };
        first_message(body, permit).await.map_err(|error| match error {
            // The shard may have ended just before, so that the request was not sent.
            AttemptError::Lost if link.writes() == writes => AttemptError::NotBegun,
            error => error,
        })
    };
    let reply = exchange.await;
    reply.map_err(|error| caused_by(upload, error))
}

/// Returns the cause of an error: a failed body also breaks the stream.
fn caused_by(upload: Option<&Rc<Upload>>, error: AttemptError) -> AttemptError {
    upload.and_then(|upload| upload.failure()).map_or(error, AttemptError::Upload)
}

/// Sends the request on a hop connection.
fn call(
    sender: &client::Sender,
    head: &Bytes,
    upload: Option<&Rc<Upload>>,
    timeout: Duration,
) -> Result<ReplyBody, AttemptError> {
    let call = sender.call(seconds(timeout), head, upload.is_none());
    let call = call.map_err(|refused| match refused {
        client::Refused::Closed(client::Closed) => AttemptError::NotBegun,
        client::Refused::Full => AttemptError::Full,
    })?;
    if let Some(upload) = upload {
        spawn_local(send_rest(call.writer(), upload.clone()));
    }
    Ok(ReplyBody::Hop(call))
}

/// Sends the request on a connection to a shard of another version, and waits for the headers of
/// the response.
async fn request(
    mut sender: SendRequest<AttemptBody>,
    link: &Link,
    head: Bytes,
    upload: Option<&Rc<Upload>>,
    timeout: Duration,
) -> Result<ReplyBody, AttemptError> {
    let mut request = Request::new(AttemptBody::new(head, upload));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = link.uri().clone();
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, GRPC);
    headers.insert(header::TE, TRAILERS);
    headers.insert("grpc-timeout", grpc_timeout(timeout));
    let writes = link.writes();
    let response = sender.try_send_request(request).await.map_err(|mut error| {
        // The shard may have ended just before, so that the request was not sent.
        let was_sent = error.take_message().is_none() && link.writes() != writes;
        if was_sent { broken(&error.into_error()) } else { AttemptError::NotBegun }
    })?;
    if response.status() != StatusCode::OK {
        return Err(AttemptError::ProtocolViolation(format!("HTTP status {}", response.status())));
    }
    // A failure without a message arrives as headers only (Trailers-Only in gRPC).
    if let Some(failure) = failure(response.headers()) {
        return Err(AttemptError::Failed(failure));
    }
    Ok(ReplyBody::Complete(response.into_body()))
}

/// Returns the timeout in whole seconds: nearly all requests have the same value, so that their
/// headers are the same.
fn seconds(timeout: Duration) -> u64 {
    // The specification of gRPC allows eight digits.
    (timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)).min(99_999_999)
}

fn grpc_timeout(timeout: Duration) -> HeaderValue {
    HeaderValue::try_from(format!("{}S", seconds(timeout)))
        .expect("the timeout is not a valid header value")
}

async fn first_message(body: ReplyBody, permit: BulkheadPermit) -> Result<Reply, AttemptError> {
    let source = RestSource::Stream(Reader::new(body));
    let mut rest = Rest { source, permit: Some(permit) };
    match std::future::poll_fn(|cx| rest.poll_next(cx)).await? {
        Some(Part::Head(head)) => Ok(Reply { head, rest }),
        Some(Part::Body(_) | Part::Trailers(_)) => {
            Err(AttemptError::ProtocolViolation("a body before its head".into()))
        }
        None => Err(AttemptError::ProtocolViolation("an end before the head".into())),
    }
}

impl Rest {
    /// Returns the rest of a reply from the shard of this thread.
    pub(super) fn inline(parts: Option<ReplyParts>, permit: BulkheadPermit) -> Self {
        Self { source: RestSource::Inline(parts), permit: Some(permit) }
    }

    /// Returns the next part, or `None` if the stream has ended with status OK.
    ///
    /// # Errors
    /// Fails if the stream ends with another status, breaks, or violates the protocol.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Part>, AttemptError>> {
        let stream = match &mut self.source {
            RestSource::Stream(stream) => stream,
            RestSource::Inline(parts) => return poll_inline(parts, cx),
        };
        Poll::Ready(match ready!(stream.poll_next::<InvokeResponse>(cx)) {
            Ok(Next::Message(message)) => message
                .part
                .map(Some)
                .ok_or_else(|| AttemptError::ProtocolViolation("a message without a part".into())),
            Ok(Next::Trailers(trailers)) => {
                stream.finish().map_err(protocol_violation)?;
                failure(&trailers).map_or(Ok(None), |failure| Err(AttemptError::Failed(failure)))
            }
            Ok(Next::End) => Err(AttemptError::Lost),
            Err(ReadError::Frame(error)) => Err(protocol_violation(error)),
            Err(ReadError::Stream(error)) => Err(error),
        })
    }

    /// Releases the permit, because the request has become a tunnel, and tunnels have bounds of
    /// their own.
    pub(crate) fn release_permit(&mut self) {
        self.permit = None;
    }

    /// Returns whether the end of the stream has arrived already.
    pub(crate) fn is_over(&self) -> bool {
        match &self.source {
            RestSource::Stream(stream) => stream.is_end_stream(),
            RestSource::Inline(parts) => parts.is_none(),
        }
    }
}

fn poll_inline(
    parts: &mut Option<ReplyParts>,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Part>, AttemptError>> {
    let Some(stream) = parts else { return Poll::Ready(Ok(None)) };
    let next = ready!(stream.poll_next_unpin(cx));
    if !matches!(next, Some(Ok(_))) {
        *parts = None;
    }
    Poll::Ready(next.transpose().map_err(AttemptError::Failed))
}

fn protocol_violation(error: FrameError) -> AttemptError {
    AttemptError::ProtocolViolation(error.to_string())
}

/// Returns the failure that a status in headers or trailers describes, or `None` if it is OK or
/// missing.
fn failure(headers: &HeaderMap) -> Option<Failure> {
    let status = Status::from_header_map(headers)?;
    (status.code() != Code::Ok).then(|| Failure::from(&status))
}
