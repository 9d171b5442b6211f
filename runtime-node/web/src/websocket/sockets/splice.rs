//! Sockets as responses: a socket whose other end the Worker holds, or a socket that the Worker
//! received from elsewhere and passes on unchanged.
//!
//! ```text
//!  serve:   client ◄─ pipe ◄─────────────┬─ socket ◄─► the Worker, which knows it by its number
//!           client ─► request's stream ──┘
//!
//!  splice:  client ◄─ Sending ◄─ wire
//!           client ─► operation ─► wire
//! ```
//!
//! The bytes of a socket that is passed on are copied in both directions. A client's frames are
//! masked and a server's are not, regardless of intermediaries. Both sides interpret the frames in
//! the same way, because the node agrees on compression with the client only if it has agreed on
//! compression with the other side. If the client does not offer that, the node inflates the
//! messages to the client, and passes the client's messages on unchanged: an agreement permits
//! compression, but does not require it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use tenon_engine::byte_stream::{ByteStream, StreamError};
use tenon_engine::collection::make_room;
use tenon_engine::heap::Charge;
use tenon_engine::ids::InvocationId;
use tenon_engine::operations::Settle;
use tenon_engine::pipe;
use tenon_engine::state::State;
use tenon_engine::streams::{Body, StreamId};
use tenon_engine::{FetchResponse, ResponseBody, Sending};
use tenon_proto::failure::Failure;
use tenon_proto::runtime::Header;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::inflate::{Bounds, INFLATING, Inflater};
use super::link::Wire;
use super::{Accepted, Handshake, SocketId, Sockets, UnacceptedSocket};

/// The reason why a request is not answered with a socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpliceError {
    #[error(
        "the request does not ask for a WebSocket: it has no \"upgrade: websocket\", or has been answered already"
    )]
    NotRequested,
    #[error(
        "the WebSocket can no longer be returned: it has been accepted, or its invocation has ended"
    )]
    NoSocket,
    #[error("the response does not fit into the Worker's memory")]
    Memory,
    /// The client's handshake is malformed, which is reported to the client.
    #[error("{}", .0.message)]
    Malformed(Failure),
}

/// The accepted handshake of a request, the bytes that the client sends after it, and the charge
/// for the response's head.
struct AcceptedHandshake {
    accepted: Accepted,
    bytes: ByteStream,
    head: Charge,
}

/// Answers the invocation's request with a socket and returns the other end.
///
/// # Arguments
/// * `headers` - the headers of the Worker's response.
/// * `size` - the size of these headers, in bytes.
///
/// # Errors
/// Fails if the request does not ask for a WebSocket or has been answered, if its handshake is
/// malformed, or if there is not enough memory.
pub(crate) fn serve(
    scope: &mut v8::PinScope<'_, '_>,
    id: InvocationId,
    headers: Vec<Header>,
    size: usize,
) -> Result<SocketId, SpliceError> {
    let state = State::of(scope);
    let AcceptedHandshake { accepted, bytes, head } =
        take_request(scope, &state, id, size, Handshake::accept)?;
    let (writer, reader) = pipe::pipe();
    let number = {
        let mut invocations = state.invocations.borrow_mut();
        let invocation = invocations.get_mut(id).ok_or(SpliceError::NotRequested)?;
        let wire = Wire::of_streams(bytes, writer);
        let socket = UnacceptedSocket { wire, role: Role::Server, deflate: accepted.deflate };
        invocation.attach::<Sockets>().add(socket)
    };
    let sending = state.send(id, Box::pin(reader), true, head);
    send_response(&state, id, headers, accepted.headers, sending);
    Ok(number)
}

/// Answers the invocation's request with a socket that this or another invocation has received.
///
/// # Errors
/// Fails as [`serve`] does, and if the socket has been accepted or its invocation has ended.
pub(crate) fn splice(
    scope: &mut v8::PinScope<'_, '_>,
    id: InvocationId,
    (headers, size): (Vec<Header>, usize),
    (owner, number): (InvocationId, SocketId),
) -> Result<(), SpliceError> {
    let state = State::of(scope);
    let deflate = state
        .invocations
        .borrow()
        .get(owner)
        .and_then(|invocation| invocation.attached::<Sockets>()?.deflate(number));
    let AcceptedHandshake { accepted, mut bytes, head } =
        take_request(scope, &state, id, size, |handshake| handshake.pass_on(deflate))?;
    let inflates = deflate.is_some() && accepted.deflate.is_none();
    let memory = if inflates { INFLATING } else { 0 };
    let memory = make_room(scope, memory).and_then(|buffers| buffers.charge(memory));
    let memory = memory.ok_or(SpliceError::Memory)?;
    let socket = state
        .invocations
        .borrow_mut()
        .get_mut(owner)
        .and_then(|invocation| invocation.attached_mut::<Sockets>()?.remove(number));
    let wire = Rc::new(RefCell::new(socket.ok_or(SpliceError::NoSocket)?.wire));
    let uplink = Rc::clone(&wire);
    let weak_state = Rc::downgrade(&state);
    let upload = async move {
        while let Some(Ok(mut piece)) = bytes.next().await {
            if let Some(state) = weak_state.upgrade() {
                state.record_progress(id);
            }
            while piece.has_remaining() {
                match poll_fn(|cx| uplink.borrow_mut().poll_write(cx, &piece)).await {
                    Ok(written) => piece.advance(written),
                    Err(_) => return,
                }
            }
            if poll_fn(|cx| uplink.borrow_mut().poll_flush(cx)).await.is_err() {
                return;
            }
        }
        let _ = poll_fn(|cx| uplink.borrow_mut().poll_shutdown(cx)).await;
    };
    let begun = state.operate(scope, id, |_, charge| run_upload(upload, charge));
    begun.ok_or(SpliceError::Memory)?;
    let incoming = if inflates { inflated(wire, memory) } else { download(wire) };
    let sending = state.send(id, incoming, false, head);
    send_response(&state, id, headers, accepted.headers, sending);
    Ok(())
}

