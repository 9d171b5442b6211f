//! HTTP clients that use connections in different ways, as the clients of a service do.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

type Body = Empty<Bytes>;

/// A kind of client, by its use of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientKind {
    /// HTTP/1.1 over a reused connection.
    KeptAlive,
    /// HTTP/1.1 over a new connection for each request.
    Fresh,
    /// HTTP/2 over one connection for all requests of this kind of client.
    Http2,
}

/// The open connections to one server.
pub(super) struct Clients {
    target: SocketAddr,
    /// Idle connections. The connection that has been idle longest is used next, so that none stays
    /// idle longer than necessary.
    idle: Mutex<VecDeque<http1::SendRequest<Body>>>,
    /// The HTTP/2 connection, if one has been opened.
    shared: Mutex<Option<http2::SendRequest<Body>>>,
}

impl Clients {
    pub(super) fn of(target: SocketAddr) -> Self {
        Self { target, idle: Mutex::default(), shared: Mutex::default() }
    }

    /// Requests the root of `host` and returns the status and the body.
    ///
    /// # Errors
    /// Fails if there is no complete response.
    pub(super) async fn get(&self, kind: ClientKind, host: &str) -> anyhow::Result<(u16, String)> {
        match kind {
            ClientKind::Fresh => {
                let request = http1_request(host)?;
                let sent = self.open().await?.try_send_request(request).await;
                read_response(sent.map_err(TrySendError::into_error)?).await
            }
            ClientKind::KeptAlive => self.get_over_idle(host).await,
            ClientKind::Http2 => self.get_over_shared(host).await,
        }
    }

    async fn get_over_idle(&self, host: &str) -> anyhow::Result<(u16, String)> {
        let mut request = http1_request(host)?;
        while let Some(mut connection) = self.take_longest_idle() {
            if connection.ready().await.is_err() {
                continue;
            }
            match connection.try_send_request(request).await {
                Ok(response) => return self.read_then_idle(response, connection).await,
                Err(mut error) => match error.take_message() {
                    // The connection was closed before anything was sent.
                    Some(unsent) => request = unsent,
                    None => {
                        return Err(error.into_error())
                            .context("cannot send the request over a reused connection");
                    }
                },
            }
        }
        let mut new = self.open().await?;
        let response = new.try_send_request(request).await.map_err(TrySendError::into_error)?;
        self.read_then_idle(response, new).await
    }

    async fn get_over_shared(&self, host: &str) -> anyhow::Result<(u16, String)> {
        let mut request = http2_request(host)?;
        let open = self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(mut shared) = open
            && shared.ready().await.is_ok()
        {
            match shared.try_send_request(request).await {
                Ok(response) => return read_response(response).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => {
                        return Err(error.into_error())
                            .context("cannot send the request over an open HTTP/2 connection");
                    }
                },
            }
        }
        let (mut new, connection) =
            http2::handshake(TokioExecutor::new(), self.connect().await?).await?;
        tokio::spawn(connection);
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(new.clone());
        let response = new.try_send_request(request).await;
        read_response(
            response
                .map_err(TrySendError::into_error)
                .context("cannot send the request over a new HTTP/2 connection")?,
        )
        .await
    }

    fn take_longest_idle(&self) -> Option<http1::SendRequest<Body>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    async fn read_then_idle(
        &self,
        response: Response<Incoming>,
        connection: http1::SendRequest<Body>,
    ) -> anyhow::Result<(u16, String)> {
        let answer = read_response(response).await?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push_back(connection);
        Ok(answer)
    }

    async fn open(&self) -> anyhow::Result<http1::SendRequest<Body>> {
        let (sender, connection) = http1::handshake(self.connect().await?).await?;
        // The sender reports the end of the connection.
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn connect(&self) -> anyhow::Result<TokioIo<TcpStream>> {
        let stream = TcpStream::connect(self.target)
            .await
            .with_context(|| format!("cannot connect to {}", self.target))?;
        stream.set_nodelay(true)?;
        Ok(TokioIo::new(stream))
    }
}

fn http1_request(host: &str) -> anyhow::Result<Request<Body>> {
    let request =
        Request::get("/").header(header::HOST, host).header(header::ACCEPT, "application/json");
    Ok(request.body(Body::new())?)
}

fn http2_request(host: &str) -> anyhow::Result<Request<Body>> {
    Ok(Request::get(format!("http://{host}/"))
        .header(header::ACCEPT, "application/json")
        .body(Body::new())?)
}

async fn read_response(response: Response<Incoming>) -> anyhow::Result<(u16, String)> {
    let status = response.status().as_u16();
    let body =
        response.into_body().collect().await.context("the response is incomplete")?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
