//! Decides which of a Worker's scheduled times are due, and what its status says once they are
//! claimed. This module is pure.
//!
//! ```text
//!  last handled ──────────────┬───────────────────────── now
//!          passed over        │ due: a call for each         next
//!                      now − CATCH_UP
//! ```
//!
//! The status states how far each schedule has progressed. The status is written *before* the
//! Worker is called, with the resource version on which it is based: of two concurrent claims, only
//! one succeeds, so there are never two calls for a time. If a replica stops between the write and
//! the call, there is no call for that time. If a replica stops before the write, or cannot write,
//! the next leader makes the call, up to [`CATCH_UP`] late.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tenon_crds::{Schedule, ScheduleStatus, Worker};

use crate::timetable::Timetable;

/// Maximum delay of a call. It is longer than a change of leader or a restart of an API server
/// takes, and short enough that work is not started at an unexpected time.
pub const CATCH_UP: SignedDuration = SignedDuration::from_mins(5);

/// The actions that are due for a Worker's schedules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    /// The schedules of the new status, if they differ from those of the current status.
    pub claim: Option<Vec<ScheduleStatus>>,
    /// The calls to make once the claim is written.
    pub calls: Vec<Call>,
    /// Schedules with times that were skipped, because no call was made within [`CATCH_UP`].
    pub passed_over: Vec<Schedule>,
    /// The next time at which a call is due, if there is one.
    pub next: Option<Timestamp>,
}

/// One time of one schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub cron: String,
    pub time: Timestamp,
}

impl Due {
    /// Returns the actions that are due by `now`.
    pub fn of(worker: &Worker, now: Timestamp) -> Self {
        let status = worker.status.as_ref();
        let before = status.map(|status| status.schedules.as_slice()).unwrap_or_default();
        let serves = status.is_some_and(|status| status.latest_revision.is_some());
        let mut due = Self::default();
        let mut after = Vec::new();
        // No handler is called before a revision serves. Invalid schedules are reported in the
        // conditions.
        let schedules = worker.spec.schedules.iter().filter(|_| serves);
        for (schedule, timetable) in
            schedules.filter_map(|schedule| Some((schedule, Timetable::of(schedule).ok()?)))
        {
            let entry = before
                .iter()
                .find(|entry| entry.cron == schedule.cron && entry.time_zone == schedule.time_zone);
            let last = entry.map_or(now, |entry| entry.last_schedule_time.0);
            let last = due.take(schedule, &timetable, last, now);
            let Schedule { cron, time_zone } = schedule.clone();
            after.push(ScheduleStatus { cron, time_zone, last_schedule_time: Time(last) });
        }
        due.claim = (after != before).then_some(after);
        due
    }

    /// Adds the due calls of one schedule. Returns the schedule's new progress.
    fn take(
        &mut self,
        schedule: &Schedule,
        timetable: &Timetable,
        last: Timestamp,
        now: Timestamp,
    ) -> Timestamp {
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(last);
        let mut handled = last;
        if timetable.next_after(last).is_some_and(|next| next < earliest) {
            self.passed_over.push(schedule.clone());
            // This is just before the earliest time for which a call may still be made.
            handled = earliest.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(last);
        }
        let mut next = timetable.next_after(handled);
        while let Some(time) = next.filter(|time| *time <= now) {
            self.calls.push(Call { cron: schedule.cron.clone(), time });
            handled = time;
            next = timetable.next_after(time);
        }
        self.next = self.next.into_iter().chain(next).min();
        whole_seconds(handled).max(last)
    }
}

/// Truncates a time to whole seconds, as the API server stores it.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
