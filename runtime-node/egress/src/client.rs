//! The HTTP client: performs a request, from the Worker's call to the response's body.

mod counted;
mod resolve;
mod socket;
mod upgrade;

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::ext::ReasonPhrase;
use rustc_hash::FxHashMap;
use rustls::ClientConfig;
use rustls::client::Resumption;
use tenon_proto::egress::Egress;
use tenon_proto::id::WorkerId;
use url::{Host, Url};

use super::budget::InvocationBudget;
use super::concurrency::{ConcurrencyLimits, Open};
use super::connection::WINDOW;
use super::connector::Connector;
use super::incoming::receive;
use super::message::{
    RedirectMode, Request, RequestBody, Response, ResponseBody, UploadBody, UploadFailure,
};
use super::origin::{Origin, is_grpc};
use super::policy;
use super::pool::{ConnectionPool, Lease, PooledConnection};
use super::redirect::{self, Next};
use super::{EgressError, Settings, decode};
use crate::metrics::EgressMetrics;

pub use socket::{Authorities, Endpoint, Socket};
pub use upgrade::{Tunnel, UpgradeResponse};

/// Maximum number of tenants with cached TLS sessions, and of sessions for each tenant.
const TENANTS: usize = 256;
const SESSIONS: usize = 32;

/// Headers that are hop-by-hop or that the client sets itself. Like browsers, the client drops them
/// from requests. A Host header that the Worker sets would circumvent the Worker's list of hosts.
const FORBIDDEN_REQUEST_HEADERS: [HeaderName; 10] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Hop-by-hop headers of a response. The client drops them, because they concern only the
/// connection to the origin. `Trailer` is not one of them: it announces trailers, which pass.
const HOP_BY_HOP_RESPONSE_HEADERS: [HeaderName; 5] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The Worker on whose behalf the shard sends requests, and the budget to which the requests are
/// charged.
#[derive(Clone)]
pub struct EgressContext {
    pub worker: WorkerId,
    /// Hosts to which the Worker may connect, according to its own configuration.
    pub egress: Rc<Egress>,
    pub budget: Rc<dyn InvocationBudget>,
}

/// A shard's HTTP client. It belongs to the shard's thread, where a [`tokio::task::LocalSet`] must
/// be running.
pub struct Client {
    connector: Connector,
    limits: ConcurrencyLimits,
    pool: Rc<ConnectionPool>,
    tls: Arc<ClientConfig>,
    /// TLS configurations by tenant, each with its own session cache.
    tls_by_tenant: RefCell<FxHashMap<Rc<str>, Arc<ClientConfig>>>,
    metrics: EgressMetrics,
}

/// One request in a chain of redirects.
struct Hop<'a> {
    context: &'a EgressContext,
    method: &'a Method,
    url: &'a Url,
    headers: &'a HeaderMap,
}

impl Client {
    pub fn new(settings: &Settings, metrics: EgressMetrics) -> Self {
        Self {
            connector: Connector::new(settings),
            limits: ConcurrencyLimits::new(settings.bounds),
            pool: ConnectionPool::new(settings.bounds, metrics.idle.clone()),
            tls: Arc::clone(&settings.tls),
            tls_by_tenant: RefCell::default(),
            metrics,
        }
    }

    /// Sends a request, and follows its redirects. Resolves when the head of the response has
    /// arrived; dropping the future, or later the body, aborts the request.
    ///
    /// Hop-by-hop headers and headers that the client sets itself are dropped from the request;
    /// `Accept`, `Accept-Encoding` and `User-Agent` are added if they are missing. The response's
    /// body is decoded according to `Content-Encoding`; that header and `Content-Length` are then
    /// removed, because a Worker that forwards the response forwards the decoded body.
    ///
    /// # Errors
    /// Fails if the request is not allowed, if a redirect cannot be followed, or if there is no
    /// response.
    pub async fn fetch(
        &self,
        context: &EgressContext,
        request: Request,
    ) -> Result<Response, EgressError> {
        let fetched = self.follow(context, request).await;
        self.metrics.ended(fetched.as_ref().err().map(EgressError::stage));
        fetched
    }

