//! A client's connection, and its requests with their responses.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h3::error::Code;
use h3::server::{RequestResolver, RequestStream};
use http::{HeaderMap, HeaderName, Request, Response, header};
use quinn::VarInt;
use tenon_clients::Client;
use tenon_clients::head::Refusal;
use tenon_clients::quota::Hold;

use crate::body::{Body, BodyError, stated_length};
use crate::endpoint::Counted;
use crate::streams::{LastStopped, Receiver, Sender, Stopped, Streams};
use crate::{HANDSHAKE_TIMEOUT, HEAD, SEND_WINDOW, STREAM, STREAMS, WIDE_WINDOW};

/// The size of a request's head above which the parser ends the stream, in bytes. The request is
/// parsed up to this size, so that its client receives a response.
const PARSED_HEAD: u64 = 4 * HEAD;

/// The size that HTTP/3 adds to that of each field (RFC 9114, section 4.2.2).
const FIELD: usize = 32;

pub(crate) type ReceivingStream = RequestStream<Receiver, Bytes>;

/// A connection with a client, whose handshake is complete.
pub struct Connection {
    requests: h3::server::Connection<Streams, Bytes>,
    transport: quinn::Connection,
    last_stopped: LastStopped,
    window: Rc<Window>,
    has_received: bool,
    /// Whether the client was told that none of its requests is served.
    is_refused: bool,
    _charged: Counted,
}

/// The limit of what a connection's responses may have in transit.
pub struct Window {
    transport: quinn::Connection,
    client: Arc<Client>,
    /// The memory of the part of [`WIDE_WINDOW`] that exceeds [`SEND_WINDOW`].
    wide: Cell<Option<Hold>>,
}

/// The reason that a client gets for the end of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    Regular,
    /// The client has cost the router more than it may.
    ExcessiveLoad,
}

/// A request whose head may be incomplete.
pub struct Arrival {
    resolver: RequestResolver<Streams, Bytes>,
    stopped: Stopped,
}

/// The reason why a stream has ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("{0}")]
    Stream(#[from] h3::error::StreamError),
    #[error("the head of the request is malformed: {0}")]
    Malformed(&'static str),
    #[error("the body of the request is malformed: {0}")]
    Body(#[from] BodyError),
    #[error("the client reads too slowly")]
    TooSlow,
}

impl Connection {
    /// Begins HTTP/3.
    ///
    /// # Errors
    /// Fails if the connection is lost, or the client does not permit the streams that HTTP/3
    /// needs.
    pub(crate) async fn new(
        transport: quinn::Connection,
        client: Arc<Client>,
        charged: Counted,
    ) -> Result<Self, h3::error::ConnectionError> {
        let streams = Streams::new(transport.clone(), client.clone());
        let last_stopped = streams.last_stopped();
        let requests = h3::server::builder()
            .max_field_section_size(PARSED_HEAD)
            .send_grease(false)
            .build(streams)
            .await?;
        let window = Window { transport: transport.clone(), client, wide: Cell::new(None) };
        Ok(Self {
            requests,
            transport,
            last_stopped,
            window: Rc::new(window),
            has_received: false,
            is_refused: false,
            _charged: charged,
        })
    }

    /// Waits for the next request. Returns `None` after the last one. The future may be dropped at
    /// any time.
    ///
    /// # Errors
    /// Fails if the connection is lost, or the client breaks the protocol.
    pub async fn next(&mut self) -> Result<Option<Arrival>, h3::error::ConnectionError> {
        loop {
            let resolver = self.requests.accept().await?;
            let arrival = resolver.zip(self.last_stopped.take());
            if arrival.is_none() || !self.is_refused {
                self.has_received |= arrival.is_some();
                return Ok(arrival.map(|(resolver, stopped)| Arrival { resolver, stopped }));
            }
        }
    }

    /// Tells the client to send further requests on another connection. If the client has sent a
    /// request, those that it sends before it learns of this are served as well. Otherwise none is
    /// served, because the parser then tells the client that it may repeat each of them elsewhere.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub async fn go_away(&mut self) -> Result<(), h3::error::ConnectionError> {
        self.is_refused = !self.has_received;
        // The client cannot have sent more requests than it may have streams.
        let sent = self.requests.shutdown(STREAMS as usize + 1);
        // A client that has closed the window of the control stream does not learn of the end.
        tokio::time::timeout(HANDSHAKE_TIMEOUT, sent).await.unwrap_or(Ok(()))
    }

    /// Returns the estimated round-trip time to the client.
    pub fn round_trip(&self) -> Duration {
        self.transport.rtt()
    }

    /// Returns the limit of what the responses may have in transit.
    pub fn window(&self) -> &Rc<Window> {
        &self.window
    }

    /// Closes the connection, which ends all its requests.
    pub fn close(&self, closing: Closing) {
        let code = match closing {
            Closing::Regular => Code::H3_NO_ERROR,
            Closing::ExcessiveLoad => Code::H3_EXCESSIVE_LOAD,
        };
        self.transport.close(VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX), b"");
    }
}

