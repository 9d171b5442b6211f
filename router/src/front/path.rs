//! The path that a client's request takes through the router, with these steps in order:
//!
//! ```text
//!  match ─► admit ─► pick ─► forward ─► answer
//!                     ▲         │
//!                     └─ retry ◄┘
//! ```
//!
//! Between admit and answer the path is the same for calls from inside the platform: see
//! [`forward`](mod@forward) and [`crate::front::internal`]. It runs entirely on the thread that
//! read the request, takes no lock and wakes no other thread. A WebSocket request takes the same
//! path and, if its Worker accepts it, ends in a [`tunnel`](crate::tunnel) instead of a response.

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header};
use http_body::Body as _;
use hyper::upgrade::{self, OnUpgrade};
use tenon_clients::head::Refusal;
use tenon_clients::{ByteHandling, Client, REQUEST};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::WorkerId;
use tenon_spans::OpenSpan;
use tenon_table::route::Found;
use tenon_table::rules::Request;
use tenon_table::{Limited, Worker};

use crate::front::assets;
use crate::front::body::{self, ClientBody, RequestBody};
use crate::front::compress;
use crate::front::error;
use crate::front::forwarded::Sender;
use crate::front::handshake::Handshake;
use crate::front::head::ClientHead;
use crate::front::headers::{self, Edge};
use crate::front::https;
use crate::front::pages::{self, FailedRequest};
use crate::front::response::{self, ResponseBody};
use crate::front::rule::{self, Changed};
use crate::front::scheme::Scheme;
use crate::front::session;
use crate::front::span::{self, Lineage};
use crate::front::target::Target;
use crate::front::trailers;
use crate::meters::Outcome;
use crate::thread::{self, Accounts, RouterThread, View};
use crate::trace::{self, LoggedRequest, Trace};
use crate::tunnel::Tunnel;
use crate::upstream::forward::{self, Call, Idempotency};

/// The client that a connection belongs to.
pub(crate) struct Caller {
    pub(crate) address: IpAddr,
    pub(crate) scheme: Scheme,
    pub(crate) client: Arc<Client>,
    pub(crate) accounts: Accounts,
}

/// A request without its body.
struct Received {
    parts: Parts,
    sender: Sender,
    request_id: String,
}

impl Received {
    /// Returns the request as the access log and its span show it.
    fn logged(&self) -> LoggedRequest<'_> {
        let Self { parts, sender, request_id } = self;
        let host = parts.uri.authority().map(|authority| authority.as_str());
        LoggedRequest {
            request_id,
            peer: sender.address,
            caller: None,
            method: parts.method.as_str(),
            scheme: sender.scheme.as_str(),
            host: host.or_else(|| parts.headers.get(header::HOST)?.to_str().ok()),
            path: parts.uri.path(),
            protocol: parts.version,
        }
    }

    fn lineage(&self) -> Lineage<'_> {
        Lineage::Client { headers: &self.parts.headers, is_trusted: self.sender.is_trusted }
    }
}

