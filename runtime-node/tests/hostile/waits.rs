//! Measures how long responses of a neighbor take, in CPU time of the thread that the neighbor
//! shares with a hostile Worker.

use std::sync::Mutex;
use std::time::Duration;

use crate::script::Script;

/// The time that V8 itself may add to the start or the end of an isolate, to set up or tear down a
/// heap.
const START: Duration = Duration::from_millis(50);

/// The neighbor's waits, by what the hostile Worker did at the time.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) during_requests: Vec<Duration>,
    pub(crate) during_starts: Vec<Duration>,
}

impl Waits {
    pub(crate) fn longest(&self) -> Duration {
        self.during_requests.iter().max().copied().unwrap_or_default()
    }
}

/// The times by which neighbors' waits exceeded the limits of scripts, with the names of the
/// scripts.
static BEYOND: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// The error that the neighbor waited for too long.
#[derive(Debug, thiserror::Error)]
#[error("the neighbor waited {longest:?} for {cause}; the limit is {allowed:?}")]
pub(crate) struct TooLong {
    cause: &'static str,
    longest: Duration,
    allowed: Duration,
}

/// The reference for the neighbor's waits, measured in the same run on the same thread.
pub(crate) struct Baseline {
    /// The neighbor's longest response time with no other load.
    pub(crate) alone: Duration,
    /// The time for which a request may make its neighbor wait beyond the request's own CPU limit:
    /// the duration of work that V8 performs in one piece.
    pub(crate) grace: Duration,
}

/// Checks that the neighbor waited for little more than the CPU limit of a request, and during a
/// start for little more than the start-up limit.
pub(crate) fn expect_short(
    script: &Script,
    waits: &Waits,
    baseline: &Baseline,
) -> Result<(), TooLong> {
    // Concurrent requests may use up their CPU limits back to back.
    let at_once = script.at_once as u32;
    let Baseline { alone, grace } = *baseline;
    let allowed = (Duration::from_millis(script.limits.cpu_ms.into()) + grace) * at_once + alone;
    let longest = waits.longest();
    let name = script.name.clone();
    BEYOND
        .lock()
        .expect("the lock is never poisoned")
        .push((longest.saturating_sub(allowed), name));
    if is_instrumented() {
        return Ok(());
    }
    if longest > allowed + script.beyond {
        return Err(TooLong { cause: "a request", longest, allowed });
    }
    let allowed = Duration::from_millis(script.limits.startup_ms.into()) + allowed + START;
    let longest = waits.during_starts.iter().max().copied().unwrap_or_default();
    if longest > allowed + script.beyond {
        return Err(TooLong { cause: "a start", longest, allowed });
    }
    Ok(())
}

/// Returns whether a sanitizer is active; its checks take longer than the code that they check.
fn is_instrumented() -> bool {
    std::env::var_os("ASAN_OPTIONS").is_some()
}

/// Prints one line about the waits during all scripts.
pub(crate) fn print() {
    let mut beyond = BEYOND.lock().expect("the lock is never poisoned");
    beyond.sort();
    let Some((worst, name)) = beyond.last() else { return };
    let p99 = beyond[(beyond.len() - 1) * 99 / 100].0;
    let within = beyond.partition_point(|(beyond, _)| beyond.is_zero());
    println!(
        "neighbors' waits beyond the limit, for {} scripts: {within} without any, p99 {p99:?}, worst {worst:?} ({name})",
        beyond.len(),
    );
}