    async fn follow(
        &self,
        context: &EgressContext,
        request: Request,
    ) -> Result<Response, EgressError> {
        let Request { mut method, mut url, mut headers, mut body, redirect: mode } = request;
        prepare_headers(&mut headers);
        let mut redirects = 0;
        loop {
            context.budget.subrequest().map_err(EgressError::Subrequests)?;
            let copy = body.try_clone();
            let hop = Hop { context, method: &method, url: &url, headers: &headers };
            let (response, open) = self.exchange(&hop, body).await?;
            if mode == RedirectMode::Error && redirect::is_redirect(response.status()) {
                return Err(EgressError::Redirect("the request's redirect mode is \"error\""));
            }
            let next = match mode {
                RedirectMode::Follow => {
                    let head = response.headers();
                    redirect::next(
                        response.status(),
                        head,
                        &method,
                        &url,
                        redirects,
                        copy.is_some(),
                    )?
                }
                RedirectMode::Error | RedirectMode::Manual => Next::Stay,
            };
            match next {
                Next::Stay => return Ok(self.response(&hop, response, open, redirects > 0)),
                Next::Go { url: target, as_get, is_cross_origin } => {
                    redirect::drop_headers(&mut headers, as_get, is_cross_origin);
                    url = target;
                    if as_get {
                        method = Method::GET;
                    }
                    body = copy.filter(|_| !as_get).unwrap_or(RequestBody::Empty);
                    redirects += 1;
                }
            }
        }
    }

    /// Sends a request to its origin.
    async fn exchange(
        &self,
        hop: &Hop<'_>,
        body: RequestBody,
    ) -> Result<(http::Response<Incoming>, Held), EgressError> {
        let origin = hop.origin()?;
        let permit = self.limits.acquire(hop.context.worker.as_str(), &origin.tenant).await;
        let (response, lease) = self.send(hop, &origin, body).await?;
        let open = permit.open()?;
        let memory = hop.context.budget.hold(WINDOW).ok_or(EgressError::Memory)?;
        let held = match lease {
            Lease { sender: super::connection::Sender::Http1(_), .. } => {
                self.pool.put_back(origin, lease);
                Held { _lease: None, _open: open, _memory: memory }
            }
            shared => Held { _lease: Some(shared), _open: open, _memory: memory },
        };
        Ok((response, held))
    }

    /// Sends a request over a pooled connection or a new one. An origin may close a pooled
    /// connection while a request is being sent: a request of which nothing was sent, or an
    /// idempotent one, is then sent again over a new connection.
    async fn send(
        &self,
        hop: &Hop<'_>,
        origin: &Origin,
        mut body: RequestBody,
    ) -> Result<(http::Response<Incoming>, Lease), EgressError> {
        let mut lease = self.lease(origin).await?;
        loop {
            let copy = body.try_clone();
            let failure = UploadFailure::default();
            let sending = UploadBody::new(body, self.metrics.sent.clone(), Rc::clone(&failure));
            let request = lease.sender.request(hop.method, hop.url, hop.headers, sending);
            let request = request
                .ok_or_else(|| EgressError::Request("its URL is too long for HTTP".to_owned()))?;
            let mut unsent = match lease.sender.send(request).await {
                Ok(response) => return Ok((response, lease)),
                Err(unsent) => unsent,
            };
            let whole = unsent.take_message().map(|request| request.into_body().into_inner());
            let error = unsent.into_error();
            // The request is sent again if none of it was sent, or if the connection was closed and
            // the request is idempotent.
            let was_closed =
                error.is_incomplete_message() || error.is_closed() || error.is_canceled();
            let retried =
                whole.or_else(|| copy.filter(|_| was_closed && hop.method.is_idempotent()));
            match retried {
                Some(retried) if lease.is_used => {
                    body = retried;
                    lease = self.open(origin).await?;
                }
                _ => return Err(failure.take().unwrap_or_else(|| origin.exchange_error(&error))),
            }
        }
    }

    async fn lease(&self, origin: &Origin) -> Result<Lease, EgressError> {
        match self.pool.take(origin) {
            PooledConnection::Lease(lease) => Ok(lease),
            // The request waits only once: if it finds no connection afterwards, it opens its own,
            // whether or not the awaited attempt succeeded.
            PooledConnection::Opening(opening) if origin.may_be_shared() => {
                let _closed = opening.acquire().await;
                match self.pool.take(origin) {
                    PooledConnection::Lease(lease) => Ok(lease),
                    PooledConnection::Opening(_) | PooledConnection::Nothing => {
                        self.open(origin).await
                    }
                }
            }
            PooledConnection::Opening(_) | PooledConnection::Nothing => self.open(origin).await,
        }
    }

    async fn open(&self, origin: &Origin) -> Result<Lease, EgressError> {
        let _opening = origin.may_be_shared().then(|| self.pool.open(origin));
        let stream = self.connector.connect(origin).await?;
        let sender = origin.handshake(stream, self.tls(&origin.tenant), &self.metrics.open).await?;
        Ok(self.pool.lease(origin, sender))
    }

