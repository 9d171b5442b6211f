//! Calls `scheduled` handlers for as long as the process runs.
//!
//! This process is the only caller, so, unlike the operator, it stores no progress.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use tenon_crds::Schedule;
use tenon_proto::id::WorkerId;
use tenon_schedule::call::Caller;
use tenon_schedule::due::{CATCH_UP, Call};
use tenon_schedule::timetable::Timetable;

/// Maximum sleep between two reads of the clock, which may be set forward, or jump because the
/// machine was suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

pub(super) struct Schedules {
    caller: Caller,
    timetables: Vec<(WorkerId, Schedule, Timetable)>,
    /// The time up to which scheduled calls have been started.
    until: Timestamp,
}

impl Schedules {
    /// Creates an empty list of schedules.
    ///
    /// # Arguments
    /// * `router` - the address of the router's internal listener.
    pub(super) fn new(router: SocketAddr) -> Self {
        let url = format!("http://{router}").parse().expect("an address is a valid authority");
        Self { caller: Caller::new(url, None), timetables: Vec::new(), until: Timestamp::now() }
    }

    /// Replaces the schedules to follow. Invalid schedules are skipped, because they have already
    /// been reported as problems.
    pub(super) fn set<'a>(
        &mut self,
        schedules: impl Iterator<Item = (&'a WorkerId, &'a Schedule)>,
    ) {
        let valid = schedules.filter_map(|(id, schedule)| {
            Some((id.clone(), schedule.clone(), Timetable::of(schedule).ok()?))
        });
        self.timetables = valid.collect();
    }

    /// Waits until the time of at least one scheduled call, and starts the calls. This function is
    /// cancel safe: no call is lost if the future is dropped.
    pub(super) async fn next(&mut self) {
        loop {
            let now = Timestamp::now();
            let due = self.due(now);
            self.until = self.until.max(now);
            if !due.is_empty() {
                due.into_iter().for_each(|(id, call)| self.call(id, call));
                return;
            }
            tokio::time::sleep(self.pause(now)).await;
        }
    }

    /// Returns the calls whose times are after `until` and not after `now`, except those that are
    /// more than [`CATCH_UP`] ago.
    fn due(&self, now: Timestamp) -> Vec<(WorkerId, Call)> {
        let after = self.until.max(now.checked_sub(CATCH_UP).unwrap_or(self.until));
        let calls = self.timetables.iter().flat_map(|(id, Schedule { cron, .. }, timetable)| {
            let times = std::iter::successors(timetable.next_after(after), |time| {
                timetable.next_after(*time)
            });
            times
                .take_while(move |time| *time <= now)
                .map(|time| (id.clone(), Call { cron: cron.clone(), time }))
        });
        calls.collect()
    }

    /// Returns the time until the next call, but at most [`LONGEST_SLEEP`].
    fn pause(&self, now: Timestamp) -> Duration {
        let next =
            self.timetables.iter().filter_map(|(_, _, timetable)| timetable.next_after(now)).min();
        let pause = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
        pause.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)
    }

    fn call(&self, id: WorkerId, call: Call) {
        let caller = self.caller.clone();
        tokio::spawn(async move {
            if let Err(failure) = caller.call(&id, &call).await {
                tracing::warn!(worker = %id, cron = call.cron, time = %call.time, %failure, "a scheduled call failed");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedules(crons: &[&str], until: &str) -> Schedules {
        let mut schedules = Schedules::new(([127, 0, 0, 1], 1).into());
        let id = WorkerId::new("default", "clock");
        let all: Vec<_> = crons
            .iter()
            .map(|cron| Schedule { cron: (*cron).to_owned(), time_zone: "UTC".to_owned() })
            .collect();
        schedules.set(all.iter().map(|schedule| (&id, schedule)));
        schedules.until = until.parse().unwrap();
        schedules
    }

    fn times(schedules: &Schedules, now: &str) -> Vec<String> {
        schedules
            .due(now.parse().unwrap())
            .into_iter()
            .map(|(_, call)| call.time.to_string())
            .collect()
    }

    #[tokio::test]
    async fn a_call_is_due_once_its_time_is_reached() {
        let schedules = schedules(&["*/5 * * * *", "nonsense"], "2026-11-21T18:32:00Z");
        assert!(times(&schedules, "2026-11-21T18:34:59Z").is_empty());
        assert_eq!(times(&schedules, "2026-11-21T18:35:00Z"), ["2026-11-21T18:35:00Z"]);
        let pause = schedules.pause("2026-11-21T18:34:58Z".parse().unwrap());
        assert_eq!(pause, Duration::from_secs(2));
    }

    #[tokio::test]
    async fn only_recent_calls_are_made_up_for_after_a_sleep() {
        let schedules = schedules(&["* * * * *"], "2026-11-21T08:00:00Z");
        assert_eq!(times(&schedules, "2026-11-21T18:35:30Z").len(), 5);
    }
}
