//! The native half of `service.js`: requests through bindings to other Workers and to static files,
//! `env.OTHER.fetch(request)`. A variant of `fetch.rs`.

pub(crate) mod calls;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tenon_egress::handshake::{self, HandshakeError, Key};
use tenon_egress::{EgressError, RedirectMode, Request, RequestBody};
use tenon_engine::CallContext;
use tenon_engine::FetchRequest;
use tenon_engine::byte_stream::{ByteStream, StreamError};
use tenon_engine::ids::InvocationId;
use tenon_engine::pipe;
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::streams::Body;
use tenon_engine::thrown::Thrown;
use tenon_op::op;
use tenon_proto::failure::Failure;
use tenon_proto::revision::{BoundService, ByKind, Revision};
use tenon_proto::runtime::{Entry, Header, Rpc};
use tokio_tungstenite::tungstenite::protocol::Role;
use url::Url;

use crate::fetch::head::{self, Outcome, Received};
use crate::fetch::outbound::{Outbound, breakable};
use crate::fetch::request::Sent;
use crate::ops::Promised;
use crate::service::calls::{Call, CallResponse};
use crate::websocket::sockets::UnacceptedSocket;
use crate::websocket::sockets::link::Wire;

/// The stage of a failed call, as `fetch.js` reports it.
pub(crate) const STAGE: &str = "service";

/// Sends a request to the Worker that the revision's binding at index `service` names, or, if
/// `service` is one more than the last index, to the static files of the calling Worker. Returns a
/// promise of the outcome, as `fetch_send` does. The response is returned unchanged: the caller
/// handles redirects.
///
/// # Errors
/// Returns a `TypeError` if the invocation has ended, or if there is no such binding.
#[op]
pub(crate) fn service_send<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    number: u32,
    method: Method,
    url: Url,
    headers: HeaderMap,
    redirect: RedirectMode,
    body: Sent,
    service: usize,
) -> Result<Promised<'s, Outcome>, Thrown> {
    let state = State::of(scope);
    let (invocation, callee) = caller_and_callee(scope, &state, service)?;
    let body = body.outgoing(&headers);
    let mut request = Request { method, url, headers, body, redirect };
    let url = request.url.to_string();
    let web_socket = RequestedWebSocket::from_request(&mut request);
    let outbound = Outbound::of(scope);
    let abort_entry = (number != 0).then(|| outbound.aborts.enter(number));
    let called = match call(&state, invocation, callee, fetch_request(request), None) {
        Ok(call) => outbound.services.call(call),
        Err(most) => return Ok(over_limit(scope, most)),
    };
    let called = match abort_entry {
        Some(abort_entry) => Ok((abort_entry.follow(called), abort_entry)),
        None => Err(called),
    };
    let work = async move {
        let (called, abort_entry) = match called {
            Ok((called, abort_entry)) => (called.await.ok(), Some(abort_entry)),
            Err(called) => (Some(called.await), None),
        };
        Ok((called, abort_entry))
    };
    let promise = promise(scope, work, move |scope, (called, abort_entry)| match called {
        None => Ok(v8::null(scope).into()),
        Some(Err(failure)) => head::failure(scope, STAGE, &message_of(&failure)),
        Some(Ok(CallResponse { status: 101, headers, body })) => {
            match web_socket.map(|web_socket| web_socket.accept(&headers, body)) {
                Some(Ok(socket)) => {
                    let received = Received {
                        status: 101,
                        reason: Bytes::new(),
                        url: &url,
                        redirected: false,
                        body: None,
                        socket: Some(socket),
                    };
                    received.into_value(scope, invocation, pairs(&headers))
                }
                Some(Err(why)) => head::failure(scope, STAGE, &why.to_string()),
                None => head::failure(
                    scope,
                    STAGE,
                    "the Worker answered with a WebSocket that was not requested",
                ),
            }
        }
        Some(Ok(CallResponse { status, headers, body })) => {
            let body = body.map(|body| Body::Stream(breakable(body, abort_entry)));
            let received = Received {
                status,
                reason: Bytes::new(),
                url: &url,
                redirected: false,
                body,
                socket: None,
            };
            received.into_value(scope, invocation, pairs(&headers))
        }
    });
    Ok(promise.into())
}

fn pairs(headers: &[Header]) -> impl Iterator<Item = (&str, &[u8])> {
    headers.iter().map(|header| (header.name.as_str(), &header.value[..]))
}

/// A WebSocket that this isolate requests from another Worker, as a client would. This isolate
/// holds the client's end.
struct RequestedWebSocket {
    key: Key,
    headers: HeaderMap,
    outgoing: pipe::Writer,
}

impl RequestedWebSocket {
    /// Turns a request for a WebSocket into a handshake. Returns `None` for any other request.
    fn from_request(request: &mut Request) -> Option<Self> {
        if !handshake::is_requested(&request.method, &request.headers) {
            return None;
        }
        let key = Key::new();
        key.set_headers_for_worker(&mut request.headers);
        let (outgoing, reader) = pipe::pipe();
        let bytes =
            reader.map(|piece| piece.map_err(|error| EgressError::Upload(error.to_string())));
        request.body =
            RequestBody::Stream { bytes: bytes.boxed_local(), length: None, trailers: None };
        Some(Self { key, headers: request.headers.clone(), outgoing })
    }