    fn tls(&self, tenant: &Rc<str>) -> Arc<ClientConfig> {
        let mut tls_by_tenant = self.tls_by_tenant.borrow_mut();
        if tls_by_tenant.len() >= TENANTS && !tls_by_tenant.contains_key(tenant) {
            // Clearing the cache costs each tenant one more full handshake with each origin.
            tls_by_tenant.clear();
        }
        let config = tls_by_tenant.entry(Rc::clone(tenant)).or_insert_with(|| {
            let mut config = (*self.tls).clone();
            config.resumption = Resumption::in_memory_sessions(SESSIONS);
            Arc::new(config)
        });
        Arc::clone(config)
    }

    fn response(
        &self,
        hop: &Hop<'_>,
        response: http::Response<Incoming>,
        held: Held,
        redirected: bool,
    ) -> Response {
        let (mut head, body) = response.into_parts();
        for name in &HOP_BY_HOP_RESPONSE_HEADERS {
            head.headers.remove(name);
        }
        let reason = match head.extensions.get::<ReasonPhrase>() {
            Some(reason) => reason.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
            None if head.version < Version::HTTP_2 => {
                head.status.canonical_reason().unwrap_or_default().to_owned()
            }
            None => String::new(),
        };
        let body = has_body(hop.method, head.status).then(|| {
            if body.is_end_stream() {
                return ResponseBody::Empty;
            }
            let (bytes, trailers) = receive(body, self.metrics.received.clone(), held);
            let codings = decode::codings(&head.headers);
            if codings.is_empty() {
                return ResponseBody::Stream { bytes, trailers };
            }
            head.headers.remove(header::CONTENT_ENCODING);
            head.headers.remove(header::CONTENT_LENGTH);
            let bytes = decode::decode(&codings, bytes, &hop.context.budget);
            ResponseBody::Stream { bytes, trailers }
        });
        Response {
            status: head.status,
            reason,
            headers: head.headers,
            url: hop.url.clone(),
            redirected,
            body,
        }
    }
}

/// Resources that a response holds until its body ends.
struct Held {
    _lease: Option<Lease>,
    _open: Open,
    _memory: Box<dyn Any>,
}

impl Hop<'_> {
    /// Returns the origin of the hop's URL, if the Worker may reach it.
    fn origin(&self) -> Result<Origin, EgressError> {
        let secure = match self.url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(EgressError::Scheme(other.to_owned())),
        };
        let host = self
            .url
            .host()
            .ok_or_else(|| EgressError::Request("its URL has no host".to_owned()))?
            .to_owned();
        let port = self.url.port_or_known_default().expect("http and https have default ports");
        if policy::is_bad_port(port) {
            return Err(EgressError::BadPort(port));
        }
        let origin = Origin::for_worker(self.context, secure, host, port)?;
        let has_prior_knowledge = !secure && is_grpc(self.headers);
        Ok(Origin { has_prior_knowledge, ..origin })
    }
}

impl Origin {
    /// Returns the origin at a host and port, if the Worker's own list allows it.
    fn for_worker(
        context: &EgressContext,
        secure: bool,
        host: Host<String>,
        port: u16,
    ) -> Result<Self, EgressError> {
        let name = host.to_string();
        if !context.egress.allows(name.strip_suffix('.').unwrap_or(&name), port) {
            return Err(EgressError::NotListed { host: name, port });
        }
        let tenant = context.worker.namespace().into();
        Ok(Self { tenant, secure, has_prior_knowledge: false, host, port })
    }
}

/// Drops the headers that a Worker may not set, and adds the defaults.
fn prepare_headers(headers: &mut HeaderMap) {
    for name in &FORBIDDEN_REQUEST_HEADERS {
        headers.remove(name);
    }
    // A range of a compressed body cannot be decoded.
    let codings = if headers.contains_key(header::RANGE) { "identity" } else { "gzip, br" };
    for (name, value) in
        [(header::ACCEPT, "*/*"), (header::ACCEPT_ENCODING, codings), (header::USER_AGENT, "Tenon")]
    {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Returns whether a response to the request has a body at all, even an empty one (RFC 9110
/// §6.4.1).
fn has_body(method: &Method, status: StatusCode) -> bool {
    *method != Method::HEAD && !matches!(status.as_u16(), 101 | 103 | 204 | 205 | 304)
}