impl Window {
    /// Lets more of the responses be in transit, if there is memory for it.
    pub fn widen(&self) {
        let wide = self.wide.take().or_else(|| {
            let hold = self.client.free_memory(WIDE_WINDOW - SEND_WINDOW)?;
            self.transport.set_send_window(WIDE_WINDOW as u64);
            Some(hold)
        });
        self.wide.set(wide);
    }

    /// Releases what [`widen`](Self::widen) has taken.
    pub fn narrow(&self) {
        if self.wide.take().is_some() {
            self.transport.set_send_window(SEND_WINDOW as u64);
        }
    }
}

impl Arrival {
    /// Waits for the head. Returns the request, and the means to answer it. If the head is too
    /// long, the request has a [`Refusal`] among its extensions.
    ///
    /// # Errors
    /// Fails if the client breaks the protocol, of which the client is told, or if the connection
    /// is lost.
    pub async fn head(self) -> Result<(Request<Body>, Reply), StreamError> {
        let (mut request, stream) = self.resolver.resolve_request().await?;
        let (sending, mut receiving) = stream.split();
        let mut reply = Reply { stream: sending, stopped: self.stopped };
        let size = fields_size(request.headers());
        if size > HEAD as usize {
            request.extensions_mut().insert(Refusal::TooLong);
        }
        let length = match checked_length(request.headers()) {
            Ok(length) => length,
            Err(reason) => {
                receiving.stop_sending(Code::H3_MESSAGE_ERROR);
                reply.stream.stop_stream(Code::H3_MESSAGE_ERROR);
                return Err(StreamError::Malformed(reason));
            }
        };
        // A client can delay this response, and the memory of a head beyond half of `STREAM` is not
        // charged yet. A client with such a head gets no such response, and must not wait for it
        // indefinitely (RFC 9110, section 10.1.1).
        let expects =
            request.headers().get(header::EXPECT).is_some_and(|value| value == "100-continue");
        if expects && size <= STREAM / 2 {
            let mut proceed = Response::new(());
            *proceed.status_mut() = http::StatusCode::CONTINUE;
            reply.stream.send_response(proceed).await?;
        }
        let mut body = Body::new(receiving, length);
        let begun = poll_fn(|cx| Poll::Ready(body.begin(cx))).await;
        if let Err(error) = begun {
            reply.stream.stop_stream(Code::H3_MESSAGE_ERROR);
            return Err(error.into());
        }
        Ok((request.map(|()| body), reply))
    }
}

fn fields_size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD).sum()
}

/// Checks the headers that concern the connection, or the length of the body (RFC 9114, sections
/// 4.1.2 and 4.2). Returns the stated length of the body.
fn checked_length(headers: &HeaderMap) -> Result<Option<u64>, &'static str> {
    const OF_CONNECTIONS: [HeaderName; 5] = [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    if OF_CONNECTIONS.iter().any(|name| headers.contains_key(name)) {
        return Err("it has a header that concerns the connection");
    }
    if headers.get_all(header::TE).iter().any(|value| value != "trailers") {
        return Err("its TE header has a value other than \"trailers\"");
    }
    stated_length(headers).map_err(|_| "its Content-Length is not one number")
}

