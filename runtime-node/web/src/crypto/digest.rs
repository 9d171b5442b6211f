//! Digests, and hashing in steps.

use std::time::{Duration, Instant};

use aws_lc_rs::digest::Context;
use tenon_crypto::hash::Hash;
use tenon_engine::bytes;
use tenon_engine::offload::{QueueKind, Slice};
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use super::arguments::Data;
use super::operation::{Cost, Output, perform, value};
use crate::ops::{MaybePromise, View};

/// The amount of data hashed between two reads of the clock, in bytes: less than a quarter of a
/// millisecond of work.
const STEP: usize = 64 << 10;

/// The time for which data is hashed on the shard's thread, where the Worker's own memory can be
/// read. With the processor's hash instructions, a mebibyte is hashed in this time, and copying
/// data for another thread would cost a third as much as hashing the data.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Returns the digest of data, or a promise of it if hashing takes too long for this thread.
#[op]
pub(crate) fn crypto_digest<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    hash: Hash,
    data: View<'s>,
) -> Result<MaybePromise<'s, v8::ArrayBuffer>, Thrown> {
    let (mut context, mut progress) = (Context::new(hash.algorithm()), Progress::default());
    let began = Instant::now();
    let is_late = || began.elapsed() >= AT_ONCE;
    if bytes::read(data, |data| progress.run_slice(data, is_late, |part| context.update(part))) {
        return value(scope, digest(context)).map(MaybePromise::ready);
    }
    let rest = Data::copy(scope, data, progress.0)?;
    let (mut context, mut progress) = (Some(context), Progress::default());
    let cost = Cost::Large { queue: QueueKind::Parts, at_least: Duration::ZERO };
    perform(scope, cost, move |slice| {
        let update = |part: &[u8]| context.iter_mut().for_each(|context| context.update(part));
        if !progress.run_slice(&rest, || slice.is_some_and(Slice::is_over), update) {
            return None;
        }
        context.take().map(|context| Ok(digest(context)))
    })
}

fn digest(context: Context) -> Output {
    Output::Bytes(context.finish().as_ref().to_vec())
}

/// The number of bytes hashed so far.
#[derive(Default)]
pub(crate) struct Progress(usize);

impl Progress {
    /// Hashes more data until all data has been hashed or `is_over` returns true. Returns whether
    /// all data has been hashed.
    pub(crate) fn run_slice(
        &mut self,
        data: &[u8],
        is_over: impl Fn() -> bool,
        mut update: impl FnMut(&[u8]),
    ) -> bool {
        while self.0 < data.len() {
            let end = data.len().min(self.0 + STEP);
            update(&data[self.0..end]);
            self.0 = end;
            if end < data.len() && is_over() {
                return false;
            }
        }
        true
    }
}