/// Serves one request of one client. Returns the response, and the request's span if it has one.
///
/// # Arguments
/// * `request` - the request with its body, if it may have one.
pub(crate) async fn serve(
    thread: Rc<RouterThread>,
    caller: Rc<Caller>,
    mut request: http::Request<Option<ClientBody>>,
) -> Result<(Response<ResponseBody>, Option<Box<OpenSpan>>), Infallible> {
    let started = Instant::now();
    let upgrade = upgrade::on(&mut request);
    let (parts, body) = request.into_parts();
    let body = body.filter(|body| !body.is_end_stream());
    let sender =
        Sender::of(caller.address, caller.scheme, &parts.headers, &thread.shared.trusted_proxies);
    let request_id = headers::valid_request_id(&parts.headers)
        .map_or_else(|| thread.request_id(), str::to_owned);
    let settings = &thread.settings;
    let adds_debug_headers = settings.debug_headers || trace::is_requested(&parts.headers);
    let received = Received { parts, sender, request_id };
    let mut trace = Trace::new(adds_debug_headers, settings.access_log);
    trace.span = span::begin(&thread, &received.lineage(), started, || received.logged());
    trace.records_failures = trace.span.is_none() && thread.records_failures();

    let answered = answer(&thread, &caller, &received, body, upgrade, &mut trace).await;
    let Received { parts, sender, request_id } = &received;
    let (mut response, outcome) = match answered {
        Ok(response) => {
            let outcome = Outcome::Answered(response.status());
            (response, outcome)
        }
        Err(Refused { failure, limited, worker }) => {
            let mut response = error::response(&failure, parts, request_id);
            if let Some(pages) = &thread.shared.pages {
                let (failure, worker) = (&failure, worker.as_ref());
                let failed = FailedRequest { request: parts, request_id, worker, failure };
                if let Some(page) = pages.failure(&failed) {
                    pages::show(page, &mut response);
                }
            }
            limited.inspect(|limited| error::add_rate_limit(response.headers_mut(), limited));
            if parts.extensions.get() == Some(&Refusal::TooLong) {
                *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            }
            let bodiless = parts.method == Method::HEAD;
            let body = |body: Bytes| ResponseBody::Full((!bodiless).then_some(body));
            (response.map(body), Outcome::Failed(failure.code))
        }
    };

    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if caller.client.handling() == ByteHandling::Held {
        caller.client.set_handling(if switches {
            ByteHandling::Unchecked
        } else {
            ByteHandling::Checked
        });
    }
    if thread.leaving.get() && parts.version < Version::HTTP_2 && !switches {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if trace.adds_debug_headers {
        trace.write(response.headers_mut(), request_id);
    }
    https::add_hsts(thread.shared.https.as_ref(), sender.scheme, response.headers_mut());
    let may_offer_http3 =
        parts.version < Version::HTTP_3 && !sender.is_trusted && !thread.leaving.get();
    if caller.scheme == Scheme::Https && may_offer_http3 {
        https::add_alternative(thread.shared.http3.as_ref(), response.headers_mut());
    }
    let elapsed = started.elapsed();
    thread.meters.observe(outcome, elapsed);
    thread.meters.count_version(parts.version);
    let mut span = None;
    if trace.is_logged || trace.span.is_some() || trace.records_failure(outcome) {
        let request = received.logged();
        if trace.is_logged {
            trace.log(&request, outcome, elapsed);
        }
        let lineage = received.lineage();
        span = span::answered(&thread, &mut trace, &lineage, &request, outcome, elapsed);
    }
    Ok((response, span))
}

/// Finds the Worker of a request, and answers the request.
async fn answer(
    thread: &Rc<RouterThread>,
    caller: &Caller,
    received: &Received,
    body: Option<ClientBody>,
    upgrade: OnUpgrade,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>, Refused> {
    let Received { parts, sender, .. } = received;
    if let Some(refusal) = parts.extensions.get() {
        return Err(refusal_failure(*refusal).into());
    }
    if let Some(response) = thread.shared.pages.as_ref().and_then(|pages| pages.answer(parts)) {
        trace.is_logged = false;
        return Ok(response::complete(response));
    }
    // Match. The Worker receives a WebSocket request as a GET, whichever method the client used.
    let handshake = Handshake::of(parts, body.is_some())?;
    let method = if handshake.is_some() { &Method::GET } else { &parts.method };
    let target = Target::of(parts, method)?;
    if let Some(location) = https::redirect(thread.shared.https.as_ref(), sender.scheme, &target) {
        return Ok(response::redirect(StatusCode::PERMANENT_REDIRECT, location));
    }
    let view = thread.view();
    let is_https = caller.scheme == Scheme::Https;
    let request = Request::new(method, target.path(), target.query(), &parts.headers, is_https);
    let found = view.find(target.host(), &request).ok_or_else(no_worker)?;
    let (worker, rule): (&Worker, _) = match found {
        Found::Target(worker) => (worker, None),
        Found::Rule(rule) => {
            if let Some(redirect) = &rule.action.redirect {
                return Ok(rule::redirect(redirect, rule, sender.scheme, &target)?);
            }
            let id = rule.action.draw(|| thread.random() as u64);
            let worker = id.and_then(|id| view.worker(id)).ok_or_else(no_backend)?;
            (worker, Some(rule))
        }
    };
    let changed = rule.map(|rule| Changed::of(rule, &target, &parts.headers)).transpose()?;
    let session = |affinity: &_| session::of_client(&parts.headers, affinity);
    let worker = worker.draw(session, || thread.random() as u64);
    trace.record_worker(&worker.id);
    let matched = Matched {
        view: &view,
        worker,
        handshake,
        method,
        target: changed.as_ref().and_then(|changed| changed.target.as_ref()).unwrap_or(&target),
        requested_host: target.authority(),
        headers: changed
            .as_ref()
            .and_then(|changed| changed.headers.as_ref())
            .unwrap_or(&parts.headers),
    };
    let mut answered = run(thread, caller, received, body, upgrade, matched, trace).await;
    if let (Some(rule), Ok(response)) = (rule, &mut answered) {
        rule::change_response(rule, response.headers_mut());
    }
    let is_error = |response: &Response<_>| response.status().is_server_error();
    if answered.is_err() || answered.as_ref().is_ok_and(is_error) {
        trace.record_failed_worker(&worker.id);
    }
    answered.map_err(|refused| Refused { worker: Some(worker.id.clone()), ..refused })
}

/// A request whose Worker is known.
struct Matched<'a> {
    view: &'a View,
    worker: &'a Worker,
    handshake: Option<Handshake>,
    method: &'a Method,
    /// The target and the headers that the Worker sees.
    target: &'a Target<'a>,
    headers: &'a HeaderMap,
    /// The host and port that the client requested.
    requested_host: &'a str,
}

/// Serves a request whose Worker is known.
async fn run(
    thread: &Rc<RouterThread>,
    Caller { address, client, accounts, .. }: &Caller,
    Received { parts, sender, request_id }: &Received,
    body: Option<ClientBody>,
    upgrade: OnUpgrade,
    Matched { view, worker, handshake, method, target, headers, requested_host }: Matched<'_>,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>, Refused> {
    // Clients behind a trusted proxy share its connections, but each has its own account.
    let behind_proxy = sender.is_trusted.then(|| thread.accounts(sender.address));
    let accounts = behind_proxy.as_ref().unwrap_or(accounts);
    // A static file needs no Worker.
    if let Some(assets) = &worker.assets
        && handshake.is_none()
        && assets::may_answer(assets, method, target.path())
    {
        let request =
            assets::Request { method, path: target.path(), query: target.query(), headers };
        let audience = assets::client_audience(headers);
        let permit = thread.admit(accounts)?;
        let answer =
            assets::answer(&thread.shared.sites, worker, assets, audience, &request).await?;
        if let Some(answer) = answer {
            return Ok(response::from_file(answer, permit, client));
        }
    }

    if let Some(rates) = &worker.rates {
        rates.admit(
            worker.key.get(),
            accounts.peer,
            &thread.shared.limited_clients,
            view.routers(),
        )?;
    }

    // Admit. A small body is read before the request takes a permit, so that no permit waits for a
    // client.
    let tunnel = match handshake {
        Some(handshake) => {
            let slot = thread.admit_tunnel(accounts)?.hold_request(client.begin_request());
            Some((handshake, Tunnel::new(upgrade, slot, thread.meters.clone())))
        }
        None => None,
    };
    let body = match &tunnel {
        Some((_, tunnel)) => RequestBody::Streaming(Rc::new(tunnel.upload())),
        None => {
            let needed = body::needed_memory(body.as_ref(), worker.body_limit)?;
            let needed = REQUEST + headers::size(headers) + needed;
            let memory = client.memory(needed).ok_or_else(thread::overloaded)?;
            body::admit(body, worker.body_limit, thread.settings.pace, memory).await?
        }
    };
    let permit = thread.admit(accounts)?;

    // Describe the head, which is written in the form that the picked shard receives.
    let (inline, upload) = match &body {
        RequestBody::Inline { bytes, .. } => (bytes.clone(), None),
        RequestBody::Streaming(upload) => (Bytes::new(), Some(upload)),
    };
    let head = ClientHead {
        thread,
        view,
        worker,
        method,
        target,
        headers,
        edge: Edge {
            sender: *sender,
            host: target.authority(),
            requested_host,
            peer: *address,
            request_id,
        },
        handshake: tunnel.as_ref().map(|(handshake, _)| handshake),
        context: trace.context(),
        takes_trailers: trailers::are_taken(parts),
        body: inline,
        more_body: upload.is_some(),
    };

    // Pick and forward, and repeat if that may help.
    let call =
        Call { peer: accounts.peer, head: &head, upload, idempotency: Idempotency::of(method) };
    let reply = forward::forward(&thread.upstream, view, worker, call, trace).await?;

    // Answer.
    let Some((handshake, tunnel)) = tunnel else {
        let response = response::from_reply(method, reply, permit, client)?;
        return Ok(match &thread.compression {
            Some(compression) => {
                compress::compress(compression, parts, response, accounts.peer, client)
            }
            None => response,
        });
    };
    if response::switches_protocols(&reply) {
        return Ok(response::tunnel(&handshake, tunnel, reply));
    }
    let response = response::from_reply(method, reply, permit, client)?;
    if handshake.looks_accepted(response.status()) {
        Err(no_websocket().into())
    } else {
        Ok(response)
    }
}

/// The reason why a request has no response from its Worker.
struct Refused {
    failure: Failure,
    /// The rate limit that the request has exceeded, if there is one.
    limited: Option<Limited>,
    /// The Worker of the request, if one has a route for the request.
    worker: Option<WorkerId>,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { failure, limited: None, worker: None }
    }
}

