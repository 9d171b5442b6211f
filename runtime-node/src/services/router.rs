//! A shard's connection to the routers' internal listener, which is opened on first use and opened
//! again after it is lost.
//!
//! ```text
//!  Call ─► InvokeRequest: head, body ─► router
//!          InvokeResponse: head, body, trailers ◄─┘ ─► CallResponse
//! ```
//!
//! The router repeats requests elsewhere if that is safe. This client repeats a call only if it
//! finds the connection closed before it has sent any part of the call.

use std::cell::RefCell;
use std::error::Error as _;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::header::{CONTENT_TYPE, TE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::{Body as HttpBody, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use tenon_engine::{Body, FetchRequest, StreamError};
use tenon_lifecycle::tls::{Role, Stream as Transport, Tls};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::{self, INLINE_BODY};
use tenon_proto::invoke::{Next, ReadError, Reader};
use tenon_proto::runtime::{
    INVOKE_PATH, InvokeHead, InvokeRequest, InvokeResponse, ResponseHead, invoke_request,
    invoke_response,
};
use tenon_web::{Call, CallResponse};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use tonic::{Code, Status};

use super::head;
use crate::node::LocalExecutor;

/// Time limit for connecting. A router in the same cluster answers within a millisecond; a lost SYN
/// is sent again after one second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(2500);

/// Maximum number of bytes of one response that wait for the calling Worker. The connection's own
/// window is as large as possible, so that Workers that read slowly do not use it up.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Interval between pings while calls are in flight. A router that does not answer a ping within
/// `PING_TIMEOUT` is considered lost.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

type Sender = SendRequest<Upload>;

/// The URL of the routers' internal listener: `http://HOST:PORT`, or `https://` with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterUrl(pub Uri);

impl FromStr for RouterUrl {
    type Err = InvalidRouter;

    fn from_str(url: &str) -> Result<Self, InvalidRouter> {
        let invalid = || InvalidRouter(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let is_valid =
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.port_u16().is_some();
        if is_valid { Ok(Self(uri)) } else { Err(invalid()) }
    }
}

/// A client of the routers, which belongs to one thread.
pub struct Router {
    /// The URL of [`INVOKE_PATH`] on the routers' internal listener.
    uri: Uri,
    tls: Option<Tls>,
    open: RefCell<Option<Sender>>,
    /// Held while a new connection is opened; other calls wait for it.
    connecting: Mutex<()>,
}

/// A URL that is not the URL of a router.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a URL such as http://tenon-router:8081")]
pub struct InvalidRouter(String);

impl Router {
    /// Creates a client, which connects on first use.
    ///
    /// # Arguments
    /// * `tls` - used if the URL is `https`.
    pub fn at(url: RouterUrl, tls: Option<Tls>) -> Self {
        let mut parts = url.0.into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(INVOKE_PATH));
        let uri = Uri::from_parts(parts).expect("a router's URL has a scheme and an authority");
        Self { uri, tls, open: RefCell::default(), connecting: Mutex::default() }
    }

    /// Calls a Worker through a router.
    pub(super) async fn call(&self, call: Call) -> Result<CallResponse, Failure> {
        let mut request = Request::new(Upload::of(call));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        let sent = match self.sender().await?.try_send_request(request).await {
            Ok(response) => Ok(response),
            // The connection had been closed, for example by a router that drains.
            Err(mut error) => match error.take_message() {
                Some(request) => self.sender().await?.send_request(request).await,
                None => Err(error.into_error()),
            },
        };
        read_response(sent.map_err(|error| connection_failure(&error))?).await
    }

    async fn sender(&self) -> Result<Sender, Failure> {
        if let Some(sender) = self.open_sender() {
            return Ok(sender);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(sender) = self.open_sender() {
            return Ok(sender);
        }
        let unreachable = |why: String| {
            tracing::warn!(router = %self.uri, why, "cannot reach a router");
            Failure::new(FailureCode::NoNode, Phase::Admission, "no router is reachable")
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(Ok(sender)) => {
                *self.open.borrow_mut() = Some(sender.clone());
                Ok(sender)
            }
            Ok(Err(error)) => Err(unreachable(error.to_string())),
            Err(_) => Err(unreachable("the attempt timed out".to_owned())),
        }
    }

    fn open_sender(&self) -> Option<Sender> {
        self.open.borrow().clone().filter(|sender| !sender.is_closed())
    }

    async fn connect(&self) -> std::io::Result<Sender> {
        let authority = self.uri.authority().expect("a router's URL has an authority");
        let stream = TcpStream::connect(authority.as_str()).await?;
        stream.set_nodelay(true)?;
        let stream = match &self.tls {
            Some(tls) => tls.connect(Role::Router, authority.host(), stream).await?,
            None => Transport::Plain(stream),
        };
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
        spawn_local(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "lost the connection to a router");
            }
        });
        Ok(sender)
    }
}

/// The request of a call: the head with the first bytes of the body, then the rest of the body as
/// it arrives.
struct Upload {
    head: Option<Bytes>,
    rest: Option<tenon_engine::ByteStream>,
}

