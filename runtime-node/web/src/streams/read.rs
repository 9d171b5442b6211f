//! Reading of streams by JavaScript. `streamRead(owner, number)` reads a whole stream;
//! `streamText(owner, number)` returns the text of a short stream that has arrived;
//! `streamPull(owner, number)` reads the next piece of a stream; `streamCancel(owner, number)` ends
//! a stream.
//!
//! ```text
//!  read ─► arrive ── all of it ────────────────────────────────────────────────────────► settle
//!            ▲  └─── no room for the next part ─► a turn: can garbage be freed? ── no ─► settle
//!            └────────────────────────────────────────── yes ──┘
//! ```
//!
//! `streamRead` collects a body as fast as its sender allows and up to the Worker's limit, and
//! charges it to the isolate's memory part by part. While a body is unread, the node holds only the
//! bytes that came with the head and those that HTTP/2's flow control let the sender send ahead.
//!
//! If reading fails, the promise is rejected. Unless the source of the stream was lost, the sender
//! of the request also receives the failure, regardless of how the handler treats the rejection.

use std::sync::Arc;

use bytes::Bytes;
use encoding_rs::UTF_8;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tenon_engine::Body;
use tenon_engine::byte_stream::{ByteStream, StreamError};
use tenon_engine::collection::make_room;
use tenon_engine::heap::{Charge, CountedBytes};
use tenon_engine::ids::{InvocationId, OperationId};
use tenon_engine::operations::Settle;
use tenon_engine::promise::{self, promise};
use tenon_engine::state::State;
use tenon_engine::streams::{Incoming, StreamId};
use tenon_engine::string::{array_of, from_text};
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::INLINE_BODY;

use crate::ops::{MaybePromise, Nullable, Promised};

/// A body that is being collected.
struct Reading {
    owner: InvocationId,
    resolver: v8::Global<v8::PromiseResolver>,
    parts: ByteStream,
    body: CountedBytes,
    limit: usize,
    _charge: Charge,
}

/// The reason why a body could not be collected.
enum CollectError {
    Stream(StreamError),
    /// There is no memory for the next part, which needs `wanted` more bytes.
    NoRoom {
        part: Bytes,
        wanted: usize,
    },
}

/// The maximum size of a body whose text is created in one step, in bytes: the maximum that the
/// first message of a request carries.
const MAX_SHORT: usize = INLINE_BODY;

/// Returns the text of a short stream that has arrived in full, decoded as UTF-8 without a byte
/// order mark. Returns null for any other stream, which stays unread.
///
/// # Errors
/// Fails if there is not enough memory.
#[op]
pub(crate) fn stream_text<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, stream): (InvocationId, StreamId),
) -> Result<Nullable<v8::Local<'s, v8::String>>, Thrown> {
    let state = State::of(scope);
    match state.take_stream(owner, stream) {
        Some(Incoming::Body(Body::Full(bytes))) if bytes.len() <= MAX_SHORT => {
            let text = UTF_8.decode_with_bom_removal(&bytes).0;
            from_text(scope, &text).map(|text| Nullable(Some(text))).ok_or_else(out_of_memory)
        }
        other => {
            other.into_iter().for_each(|other| put_back(&state, owner, stream, other));
            Ok(Nullable(None))
        }
    }
}

/// Collects the rest of a stream. Returns a promise of its bytes.
#[op]
pub(crate) fn stream_read<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, stream): (InvocationId, StreamId),
) -> Promised<'s, v8::Uint8Array> {
    let resolver = v8::PromiseResolver::new(scope);
    let promise = resolver.map(|resolver| {
        collect(scope, owner, stream, resolver);
        resolver.get_promise(scope)
    });
    promise.into()
}

fn collect(
    scope: &mut v8::PinScope<'_, '_>,
    owner: InvocationId,
    stream: StreamId,
    resolver: v8::Local<'_, v8::PromiseResolver>,
) {
    let state = State::of(scope);
    let limit = match stream {
        StreamId::REQUEST => state.revision.limits.request_body_mib as usize * (1 << 20),
        _ => usize::MAX,
    };
    let parts = match state.take_stream(owner, stream).map(Body::from) {
        None => return reject(scope, resolver, UNREADABLE),
        Some(Body::Full(bytes)) => {
            let body = if bytes.len() > limit {
                Err(too_large())
            } else {
                let room = make_room(scope, bytes.len());
                room.and_then(|buffers| buffers.count(bytes.into())).ok_or_else(no_memory)
            };
            return settle(scope, &state, owner, resolver, body);
        }
        Some(other) => other.into_stream(),
    };
    let held = v8::Global::new(scope, resolver);
    let body = state.buffers.count_pieces();
    let begun = state.operate(scope, owner, |operation, charge| {
        arrive(operation, Reading { owner, resolver: held, parts, body, limit, _charge: charge })
    });
    if begun.is_none() {
        reject(scope, resolver, "The invocation has too many operations in flight");
    }
}

/// The message of the error for a stream that does not exist.
const UNREADABLE: &str = "The body can no longer be read: its invocation has ended";

fn put_back(state: &State, owner: InvocationId, number: StreamId, rest: Incoming) {
    if let Some(invocation) = state.invocations.borrow_mut().get_mut(owner) {
        invocation.streams.put_back(number, rest);
    }
}