impl From<Limited> for Refused {
    fn from(limited: Limited) -> Self {
        let whose = match limited.limit {
            "client" => "the client",
            "namespace" => "the Worker's namespace",
            _ => "the Worker",
        };
        let message = format!(
            "{whose} has exceeded the limit of {} requests per second; retry later",
            limited.rate.per_second
        );
        let failure = Failure::new(FailureCode::RateLimited, Phase::Admission, message);
        Self { failure, limited: Some(limited), worker: None }
    }
}

fn refusal_failure(refusal: Refusal) -> Failure {
    let code = if refusal == Refusal::Huge {
        FailureCode::RequestTooLarge
    } else {
        FailureCode::BadRequest
    };
    Failure::new(code, Phase::Admission, refusal.to_string())
}

fn no_websocket() -> Failure {
    Failure::new(
        FailureCode::BadRequest,
        Phase::Response,
        "the Worker responded without accepting the WebSocket",
    )
}

fn no_worker() -> Failure {
    Failure::new(
        FailureCode::WorkerNotFound,
        Phase::Admission,
        "no Worker has a route for this host and path",
    )
}

fn no_backend() -> Failure {
    Failure::new(
        FailureCode::NoBackend,
        Phase::Admission,
        "no Worker that the matching rule of the HTTPRoute names can serve the request",
    )
}
