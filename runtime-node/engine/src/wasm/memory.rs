//! Counts the memory of WebAssembly programs page by page.
//!
//! ```text
//!  new Memory, new Instance ──► V8 ──► mmap, no access, 8 GiB ──┐
//!  memory.grow ───────────────► V8 ──► mprotect, read and write ┼─► this module ─► the system
//!  the last reference is gone ► V8 ──► munmap ──────────────────┘        │
//!                                                           the isolate's budget refuses: ENOMEM
//! ```
//!
//! V8 takes this memory directly from the operating system, not from a replaceable allocator. But
//! V8's calls are recognizable. When V8's trap handler is on, each memory is a reservation of at
//! least [`RESERVATION_SIZE`] bytes. V8 makes pages accessible from the beginning of the
//! reservation as the memory grows; an access beyond those pages is a fault that becomes a trap.
//! While JavaScript runs, no other mapping without access is that large, and smaller mappings
//! without access are for code ([`code_space`]). So this file defines the system functions itself.
//! The linker resolves V8's calls to these definitions, which pass every other call to the system
//! unchanged. If the budget refuses a call, the definition fails with `ENOMEM`. Then `memory.grow`
//! returns −1 immediately, and the creation of a memory throws a `RangeError` after a garbage
//! collection that might have made room.
//!
//! A reservation belongs to the isolate that the thread has entered ([`account`](super::account)).

#![allow(unsafe_code)] // Defines functions of the C library, and makes system calls.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::account::MemoryAccount;
use super::code_space;
use crate::code_range;
use crate::heap::Charge;
use crate::shares::{Part, Shares};

/// Size of the address range that V8 reserves for a memory with 32-bit addresses, in bytes. V8
/// reserves twice this size for a memory with 64-bit addresses.
const RESERVATION_SIZE: usize = 8 << 30;

/// Alignment of reservations, in bytes, which is the size of a WebAssembly page.
const PAGE: usize = 64 << 10;

/// Maximum number of memories of an isolate. Most programs have one or two memories. The limit is
/// higher because some programs make a memory for each request.
const MAX_MEMORIES: usize = 64;

/// Memory that the system uses for a WebAssembly memory without pages, in bytes.
const MEMORY_OVERHEAD: usize = 64 << 10;

/// Maximum number of reservations for the memories of all isolates. Together, these reservations
/// take 47 of the 128 TiB of addresses that a process has, and a fifth of the process's mappings.
/// Each namespace has a share of the reservations.
const MAX_RESERVATIONS: usize = 6_000;

/// The reservation of one memory.
struct Region {
    account: Arc<MemoryAccount>,
    _reservations: Part,
    /// Number of bytes from the beginning of the reservation that are accessible.
    accessible: usize,
    charge: Charge,
}

/// The memories by address. The system functions receive only the address of a memory.
static REGIONS: Mutex<BTreeMap<usize, Region>> = Mutex::new(BTreeMap::new());

static RESERVED: Shares = Shares::new(MAX_RESERVATIONS);

fn regions() -> MutexGuard<'static, BTreeMap<usize, Region>> {
    // No code panics while it holds the lock, so the lock is never poisoned.
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that V8's reservations are seen here, and installs V8's trap handler. Must be called
/// before V8 is initialized.
///
/// # Panics
/// Panics if the program has been linked so that V8 calls other system functions, because no memory
/// would then be counted. Panics if V8 cannot install its trap handler.
pub(crate) fn watch() {
    let defined =
        [mmap64 as *const c_void, mmap as _, mprotect as _, munmap as _, code_range::madvise as _];
    let called = [
        libc::mmap64 as *const c_void,
        libc::mmap as _,
        libc::mprotect as _,
        libc::munmap as _,
        libc::madvise as _,
    ];
    assert!(
        defined == called,
        "V8 is not linked with this module's memory functions, so its memory would not be counted"
    );
    assert!(
        v8::V8::enable_web_assembly_trap_handler(true),
        "V8 cannot install its handler for WebAssembly faults"
    );
}

