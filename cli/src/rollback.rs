//! `tenon rollback`: sends all requests of a Worker to an earlier revision, or to the latest one
//! again.
//!
//! ```text
//!  list revisions ─► choose ─► patch spec.traffic ─► wait until routers serve it ─► print
//! ```
//!
//! The code and the rest of the spec stay as they are, except that `spec.rollout` is removed,
//! because it would also divide the requests. A Worker is rolled back even if its current spec is
//! invalid.

use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::anyhow;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tenon_crds::{ConditionStatus, RolloutPhase, Worker};
use tenon_operator::worker::plan::PROPAGATION_REASONS;

use crate::cluster::{Cluster, ClusterArgs};
use crate::revisions::{self, Row};

/// The owner of `spec.traffic` after a rollback. `tenon deploy` has another field manager, and
/// therefore reports a conflict instead of undoing a rollback. If the file has `spec.rollout`, the
/// schema refuses the object, because it allows only one of `spec.traffic` and `spec.rollout`.
const FIELD_MANAGER: &str = "tenon-rollback";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the Worker.
    #[arg(value_name = "WORKER")]
    worker: String,

    /// Name of the revision to serve, as in `tenon revisions`. Defaults to the revision before the
    /// one that serves now.
    #[arg(value_name = "REVISION", conflicts_with = "latest")]
    revision: Option<String>,

    /// Serve the latest revision, which undoes rollbacks.
    #[arg(long)]
    latest: bool,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Seconds within which routers must serve the revision.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Rolls the Worker back, and prints the revision that serves.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cluster = args.cluster.connect().await?;
        let (worker, rows) = revisions::read(&cluster, &args.worker).await?;
        let revision = choose(&rows, stable(&worker), args).map_err(|problem| {
            anyhow!("Worker {}/{}: {problem}", cluster.namespace, args.worker)
        })?;
        let traffic = match args.latest {
            true => json!(null),
            false => json!([{"revision": revision, "percent": 100}]),
        };
        let generation = cluster.patch_traffic(&args.worker, &traffic).await?;
        let limit = Duration::from_secs(args.timeout);
        let note = cluster.await_revision(&args.worker, &revision, generation, limit).await?;
        println!("{}/{}  {revision}", cluster.namespace, args.worker);
        note.inspect(|note| eprintln!("note: {note}"));
        Ok(())
    })
}

/// The reason why there is no revision to serve.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NoRevision {
    #[error("the Worker has no revision {0:?}; choose one of {1}")]
    Unknown(String, String),
    #[error(
        "the Worker has no revision before {0}; spec.revisionHistoryLimit sets how many are kept"
    )]
    NoneBefore(String),
    #[error("no revision has been accepted yet; `tenon status` says why")]
    NoneAccepted,
}

/// Returns the name of the revision that a rollout in progress replaces, if there is one.
fn stable(worker: &Worker) -> Option<&str> {
    let rollout = worker.status.as_ref()?.rollout.as_ref()?;
    rollout.stable.as_deref().filter(|_| rollout.phase == RolloutPhase::Progressing)
}

/// Returns the name of the revision to serve.
///
/// # Arguments
/// * `rows` - the Worker's revisions, the latest first.
/// * `stable` - the revision that a rollout in progress replaces.
fn choose(rows: &[Row], stable: Option<&str>, args: &Args) -> Result<String, NoRevision> {
    let latest = rows.iter().find(|row| row.latest).ok_or(NoRevision::NoneAccepted)?;
    if args.latest {
        return Ok(latest.name.clone());
    }
    if let Some(wanted) = &args.revision {
        let names = rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>();
        if !names.contains(&wanted.as_str()) {
            return Err(NoRevision::Unknown(wanted.clone(), names.join(", ")));
        }
        return Ok(wanted.clone());
    }
    if let Some(stable) = stable {
        return Ok(stable.to_owned());
    }
    // If the requests are divided, the revision with the largest share counts as serving.
    let serving = rows.iter().enumerate().rev().max_by_key(|(_, row)| row.percent);
    let (index, serving) = serving.ok_or(NoRevision::NoneAccepted)?;
    let before = rows.get(index + 1).ok_or_else(|| NoRevision::NoneBefore(serving.name.clone()))?;
    Ok(before.name.clone())
}

impl Cluster {
    /// Replaces `spec.traffic` of a Worker and removes `spec.rollout`. Returns the Worker's new
    /// generation.
    async fn patch_traffic(&self, name: &str, traffic: &serde_json::Value) -> anyhow::Result<i64> {
        let workers: Api<Worker> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = Patch::Merge(json!({"spec": {"traffic": traffic, "rollout": null}}));
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        let patched = workers.patch(name, &params, &patch).await.map_err(|error| {
            anyhow!("cannot change spec.traffic of Worker {}/{name}: {error}", self.namespace)
        })?;
        Ok(patched.metadata.generation.unwrap_or_default())
    }

