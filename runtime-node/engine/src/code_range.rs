//! Maps the range of addresses for machine code so that it does not count against a process's
//! memory limit.
//!
//! V8 reserves 512 MiB for the machine code of all isolates of a process when it makes the first
//! isolate (see `cage.rs`). A Worker uses a few hundred KiB of this range. Upstream's V8 reserves a
//! range for each isolate.
//!
//! V8 maps the whole range writable and executable, and controls by other means which thread may
//! write. The kernel counts private writable mappings, touched or not, against the resource limit
//! that a supervisor sets for a process. The range would count in full, so a process with less
//! memory left could not start an isolate. This module turns the range into a shared mapping, which
//! counts only when it is touched. Because no other process maps the range, the only other
//! difference is how pages are released.

#![allow(unsafe_code)] // Defines a function of the C library, and calls the system.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::V8_IS_PATCHED;

/// Sizes of V8's reservations for code, in bytes, including the parts that V8 cuts off for
/// alignment.
const RESERVATIONS: Range<usize> = 3 << 20..1 << 30;

/// Size of V8's function table for a new isolate, in bytes: 256 MiB and the guard pages. A table of
/// the same size as the range cannot be distinguished from the range, so such tables of the first
/// isolate become shared mappings as well.
const TABLE: Range<usize> = (256 << 20) + 1..(256 << 20) + (64 << 10);

/// Whether an isolate has been made, if all isolates share one range. V8's further reservations of
/// the size of the range are for tables.
static MADE: AtomicBool = AtomicBool::new(false);

/// A lock that is held while the first isolate is being made.
static FIRST: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether an isolate whose range is to be shared is being made on this thread.
    static MAKING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `make`, which makes an isolate, and meanwhile has its code range mapped as shared. If all
/// isolates of the process have one range, other threads wait until the first isolate has been
/// made.
pub(crate) fn while_making<R>(make: impl FnOnce() -> R) -> R {
    if MADE.load(Ordering::Acquire) {
        return make();
    }
    // The lock guards no data that a panic could leave half-written.
    let _first = V8_IS_PATCHED.then(|| FIRST.lock().unwrap_or_else(PoisonError::into_inner));
    let before = MAKING.replace(!MADE.load(Ordering::Acquire));
    let made = make();
    MAKING.set(before);
    MADE.store(V8_IS_PATCHED, Ordering::Release);
    made
}

/// Returns the flags with which to reserve `length` bytes of addresses.
///
/// # Arguments
/// * `flags` - flags of mmap(2), as V8 passes them.
pub(crate) fn flags(length: usize, flags: c_int) -> c_int {
    let kind = flags & (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    let is_code_range = RESERVATIONS.contains(&length)
        && !TABLE.contains(&length)
        && kind == libc::MAP_PRIVATE | libc::MAP_ANONYMOUS
        && MAKING.get();
    if is_code_range { flags & !libc::MAP_PRIVATE | libc::MAP_SHARED } else { flags }
}

/// The mappings that this module has made shared, as their first addresses and the addresses after
/// their ends: three tables, and the range with up to 15 abandoned attempts to place it near V8's
/// own code.
static SHARED: [(AtomicUsize, AtomicUsize); 32] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 32];

/// Records a mapping that [`flags`] has made shared. If each isolate has its own range, which V8
/// unmaps with the isolate, nothing is recorded.
pub(crate) fn add(address: usize, length: usize) {
    if !V8_IS_PATCHED {
        return;
    }
    let free = SHARED.iter().find(|(start, _)| {
        start.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    });
    if let Some((_, end)) = free {
        end.store(address + length, Ordering::Relaxed);
    }
}

fn is_shared(address: usize) -> bool {
    SHARED.iter().any(|(start, end)| {
        (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address)
    })
}

/// Replaces `madvise` of the C library. V8 releases pages with `MADV_DONTNEED` or `MADV_FREE`. On
/// shared mappings, `MADV_DONTNEED` leaves the memory allocated and `MADV_FREE` fails; these
/// mappings need `MADV_REMOVE`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn madvise(
    address: *mut c_void,
    length: usize,
    advice: c_int,
) -> c_int {
    // SAFETY: the caller upholds the requirements of madvise(2), whose arguments these are.
    let advise = |advice: c_int| unsafe {
        libc::syscall(libc::SYS_madvise, address, length, advice) as c_int
    };
    let releases = matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE);
    // `MADV_REMOVE` fails if another mapping now has the addresses of one that V8 has unmapped.
    if releases && is_shared(address.addr()) && advise(libc::MADV_REMOVE) == 0 {
        return 0;
    }
    match advise(advice) {
        -1 if advice == libc::MADV_FREE => advise(libc::MADV_REMOVE),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::heap::Headroom;
    use crate::spare::Spare;
    use crate::testing::builtins;

    #[test]
    fn memory_that_v8_releases_is_free() {
        if !V8_IS_PATCHED {
            return;
        }
        let (length, protection) = (64 << 10, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        for advice in [libc::MADV_DONTNEED, libc::MADV_FREE] {
            // SAFETY: the mapping is new, and only this test uses it.
            unsafe {
                let mapped = libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0);
                assert_ne!(mapped, libc::MAP_FAILED);
                add(mapped.addr(), length);
                let first = mapped.cast::<u8>();
                first.write_volatile(1);
                assert_eq!(libc::madvise(mapped, length, advice), 0);
                assert_eq!(first.read_volatile(), 0);
            }
        }
    }

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
        // The bound allows for isolates that tests on other threads make.
        let grown = data().saturating_sub(before);
        assert!(grown < 4 * 128, "{grown} MiB for {}", spares.as_flattened().len());
    }
}
