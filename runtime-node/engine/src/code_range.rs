//! The addresses for machine code: V8 reserves 512 MiB for all isolates of a process when it makes
//! the first of them (see `cage.rs`), of which a Worker uses some hundred KiB. Upstream's V8 reserves
//! a range for each isolate.
//!
//! V8 maps the whole range writable and executable, and controls by other means which thread may
//! write. The kernel counts private writable mappings against the resource limit that a supervisor
//! sets for a process, touched or not: the range would count in full, so a process with less than
//! that left could not start an isolate. This module turns the range into a shared mapping, which
//! counts only when it is touched. As no other process maps it, nothing else changes except how
//! pages are given back.

#![allow(unsafe_code)] // Defines a function of the C library, and calls the system.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::V8_IS_PATCHED;

/// The sizes in bytes of V8's reservations for code, including the parts that it cuts off for
/// alignment.
const RESERVATIONS: Range<usize> = 3 << 20..1 << 30;

/// The size in bytes of V8's other reservation for a new isolate, a function table: 256 MiB and its
/// guard pages.
const TABLE: Range<usize> = (256 << 20) + 1..(256 << 20) + (64 << 10);

/// Set once an isolate has been made. Then there is a range for all of them, and V8's further
/// reservations of that size are for tables, unless each isolate has a range of its own.
static MADE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Set while an isolate is being made on this thread.
    static MAKES: Cell<bool> = const { Cell::new(false) };
}

/// Runs `make`, which makes an isolate, and has its code range mapped as shared.
pub(crate) fn while_making<R>(make: impl FnOnce() -> R) -> R {
    let before = MAKES.replace(true);
    let made = make();
    MAKES.set(before);
    MADE.store(V8_IS_PATCHED, Ordering::Relaxed);
    made
}

/// Returns the flags with which to reserve `length` bytes of addresses.
///
/// # Arguments
/// * `flags` - flags of mmap(2), as V8 passes them.
pub(crate) fn flags(length: usize, flags: c_int) -> c_int {
    let is_private = flags & (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    let is_it = RESERVATIONS.contains(&length)
        && !TABLE.contains(&length)
        && is_private == libc::MAP_PRIVATE | libc::MAP_ANONYMOUS
        && MAKES.get()
        && !MADE.load(Ordering::Relaxed);
    if is_it { flags & !libc::MAP_PRIVATE | libc::MAP_SHARED } else { flags }
}

/// Replaces `madvise` of the C library. V8 gives pages back with `MADV_FREE`, which shared mappings
/// do not support; they need `MADV_REMOVE`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn madvise(
    address: *mut c_void,
    length: usize,
    advice: c_int,
) -> c_int {
    // SAFETY: the caller's promise; these are the arguments of the system call.
    let advise = |advice: c_int| unsafe {
        libc::syscall(libc::SYS_madvise, address, length, advice) as c_int
    };
    match advise(advice) {
        -1 if advice == libc::MADV_FREE => advise(libc::MADV_REMOVE),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use crate::heap::Headroom;
    use crate::spare::Spare;
    use crate::testing::builtins;

    #[test]
    fn the_code_range_of_isolates_does_not_count_as_data() {
        crate::init();
        let data = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let value =
                status.lines().find_map(|line| line.strip_prefix("VmData:")?.strip_suffix("kB"));
            value.unwrap().trim().parse::<u64>().unwrap() >> 10
        };
        let before = data();
        let heaps = [8, 16, 32, 64, 128, 256, 512, 2048];
        let spares = heaps.map(|memory_mib| {
            [(); 4].map(|()| Spare::make(memory_mib, Headroom::default(), builtins()))
        });
        // Tests on other threads make isolates as well.
        let grown = data().saturating_sub(before);
        assert!(grown < 4 * 128, "{grown} MiB for {}", spares.as_flattened().len());
    }
}