    fn accept(
        self,
        headers: &[Header],
        body: Option<ByteStream>,
    ) -> Result<UnacceptedSocket, HandshakeError> {
        let pair = |header: &Header| {
            Some((
                HeaderName::try_from(&header.name).ok()?,
                HeaderValue::from_maybe_shared(header.value.clone()).ok()?,
            ))
        };
        let headers: HeaderMap = headers.iter().filter_map(pair).collect();
        let deflate = self.key.check_response(&self.headers, &headers)?;
        let incoming = body.unwrap_or_else(|| futures::stream::empty().boxed_local());
        let wire = Wire::of_streams(incoming, self.outgoing);
        Ok(UnacceptedSocket { wire, role: Role::Client, deflate })
    }
}

/// Returns the invocation that makes a call, and the target of the binding at an index.
///
/// # Errors
/// Returns a `TypeError` if the invocation has ended, or if there is no such binding.
pub(crate) fn caller_and_callee(
    scope: &mut v8::PinScope<'_, '_>,
    state: &State,
    service: usize,
) -> Result<(InvocationId, Callee), Thrown> {
    let Some(invocation) = state.current(scope) else {
        return Err(Thrown::type_error("Cannot call a Worker: the invocation has ended"));
    };
    let callee = callee(&state.revision, service)
        .ok_or_else(|| Thrown::type_error("There is no such binding"))?;
    Ok((invocation, callee))
}

/// Returns the target of the binding at an index; `None` if there is no such binding.
fn callee(revision: &Revision, service: usize) -> Option<Callee> {
    let ByKind { services, assets, .. } = ByKind::of(&revision.bindings);
    match services.get(service) {
        Some((_, service)) => Some(Callee::Worker((*service).clone())),
        None => assets.filter(|_| service == services.len()).map(|_| Callee::Assets),
    }
}

/// The target of a binding.
pub(crate) enum Callee {
    Worker(BoundService),
    /// The Worker's own static files.
    Assets,
}

/// Counts a subrequest of the invocation, and builds a call: adds to the request what the call says
/// about its caller and its target.
///
/// # Arguments
/// * `rpc` - set if the request opens an RPC session.
///
/// # Errors
/// Returns the invocation's limit on subrequests if the invocation has reached the limit or has
/// ended.
pub(crate) fn call(
    state: &State,
    invocation: InvocationId,
    callee: Callee,
    request: FetchRequest,
    rpc: Option<Rpc>,
) -> Result<Call, u32> {
    state.subrequest(invocation)?;
    let invocations = state.invocations.borrow();
    let caller = invocations.get(invocation).ok_or(0_u32)?;
    let worker = &state.revision.worker;
    let (callee, digest, assets, export) = match callee {
        Callee::Worker(BoundService { worker, entrypoint }) => {
            let digest = caller.call_context.digest_of(&worker);
            (worker, digest, false, entrypoint)
        }
        Callee::Assets => (worker.clone(), Some(state.digest), true, None),
    };
    let is_for_entry = export.is_some() || rpc.is_some();
    let entry = is_for_entry.then(|| Entry { export: export.unwrap_or_default(), rpc });
    let call_context = CallContext {
        depth: caller.call_context.depth.saturating_add(1),
        services: Vec::new(),
        trace: caller.call_context.trace.clone(),
    };
    let request_id = caller.request_id.to_string();
    let request = FetchRequest { request_id, entry, call_context, ..request };
    Ok(Call { caller: worker.clone(), callee, digest, assets, request })
}

/// Converts the request to the form in which the other Worker receives it, except for what
/// [`call`] adds.
fn fetch_request(request: Request) -> FetchRequest {
    let Request { method, url, headers, body, .. } = request;
    let (body, length) = match body {
        RequestBody::Empty => (Body::Full(Bytes::new()), None),
        RequestBody::Full(bytes) => {
            let length = bytes.len() as u64;
            (Body::Full(bytes), Some(length))
        }
        // Calls between Workers have no trailers.
        RequestBody::Stream { bytes, length, .. } => {
            let bytes = bytes
                .map(|piece| piece.map_err(|error| StreamError::Lost(error.to_string().into())));
            (Body::Stream(bytes.boxed_local()), length)
        }
    };
    let owned = |name: &str, value: &[u8]| Header {
        name: name.to_owned(),
        value: Bytes::copy_from_slice(value),
    };
    // The caller's values of these two headers may belong to a request that the caller received
    // itself.
    let kept = headers.iter().filter(|(name, _)| **name != HOST && **name != CONTENT_LENGTH);
    let mut headers: Vec<_> =
        kept.map(|(name, value)| owned(name.as_str(), value.as_bytes())).collect();
    let host = url.host_str().unwrap_or_default();
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    headers.push(owned(HOST.as_str(), authority.as_bytes()));
    headers
        .extend(length.map(|length| owned(CONTENT_LENGTH.as_str(), length.to_string().as_bytes())));
    FetchRequest {
        request_id: String::new(),
        method: method.as_str().to_owned(),
        url: url.into(),
        headers,
        body,
        entry: None,
        call_context: CallContext::default(),
    }
}

/// Formats a failure for the Worker's author.
pub(crate) fn message_of(failure: &Failure) -> String {
    format!("{}: {}", failure.code, failure.message)
}

/// Returns a promise of the failure of a call that exceeds the invocation's limit of `most`
/// subrequests.
pub(crate) fn over_limit<'s>(scope: &mut v8::PinScope<'s, '_>, most: u32) -> Promised<'s, Outcome> {
    let message = format!(
        "the invocation has reached its limit of {most} subrequests; make fewer, or raise spec.limits.subrequests"
    );
    let failed =
        promise(scope, async { Ok(()) }, move |scope, ()| head::failure(scope, STAGE, &message));
    failed.into()
}