    /// Waits until routers serve the revision alone. Returns what is wrong with the current spec,
    /// if anything is.
    async fn await_revision(
        &self,
        name: &str,
        revision: &str,
        generation: i64,
        limit: Duration,
    ) -> anyhow::Result<Option<String>> {
        let judge = |worker: &Worker| match progress(worker, revision, generation) {
            Progress::Serving(note) => ControlFlow::Break(Ok(note)),
            Progress::Waiting(why) => ControlFlow::Continue(why),
        };
        let failure = format!("does not serve revision {revision}");
        self.await_worker((&self.namespace, name), limit, &failure, judge).await
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The revision serves. The text states why the current spec cannot be served, if it cannot.
    Serving(Option<String>),
    Waiting(String),
}

/// Returns the progress of a rollback.
fn progress(worker: &Worker, revision: &str, generation: i64) -> Progress {
    let status = worker.status.clone().unwrap_or_default();
    if status.observed_generation.is_none_or(|observed| observed < generation) {
        return Progress::Waiting("no operator has seen the change".to_owned());
    }
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let why =
        ready.map_or_else(String::new, |ready| format!("{}: {}", ready.reason, ready.message));
    let targets = status.targets();
    let mut serving = targets.iter().filter(|target| target.percent > 0);
    if !serving.all(|target| target.revision == revision) {
        return Progress::Waiting(why);
    }
    // `Programmed` says whether routers have acknowledged what was accepted, even if the rest of
    // the spec was not.
    let programmed = status.conditions.iter().find(|condition| condition.type_ == "Programmed");
    let is_propagating =
        programmed.is_none_or(|found| PROPAGATION_REASONS.contains(&found.reason.as_str()));
    match ready.map(|ready| ready.status) {
        _ if is_propagating => Progress::Waiting(why),
        Some(ConditionStatus::True) => Progress::Serving(None),
        _ => Progress::Serving(Some(format!("the current spec is not served: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisions::tests::worker;

    fn row(name: &str, percent: i32, latest: bool) -> Row {
        Row { name: name.to_owned(), created: None, percent, previews: Vec::new(), latest }
    }

    fn args(revision: Option<&str>, latest: bool) -> Args {
        Args {
            worker: "cart".to_owned(),
            revision: revision.map(str::to_owned),
            latest,
            cluster: ClusterArgs::default(),
            timeout: 1,
        }
    }

    #[test]
    fn the_revision_before_the_one_that_serves_is_chosen() {
        let rows = [row("cart-3", 100, true), row("cart-2", 0, false), row("cart-1", 0, false)];
        assert_eq!(choose(&rows, None, &args(None, false)), Ok("cart-2".to_owned()));
        let rows = [row("cart-3", 0, true), row("cart-2", 100, false), row("cart-1", 0, false)];
        assert_eq!(choose(&rows, None, &args(None, false)), Ok("cart-1".to_owned()));
        assert_eq!(choose(&rows, None, &args(None, true)), Ok("cart-3".to_owned()));
        let oldest = [row("cart-1", 100, true)];
        let none = NoRevision::NoneBefore("cart-1".to_owned());
        assert_eq!(choose(&oldest, None, &args(None, false)), Err(none));
    }

    #[test]
    fn the_stable_revision_of_a_rollout_in_progress_is_chosen() {
        let rollout = |phase: &str| {
            let rollout = json!({
                "revision": "cart-3", "stable": "cart-2", "phase": phase, "step": 0, "percent": 10,
                "stepStartedAt": "2026-01-01T00:00:00Z", "message": "",
            });
            worker(json!({"rollout": rollout}), &[]).0
        };
        let rows = [row("cart-3", 10, true), row("cart-2", 90, false), row("cart-1", 0, false)];
        let chosen = |phase: &str| choose(&rows, stable(&rollout(phase)), &args(None, false));
        assert_eq!(chosen("Progressing"), Ok("cart-2".to_owned()));
        assert_eq!(chosen("TakenBack"), Ok("cart-1".to_owned()));
    }

    #[test]
    fn the_refusal_of_an_unknown_revision_lists_the_known_revisions() {
        let rows = [row("cart-2", 100, true), row("cart-1", 0, false)];
        assert_eq!(choose(&rows, None, &args(Some("cart-1"), false)), Ok("cart-1".to_owned()));
        let unknown = choose(&rows, None, &args(Some("cart-9"), false)).unwrap_err();
        assert!(unknown.to_string().ends_with("choose one of cart-2, cart-1"), "{unknown}");
        assert_eq!(choose(&[], None, &args(None, false)), Err(NoRevision::NoneAccepted));
    }

    #[test]
    fn a_rollback_is_complete_once_routers_serve_only_that_revision() {
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": "so",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let status = |traffic: &str, ready: &str, programmed: &str| {
            let accepted = json!({
                "pool": "default", "routes": [],
                "traffic": [{"revision": traffic, "percent": 100}],
            });
            let conditions =
                [condition("Ready", ready, "Why"), condition("Programmed", "False", programmed)];
            let status = json!({
                "observedGeneration": 2, "conditions": conditions, "latestRevision": "cart-2",
                "accepted": accepted,
            });
            worker(status, &[]).0
        };
        let waiting = Progress::Waiting("Why: so".to_owned());
        let served = status("cart-1", "True", "Programmed");
        assert_eq!(progress(&served, "cart-1", 2), Progress::Serving(None));
        assert_eq!(progress(&served, "cart-2", 2), waiting);
        assert_ne!(progress(&served, "cart-1", 3), Progress::Serving(None));
        for reason in PROPAGATION_REASONS {
            assert_eq!(progress(&status("cart-1", "False", reason), "cart-1", 2), waiting);
        }
        let broken = progress(&status("cart-1", "False", "Outdated"), "cart-1", 2);
        assert!(matches!(broken, Progress::Serving(Some(why)) if why.ends_with("Why: so")));
    }
}
