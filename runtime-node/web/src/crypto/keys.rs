//! Keys, and the handles by which JavaScript refers to them.
//!
//! ```text
//!  CryptoKey ── private field ─► ArrayBuffer of 8 bytes ─► HandleMemory { number } ─► table ─► Key
//! ```
//!
//! A handle is an array buffer whose memory is the key's number in the isolate's table. The
//! memory's owner, a `HandleMemory`, removes the key from the table when it is dropped. V8's
//! garbage collector therefore decides when a key is freed, on any of its threads; the end of the
//! isolate frees all of its keys. The key's material is never in V8's heap, is charged to the
//! Worker's memory, and is overwritten when it is freed.
//!
//! No Worker ever holds a handle; `crypto-key.js` ensures that. With a handle, a Worker could only
//! exchange one of its own keys for another, and could not read any.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use tenon_crypto::key::Key;
use tenon_engine::collection::make_room;
use tenon_engine::heap::Charge;
use tenon_engine::slot::slot;
use tenon_engine::thrown::{Thrown, out_of_memory};

/// The longest secret that is accepted, in bytes. Each use of a key begins with hashing or
/// expanding the whole key.
pub(crate) const LONGEST_SECRET: usize = 1 << 20;

/// The memory charged for any key, in bytes: its entries in the table and in V8's heap.
const OVERHEAD: usize = 512;

/// An isolate's keys by number. Numbers are not reused.
type Table = Mutex<FxHashMap<u64, Arc<Key>>>;

#[derive(Default)]
struct Keys {
    last: u64,
    table: Arc<Table>,
    /// Keys that were promised to JavaScript and have not been taken yet.
    tickets: FxHashMap<u64, (Key, Charge)>,
}

/// The array buffer by which JavaScript refers to a key.
pub(crate) type Handle<'s> = v8::Local<'s, v8::ArrayBuffer>;

/// The key of a handle.
pub(crate) type KeyRef = Arc<Key>;

/// A number that [`take`] exchanges once for a handle. A promise can be resolved with a ticket;
/// resolving a promise with a handle would expose the handle to the Worker.
pub(crate) type Ticket = f64;

/// The owner of a handle's memory.
struct HandleMemory {
    number: [u8; 8],
    table: Arc<Table>,
    _charge: Charge,
}

impl AsMut<[u8]> for HandleMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.number
    }
}

impl Drop for HandleMemory {
    fn drop(&mut self) {
        let key = lock(&self.table).remove(&u64::from_ne_bytes(self.number));
        // The key is dropped after the lock is released: its last owner overwrites the material,
        // and no other thread needs to wait for that.
        drop(key);
    }
}

fn lock(table: &Table) -> MutexGuard<'_, FxHashMap<u64, Arc<Key>>> {
    // No code panics while it holds the lock, and the table would be consistent if it did.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Charges the Worker for keeping `key`.
fn charge(scope: &mut v8::PinScope<'_, '_>, key: &Key) -> Result<Charge, Thrown> {
    let size = OVERHEAD + key.size();
    make_room(scope, size).and_then(|buffers| buffers.charge(size)).ok_or_else(out_of_memory)
}

/// Stores a key and returns a handle to it.
///
/// # Errors
/// Fails if there is not enough memory.
pub(crate) fn hold<'s>(scope: &mut v8::PinScope<'s, '_>, key: Key) -> Result<Handle<'s>, Thrown> {
    let charge = charge(scope, &key)?;
    Ok(hold_charged(scope, key, charge))
}

fn hold_charged<'s>(scope: &mut v8::PinScope<'s, '_>, key: Key, charge: Charge) -> Handle<'s> {
    let keys = slot::<Keys>(scope);
    keys.last += 1;
    let handle = HandleMemory {
        number: keys.last.to_ne_bytes(),
        table: Arc::clone(&keys.table),
        _charge: charge,
    };
    lock(&keys.table).insert(keys.last, Arc::new(key));
    let store = v8::ArrayBuffer::new_backing_store_from_bytes(Box::new(handle));
    v8::ArrayBuffer::with_backing_store(scope, &store.make_shared())
}

/// Returns the key of a handle; `None` for any other array buffer.
pub(crate) fn find(scope: &mut v8::PinScope<'_, '_>, handle: Handle<'_>) -> Option<KeyRef> {
    let store = handle.get_backing_store();
    let mut number = [0; 8];
    for (byte, cell) in number.iter_mut().zip(store.get(..8)?) {
        *byte = cell.get();
    }
    lock(&slot::<Keys>(scope).table).get(&u64::from_ne_bytes(number)).cloned()
}

/// Stores a key and returns a ticket for its handle.
///
/// # Errors
/// Fails if there is not enough memory.
pub(crate) fn ticket(scope: &mut v8::PinScope<'_, '_>, key: Key) -> Result<Ticket, Thrown> {
    let charge = charge(scope, &key)?;
    let keys = slot::<Keys>(scope);
    keys.last += 1;
    keys.tickets.insert(keys.last, (key, charge));
    Ok(keys.last as f64)
}

/// Returns the handle for a ticket; `None` if the ticket has been exchanged already.
pub(crate) fn take<'s>(scope: &mut v8::PinScope<'s, '_>, ticket: Ticket) -> Option<Handle<'s>> {
    let (key, charge) = slot::<Keys>(scope).tickets.remove(&(ticket as u64))?;
    Some(hold_charged(scope, key, charge))
}