/// The response to a request. Dropping the value before [`finish`](Self::finish) cancels the
/// response, so that the client does not take it for a complete one.
pub struct Reply {
    stream: RequestStream<Sender, Bytes>,
    stopped: Stopped,
}

impl Reply {
    /// Waits until the client no longer wants the response, or the connection is lost.
    pub async fn stopped(&mut self) {
        self.stopped.as_mut().await;
    }

    /// Sends the head.
    ///
    /// # Errors
    /// Fails if the client does not take the head before the timeout, or cancels the request.
    pub async fn head(&mut self, head: Response<()>, timeout: Duration) -> Result<(), StreamError> {
        in_time(self.stream.send_response(head), timeout, || {}).await
    }

    /// Sends a piece of the body.
    ///
    /// # Arguments
    /// * `waits` - called if the piece does not fit into what may be in transit.
    ///
    /// # Errors
    /// Fails as [`head`](Self::head) does.
    pub async fn data(
        &mut self,
        piece: Bytes,
        timeout: Duration,
        waits: impl FnOnce(),
    ) -> Result<(), StreamError> {
        in_time(self.stream.send_data(piece), timeout, waits).await
    }

    /// Sends the trailers.
    ///
    /// # Errors
    /// Fails as [`head`](Self::head) does.
    pub async fn trailers(
        &mut self,
        trailers: HeaderMap,
        timeout: Duration,
    ) -> Result<(), StreamError> {
        in_time(self.stream.send_trailers(trailers), timeout, || {}).await
    }

    /// Ends a complete response, and waits until the client has received it, no longer wants it, or
    /// is lost.
    ///
    /// # Errors
    /// Fails if the client has canceled the request, or does not receive the response before the
    /// timeout.
    pub async fn finish(mut self, timeout: Duration) -> Result<(), StreamError> {
        self.stream.finish().await?;
        let received = tokio::time::timeout(timeout, self.stopped.as_mut()).await;
        received.map_err(|_| {
            self.stream.stop_stream(Code::H3_REQUEST_CANCELLED);
            StreamError::TooSlow
        })
    }

    /// Ends an incomplete response.
    pub fn abort(mut self) {
        self.stream.stop_stream(Code::H3_INTERNAL_ERROR);
    }
}

/// Waits for QUIC to take data, with a timer only if it does not take it immediately.
async fn in_time(
    sent: impl Future<Output = Result<(), h3::error::StreamError>>,
    timeout: Duration,
    waits: impl FnOnce(),
) -> Result<(), StreamError> {
    let mut sent = pin!(sent);
    let immediately = poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await;
    if let Poll::Ready(sent) = immediately {
        return Ok(sent?);
    }
    waits();
    let sent = tokio::time::timeout(timeout, sent).await;
    Ok(sent.map_err(|_| StreamError::TooSlow)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn headers_of_connections_are_malformed() {
        for name in ["connection", "transfer-encoding", "upgrade", "keep-alive"] {
            assert!(checked_length(&headers(&[(name, "x")])).is_err(), "{name}");
        }
        assert!(checked_length(&headers(&[("te", "gzip")])).is_err());
        assert_eq!(checked_length(&headers(&[("te", "trailers")])), Ok(None));
        assert_eq!(checked_length(&headers(&[("content-length", "3")])), Ok(Some(3)));
        assert!(checked_length(&headers(&[("content-length", "x")])).is_err());
    }

    #[test]
    fn the_size_of_fields_is_counted_as_http3_specifies() {
        assert_eq!(fields_size(&headers(&[("a", "bc"), ("de", "")])), 3 + 2 + 2 * FIELD);
    }
}
