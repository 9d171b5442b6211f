//! The memory of WebAssembly programs, counted page by page.
//!
//! ```text
//!  new Memory, new Instance ──► V8 ──► mmap, no access, 8 GiB ──┐
//!  memory.grow ───────────────► V8 ──► mprotect, read and write ┼──► here ──► the system
//!  the last reference is gone ► V8 ──► munmap ──────────────────┘      │
//!                                                           the isolate's budget refuses: ENOMEM
//! ```
//!
//! V8 takes this memory directly from the operating system, not from a replaceable allocator. But
//! its calls are recognisable. With its trap handler on, each memory is a reservation of at least
//! [`RESERVATION`], of which pages are made accessible from the beginning as the memory grows; an
//! access beyond them is a fault that becomes a trap. No other mapping without access is that large
//! while JavaScript runs, and smaller ones are for code ([`code_space`]). So this program defines
//! these system functions itself: the linker resolves V8's calls to the definitions here, which
//! pass on every call that is not such a reservation. If the budget refuses, V8 is told that there
//! is no memory: `memory.grow` returns −1 immediately, and creating a memory throws a `RangeError`
//! after a collection that might have made room.
//!
//! A reservation belongs to the isolate that the thread has entered ([`account`](super::account)).

#![allow(unsafe_code)] // Defines functions of the C library, and calls the system.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::account::MemoryAccount;
use super::code_space;
use crate::code_range;
use crate::heap::Charge;
use crate::shares::{Part, Shares};

/// The addresses that V8 reserves for a memory, in bytes: this many with 32-bit addresses, twice as
/// many with 64-bit ones.
const RESERVATION: usize = 8 << 30;

/// The alignment of reservations, in bytes: a page of WebAssembly.
const PAGE: usize = 64 << 10;

/// The most memories of an isolate. Programs have one or two; the rest is for a program that makes
/// one per request.
const MEMORIES: usize = 64;

/// The cost to the system of a memory without pages, in bytes.
const MEMORY: usize = 64 << 10;

/// The most reservations for the memories of all isolates: 48 of the 128 TiB of addresses that a
/// process has, and a fifth of the mappings. Each namespace has a share of them.
const RESERVATIONS: usize = 6_000;

/// The reservation of one memory.
struct Region {
    account: Arc<MemoryAccount>,
    _reservations: Part,
    /// Accessible bytes, from the beginning.
    accessible: usize,
    charge: Charge,
}

/// The reservations by address, which is all that the system functions know.
static REGIONS: Mutex<BTreeMap<usize, Region>> = Mutex::new(BTreeMap::new());

static RESERVED: Shares = Shares::new(RESERVATIONS);

fn regions() -> MutexGuard<'static, BTreeMap<usize, Region>> {
    // No code panics while it holds the lock.
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this module see V8's reservations. Call it before V8 is initialised.
///
/// # Panics
/// Panics if the program has been linked so that V8 calls other functions: no memory would be
/// counted.
pub(crate) fn watch() {
    let ours =
        [mmap64 as *const c_void, mmap as _, mprotect as _, munmap as _, code_range::madvise as _];
    let called = [
        libc::mmap64 as *const c_void,
        libc::mmap as _,
        libc::mprotect as _,
        libc::munmap as _,
        libc::madvise as _,
    ];
    assert!(
        ours == called,
        "V8 is not linked with this module's memory functions, so its memory would not be counted"
    );
    assert!(
        v8::V8::enable_web_assembly_trap_handler(true),
        "V8 cannot install its handler for WebAssembly faults"
    );
}

impl Region {
    /// Opens a memory without pages. Returns `None` if there are too many.
    fn open(account: &Arc<MemoryAccount>, reservations: usize) -> Option<Self> {
        let charge = account.charge(MEMORY)?;
        if !account.add_memory(MEMORIES) {
            return None;
        }
        let Some(reserved) = RESERVED.take(&account.namespace(), reservations) else {
            account.remove_memory();
            return None;
        };
        Some(Self { account: Arc::clone(account), _reservations: reserved, accessible: 0, charge })
    }

    /// Makes `accessible` bytes from the beginning accessible, and returns whether the budget
    /// allows that.
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

/// Replaces `mmap` of the C library (POSIX.1-2017) as programs with large-file support call it.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off64_t,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(address, length, protection, flags, file, offset) }
}

/// Replaces `mmap` of the C library as other programs call it.
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
    // SAFETY: the caller's promise; these are the arguments of the system call.
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
    // With a fixed address V8 gives back pages of a reservation that it keeps.
    if protection != libc::PROT_NONE || flags & libc::MAP_FIXED != 0 {
        return map();
    }
    let Some(account) = MemoryAccount::entered() else { return map() };
    if length < RESERVATION {
        // Code: no other mapping is reserved while JavaScript runs.
        let mapped = map();
        if mapped != libc::MAP_FAILED {
            code_space::add(&account, mapped.addr(), length);
        }
        return mapped;
    }
    let Some(region) = Region::open(&account, length / RESERVATION) else {
        out_of_memory();
        return libc::MAP_FAILED;
    };
    let mapped = map();
    if mapped != libc::MAP_FAILED {
        // V8 reserves extra room, which it unmaps at both ends.
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
    // SAFETY: the caller's promise; these are the arguments of the system call.
    unsafe { libc::syscall(libc::SYS_mprotect, address, length, protection) as c_int }
}

/// Replaces `munmap` of the C library (POSIX.1-2017).
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    // Removed before the call, because another mapping may get the address right after it.
    let region = if length < RESERVATION {
        code_space::remove(address.addr());
        None
    } else {
        regions().remove(&address.addr())
    };
    // SAFETY: the caller's promise; these are the arguments of the system call.
    let unmapped = unsafe { libc::syscall(libc::SYS_munmap, address, length) as c_int };
    drop(region);
    unmapped
}
