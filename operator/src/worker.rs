//! Reconciles Workers: from the index to WorkerRevisions, status and Events.
//!
//! ```text
//!  Index ─► queue ─► draft ─► compiler ─► plan ─► apply ─► status ─► Events ─► delete
//!             ▲                           │ ▲       │
//!             │ acknowledged    routers ◄─┘ └─ why ─┘ refused
//!             ├────────────────────┘
//!             └─ at the time that the plan names
//! ```
//!
//! - [`plan`]: every decision. This module is pure.
//! - [`queue`]: the order in which Workers are reconciled, and their retries.
//! - [`Reconciler`]: the handle that carries out plans.

pub mod plan;
pub mod queue;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde_json::{Value, json};
use tenon_compiler::process::{Compiler, CompilerError};
use tenon_crds::{Worker, WorkerRevision};
use tenon_proto::id::WorkerId;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

use crate::acknowledgement::Acknowledgements;
use crate::artifacts::{ArtifactError, Artifacts};
use crate::events::Events;
use crate::index::{Candidate, Published, key};
use crate::metrics::Metrics;
use crate::owner;
use crate::refusal::Refusal;
use plan::{Draft, Plan};

/// The field manager of the fields that the reconcilers apply.
pub const MANAGER: &str = "tenon-operator";

/// Plans a Worker on a thread that does not serve the catalog.
async fn plan_on_other_thread(
    candidate: &Arc<Candidate>,
    draft: &Arc<Draft>,
    refused: Option<Refusal>,
) -> Result<Plan, JoinError> {
    let (candidate, draft, now) = (candidate.clone(), draft.clone(), Timestamp::now());
    spawn_blocking(move || plan::plan(&candidate, &draft, refused, now)).await
}

/// A handle that carries out plans. Only the leader may use it.
#[derive(Clone)]
pub struct Reconciler {
    client: Client,
    events: Events,
    metrics: Arc<Metrics>,
    compiler: Compiler,
    artifacts: Artifacts,
    acknowledgements: Acknowledgements,
    writing: Arc<Semaphore>,
}

/// Maximum number of plans that are carried out concurrently. Concurrent plans hide the API
/// server's latency, and this number of plans does not overload the API server.
const MAX_CONCURRENT_PLANS: usize = 16;

/// Maximum delay until a plan that depends on the time is made again. It is bounded because the
/// machine's clock may be set meanwhile.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// The reason why a reconcile failed. The reconcile is retried.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("cannot apply WorkerRevision {name}: {source}")]
    Apply { name: String, source: kube::Error },
    #[error("cannot delete WorkerRevision {name}: {source}")]
    Delete { name: String, source: kube::Error },
    #[error("cannot set the Worker's status: {0}")]
    Status(kube::Error),
    #[error("cannot compile the modules: {0}")]
    Compile(#[from] CompilerError),
    #[error(transparent)]
    Artifact(Arc<ArtifactError>),
    #[error("cannot plan the Worker: {0}")]
    Plan(#[from] JoinError),
}

impl ReconcileError {
    /// Returns whether the namespace is being deleted and therefore accepts no new objects, so that
    /// a retry would be pointless.
    fn is_retry_pointless(&self) -> bool {
        let (Self::Apply { source, .. } | Self::Delete { source, .. } | Self::Status(source)) =
            self
        else {
            return false;
        };
        let kube::Error::Api(status) = source else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }

    fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Apply { source, .. } | Self::Delete { source, .. } | Self::Status(source)
                if !self.is_retry_pointless() =>
            {
                Refusal::of(source)
            }
            _ => None,
        }
    }
}

impl Reconciler {
    pub fn new(
        client: Client,
        events: Events,
        metrics: Arc<Metrics>,
        compiler: Compiler,
        artifacts: Artifacts,
        acknowledgements: Acknowledgements,
    ) -> Self {
        let writing = Arc::new(Semaphore::new(MAX_CONCURRENT_PLANS));
        Self { client, events, metrics, compiler, artifacts, acknowledgements, writing }
    }

    /// Brings a Worker's revisions and status to the desired state. Returns the delay after which
    /// the Worker must be planned again, if its plan depends on the time.
    ///
    /// # Errors
    /// Fails if the compiler returns no result, an artifact cannot be pulled, or the API server
    /// does not accept a part of the plan. The completed parts are kept, and a retry continues
    /// after them. Invalid code is not an error; the status reports it.
    pub async fn reconcile(
        &self,
        mut candidate: Candidate,
    ) -> Result<Option<Duration>, ReconcileError> {
        if owner::is_being_deleted(&*candidate.worker) {
            return Ok(None);
        }
        if let Some(Published { entry, acknowledged }) = &mut candidate.published {
            *acknowledged = self.acknowledgements.of(&candidate.id, entry);
        }
        let timer = self.metrics.reconcile("Worker");
        let mut result = self.reconcile_existing(Arc::new(candidate)).await;
        if result.as_ref().is_err_and(ReconcileError::is_retry_pointless) {
            result = Ok(None);
        }
        timer.ended(result.is_ok());
        result
    }

