//! A test's own namespace, and the Workers in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace as Object, Secret};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tenon_crds::{Condition, ConditionStatus, Worker, WorkerSpec};

use crate::{Cluster, SOON, await_condition};

/// The platform's default domain.
const DOMAIN: &str = "tenon.localhost";

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// A namespace that nothing else uses.
#[derive(Clone)]
pub struct Namespace {
    cluster: Cluster,
    name: String,
}

impl Namespace {
    /// Creates a namespace with a unique name.
    ///
    /// # Arguments
    /// * `prefix` - the beginning of the name, which identifies the namespace in logs.
    pub async fn create(cluster: &Cluster, prefix: &str) -> anyhow::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() & 0xff_ffff;
        let name = format!("{prefix}-{now:06x}-{}", COUNTER.fetch_add(1, Ordering::Relaxed));
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let object = Object { metadata, ..Object::default() };
        Api::all(cluster.client()).create(&Default::default(), &object).await?;
        Ok(Self { cluster: cluster.clone(), name })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the host of a Worker without routes.
    pub fn host(&self, worker: &str) -> String {
        format!("{worker}.{}.{DOMAIN}", self.name)
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), &self.name)
    }

    /// Applies a Worker, as `kubectl apply --server-side` does.
    pub async fn apply(&self, worker: &Worker) -> anyhow::Result<()> {
        self.apply_as("tenon-e2e", worker).await
    }

    /// Applies a Worker as a field manager of this name.
    pub async fn apply_as(&self, manager: &str, worker: &Worker) -> anyhow::Result<()> {
        let name = worker.name_any();
        let params = PatchParams::apply(manager).force();
        let applied = self.api::<Worker>().patch(&name, &params, &Patch::Apply(worker)).await;
        applied.with_context(|| format!("cannot apply Worker {name}"))?;
        Ok(())
    }

    /// Applies a ConfigMap with exactly this data.
    pub async fn apply_config_map(&self, name: &str, data: &[(&str, &str)]) -> anyhow::Result<()> {
        let data: BTreeMap<_, _> = data.iter().copied().collect();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        let params = PatchParams::apply("tenon-e2e").force();
        self.api::<ConfigMap>().patch(name, &params, &Patch::Apply(object)).await?;
        Ok(())
    }

    /// Applies a Secret with exactly this data.
    pub async fn apply_secret(&self, name: &str, data: &[(&str, &str)]) -> anyhow::Result<()> {
        let data: BTreeMap<_, _> = data.iter().copied().collect();
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        let params = PatchParams::apply("tenon-e2e").force();
        self.api::<Secret>().patch(name, &params, &Patch::Apply(object)).await?;
        Ok(())
    }

    pub async fn worker(&self, name: &str) -> anyhow::Result<Worker> {
        Ok(self.api::<Worker>().get(name).await?)
    }

    pub async fn delete_worker(&self, name: &str) -> anyhow::Result<()> {
        self.api::<Worker>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until the latest generation of the Worker has the expected `Ready` status, and returns
    /// the condition.
    ///
    /// # Errors
    /// Fails if the Worker does not have the status within [`SOON`].
    pub async fn await_ready(
        &self,
        name: &str,
        expected: ConditionStatus,
    ) -> anyhow::Result<Condition> {
        await_condition(&format!("Worker {name} to be Ready={expected:?}"), SOON, async || {
            let worker = self.worker(name).await?;
            let status = worker.status.context("the Worker has no status yet")?;
            let ready = status
                .conditions
                .iter()
                .find(|condition| condition.type_ == "Ready")
                .context("the Worker has no Ready condition yet")?;
            ensure!(
                status.observed_generation == worker.metadata.generation,
                "the status describes an older generation"
            );
            ensure!(ready.status == expected, "the condition is {ready:?}");
            Ok(ready.clone())
        })
        .await
    }

    /// Deletes the namespace. Its objects are deleted in the background.
    pub async fn delete(&self) -> anyhow::Result<()> {
        Api::<Object>::all(self.cluster.client())
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

/// Returns a Worker with one module.
pub fn worker(name: &str, source: &str) -> Worker {
    let modules = [("worker.js".to_owned(), source.to_owned())];
    let mut worker = Worker::new(name, WorkerSpec::with_modules(modules));
    // A debug build on a busy machine needs this much, even in a pool with a lower default.
    worker.spec.limits.cpu_ms = Some(1_000);
    worker
}

/// Returns the source of a Worker that responds to every request with `text`.
pub fn answering(text: &str) -> String {
    format!("export default {{ fetch() {{ return new Response({}); }} }};", json!(text))
}
