//! Pipes that JavaScript writes to and another party reads: `pipeOpen(owner)`, `pipeWrite(owner,
//! number, bytes)`, `pipeClose(owner, number)` and `pipeAbort(owner, number)`. The reading end of a
//! pipe is a stream of the same number.

use tenon_engine::bytes;
use tenon_engine::collection::make_room;
use tenon_engine::ids::InvocationId;
use tenon_engine::pipe::{Gone, Writer};
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::streams::StreamId;
use tenon_engine::thrown::{Thrown, out_of_memory};

use crate::ops::{invocation, stream};

crate::ops::native! {
    "pipeOpen(owner: number): number" => open,
    "pipeWrite(owner: number, stream: number, bytes: View): Promise<void> | undefined" => write,
    "pipeClose(owner: number, stream: number): void" => close,
    "pipeAbort(owner: number, stream: number): void" => abort,
}

/// `pipeOpen(owner)`: returns the pipe's number. Throws if the invocation has ended.
pub(crate) fn open(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let owner = invocation(scope, args.get(0));
    let number = State::of(scope)
        .invocations
        .borrow_mut()
        .get_mut(owner)
        .map(|invocation| invocation.streams.add_pipe());
    match number {
        Some(number) => rv.set_double(number.to_number()),
        None => Thrown::type_error("The invocation has ended").throw(scope),
    }
}

/// `pipeWrite(owner, number, bytes)`: returns undefined, or a promise if the next piece should
/// wait. Throws if the reader is gone.
pub(crate) fn write(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let (owner, number) = stream(scope, args.get(0), args.get(1));
    let Ok(view) = args.get(2).try_cast::<v8::ArrayBufferView>() else { return };
    let length = view.byte_length();
    let lent = make_room(scope, length)
        .and_then(|buffers| buffers.lend(length, || bytes::read(view, <[u8]>::to_vec)));
    let Some(piece) = lent else { return out_of_memory().throw(scope) };
    let state = State::of(scope);
    let written = {
        let invocations = state.invocations.borrow();
        let writer =
            invocations.get(owner).and_then(|invocation| invocation.streams.writer(number));
        writer.ok_or(Gone).and_then(|writer| Ok((writer.write(piece)?, writer.room())))
    };
    match written {
        Ok((true, _)) => {}
        Ok((false, room)) => {
            let room = async { room.await.map_err(Thrown::from) };
            let promise = promise(scope, room, |scope, ()| Ok(v8::undefined(scope).into()));
            promise.into_iter().for_each(|promise| rv.set(promise.into()));
        }
        Err(gone) => Thrown::from(gone).throw(scope),
    }
}

/// `pipeClose(owner, number)`: ends the stream.
pub(crate) fn close(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let (owner, number) = stream(scope, args.get(0), args.get(1));
    if let Some(writer) = take(scope, owner, number) {
        writer.close();
    }
}

/// `pipeAbort(owner, number)`: breaks the stream off.
pub(crate) fn abort(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let (owner, number) = stream(scope, args.get(0), args.get(1));
    drop(take(scope, owner, number));
}

fn take(scope: &v8::PinScope<'_, '_>, owner: InvocationId, number: StreamId) -> Option<Writer> {
    State::of(scope).invocations.borrow_mut().get_mut(owner)?.streams.take_writer(number)
}
