//! `Runtime.Invoke` on a shard's own port: HTTP/2 and gRPC framing, on the thread that runs the JavaScript.
//!
//! ```text
//!  DATA ─► Decoder ─► InvokeHead ─► admit ─► fetch ─► ResponseHead, body in pieces ─► trailers
//! ```
//!
//! A failure is an answer of trailers alone, as gRPC has it; see [`tenon_proto::failure`].

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::{self, Decoder, FrameError, INLINE_BODY};
use tenon_proto::id::RevisionDigest;
use tenon_proto::runtime::{
    INVOKE_PATH, InvokeHead, InvokeRequest, InvokeResponse, ResponseHead, invoke_request, invoke_response,
};
use tonic::Status;

use crate::engine::{FetchRequest, FetchResponse, RequestBody};
use crate::shard::{Permits, Shard};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Serves one HTTP/2 stream.
pub async fn serve(shard: Rc<Shard>, request: Request<Incoming>) -> Result<Response<Reply>, Infallible> {
    if !is_grpc(&request) {
        let mut response = Response::new(Reply::default());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Ok(response);
    }
    if request.uri().path() != INVOKE_PATH {
        return Ok(Status::unimplemented(format!("there is no {}", request.uri().path())).into_http());
    }
    Ok(invoke(&shard, request).await)
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    request.method() == Method::POST && content_type.is_some_and(|value| value.starts_with("application/grpc"))
}

async fn invoke(shard: &Rc<Shard>, request: Request<Incoming>) -> Response<Reply> {
    let began = Instant::now();
    let timeout = request.headers().get(GRPC_TIMEOUT).and_then(|value| value.to_str().ok()).and_then(parse_timeout);
    let mut messages = Messages::new(request.into_body());
    let head = match messages.head().await {
        Ok(head) => head,
        Err(status) => return status.into_http(),
    };
    let (worker, request_id) = (head.worker.clone(), head.request_id.clone());
    let digest = match RevisionDigest::try_from(&head.digest[..]) {
        Ok(digest) => digest,
        Err(error) => return Status::invalid_argument(format!("digest: {error}")).into_http(),
    };
    let outcome = answer(shard, head, digest, messages, timeout).await;
    shard.metrics().duration.observe(began.elapsed().as_secs_f64());
    match outcome {
        Ok((response, permits)) => {
            shard.metrics().ended(None);
            reply(response, permits)
        }
        Err(failure) => {
            shard.metrics().ended(Some(failure.code));
            tracing::warn!(
                worker,
                revision = %digest.short(),
                request_id,
                code = failure.code.as_str(),
                phase = failure.phase.as_str(),
                "{}",
                failure.message
            );
            Status::from(&failure).into_http()
        }
    }
}

async fn answer(
    shard: &Rc<Shard>,
    head: InvokeHead,
    digest: RevisionDigest,
    messages: Messages,
    timeout: Option<Duration>,
) -> Result<(FetchResponse, Permits), Failure> {
    let admitted = shard.admit(digest).await?;
    let limit = admitted.request_body_bytes();
    if head.body.len() as u64 > limit {
        return Err(too_large(limit));
    }
    let body = if head.more_body { messages.body(head.body, limit) } else { RequestBody::Full(head.body) };
    let request =
        FetchRequest { request_id: head.request_id, method: head.method, url: head.url, headers: head.headers, body };
    admitted.fetch(request, timeout).await
}

fn too_large(limit: u64) -> Failure {
    let why = format!("the request's body is larger than the Worker's {} MiB", limit / (1024 * 1024));
    Failure::new(FailureCode::RequestTooLarge, Phase::Handler, why)
}

/// The messages of a request's stream.
struct Messages {
    incoming: Incoming,
    decoder: Decoder,
}

impl Messages {
    fn new(incoming: Incoming) -> Self {
        Self { incoming, decoder: Decoder::default() }
    }

    async fn head(&mut self) -> Result<InvokeHead, Status> {
        match self.next().await {
            Ok(Some(invoke_request::Part::Head(head))) => Ok(head),
            Ok(_) => Err(Status::invalid_argument("the first message must be the head")),
            Err(Broken::Frame(error)) => Err(Status::invalid_argument(error.to_string())),
            Err(Broken::Stream) => Err(Status::cancelled("the stream was reset")),
        }
    }

    /// The next message, or `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<invoke_request::Part>, Broken> {
        loop {
            if let Some(message) = self.decoder.next::<InvokeRequest>().map_err(Broken::Frame)? {
                // A part of a newer router that this version does not know is passed over.
                match message.part {
                    Some(part) => return Ok(Some(part)),
                    None => continue,
                }
            }
            match self.incoming.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(data);
                    }
                }
                Some(Err(_)) => return Err(Broken::Stream),
                None => return self.decoder.finish().map(|()| None).map_err(Broken::Frame),
            }
        }
    }

    /// The request's body: what came with the head, then what follows. It is read no faster than the Worker asks.
    fn body(self, first: Bytes, limit: u64) -> RequestBody {
        let first_len = first.len() as u64;
        let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
        let rest = stream::unfold(Some((self, first_len)), move |state| async move {
            let (mut messages, seen) = state?;
            match messages.next().await {
                Ok(None) => None,
                Ok(Some(invoke_request::Part::Body(data))) => {
                    let seen = seen + data.len() as u64;
                    if seen > limit {
                        return Some((Err(too_large(limit)), None));
                    }
                    Some((Ok(data), Some((messages, seen))))
                }
                Ok(Some(invoke_request::Part::Head(_))) | Err(_) => {
                    let why = "the request's body ended before it was complete";
                    Some((Err(Failure::new(FailureCode::BadRequest, Phase::Handler, why)), None))
                }
            }
        });
        RequestBody::Stream(Box::pin(stream::StreamExt::chain(first, rest)))
    }
}

enum Broken {
    Frame(FrameError),
    Stream,
}

/// `grpc-timeout`: up to eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let value: u64 = (digits.len() <= 8).then(|| digits.parse().ok())??;
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

fn reply(response: FetchResponse, permits: Permits) -> Response<Reply> {
    let mut body = response.body;
    let inline = body.split_to(body.len().min(INLINE_BODY));
    let head = ResponseHead {
        status: response.status.into(),
        headers: response.headers,
        body: inline,
        more_body: !body.is_empty(),
    };
    let reply = Reply {
        first: Some(message(invoke_response::Part::Head(head))),
        rest: body,
        trailers: true,
        _permits: Some(permits),
    };
    let mut response = Response::new(reply);
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

fn message(part: invoke_response::Part) -> Bytes {
    frame::encode(&InvokeResponse { part: Some(part) })
}

/// The body of an answer: messages, then the trailers of success. A failure has neither.
#[derive(Default)]
pub struct Reply {
    first: Option<Bytes>,
    /// What of the response's body is not in a message yet.
    rest: Bytes,
    trailers: bool,
    _permits: Option<Permits>,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Some(piece) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if !this.rest.is_empty() {
            let piece = this.rest.split_to(this.rest.len().min(INLINE_BODY));
            return Poll::Ready(Some(Ok(Frame::data(message(invoke_response::Part::Body(piece))))));
        }
        if std::mem::take(&mut this.trailers) {
            let mut trailers = HeaderMap::with_capacity(1);
            trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_empty() && !self.trailers
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        assert_eq!(parse_timeout("3S"), Some(Duration::from_secs(3)));
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("10u"), Some(Duration::from_micros(10)));
        for bad in ["", "S", "3", "123456789m", "3x", "-3S", "é"] {
            assert_eq!(parse_timeout(bad), None, "{bad}");
        }
    }
}
