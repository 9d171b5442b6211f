//! Opens WebSockets to origins. Each WebSocket uses a connection of its own and HTTP/1.1, which
//! every server supports.

use std::sync::Arc;

use http::{StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use super::super::EgressError;
use super::super::cause::root_cause;
use super::super::connection::WINDOW;
use super::super::message::{Request, RequestBody, Response, UploadBody, UploadFailure};
use super::counted::CountedStream;
use super::{Client, EgressContext, Held, Hop, prepare_headers};
use crate::handshake::{self, Deflate, Key};

/// An origin's response to a WebSocket handshake.
pub struct UpgradeResponse {
    pub response: Response,
    /// The connection, or `None` if the origin answered with an ordinary response.
    pub tunnel: Option<Tunnel>,
    /// The agreement with the origin on the compression of messages, if there is one.
    pub deflate: Option<Deflate>,
}

/// The byte stream of a connection that has left HTTP.
pub type Tunnel = CountedStream<TokioIo<Upgraded>>;

impl Client {
    /// Opens a WebSocket to an origin. A redirect is an ordinary response, and is not followed.
    ///
    /// # Errors
    /// Fails if the request is not allowed, if the invocation has no requests or memory left, if
    /// there is no response, or if the response violates the WebSocket handshake.
    pub async fn upgrade(
        &self,
        context: &EgressContext,
        request: Request,
    ) -> Result<UpgradeResponse, EgressError> {
        let opened = self.open_tunnel(context, request).await;
        self.metrics.ended(opened.as_ref().err().map(EgressError::stage));
        opened
    }

    async fn open_tunnel(
        &self,
        context: &EgressContext,
        request: Request,
    ) -> Result<UpgradeResponse, EgressError> {
        let Request { method, url, mut headers, .. } = request;
        prepare_headers(&mut headers);
        let key = Key::new();
        key.set_headers(&mut headers);
        headers.insert(header::CONNECTION, http::HeaderValue::from_static("upgrade"));
        context.budget.subrequest().map_err(EgressError::Subrequests)?;
        let hop = Hop { context, method: &method, url: &url, headers: &headers };
        let origin = hop.origin()?;
        let permit = self.limits.acquire(context.worker.as_str(), &origin.tenant).await;
        let stream = self.connector.connect(&origin).await?;
        let mut tls = (*self.tls(&origin.tenant)).clone();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut sender =
            origin.handshake_for_upgrade(stream, Arc::new(tls), &self.metrics.open).await?;
        let body = UploadBody::new(
            RequestBody::Empty,
            self.metrics.sent.clone(),
            UploadFailure::default(),
        );
        let request = sender.request(&method, &url, &headers, body);
        let request = request
            .ok_or_else(|| EgressError::Request("its URL is too long for HTTP".to_owned()))?;
        let response = sender
            .send(request)
            .await
            .map_err(|unsent| origin.exchange_error(&unsent.into_error()))?;
        let open = permit.open()?;
        let memory = context.budget.hold(WINDOW).ok_or(EgressError::Memory)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let held = Held { _lease: None, _open: open, _memory: memory };
            return Ok(UpgradeResponse {
                response: self.response(&hop, response, held, false),
                tunnel: None,
                deflate: None,
            });
        }
        let wrong = |why: String| EgressError::Exchange { host: origin.host(), why };
        let deflate = handshake::upgrades(response.headers())
            .and_then(|()| key.check_response(&headers, response.headers()))
            .map_err(|why| wrong(why.to_string()))?;
        let mut response = response;
        let upgraded =
            hyper::upgrade::on(&mut response).await.map_err(|source| wrong(root_cause(&source)))?;
        let (mut head, _) = response.into_parts();
        head.headers.remove(header::SEC_WEBSOCKET_ACCEPT);
        let head = Response {
            status: head.status,
            reason: "Switching Protocols".to_owned(),
            headers: head.headers,
            url: url.clone(),
            redirected: false,
            body: None,
        };
        let tunnel = CountedStream::new(TokioIo::new(upgraded), &self.metrics, open, memory);
        Ok(UpgradeResponse { response: head, tunnel: Some(tunnel), deflate })
    }
}
