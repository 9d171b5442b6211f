//! Pipes that JavaScript writes and native code reads. The reading end of a pipe is a stream of the
//! same number.

use tenon_engine::bytes;
use tenon_engine::collection::make_room;
use tenon_engine::ids::InvocationId;
use tenon_engine::pipe::{ReaderDropped, Writer};
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::streams::StreamId;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;

use crate::ops::{Promised, View};

/// Opens a pipe of the invocation `owner` and returns its number.
///
/// # Errors
/// Returns a `TypeError` if the invocation has ended.
#[op]
pub(crate) fn pipe_open(
    scope: &mut v8::PinScope<'_, '_>,
    owner: InvocationId,
) -> Result<StreamId, Thrown> {
    let state = State::of(scope);
    let mut invocations = state.invocations.borrow_mut();
    let invocation = invocations.get_mut(owner);
    let number = invocation.map(|invocation| invocation.streams.add_pipe());
    number.ok_or_else(|| Thrown::type_error("The invocation has ended"))
}

/// Writes bytes to a pipe. Returns `undefined`, or a promise that settles when the next piece may
/// be written.
///
/// # Errors
/// Returns a `TypeError` if the pipe has been closed or its reader has been dropped, and a
/// `RangeError` if there is not enough memory.
#[op]
pub(crate) fn pipe_write<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, stream): (InvocationId, StreamId),
    bytes: View<'s>,
) -> Result<Option<Promised<'s, ()>>, Thrown> {
    let length = bytes.byte_length();
    let buffers = make_room(scope, length).ok_or_else(out_of_memory)?;
    let lent = buffers.lend(length, || bytes::read(bytes, <[u8]>::to_vec));
    let piece = lent.ok_or_else(out_of_memory)?;
    let state = State::of(scope);
    let (has_room, room) = {
        let invocations = state.invocations.borrow();
        let writer =
            invocations.get(owner).and_then(|invocation| invocation.streams.writer(stream));
        let writer = writer.ok_or(ReaderDropped)?;
        (writer.write(piece, buffers.piece())?, writer.room())
    };
    if has_room {
        return Ok(None);
    }
    let room = async { room.await.map_err(Thrown::from) };
    let promise = promise(scope, room, |scope, ()| Ok(v8::undefined(scope).into()));
    Ok(Some(promise.into()))
}

/// Ends a pipe's stream.
#[op]
pub(crate) fn pipe_close(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, stream): (InvocationId, StreamId),
) {
    if let Some(writer) = take(scope, owner, stream) {
        writer.close();
    }
}

/// Ends a pipe's stream with an error.
#[op]
pub(crate) fn pipe_abort(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, stream): (InvocationId, StreamId),
) {
    drop(take(scope, owner, stream));
}

fn take(scope: &v8::PinScope<'_, '_>, owner: InvocationId, number: StreamId) -> Option<Writer> {
    State::of(scope).invocations.borrow_mut().get_mut(owner)?.streams.take_writer(number)
}
