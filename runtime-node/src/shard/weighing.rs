//! Observes the cost of a shard's revisions after each response. [`super::weight`] judges the cost
//! for the supervisor, and [`super::heat`] for routers.
//!
//! The supervisor's `placement` decides where the revisions run. A shard that is not a process of
//! its own has no supervisor, and its revisions stay on it.

use std::rc::Rc;
use std::time::Instant;

use tenon_engine::Isolate;

use super::Shard;
use super::resident::Resident;
use super::weight::{LIGHT, Weight, WeightReport};

impl Shard {
    /// Judges the cost of a start. On a shard that is not a lane, a long start sends the revision
    /// back to the lanes, unless the next start will have bytecode; so does a CPU limit that is too
    /// high for such a shard.
    pub(super) fn weigh_start(&self, isolate: &Isolate) -> Weight {
        let weight = Weight::new(
            isolate.longest_blocking_time(),
            isolate.bytecode_lookup(),
            isolate.cpu_limit(),
        );
        if let Some(supervisor) =
            self.supervisor.as_ref().filter(|supervisor| !supervisor.is_lane())
            && weight.stays()
        {
            supervisor.report_heavy(&isolate.digest());
        }
        weight
    }

    /// Reports a heavy turn that belongs to no response: a turn of a WebSocket message, a timer or
    /// `waitUntil`. Work that has begun continues, but new requests go to the revision in a lane.
    /// If an evicted isolate has another heavy turn, its work that outlives responses is ended,
    /// because that work could otherwise delay its neighbors without limit.
    pub(super) fn weigh_background_turns(&self, isolate: &Rc<Isolate>) {
        let Some(supervisor) = self.supervisor.as_ref().filter(|supervisor| !supervisor.is_lane())
        else {
            return;
        };
        if isolate.longest_blocking_time() <= LIGHT {
            return;
        }
        let digest = isolate.digest();
        if self.pool.borrow().holds(&digest, |resident| Rc::ptr_eq(&resident.isolate, isolate)) {
            supervisor.report_heavy(&digest);
        } else {
            isolate.end_lingering();
        }
    }

    /// Returns whether routers should send a part of the Worker's requests to other shards.
    pub(super) fn is_hot(&self, resident: &Resident, now: Instant) -> bool {
        let busy = || self.event_loop.worker_total_busy_duration(0);
        self.heat.is_hot(&resident.heat, resident.isolate.cpu(), now, busy)
            || resident.semaphore.waiting() > 0
    }

    /// Reports the cost of an answered request. A request that exceeded a limit counts as well.
    pub(super) fn weigh(&self, resident: &Resident, now: Instant) {
        let Some(supervisor) = &self.supervisor else { return };
        let (isolate, digest) = (&resident.isolate, resident.isolate.digest());
        match resident.weight.add(isolate.longest_blocking_time(), now) {
            Some(WeightReport::Heavy) => supervisor.report_heavy(&digest),
            Some(WeightReport::Light(requests)) if supervisor.is_lane() => {
                supervisor.report_light(&digest, requests)
            }
            Some(WeightReport::Light(_)) | None => {}
        }
    }
}
