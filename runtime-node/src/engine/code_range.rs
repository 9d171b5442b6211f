//! Where V8 puts an isolate's machine code: 64 to 512 MiB of addresses, by the size of its heap, of which a Worker uses some
//! hundred KiB.
//!
//! Where the processor has protection keys, V8 makes all of them writable and executable when it makes the isolate, and
//! leaves it to the keys which thread may write. The kernel counts private writable mappings against the resource limit that
//! a supervisor sets for a process, touched or not: each isolate would count as that, so a process that may grow by less
//! could not start another, and one with some hundred of them would have a limit that bounds nothing. A shared mapping, which
//! this makes of it, counts when it is touched. As no other process maps it, nothing else is different, except in how pages
//! are given back.

#![allow(unsafe_code)] // Defines a function of the C library, and calls the system.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// What V8 may reserve for code, with what it cuts off to align it.
const RESERVATIONS: Range<usize> = 3 << 20..1 << 30;

/// What it reserves besides when it makes an isolate, for a table of functions: 256 MiB and pages that guard it.
const TABLE: Range<usize> = (256 << 20) + 1..(256 << 20) + (64 << 10);

thread_local! {
    /// An isolate is being made on this thread.
    static MAKES: Cell<bool> = const { Cell::new(false) };
}

/// Makes an isolate.
pub(super) fn while_making<R>(make: impl FnOnce() -> R) -> R {
    let before = MAKES.replace(true);
    let made = make();
    MAKES.set(before);
    made
}

/// How so many bytes of addresses are to be reserved.
///
/// # Arguments
/// * `flags` - of mmap(2), as V8 has them.
pub(super) fn flags(length: usize, flags: c_int) -> c_int {
    let is_private = flags & (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    let is_it = RESERVATIONS.contains(&length)
        && !TABLE.contains(&length)
        && is_private == libc::MAP_PRIVATE | libc::MAP_ANONYMOUS
        && MAKES.get();
    if is_it { flags & !libc::MAP_PRIVATE | libc::MAP_SHARED } else { flags }
}

/// `madvise` of the C library. V8 gives pages back by `MADV_FREE`, which shared mappings do not have: they have `MADV_REMOVE`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    // SAFETY: what the caller promised, and what the system function is to be called with.
    let advise = |advice: c_int| unsafe { libc::syscall(libc::SYS_madvise, address, length, advice) as c_int };
    match advise(advice) {
        -1 if advice == libc::MADV_FREE => advise(libc::MADV_REMOVE),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::heap::Headroom;
    use crate::engine::spare::Spare;

    #[test]
    fn what_isolates_reserve_for_code_does_not_count_as_data_whatever_their_heap() {
        crate::engine::init();
        let data = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let value = status.lines().find_map(|line| line.strip_prefix("VmData:")?.strip_suffix("kB"));
            value.unwrap().trim().parse::<u64>().unwrap() >> 10
        };
        let before = data();
        let heaps = [8, 16, 32, 64, 128, 256, 512, 2048];
        let spares = heaps.map(|memory_mib| [(); 4].map(|()| Spare::make(memory_mib, Headroom::default())));
        // Tests on other threads make some as well.
        let grown = data().saturating_sub(before);
        assert!(grown < 4 * 128, "{grown} MiB for {}", spares.as_flattened().len());
    }
}