impl Upload {
    fn of(call: Call) -> Self {
        let head = head(&call);
        let FetchRequest { request_id, method, url, headers, body, .. } = call.request;
        let (body, rest) = match body {
            Body::Full(mut bytes) => {
                let first = bytes.split_to(bytes.len().min(INLINE_BODY));
                let rest = std::iter::from_fn(move || {
                    (!bytes.is_empty()).then(|| Ok(bytes.split_to(bytes.len().min(INLINE_BODY))))
                });
                let mut rest = rest.peekable();
                let has_more = rest.peek().is_some();
                (first, has_more.then(|| futures::stream::iter(rest).boxed_local()))
            }
            // Calls between Workers have no trailers.
            Body::Stream(stream) | Body::Trailed(stream, _) => (Bytes::new(), Some(stream)),
        };
        let head = InvokeHead {
            request_id,
            method,
            url,
            headers,
            body,
            more_body: rest.is_some(),
            ..head
        };
        let part = Some(head.into_part());
        Self { head: Some(frame::encode(&InvokeRequest { part })), rest }
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let piece = match ready!(rest.poll_next_unpin(cx)) {
            Some(Ok(piece)) => piece,
            Some(Err(broken)) => return Poll::Ready(Some(Err(broken))),
            None => {
                self.rest = None;
                return Poll::Ready(None);
            }
        };
        let part = Some(invoke_request::Part::Body(piece));
        Poll::Ready(Some(Ok(Frame::data(frame::encode(&InvokeRequest { part })))))
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_none() && self.rest.is_none()
    }
}

async fn read_response(response: Response<Incoming>) -> Result<CallResponse, Failure> {
    if response.status() != StatusCode::OK {
        return Err(violation(&format!("HTTP status {}", response.status())));
    }
    // A failure without any message is a Trailers-Only response.
    if let Some(failure) = failure(response.headers()) {
        return Err(failure);
    }
    let mut download = Download(Reader::new(response.into_body()));
    let first = std::future::poll_fn(|cx| download.poll_part(cx)).await?;
    let Some(invoke_response::Part::Head(head)) = first else {
        return Err(violation("the first message is not the head"));
    };
    let ResponseHead { status, headers, body: first, more_body, .. } = head;
    let status = u16::try_from(status).map_err(|_| violation("the head has no status"))?;
    if !more_body {
        // Only trailers follow; they state whether the call succeeded.
        std::future::poll_fn(|cx| download.poll_part(cx)).await?;
        let body = (!first.is_empty()).then(|| futures::stream::iter([Ok(first)]).boxed_local());
        return Ok(CallResponse { status, headers, body });
    }
    let first = futures::stream::iter((!first.is_empty()).then_some(Ok(first)));
    Ok(CallResponse { status, headers, body: Some(first.chain(download).boxed_local()) })
}

/// A router's response.
struct Download(Reader<Incoming>);

impl Download {
    /// Returns the next part, or `None` at the end of a successful response.
    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<invoke_response::Part>, Failure>> {
        Poll::Ready(match ready!(self.0.poll_next::<InvokeResponse>(cx)) {
            Ok(Next::Message(message)) => {
                message.part.map(Some).ok_or_else(|| violation("a message has no part"))
            }
            Ok(Next::Trailers(trailers)) => failure(&trailers).map_or(Ok(None), Err),
            Ok(Next::End) => Err(violation("the stream ended without trailers")),
            Err(ReadError::Frame(error)) => Err(violation(&error.to_string())),
            Err(ReadError::Stream(error)) => Err(connection_failure(&error)),
        })
    }
}

impl Stream for Download {
    type Item = Result<Bytes, StreamError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(match ready!(self.poll_part(cx)) {
            Ok(Some(invoke_response::Part::Body(piece))) => Some(Ok(piece)),
            Ok(Some(invoke_response::Part::Head(_) | invoke_response::Part::Trailers(_))) => {
                Some(Err(StreamError::Lost("a message of another kind arrived".into())))
            }
            Ok(None) => None,
            Err(failure) => Some(Err(StreamError::Lost(failure.message.into()))),
        })
    }
}

/// Returns the failure in the headers or trailers, or `None` if they contain none.
fn failure(headers: &HeaderMap) -> Option<Failure> {
    let status = Status::from_header_map(headers)?;
    (status.code() != Code::Ok).then(|| Failure::from(&status))
}

/// Returns the failure for a broken connection or stream: the failure of the request's own body if
/// the body caused the break, or else [`FailureCode::NodeLost`].
fn connection_failure(error: &hyper::Error) -> Failure {
    let own = std::iter::successors(error.source(), |error| (*error).source());
    let own = own.filter_map(|error| error.downcast_ref::<StreamError>()).next();
    match own {
        Some(StreamError::Failed(failure)) => failure.clone(),
        Some(StreamError::Lost(why)) => {
            let message = format!("the request's body ended before it was complete: {why}");
            Failure::new(FailureCode::BadRequest, Phase::Handler, message)
        }
        None => Failure::new(
            FailureCode::NodeLost,
            Phase::Handler,
            "the router was lost during the call",
        ),
    }
}

fn violation(what: &str) -> Failure {
    tracing::error!(what, "a router's response violates the protocol");
    Failure::new(
        FailureCode::Internal,
        Phase::Handler,
        "the router's response violates the protocol",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_router_has_an_http_or_https_scheme_and_a_port() {
        assert!("http://tenon-router:8081".parse::<RouterUrl>().is_ok());
        assert!("https://tenon-router:8081".parse::<RouterUrl>().is_ok());
        for bad in ["", "tenon-router:8081", "ftp://tenon-router:8081", "http://tenon-router"] {
            assert_eq!(bad.parse::<RouterUrl>(), Err(InvalidRouter(bad.to_owned())), "{bad}");
        }
    }
}
