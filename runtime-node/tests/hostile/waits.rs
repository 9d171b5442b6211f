//! How long a neighbour waits for its answers, in CPU time of the thread that it shares with a hostile Worker.

use std::sync::Mutex;
use std::time::Duration;

use crate::script::Script;

/// What V8 itself may do about a start or the end of an isolate: setting up and tearing down a heap.
const START: Duration = Duration::from_millis(50);

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

/// What every script's neighbour waited beyond what the script's limit allows, with the script's name.
static BEYOND: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// The neighbour waited for too long.
#[derive(Debug, thiserror::Error)]
#[error("the neighbour waited {why} for {longest:?}, of {allowed:?} allowed")]
pub(crate) struct TooLong {
    why: &'static str,
    longest: Duration,
    allowed: Duration,
}

/// What the neighbour's waits are measured by, taken in the same run on the same thread.
pub(crate) struct Yardstick {
    /// The longest that the neighbour took with nobody beside it.
    pub(crate) alone: Duration,
    /// What a request may have its neighbour wait for beyond its own CPU limit: as long as some work of V8's takes that is
    /// in one piece.
    pub(crate) grace: Duration,
}

/// That a request made the neighbour wait for its own CPU limit and little more, and a start for its own.
pub(crate) fn expect_short(script: &Script, waits: &Waits, yardstick: &Yardstick) -> Result<(), TooLong> {
    // Several may be using up their time in one go.
    let at_once = script.at_once as u32;
    let Yardstick { alone, grace } = *yardstick;
    let allowed = (Duration::from_millis(script.limits.cpu_ms.into()) + grace) * at_once + alone;
    let longest = waits.longest();
    let name = script.name.clone();
    BEYOND.lock().expect("nothing panics with it").push((longest.saturating_sub(allowed), name));
    if is_instrumented() {
        return Ok(());
    }
    if longest > allowed + script.beyond {
        return Err(TooLong { why: "for a request", longest, allowed });
    }
    let allowed = Duration::from_millis(script.limits.startup_ms.into()) + allowed + START;
    let longest = waits.during_starts.iter().max().copied().unwrap_or_default();
    if longest > allowed + script.beyond {
        return Err(TooLong { why: "for a start", longest, allowed });
    }
    Ok(())
}

/// Whether a sanitizer watches, whose checks take longer than what they check.
fn is_instrumented() -> bool {
    std::env::var_os("ASAN_OPTIONS").is_some()
}

/// A line about all of them.
pub(crate) fn print() {
    let mut beyond = BEYOND.lock().expect("nothing panics with it");
    beyond.sort();
    let Some((worst, name)) = beyond.last() else { return };
    let p99 = beyond[(beyond.len() - 1) * 99 / 100].0;
    let within = beyond.partition_point(|(beyond, _)| beyond.is_zero());
    println!(
        "neighbours of {} scripts waited beyond what was allowed: {within} not at all, p99 {p99:?}, worst {worst:?} ({name})",
        beyond.len(),
    );
}
