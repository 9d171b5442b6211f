//! Which of a Worker's times are due, and what its status is to say once they have been called for. Pure.
//!
//! ```text
//!  last handled ──────────────┬───────────────────────── now
//!          passed over        │ due: each is called for      next
//!                      now − CATCH_UP
//! ```
//!
//! The status says how far each schedule has come. It is written *before* the Worker is called, by a write that names the
//! version it was made from: of two who try only one succeeds, so a time is never called for twice. Who dies between the
//! write and the call loses that time; who dies, or cannot write, before it leaves it to the next, for as long as
//! [`CATCH_UP`].

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tenon_crds::{Schedule, ScheduleStatus, Worker};

use super::timetable::Timetable;

/// How late a time may be called for: longer than it takes to find another leader, or to restart an API server, and not so
/// long that work of another hour comes as a surprise.
pub const CATCH_UP: SignedDuration = SignedDuration::from_mins(5);

/// What is to be done about a Worker's schedules now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    /// What its status is to say, where that is not what it says.
    pub claim: Option<Vec<ScheduleStatus>>,
    /// What the Worker is to be called for, once that is written.
    pub calls: Vec<Call>,
    /// Schedules of which times were passed over, because nobody has been there to call for them.
    pub passed_over: Vec<Schedule>,
    /// When there is something to do next.
    pub next: Option<Timestamp>,
}

/// One time of one schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub cron: String,
    pub time: Timestamp,
}

impl Due {
    /// What is due by `now`.
    pub fn of(worker: &Worker, now: Timestamp) -> Self {
        let status = worker.status.as_ref();
        let before = status.map(|status| status.schedules.as_slice()).unwrap_or_default();
        let serves = status.is_some_and(|status| status.latest_revision.is_some());
        let mut due = Self::default();
        let mut after = Vec::new();
        // Before anything serves nothing is called for. What cannot be followed, the conditions say.
        let schedules = worker.spec.schedules.iter().filter(|_| serves);
        for (schedule, timetable) in schedules.filter_map(|schedule| Some((schedule, Timetable::of(schedule).ok()?))) {
            let entry =
                before.iter().find(|entry| entry.cron == schedule.cron && entry.time_zone == schedule.time_zone);
            let last = entry.map_or(now, |entry| entry.last_schedule_time.0);
            let last = due.take(schedule, &timetable, last, now);
            let Schedule { cron, time_zone } = schedule.clone();
            after.push(ScheduleStatus { cron, time_zone, last_schedule_time: Time(last) });
        }
        due.claim = (after != before).then_some(after);
        due
    }

    /// Takes in what is due of one schedule. Returns how far it has come then.
    fn take(&mut self, schedule: &Schedule, timetable: &Timetable, last: Timestamp, now: Timestamp) -> Timestamp {
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(last);
        let mut handled = last;
        if timetable.next_after(last).is_some_and(|next| next < earliest) {
            self.passed_over.push(schedule.clone());
            // Just before what may still be called for.
            handled = earliest.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(last);
        }
        let mut next = timetable.next_after(handled);
        while let Some(time) = next.filter(|time| *time <= now) {
            self.calls.push(Call { cron: schedule.cron.clone(), time });
            handled = time;
            next = timetable.next_after(time);
        }
        self.next = self.next.into_iter().chain(next).min();
        whole(handled).max(last)
    }
}

/// As the API server keeps it: to the second.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