    async fn reconcile_existing(
        &self,
        candidate: Arc<Candidate>,
    ) -> Result<Option<Duration>, ReconcileError> {
        // The digest of many modules takes milliseconds, so it is not computed on a thread that
        // also serves the catalog.
        let drafted = candidate.clone();
        let draft = spawn_blocking(move || plan::draft(&drafted)).await?;
        let (draft, pulled) = self.pull(&candidate.worker, draft).await;
        let (draft, compiled) = self.compile(candidate.id.namespace(), draft).await;
        let next = self.write(&candidate, &Arc::new(draft)).await?;
        pulled?;
        compiled?;
        let delay = |next: Timestamp| next.duration_since(Timestamp::now()).try_into();
        Ok(next.map(|next| delay(next).unwrap_or(Duration::ZERO).min(LONGEST_DELAY)))
    }

    /// Pulls and compiles the artifact of a draft that has one. If the artifact cannot be used, the
    /// draft states the reason, and the error is returned too if a retry may succeed.
    async fn pull(&self, worker: &Worker, draft: Draft) -> (Draft, Result<(), ReconcileError>) {
        let Some(source) = draft.artifact() else { return (draft, Ok(())) };
        let pulled = self.artifacts.compile(source, worker.spec.entrypoint.as_deref()).await;
        let retry = match &pulled {
            Err(error) if error.is_transient() || error.is_from_registry() => {
                Err(ReconcileError::Artifact(Arc::clone(error)))
            }
            _ => Ok(()),
        };
        (draft.pulled(worker, pulled.as_ref().cloned().map_err(|error| &**error)), retry)
    }

    /// Compiles a draft that has a job. If the compilation fails, the draft states the reason.
    async fn compile(&self, namespace: &str, draft: Draft) -> (Draft, Result<(), CompilerError>) {
        let Some(job) = draft.job() else { return (draft, Ok(())) };
        match self.compiler.compile(namespace, job).await {
            Ok(outcome) => (draft.compiled(outcome), Ok(())),
            Err(error) => (draft.not_compiled(&error), Err(error)),
        }
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
            let patch = status_patch(worker, &status);
            match workers.patch_status(id.name(), &apply, &Patch::Apply(patch)).await {
                // The Worker was changed or deleted meanwhile, so the plan is outdated. The watch
                // reports it, and the Worker is planned again.
                Err(kube::Error::Api(error)) if error.code == 404 || error.code == 409 => {
                    return Ok(());
                }
                result => drop(result.map_err(ReconcileError::Status)?),
            }
        }
        for event in plan.events {
            self.events.publish(&event, &worker.object_ref(&())).await;
        }
        for name in plan.delete {
            match revisions.delete(&name, &DeleteParams::background()).await {
                Err(kube::Error::Api(error)) if error.code == 404 => {}
                result => drop(result.map_err(|source| ReconcileError::Delete { name, source })?),
            }
        }
        Ok(())
    }

    /// Plans a Worker and carries out the plan. The status reports the refusal of a revision. An
    /// Event reports other refusals, such as the refusal of the status itself. Returns the time at
    /// which the plan changes by itself.
    async fn write(
        &self,
        candidate: &Arc<Candidate>,
        draft: &Arc<Draft>,
    ) -> Result<Option<Timestamp>, ReconcileError> {
        let plan = plan_on_other_thread(candidate, draft, None).await?;
        let next = plan.next;
        match &candidate.published {
            Some(Published { entry, .. }) if plan.asks_routers => {
                self.acknowledgements.ask(&candidate.id, entry);
            }
            _ => self.acknowledgements.forget(&candidate.id),
        }
        let _writing = self.writing.acquire().await.expect("the semaphore is never closed");
        let mut written = self.carry_out(&candidate.id, &candidate.worker, plan).await;
        if let Err(error @ ReconcileError::Apply { .. }) = &written
            && let Some(refusal) = error.refusal()
        {
            let plan = plan_on_other_thread(candidate, draft, Some(refusal)).await?;
            let reported = self.carry_out(&candidate.id, &candidate.worker, plan).await;
            written = reported.and(written);
        }
        if let Err(error @ (ReconcileError::Status(_) | ReconcileError::Delete { .. })) = &written
            && let Some(refusal) = error.refusal()
        {
            let event = plan::failed(refusal.reason, error.to_string());
            self.events.publish(&event, &candidate.worker.object_ref(&())).await;
        }
        written.map(|()| next)
    }
}

/// Returns the patch that applies these fields of a Worker's status. The API server refuses it if
/// the Worker has changed since it was read, or has been replaced.
pub(crate) fn status_patch(worker: &Worker, status: &impl Serialize) -> Value {
    json!({
        "apiVersion": Worker::api_version(&()),
        "kind": Worker::kind(&()),
        "metadata": {
            "uid": worker.metadata.uid,
            "resourceVersion": worker.metadata.resource_version,
        },
        "status": status,
    })
}
