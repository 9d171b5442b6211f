//! The arguments of cryptographic operations. A buffer is copied before another thread works on it,
//! because the Worker may change the original meanwhile.

use std::ops::Deref;

use tenon_crypto::hash::Hash;
use tenon_engine::bytes as contents;
use tenon_engine::collection::make_room;
use tenon_engine::heap::Charge;
use tenon_engine::thrown::{Thrown, out_of_memory};

use super::keys::{self, Handle, KeyRef};
use super::operation::failed;
use crate::ops::{Argument, Arguments, View};

/// The size, in bytes, up to which a copy is not charged, because it is dropped soon.
const SMALL: usize = 64 << 10;

/// A copy of a Worker's bytes, charged to its memory if it is large.
#[derive(Default)]
pub(crate) struct Data {
    bytes: Vec<u8>,
    _charge: Option<Charge>,
}

impl Data {
    /// Copies the bytes that a view shows, starting at index `from`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn copy(
        scope: &mut v8::PinScope<'_, '_>,
        view: View<'_>,
        from: usize,
    ) -> Result<Self, Thrown> {
        let len = view.byte_length().saturating_sub(from);
        let charge = if len > SMALL {
            let charge = make_room(scope, len).and_then(|buffers| buffers.charge(len));
            Some(charge.ok_or_else(out_of_memory)?)
        } else {
            None
        };
        let copy = |bytes: &[u8]| bytes.get(from..).unwrap_or_default().to_vec();
        Ok(Self { bytes: contents::read(view, copy), _charge: charge })
    }

    /// Takes the bytes out, so that the caller can change them in place.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies the bytes that a view shows. Fails if there is not enough memory.
impl<'s> Argument<'s> for Data {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let view = arguments.take(scope)?;
        Self::copy(scope, view, 0)
    }
}

/// Takes the name of a hash. The built-in JavaScript always passes a valid name.
impl<'s> Argument<'s> for Hash {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let name: String = arguments.take(scope)?;
        Self::from_name(&name).ok_or_else(failed)
    }
}

/// Takes the handle of a key.
impl<'s> Argument<'s> for KeyRef {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let handle: Handle<'_> = arguments.take(scope)?;
        keys::find(scope, handle).ok_or_else(failed)
    }
}
