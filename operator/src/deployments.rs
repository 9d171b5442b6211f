//! Tracks deployments: the number of Workers in each stage, and the time from a changed spec to
//! readiness. This module is pure.
//!
//! ```text
//!  a new generation ─► Pending ─┬─ Ready=True on it ──► Ready: the elapsed time is reported, once
//!                               └─ Ready=False on it ─► Failing: not timed; its author must act
//! ```

use std::collections::HashMap;
use std::time::{Duration, Instant};

use prometheus::{Histogram, IntGaugeVec, Registry};
use tenon_crds::{ConditionStatus, Worker};
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{EnumMap, Register as _};
use tenon_proto::id::WorkerId;

/// Bucket boundaries in seconds. The target is one second.
const READY_BUCKETS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

label_values! {
    /// The state of a Worker's newest spec according to its status.
    pub enum Stage {
        /// The status does not cover the newest spec yet.
        Pending = "pending",
        Ready = "ready",
        /// The spec cannot be deployed; the condition says why.
        Failing = "failing",
    }
}

impl Stage {
    fn of(worker: &Worker) -> Self {
        let conditions = worker.status.iter().flat_map(|status| &status.conditions);
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
        match ready.filter(|ready| ready.observed_generation == worker.metadata.generation) {
            Some(ready) if ready.status == ConditionStatus::True => Self::Ready,
            Some(ready) if ready.status == ConditionStatus::False => Self::Failing,
            // The status is older than the spec, or no router has acknowledged the revision yet.
            None | Some(_) => Self::Pending,
        }
    }
}

/// The observed state of every Worker.
#[derive(Default)]
pub struct Deployments {
    workers: HashMap<WorkerId, Observation>,
    counts: EnumMap<Stage, usize>,
}

struct Observation {
    stage: Stage,
    generation: Option<i64>,
    /// The time from which the spec has been pending, or `None` if it is ready or failing.
    since: Option<Instant>,
}

impl Deployments {
    /// Records a Worker's current state. Returns the duration of the deployment, if the Worker has
    /// just become ready.
    pub fn observe(&mut self, id: &WorkerId, worker: &Worker, now: Instant) -> Option<Duration> {
        let (stage, generation) = (Stage::of(worker), worker.metadata.generation);
        let before =
            self.workers.remove(id).inspect(|before| *self.counts.get_mut(before.stage) -= 1);
        let ongoing = before
            .filter(|before| before.generation == generation && before.stage == Stage::Pending);
        let since = ongoing.map_or(Some(now), |before| before.since);
        *self.counts.get_mut(stage) += 1;
        self.workers.insert(
            id.clone(),
            Observation { stage, generation, since: since.filter(|_| stage == Stage::Pending) },
        );
        // A Worker that was not observed while this spec was pending is not timed, because the
        // start of its deployment is unknown.
        since.filter(|since| stage == Stage::Ready && *since < now).map(|since| now - since)
    }

    /// Removes a deleted Worker.
    pub fn forget(&mut self, id: &WorkerId) {
        if let Some(before) = self.workers.remove(id) {
            *self.counts.get_mut(before.stage) -= 1;
        }
    }

    /// Returns the number of Workers in each stage.
    pub fn counts(&self) -> impl Iterator<Item = (Stage, usize)> {
        self.counts.iter().map(|(stage, count)| (stage, *count))
    }
}

/// Metrics of deployments.
pub struct DeploymentMetrics {
    workers: IntGaugeVec,
    ready: Histogram,
}

impl DeploymentMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has these metrics.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            workers: registry.gauges(
                "tenon_operator_workers",
                "Workers, by the deployment stage of their newest spec.",
                &["stage"],
            )?,
            ready: registry.histogram(
                "tenon_operator_worker_ready_duration_seconds",
                "Time from the observation of a Worker's new spec until its status is ready.",
                READY_BUCKETS,
            )?,
        })
    }

    /// Sets the number of Workers in each stage, and observes the duration of a deployment that has
    /// just completed.
    pub fn set(&self, deployments: &Deployments, duration: Option<Duration>) {
        for (stage, count) in deployments.counts() {
            self.workers.with_label_values(&[stage.as_str()]).set(count as i64);
        }
        if let Some(duration) = duration {
            self.ready.observe(duration.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn worker(generation: i64, ready: Option<(bool, i64)>) -> Worker {
        let condition = ready.map(|(ready, observed)| {
            json!({
                "type": "Ready",
                "status": if ready { "True" } else { "False" },
                "reason": "Serving",
                "message": "",
                "lastTransitionTime": "2024-01-01T00:00:00Z",
                "observedGeneration": observed,
            })
        });
        let conditions: Vec<_> = condition.into_iter().collect();
        serde_json::from_value(json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "Worker",
            "metadata": {"name": "cart", "namespace": "shop", "generation": generation},
            "spec": {"source": {"modules": {"a.js": ""}}},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn counts(deployments: &Deployments) -> [usize; 3] {
        let mut counts = deployments.counts().map(|(_, count)| count);
        [(); 3].map(|()| counts.next().unwrap())
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_spec_is_timed_from_its_first_observation_until_it_is_ready() {
        let (mut deployments, id, now) =
            (Deployments::default(), WorkerId::new("shop", "cart"), Instant::now());
        let mut observe = |worker: Worker, at| deployments.observe(&id, &worker, now + SECOND * at);
        assert_eq!(observe(worker(1, None), 0), None);
        assert_eq!(observe(worker(1, None), 1), None);
        assert_eq!(observe(worker(1, Some((true, 1))), 2), Some(SECOND * 2));
        assert_eq!(observe(worker(1, Some((true, 1))), 3), None, "a deployment is reported twice");
        assert_eq!(
            observe(worker(2, Some((true, 1))), 10),
            None,
            "the deployment of an older generation is reported"
        );
        assert_eq!(observe(worker(3, Some((true, 1))), 11), None);
        assert_eq!(observe(worker(3, Some((true, 3))), 14), Some(SECOND * 3));
    }

    #[test]
    fn a_deployment_that_fails_is_not_timed() {
        let (mut deployments, id, now) =
            (Deployments::default(), WorkerId::new("shop", "cart"), Instant::now());
        let mut observe = |worker: Worker, at| deployments.observe(&id, &worker, now + SECOND * at);
        assert_eq!(observe(worker(1, None), 0), None);
        assert_eq!(observe(worker(1, Some((false, 1))), 1), None);
        assert_eq!(observe(worker(1, Some((true, 1))), 100), None);
        assert_eq!(observe(worker(2, Some((true, 1))), 101), None);
        assert_eq!(observe(worker(2, Some((true, 2))), 102), Some(SECOND));
    }

    #[test]
    fn a_worker_that_was_ready_before_the_operator_started_is_counted_and_not_timed() {
        let (mut deployments, id, now) =
            (Deployments::default(), WorkerId::new("shop", "cart"), Instant::now());
        assert_eq!(deployments.observe(&id, &worker(1, Some((true, 1))), now), None);
        assert_eq!(counts(&deployments), [0, 1, 0]);
        assert_eq!(deployments.observe(&id, &worker(2, Some((false, 2))), now), None);
        assert_eq!(counts(&deployments), [0, 0, 1]);
        deployments.forget(&id);
        assert_eq!(counts(&deployments), [0, 0, 0]);
    }
}