impl Region {
    /// Charges a memory without pages. Returns `None` if the isolate's budget has no room for the
    /// memory, if the isolate has too many memories, or if its namespace has too many reservations.
    fn open(account: &Arc<MemoryAccount>, reservations: usize) -> Option<Self> {
        let charge = account.charge(MEMORY_OVERHEAD)?;
        if !account.add_memory(MAX_MEMORIES) {
            return None;
        }
        let Some(reserved) = RESERVED.take(&account.namespace(), reservations) else {
            account.remove_memory();
            return None;
        };
        Some(Self { account: Arc::clone(account), _reservations: reserved, accessible: 0, charge })
    }

    /// Charges further pages so that `accessible` bytes from the beginning can be accessible.
    /// Returns whether the budget has room for these pages.
    fn grow(&mut self, accessible: usize) -> bool {
        let more = accessible.saturating_sub(self.accessible);
        let granted = more == 0 || (self.account.has_room(more) && self.charge.grow(more));
        self.accessible += if granted { more } else { 0 };
        granted
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.account.remove_memory();
    }
}

fn out_of_memory() {
    // SAFETY: the call returns the address of this thread's own `errno`.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
}

/// Replaces `mmap64` of the C library, which programs with large-file support call in place of
/// `mmap`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off64_t,
) -> *mut c_void {
    // SAFETY: the caller upholds the requirements of `mmap`, which has the same parameters.
    unsafe { mmap(address, length, protection, flags, file, offset) }
}

/// Replaces `mmap` of the C library (POSIX.1-2017).
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let passed = flags;
    let flags =
        if protection == libc::PROT_NONE { code_range::flags(length, passed) } else { passed };
    // SAFETY: the caller upholds the requirements of `mmap`, and the system call has the same
    // arguments.
    let map = || unsafe {
        libc::syscall(libc::SYS_mmap, address, length, protection, flags, file, offset)
    } as *mut c_void;
    if flags != passed {
        let mapped = map();
        if mapped != libc::MAP_FAILED {
            code_range::add(mapped.addr(), length);
        }
        return mapped;
    }
    // With a fixed address, V8 releases pages of a reservation but keeps the reservation.
    if protection != libc::PROT_NONE || flags & libc::MAP_FIXED != 0 {
        return map();
    }
    let Some(account) = MemoryAccount::entered() else { return map() };
    if length < RESERVATION_SIZE {
        // The mapping is for code, because V8 makes no other reservation that is so small while
        // JavaScript runs.
        let mapped = map();
        if mapped != libc::MAP_FAILED {
            code_space::add(&account, mapped.addr(), length);
        }
        return mapped;
    }
    let Some(region) = Region::open(&account, length / RESERVATION_SIZE) else {
        out_of_memory();
        return libc::MAP_FAILED;
    };
    let mapped = map();
    if mapped != libc::MAP_FAILED {
        // V8 reserves more than it needs, and then unmaps both ends so that the rest is aligned.
        regions().insert(mapped.addr().next_multiple_of(PAGE), region);
    }
    mapped
}

/// Replaces `mprotect` of the C library (POSIX.1-2017).
#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int {
    if protection == libc::PROT_READ | libc::PROT_WRITE
        && RESERVED.all() > 0
        && regions().get_mut(&address.addr()).is_some_and(|region| !region.grow(length))
    {
        out_of_memory();
        return -1;
    }
    // SAFETY: the caller upholds the requirements of `mprotect`, and the system call has the same
    // arguments.
    unsafe { libc::syscall(libc::SYS_mprotect, address, length, protection) as c_int }
}

/// Replaces `munmap` of the C library (POSIX.1-2017).
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    // The record is removed before the system call, because another mapping may get the address
    // immediately after the call.
    let region = if length < RESERVATION_SIZE {
        code_space::remove(address.addr());
        None
    } else {
        regions().remove(&address.addr())
    };
    // SAFETY: the caller upholds the requirements of `munmap`, and the system call has the same
    // arguments.
    let unmapped = unsafe { libc::syscall(libc::SYS_munmap, address, length) as c_int };
    drop(region);
    unmapped
}
