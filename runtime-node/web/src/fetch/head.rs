//! Responses and failures for JavaScript.

use bytes::Bytes;
use tenon_engine::ids::InvocationId;
use tenon_engine::state::State;
use tenon_engine::streams::{Body, StreamId};
use tenon_engine::string::{from_headers, from_octets};
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::Record;

use crate::ops::{HeaderList, Nullable, ToValue as _};
use crate::websocket::sockets::{Sockets, UnacceptedSocket};

/// Names the outcome of a request in TypeScript: `Fetched | Failed | null`.
pub(crate) enum Outcome {}

/// The head of a response.
#[derive(Record)]
pub(crate) struct Fetched<'s> {
    status: u32,
    status_text: v8::Local<'s, v8::String>,
    url: v8::Local<'s, v8::String>,
    redirected: bool,
    headers: HeaderList<'s>,
    /// The owner and the number of the body's stream, if there is a body.
    owner: Nullable<InvocationId>,
    stream: Nullable<StreamId>,
    /// The WebSocket that the response has in place of a body.
    socket: Nullable<SocketName>,
}

/// The invocation that owns a WebSocket, and the number of the WebSocket.
#[derive(Record)]
pub(crate) struct SocketName {
    owner: InvocationId,
    number: f64,
}

/// The failure of a request.
#[derive(Record)]
pub(crate) struct Failed {
    stage: String,
    message: String,
}

/// A response that has been received, without its headers.
pub(crate) struct Received<'a> {
    pub(crate) status: u16,
    pub(crate) reason: Bytes,
    pub(crate) url: &'a str,
    pub(crate) redirected: bool,
    pub(crate) body: Option<Body>,
    /// The WebSocket that the response has in place of a body.
    pub(crate) socket: Option<UnacceptedSocket>,
}

impl Received<'_> {
    /// Returns the response for JavaScript, and adds its body to the invocation's streams.
    ///
    /// # Errors
    /// Fails if there is not enough memory, or if the response has a WebSocket and the invocation
    /// has ended.
    pub(crate) fn fetched<'s, 'h>(
        self,
        scope: &mut v8::PinScope<'s, '_>,
        invocation: InvocationId,
        headers: impl Iterator<Item = (&'h str, &'h [u8])>,
    ) -> Result<Fetched<'s>, Thrown> {
        let headers = from_headers(scope, headers).ok_or_else(out_of_memory)?;
        let headers = v8::Array::new_with_elements(scope, &headers);
        let status_text = from_octets(scope, &self.reason).ok_or_else(out_of_memory)?;
        let url = from_octets(scope, self.url.as_bytes()).ok_or_else(out_of_memory)?;
        let state = State::of(scope);
        let mut invocations = state.invocations.borrow_mut();
        let stream =
            self.body.and_then(|body| Some(invocations.get_mut(invocation)?.streams.add(body)));
        let socket = self.socket.map(|socket| {
            let ended = || Thrown::type_error("The invocation has ended");
            let owner = invocations.get_mut(invocation).ok_or_else(ended)?;
            let number = owner.attach::<Sockets>().add(socket).to_number();
            Ok::<_, Thrown>(SocketName { owner: invocation, number })
        });
        Ok(Fetched {
            status: self.status.into(),
            status_text,
            url,
            redirected: self.redirected,
            headers,
            owner: Nullable(stream.map(|_| invocation)),
            stream: Nullable(stream),
            socket: Nullable(socket.transpose()?),
        })
    }

    /// Returns the result of [`Self::fetched`] as a JavaScript value.
    ///
    /// # Errors
    /// Fails as [`Self::fetched`] does.
    pub(crate) fn into_value<'s, 'h>(
        self,
        scope: &mut v8::PinScope<'s, '_>,
        invocation: InvocationId,
        headers: impl Iterator<Item = (&'h str, &'h [u8])>,
    ) -> Result<v8::Local<'s, v8::Value>, Thrown> {
        let fetched = self.fetched(scope, invocation, headers)?;
        fetched.to_value(scope).ok_or_else(out_of_memory)
    }
}

/// Returns the failure of a request for JavaScript.
///
/// # Errors
/// Fails if there is not enough memory.
pub(crate) fn failure<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    stage: &str,
    message: &str,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    let failed = Failed { stage: stage.to_owned(), message: message.to_owned() };
    failed.to_value(scope).ok_or_else(out_of_memory)
}
