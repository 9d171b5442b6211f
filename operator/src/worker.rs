//! Reconciles Workers: from the index to WorkerRevisions, status and Events.
//!
//! ```text
//!  Index ─► queue ─► draft ─► compiler ─► plan ─► apply ─► status ─► delete ─► Events
//! ```
//!
//! - [`plan`]: every decision. This module is pure.
//! - [`queue`]: when a Worker is reconciled, and when it is retried.
//! - [`Reconciler`]: performs a plan.

pub mod plan;
pub mod queue;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::events::{Event, Recorder};
use kube::{Api, Client, Resource};
use serde_json::json;
use tenon_crds::{Worker, WorkerRevision};
use tenon_proto::id::WorkerId;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::compiler::{Compiler, CompilerError};
use crate::index::{Candidate, key};
use crate::metrics::Metrics;
use plan::Plan;

/// The field manager of the fields that the reconcilers apply.
pub const MANAGER: &str = "tenon-operator";

/// Performs plans. Only the leader may call it.
#[derive(Clone)]
pub struct Reconciler {
    client: Client,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    compiler: Compiler,
    writing: Arc<Semaphore>,
}

/// Maximum number of plans performed concurrently: enough to hide the API server's latency without
/// overloading it.
const WRITING: usize = 16;

/// The reason why a reconcile failed. It will be retried.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("cannot apply WorkerRevision {name}: {source}")]
    Apply { name: String, source: kube::Error },
    #[error("cannot delete WorkerRevision {name}: {source}")]
    Delete { name: String, source: kube::Error },
    #[error("cannot set the status: {0}")]
    Status(kube::Error),
    #[error("cannot compile the modules: {0}")]
    Compile(#[from] CompilerError),
    #[error("cannot plan: {0}")]
    Plan(#[from] tokio::task::JoinError),
}

impl ReconcileError {
    /// Returns whether the namespace is being deleted, and therefore takes no new objects. A retry
    /// would be pointless.
    fn is_moot(&self) -> bool {
        let (Self::Apply { source, .. } | Self::Delete { source, .. } | Self::Status(source)) =
            self
        else {
            return false;
        };
        let kube::Error::Api(status) = source else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}

impl Reconciler {
    pub fn new(
        client: Client,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        compiler: Compiler,
    ) -> Self {
        Self { client, recorder, metrics, compiler, writing: Arc::new(Semaphore::new(WRITING)) }
    }

    /// Brings a Worker's revisions and status to the desired state.
    ///
    /// # Errors
    /// Fails if a Worker cannot be compiled, or the API server refuses a part. Completed parts
    /// stay, and the retry continues from there.
    pub async fn reconcile(&self, candidate: Candidate) -> Result<(), ReconcileError> {
        let timer = self.metrics.reconcile("Worker");
        let mut result = self.make(Arc::new(candidate)).await;
        if result.as_ref().is_err_and(ReconcileError::is_moot) {
            result = Ok(());
        }
        timer.ended(result.is_ok());
        result
    }

    async fn make(&self, candidate: Arc<Candidate>) -> Result<(), ReconcileError> {
        // The digest of many modules takes milliseconds, so it is not computed on a thread that
        // also serves the catalog.
        let drafted = candidate.clone();
        let mut draft = spawn_blocking(move || plan::draft(&drafted)).await?;
        if let Some(job) = draft.job() {
            let outcome = self.compiler.compile(candidate.id.namespace(), job).await?;
            draft = draft.compiled(outcome);
        }
        let (planned, now) = (candidate.clone(), Timestamp::now());
        let plan = spawn_blocking(move || plan::plan(&planned, draft, now)).await?;
        let _writing = self.writing.acquire().await.expect("the semaphore is never closed");
        self.carry_out(&candidate.id, &candidate.worker, plan).await
    }

    async fn carry_out(
        &self,
        id: &WorkerId,
        worker: &Worker,
        plan: Plan,
    ) -> Result<(), ReconcileError> {
        let workers: Api<Worker> = Api::namespaced(self.client.clone(), id.namespace());
        let revisions: Api<WorkerRevision> = Api::namespaced(self.client.clone(), id.namespace());
        let apply = PatchParams::apply(MANAGER).force();
        if let Some(revision) = plan.apply {
            let (_, name) = key(&revision);
            let applied = revisions.patch(&name, &apply, &Patch::Apply(&revision)).await;
            applied.map_err(|source| ReconcileError::Apply { name, source })?;
        }
        if let Some(status) = plan.status {
            let patch = json!({
                "apiVersion": Worker::api_version(&()),
                "kind": Worker::kind(&()),
                "metadata": {
                    "uid": worker.metadata.uid,
                    "resourceVersion": worker.metadata.resource_version,
                },
                "status": status,
            });
            match workers.patch_status(id.name(), &apply, &Patch::Apply(patch)).await {
                // The Worker was changed or deleted meanwhile, so the plan is outdated. The watch
                // reports it, and the Worker is planned anew.
                Err(kube::Error::Api(error)) if error.code == 404 || error.code == 409 => {
                    return Ok(());
                }
                result => drop(result.map_err(ReconcileError::Status)?),
            }
        }
        for name in plan.delete {
            match revisions.delete(&name, &DeleteParams::background()).await {
                Err(kube::Error::Api(error)) if error.code == 404 => {}
                result => drop(result.map_err(|source| ReconcileError::Delete { name, source })?),
            }
        }
        for event in plan.events {
            self.publish(worker, event).await;
        }
        Ok(())
    }

    /// Records an Event. An Event is only informative, so a failure does not repeat the rest.
    async fn publish(&self, worker: &Worker, event: Event) {
        if let Err(error) = self.recorder.publish(&event, &worker.object_ref(&())).await {
            tracing::warn!(%error, reason = event.reason, "cannot record an Event");
        }
    }
}
