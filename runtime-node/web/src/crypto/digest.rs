//! Digests, and hashing in steps.

use aws_lc_rs::digest::Context;
use tenon_engine::offload::Slice;
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use super::arguments::Data;
use super::hash::Hash;
use super::operation::{Cost, Output, perform};
use crate::ops::MaybePromise;

/// The amount of data hashed between two checks of the slice, in bytes: less than a millisecond of
/// work.
const STEP: usize = 256 << 10;

/// Returns the digest of data.
#[op]
pub(crate) fn crypto_digest<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    hash: Hash,
    data: Data,
) -> Result<MaybePromise<'s, v8::ArrayBuffer>, Thrown> {
    let cost = Cost::of_bytes(data.len());
    let (mut context, mut steps) = (Some(Context::new(hash.algorithm())), Steps::default());
    perform(scope, cost, move |slice| {
        if !steps
            .go_on(&data, slice, |part| context.iter_mut().for_each(|context| context.update(part)))
        {
            return None;
        }
        context.take().map(|context| Ok(Output::Bytes(context.finish().as_ref().to_vec())))
    })
}

/// The number of bytes hashed so far.
#[derive(Default)]
pub(crate) struct Steps(usize);

impl Steps {
    /// Continues until the slice is over. Returns whether all data has been hashed.
    pub(crate) fn go_on(
        &mut self,
        data: &[u8],
        slice: Option<&Slice<'_>>,
        mut update: impl FnMut(&[u8]),
    ) -> bool {
        while self.0 < data.len() {
            let end = data.len().min(self.0 + STEP);
            update(&data[self.0..end]);
            self.0 = end;
            if end < data.len() && slice.is_some_and(Slice::is_over) {
                return false;
            }
        }
        true
    }
}
