//! The native half of `node-crypto-cipher.js`: ciphers that are fed incrementally, which Web Crypto
//! does not have.
//!
//! Each cipher has a number until JavaScript closes it, as the hashers of [`super::hash`] do. The
//! JavaScript caller passes long data in steps.

use rustc_hash::FxHashMap;
use tenon_crypto::lc::CipherContext;
use tenon_engine::bytes;
use tenon_engine::collection::make_room;
use tenon_engine::heap::Charge;
use tenon_engine::slot::slot;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;

use crate::crypto::operation::buffer;
use crate::ops::View;

/// The memory charged for a cipher, in bytes: its context, the expanded key of AES with the tables
/// of GCM, and the map entry.
const CIPHER: usize = 1536;

/// An isolate's ciphers, by number. Numbers are not reused.
#[derive(Default)]
struct Ciphers {
    last: u32,
    open: FxHashMap<u32, (CipherContext, Charge)>,
}

fn find<'a>(scope: &'a mut v8::PinScope<'_, '_>, cipher: u32) -> Option<&'a mut CipherContext> {
    slot::<Ciphers>(scope).open.get_mut(&cipher).map(|(context, _)| context)
}

/// Begins an encryption or a decryption. Returns its number; `undefined` if there is no such
/// cipher, or if the cipher does not accept the length of the key or of the initialization vector.
///
/// # Errors
/// Throws a `RangeError` if there is not enough memory.
#[op]
pub(crate) fn cipher_open(
    scope: &mut v8::PinScope<'_, '_>,
    name: String,
    encrypts: bool,
    key: View<'_>,
    iv: View<'_>,
) -> Option<Result<u32, Thrown>> {
    let context =
        bytes::read(key, |key| bytes::read(iv, |iv| CipherContext::new(&name, encrypts, key, iv)))?;
    let charge = make_room(scope, CIPHER).and_then(|buffers| buffers.charge(CIPHER));
    let Some(charge) = charge else { return Some(Err(out_of_memory())) };
    let ciphers = slot::<Ciphers>(scope);
    ciphers.last += 1;
    ciphers.open.insert(ciphers.last, (context, charge));
    Some(Ok(ciphers.last))
}

/// Sets whether a cipher adds or removes padding. Returns whether the cipher accepted the setting.
#[op]
pub(crate) fn cipher_pad(scope: &mut v8::PinScope<'_, '_>, cipher: u32, pads: bool) -> bool {
    find(scope, cipher).is_some_and(|context| context.set_padding(pads))
}

/// Authenticates data that is not encrypted. Returns whether the cipher accepted the data.
#[op]
pub(crate) fn cipher_authenticate(
    scope: &mut v8::PinScope<'_, '_>,
    cipher: u32,
    data: View<'_>,
) -> bool {
    find(scope, cipher).is_some_and(|context| bytes::read(data, |data| context.authenticate(data)))
}

/// Sets the tag that a decryption must find. Returns whether the cipher accepted the tag.
#[op]
pub(crate) fn cipher_expect(scope: &mut v8::PinScope<'_, '_>, cipher: u32, tag: View<'_>) -> bool {
    find(scope, cipher).is_some_and(|context| bytes::read(tag, |tag| context.expect_tag(tag)))
}

/// Encrypts or decrypts more data, at most 1 MiB. Returns the output; `undefined` if the cipher
/// refused the data.
#[op]
pub(crate) fn cipher_update<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    cipher: u32,
    data: View<'s>,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    let context = find(scope, cipher)?;
    let out = bytes::read(data, |data| context.update(data))?;
    Some(buffer(scope, out))
}

/// Returns the rest of the output; `undefined` if the data is incomplete, has the wrong padding, or
/// is not authentic.
#[op]
pub(crate) fn cipher_finish<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    cipher: u32,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    let out = find(scope, cipher)?.finish()?;
    Some(buffer(scope, out))
}

/// Returns the tag, of `len` bytes, of a finished encryption; `undefined` if there is none.
#[op]
pub(crate) fn cipher_tag<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    cipher: u32,
    len: usize,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    let tag = find(scope, cipher)?.tag(len)?;
    Some(buffer(scope, tag))
}

/// Drops a cipher.
#[op]
pub(crate) fn cipher_close(scope: &mut v8::PinScope<'_, '_>, cipher: u32) {
    slot::<Ciphers>(scope).open.remove(&cipher);
}
