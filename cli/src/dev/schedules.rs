//! Schedules, for as long as the process runs: nobody else calls for a time, and nobody has to be told how far they are.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use tenon_crds::Schedule;
use tenon_operator::schedule::call::Caller;
use tenon_operator::schedule::due::{CATCH_UP, Call};
use tenon_operator::schedule::timetable::Timetable;
use tenon_proto::id::WorkerId;

/// How long the clock is not looked at: it may be put forward, or the machine sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

pub(super) struct Schedules {
    caller: Caller,
    timetables: Vec<(WorkerId, Schedule, Timetable)>,
    /// Times up to this one have been called for.
    until: Timestamp,
}

impl Schedules {
    /// # Arguments
    /// * `router` - its inner door.
    pub(super) fn new(router: SocketAddr) -> Self {
        let url = format!("http://{router}").parse().expect("an address is a URL's authority");
        Self { caller: Caller::new(url, None), timetables: Vec::new(), until: Timestamp::now() }
    }

    /// From now on these are called for. What cannot be followed has been reported.
    pub(super) fn set<'a>(&mut self, schedules: impl Iterator<Item = (&'a WorkerId, &'a Schedule)>) {
        let understood =
            schedules.filter_map(|(id, schedule)| Some((id.clone(), schedule.clone(), Timetable::of(schedule).ok()?)));
        self.timetables = understood.collect();
    }

    /// Waits for a time, and has the Workers called whose it is. Nothing is lost when this is dropped.
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

    /// What has come since the last look, but for what is too late.
    fn due(&self, now: Timestamp) -> Vec<(WorkerId, Call)> {
        let after = self.until.max(now.checked_sub(CATCH_UP).unwrap_or(self.until));
        let calls = self.timetables.iter().flat_map(|(id, Schedule { cron, .. }, timetable)| {
            let times = std::iter::successors(timetable.next_after(after), |time| timetable.next_after(*time));
            times.take_while(move |time| *time <= now).map(|time| (id.clone(), Call { cron: cron.clone(), time }))
        });
        calls.collect()
    }

    fn pause(&self, now: Timestamp) -> Duration {
        let next = self.timetables.iter().filter_map(|(_, _, timetable)| timetable.next_after(now)).min();
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
        let all: Vec<_> =
            crons.iter().map(|cron| Schedule { cron: (*cron).to_owned(), time_zone: "UTC".to_owned() }).collect();
        schedules.set(all.iter().map(|schedule| (&id, schedule)));
        schedules.until = until.parse().unwrap();
        schedules
    }

    fn times(schedules: &Schedules, now: &str) -> Vec<String> {
        schedules.due(now.parse().unwrap()).into_iter().map(|(_, call)| call.time.to_string()).collect()
    }

    #[tokio::test]
    async fn a_time_is_due_once_it_has_come() {
        let schedules = schedules(&["*/5 * * * *", "nonsense"], "2026-11-21T18:32:00Z");
        assert!(times(&schedules, "2026-11-21T18:34:59Z").is_empty());
        assert_eq!(times(&schedules, "2026-11-21T18:35:00Z"), ["2026-11-21T18:35:00Z"]);
        let pause = schedules.pause("2026-11-21T18:34:58Z".parse().unwrap());
        assert_eq!(pause, Duration::from_secs(2));
    }

    #[tokio::test]
    async fn a_machine_that_has_slept_does_not_make_up_for_all_of_it() {
        let schedules = schedules(&["* * * * *"], "2026-11-21T08:00:00Z");
        assert_eq!(times(&schedules, "2026-11-21T18:35:30Z").len(), 5);
    }
}