fn arrive(operation: OperationId, mut reading: Reading) -> LocalBoxFuture<'static, Settle> {
    async move {
        let arrived = reading.collect_rest().await;
        let settle: Settle = Box::new(move |scope| {
            let state = State::of(scope);
            let body = match arrived {
                Ok(()) => Ok(reading.body),
                Err(CollectError::Stream(error)) => Err(error),
                Err(CollectError::NoRoom { part, wanted }) => {
                    if make_room(scope, wanted).is_some() && reading.take(part).is_ok() {
                        state.operate_as(reading.owner, operation, arrive(operation, reading));
                        return Some(());
                    }
                    Err(no_memory())
                }
            };
            let resolver = v8::Local::new(scope, &reading.resolver);
            settle(scope, &state, reading.owner, resolver, body);
            Some(())
        });
        settle
    }
    .boxed_local()
}

impl Reading {
    /// Collects the rest of the body.
    async fn collect_rest(&mut self) -> Result<(), CollectError> {
        while let Some(part) = self.parts.next().await.transpose().map_err(CollectError::Stream)? {
            self.take(part)?;
        }
        Ok(())
    }

    fn take(&mut self, part: Bytes) -> Result<(), CollectError> {
        if self.body.len() + part.len() > self.limit {
            return Err(CollectError::Stream(too_large()));
        }
        self.body.push(&part, self.limit).map_err(|wanted| CollectError::NoRoom { part, wanted })
    }
}

fn no_memory() -> StreamError {
    let why = "the body does not fit into the Worker's memory";
    StreamError::Failed(Failure::new(FailureCode::MemoryLimitExceeded, Phase::Handler, why))
}

fn too_large() -> StreamError {
    let why = "the request's body exceeds the Worker's limit";
    StreamError::Failed(Failure::new(FailureCode::RequestTooLarge, Phase::Handler, why))
}

fn settle(
    scope: &mut v8::PinScope<'_, '_>,
    state: &State,
    id: InvocationId,
    resolver: v8::Local<'_, v8::PromiseResolver>,
    body: Result<CountedBytes, StreamError>,
) {
    let body = match body {
        Ok(body) => body,
        Err(error) => {
            reject(scope, resolver, &error.to_string());
            return report_failure(state, id, error);
        }
    };
    promise::settle(scope, resolver, |scope| {
        array_of(scope, body).map(v8::Local::from).ok_or_else(out_of_memory)
    });
}

fn reject(
    scope: &mut v8::PinScope<'_, '_>,
    resolver: v8::Local<'_, v8::PromiseResolver>,
    message: &str,
) {
    promise::settle(scope, resolver, |_| Err(Thrown::type_error(message.to_owned())));
}

/// Reports the failure to the sender of the request, unless the source of the stream was lost.
fn report_failure(state: &State, id: InvocationId, error: StreamError) {
    if let StreamError::Failed(failure) = error {
        state.set_outcome(id, Err(failure));
    }
}

/// Reads the next piece of a stream. Returns its bytes, or null at the end of the stream, or a
/// promise of either if nothing has arrived yet.
///
/// # Errors
/// Returns a `TypeError` if the stream has failed or does not exist, and a `RangeError` if there is
/// not enough memory.
#[op]
pub(crate) fn stream_pull<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, stream): (InvocationId, StreamId),
) -> Result<MaybePromise<'s, Nullable<v8::Uint8Array>>, Thrown> {
    let state = State::of(scope);
    let taken = state.take_stream(owner, stream);
    let mut incoming = taken.ok_or_else(|| Thrown::type_error(UNREADABLE))?;
    match incoming.pull(state.buffers.piece()).now_or_never() {
        Some(pulled) => {
            pulled_value(scope, (owner, stream), incoming, pulled).map(MaybePromise::ready)
        }
        None => {
            let buffers = Arc::clone(&state.buffers);
            let work = async move {
                let pulled = incoming.pull(buffers.piece()).await;
                Ok((incoming, pulled))
            };
            let promise = promise(scope, work, move |scope, (incoming, pulled)| {
                pulled_value(scope, (owner, stream), incoming, pulled)
            });
            Ok(MaybePromise::pending(promise))
        }
    }
}

fn pulled_value<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, number): (InvocationId, StreamId),
    rest: Incoming,
    pulled: Option<Result<Vec<u8>, StreamError>>,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    let state = State::of(scope);
    match pulled {
        None => Ok(v8::null(scope).into()),
        Some(Ok(bytes)) => {
            put_back(&state, owner, number, rest);
            let buffers = make_room(scope, bytes.len()).ok_or_else(out_of_memory)?;
            let counted = buffers.count(bytes).ok_or_else(out_of_memory)?;
            array_of(scope, counted).map(v8::Local::from).ok_or_else(out_of_memory)
        }
        Some(Err(error)) => {
            let thrown = Thrown::type_error(error.to_string());
            report_failure(&state, owner, error);
            Err(thrown)
        }
    }
}

/// Cancels a stream.
#[op]
pub(crate) fn stream_cancel(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, stream): (InvocationId, StreamId),
) {
    // The stream is dropped after the borrow has ended, because its destructor may borrow again.
    let canceled = State::of(scope).take_stream(owner, stream);
    drop(canceled);
}
