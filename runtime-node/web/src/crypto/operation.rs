//! Performs cryptographic operations: on the shard's thread, or on another thread, with a promise
//! of the result.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tenon_crypto::encoding::KeyError;
use tenon_crypto::key::Key;
use tenon_engine::collection::make_room;
use tenon_engine::ids::InvocationId;
use tenon_engine::offload::{self, Meter, QueueKind, Slice};
use tenon_engine::promise::promise;
use tenon_engine::slot::slot;
use tenon_engine::state::State;
use tenon_engine::thrown::{Thrown, out_of_memory};

use super::keys;
use crate::ops::MaybePromise;

/// The maximum number of bytes that are hashed, encrypted or decrypted on the shard's thread; for
/// digests, `digest.rs` bounds the time instead. Measured without the processor's hash
/// instructions: 64 KiB take 16 µs with AES-GCM, 80 µs with SHA-1, 190 µs with SHA-512 and 230 µs
/// with SHA-256. The round trip to another thread takes 10 µs on an idle machine, and requires
/// another turn; on a busy machine it takes as long as that thread waits for a processor.
const AT_ONCE: usize = 64 << 10;

/// The cost of an operation, which determines the thread that performs it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    /// An operation of less than a millisecond, performed on the shard's thread.
    Small,
    /// A longer operation, performed on another thread.
    Large {
        queue: QueueKind,
        /// A lower bound on its CPU time. An operation is refused if its invocation has less CPU
        /// time left.
        at_least: Duration,
    },
}

impl Cost {
    /// Returns the cost of an operation whose time is proportional to the number of its bytes.
    pub(crate) fn of_bytes(len: usize) -> Self {
        if len <= AT_ONCE {
            Self::Small
        } else {
            Self::Large { queue: QueueKind::Parts, at_least: Duration::ZERO }
        }
    }
}

/// The result of an operation.
pub(crate) enum Output {
    /// An `ArrayBuffer`.
    Bytes(Vec<u8>),
    /// A boolean.
    Boolean(bool),
    /// A ticket, which can be exchanged once for a handle (see [`keys::take`]).
    Secret(Key),
}

/// Returns the result of `work`, or a promise of it.
///
/// # Arguments
/// * `work` - receives its time slice if it runs on another thread; it may then return `None` when
///   the slice is over, and is called again later.
///
/// # Errors
/// Returns the exception of work that is done on this thread, and of work that cannot begin.
pub(crate) fn perform<'s, T>(
    scope: &mut v8::PinScope<'s, '_>,
    cost: Cost,
    mut work: impl FnMut(Option<&Slice<'_>>) -> Option<Result<Output, Thrown>> + Send + 'static,
) -> Result<MaybePromise<'s, T>, Thrown> {
    match cost {
        Cost::Small => {
            let outcome = work(None).unwrap_or_else(|| Err(failed()));
            outcome.and_then(|output| value(scope, output)).map(MaybePromise::ready)
        }
        Cost::Large { queue, at_least } => {
            offload(scope, queue, at_least, move |slice| work(Some(slice)))
                .map(MaybePromise::pending)
        }
    }
}

/// Returns the error for a failure of unknown cause.
pub(crate) fn failed() -> Thrown {
    Thrown::dom("OperationError", "The operation failed")
}

/// Returns the error for data that is not what it claims to be.
pub(crate) fn data_error(message: &'static str) -> Thrown {
    Thrown::dom("DataError", message)
}

/// Returns the error for data that is not a usable key.
pub(crate) fn not_a_key(error: KeyError) -> Thrown {
    let name = if error == KeyError::TooLong { "NotSupportedError" } else { "DataError" };
    Thrown::dom(name, error.to_string())
}

fn offload<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    queue: QueueKind,
    at_least: Duration,
    work: impl FnMut(&Slice<'_>) -> Option<Result<Output, Thrown>> + Send + 'static,
) -> Result<Option<v8::Local<'s, v8::Promise>>, Thrown> {
    let state = State::of(scope);
    let invocation = state.current(scope);
    let left = invocation
        .and_then(|id| state.invocations.borrow().get(id).map(|invocation| invocation.cpu_left));
    let (Some(id), Some(left)) = (invocation, left) else {
        return Err(Thrown::type_error("The invocation has ended"));
    };
    if at_least > left {
        return Err(Thrown::dom(
            "OperationError",
            format!(
                "The operation needs at least {} ms of CPU time, and the invocation has {} ms left; raise \
                 spec.limits.cpuMs, or reduce the work",
                at_least.as_millis(),
                left.as_millis(),
            ),
        ));
    }
    let meter = slot::<Meters>(scope).of(id, left);
    let done = offload::submit(state.revision.worker.clone(), meter, queue, work)
        .map_err(|full| Thrown::dom("OperationError", full.to_string()))?;
    let state = Rc::downgrade(&state);
    let work = async move {
        let done = done.await.ok_or_else(failed)?;
        if let Some(state) = state.upgrade() {
            // The CPU time is charged before the turn that would settle the promise: an invocation
            // without CPU time left has no such turn.
            state.charge(Some(id), done.cpu);
        }
        done.value.unwrap_or_else(|| {
            Err(Thrown::dom(
                "OperationError",
                "The operation exceeded the CPU time that the invocation had left",
            ))
        })
    };
    Ok(promise(scope, work, value))
}

/// The remaining CPU time of each invocation that has operations in flight.
#[derive(Default)]
struct Meters(FxHashMap<InvocationId, Weak<Meter>>);

impl Meters {
    fn of(&mut self, id: InvocationId, left: Duration) -> Arc<Meter> {
        if let Some(meter) = self.0.get(&id).and_then(Weak::upgrade) {
            return meter;
        }
        self.0.retain(|_, meter| meter.strong_count() > 0);
        let meter = Meter::new(left);
        self.0.insert(id, Arc::downgrade(&meter));
        meter
    }
}

/// Converts a result to a JavaScript value.
pub(crate) fn value<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    output: Output,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    Ok(match output {
        Output::Bytes(bytes) => buffer(scope, bytes)?.into(),
        Output::Boolean(value) => v8::Boolean::new(scope, value).into(),
        Output::Secret(key) => {
            let ticket = keys::ticket(scope, key)?;
            v8::Number::new(scope, ticket).into()
        }
    })
}

/// Creates an `ArrayBuffer` of these bytes, charged to the Worker's memory.
pub(crate) fn buffer<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: Vec<u8>,
) -> Result<v8::Local<'s, v8::ArrayBuffer>, Thrown> {
    let room = make_room(scope, bytes.len());
    let counted = room.and_then(|buffers| buffers.count(bytes)).ok_or_else(out_of_memory)?;
    Ok(v8::ArrayBuffer::with_backing_store(scope, &counted.into_backing_store().make_shared()))
}