fn run_upload(
    upload: impl Future<Output = ()> + 'static,
    charge: Charge,
) -> LocalBoxFuture<'static, Settle> {
    async move {
        upload.await;
        let settle: Settle = Box::new(move |_| {
            drop(charge);
            Some(())
        });
        settle
    }
    .boxed_local()
}

/// Returns the stream of bytes that the other side sends.
fn download(wire: Rc<RefCell<Wire>>) -> ByteStream {
    let pieces = stream::unfold(Some(wire), |wire| async move {
        let wire = wire?;
        match poll_fn(|cx| wire.borrow_mut().poll_piece(cx)).await {
            Ok(piece) if piece.is_empty() => None,
            Ok(piece) => Some((Ok(piece), Some(wire))),
            Err(error) => Some((Err(StreamError::Lost(error.to_string().into())), None)),
        }
    });
    pieces.boxed_local()
}

/// Returns the stream of bytes that the other side sends, decompressed.
///
/// # Arguments
/// * `memory` - the charge for the decoder's memory.
fn inflated(wire: Rc<RefCell<Wire>>, memory: Charge) -> ByteStream {
    // The client decides how long a message may be. It also determines the speed, because the node
    // inflates only what the client reads.
    let inflater = Inflater::new(Bounds { length: u64::MAX, time: Duration::MAX });
    let state = (download(wire), inflater, Bytes::new(), memory);
    let pieces =
        stream::try_unfold(state, |(mut incoming, mut inflater, mut input, memory)| async move {
            loop {
                let inflated = inflater.next(&mut input);
                let inflated =
                    inflated.map_err(|error| StreamError::Lost(error.to_string().into()))?;
                if let Some(piece) = inflated {
                    return Ok(Some((piece, (incoming, inflater, input, memory))));
                }
                tokio::task::coop::consume_budget().await;
                let Some(piece) = incoming.next().await.transpose()? else { return Ok(None) };
                input = piece;
            }
        });
    pieces.boxed_local()
}

fn take_request(
    scope: &mut v8::PinScope<'_, '_>,
    state: &State,
    id: InvocationId,
    size: usize,
    accept: impl FnOnce(&Handshake) -> Result<Accepted, Failure>,
) -> Result<AcceptedHandshake, SpliceError> {
    let handshake = state
        .invocations
        .borrow_mut()
        .get_mut(id)
        .and_then(|invocation| invocation.attached_mut::<Sockets>()?.handshake.take());
    let handshake = handshake.ok_or(SpliceError::NotRequested)?;
    let accepted = accept(&handshake).map_err(SpliceError::Malformed)?;
    let bytes = match state.take_stream(id, StreamId::REQUEST).map(Body::from) {
        Some(body) => body.into_stream(),
        None => stream::empty::<Result<Bytes, StreamError>>().boxed_local(),
    };
    let head = make_room(scope, size)
        .and_then(|buffers| buffers.charge(size))
        .ok_or(SpliceError::Memory)?;
    Ok(AcceptedHandshake { accepted, bytes, head })
}

fn send_response(
    state: &State,
    id: InvocationId,
    headers: Vec<Header>,
    handshake: Vec<Header>,
    sending: Sending,
) {
    // The node writes the headers of the handshake. Those of a spliced socket were addressed to the
    // node.
    let is_ours = |name: &str| {
        matches!(
            name,
            "connection" | "upgrade" | "sec-websocket-accept" | "sec-websocket-extensions"
        )
    };
    let mut headers: Vec<_> = headers.into_iter().filter(|header| !is_ours(&header.name)).collect();
    headers.push(Header { name: "upgrade".to_owned(), value: Bytes::from_static(b"websocket") });
    headers.extend(handshake);
    state.set_outcome(
        id,
        Ok(FetchResponse { status: 101, headers, body: ResponseBody::Stream(sending) }),
    );
}

impl Handshake {
    /// Returns the handshake of a request, or `None` if the request does not ask for a WebSocket.
    pub(crate) fn requested(method: &str, headers: &[Header]) -> Option<Self> {
        tenon_proto::runtime::requests_websocket(method, headers).then(|| Self::of(headers))
    }
}
