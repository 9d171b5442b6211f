//! The clock that a Worker sees, which stands still during a turn and counts whole milliseconds. A
//! finer clock would reveal the contents of the processor's caches, and thus the activity of
//! neighbors.
//!
//! All parts of the language that show the time of day (`Date`, `Intl.DateTimeFormat`,
//! `Temporal.Now`) get the time from V8 or ICU, and both get it from the C library's
//! `gettimeofday`. The linker resolves that symbol to the definition in this module.

#![allow(unsafe_code)] // Replaces a function of the C library.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

thread_local! {
    static FROZEN_AT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// A guard that stops the time of day on the thread that created it. The guard must be dropped on
/// that thread, and a thread has at most one guard at a time.
#[must_use = "the clock runs again when the guard is dropped"]
pub(crate) struct FrozenClock(());

impl FrozenClock {
    pub(crate) fn begin() -> Self {
        let milliseconds = time_of_day().as_millis() as u64;
        FROZEN_AT.set(Some(Duration::from_millis(milliseconds)));
        Self(())
    }
}

impl Drop for FrozenClock {
    fn drop(&mut self) {
        FROZEN_AT.set(None);
    }
}

/// Returns the time since the Unix epoch.
fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Replaces `gettimeofday(3)`; the clock of the calling thread may be stopped.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    let now = FROZEN_AT.try_with(Cell::get).ok().flatten().unwrap_or_else(time_of_day);
    // SAFETY: the caller passes null or room for the result, as the function's manual requires.
    unsafe {
        if let Some(time) = time.as_mut() {
            time.tv_sec = now.as_secs() as libc::time_t;
            time.tv_usec = now.subsec_micros().into();
        }
        // The time zone is two `int`s, which are obsolete and which the C library sets to zero too.
        if !zone.is_null() {
            zone.cast::<[c_int; 2]>().write([0; 2]);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Duration {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: there is room for the result.
        assert_eq!(unsafe { gettimeofday(&raw mut time, std::ptr::null_mut()) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
    }

    #[test]
    fn a_frozen_clock_shows_a_whole_millisecond_until_it_is_dropped() {
        let before = time_of_day();
        let frozen = FrozenClock::begin();
        let stands_at = now();
        while time_of_day() < before + Duration::from_millis(2) {}
        assert_eq!((now(), stands_at.subsec_nanos() % 1_000_000), (stands_at, 0));
        assert!(stands_at <= time_of_day() && before < stands_at + Duration::from_millis(1));
        drop(frozen);
        assert!(now() > stands_at);
    }

    #[test]
    fn other_threads_have_their_own_clock() {
        let frozen = FrozenClock::begin();
        let stands_at = now();
        let other = std::thread::spawn(move || while now() <= stands_at {});
        other.join().unwrap();
        drop(frozen);
    }
}
