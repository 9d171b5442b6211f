//! Reconciles RuntimePools: each becomes a Deployment of nodes, a PodDisruptionBudget, a headless
//! Service and, if it has a front, a Service for clients.
//!
//! [`plan`] and `status` decide; this module watches and applies. There are few pools, so kube's
//! own Controller runs the reconciles. [`references`] reads the objects to which pools refer.

pub mod plan;
pub mod references;
mod status;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tenon_crds::RuntimePool;
use tokio::sync::watch;

use crate::leader::starts;
use crate::metrics::Metrics;
use crate::owner;
use crate::refusal::Refusal;
use crate::worker::MANAGER;
use crate::worker::queue::backoff;
use plan::Settings;
use references::Kind;
use status::Obstacle;

/// The dependencies of a pool's reconcile.
pub struct Context {
    pub client: Client,
    pub namespace: String,
    pub settings: Settings,
    pub leading_rx: watch::Receiver<bool>,
    pub metrics: Arc<Metrics>,
    pub failures: Failures,
}

/// The number of consecutive failures of each pool that has failed.
#[derive(Default)]
pub struct Failures(Mutex<HashMap<String, u32>>);

impl Failures {
    /// Counts a failure, and returns the delay of the retry.
    fn count(&self, pool: &RuntimePool) -> Duration {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = all.entry(pool.name_any()).or_insert(0);
        *failures += 1;
        backoff(*failures)
    }

    fn forget(&self, pool: &RuntimePool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pool.name_any());
    }
}

/// The error for a part of a pool that could not be read or applied.
#[derive(Debug, thiserror::Error)]
#[error("cannot read or apply the {kind} of RuntimePool {pool}: {source}")]
pub struct PoolError {
    kind: &'static str,
    pool: String,
    source: kube::Error,
}

/// Reconciles pools whenever this replica leads, for the lifetime of the process.
pub async fn run(context: Context) {
    let client = context.client.clone();
    let children = |kind| watcher::Config::default().labels(kind);
    let mut leading_rx = context.leading_rx.clone();
    let starts = starts(leading_rx.clone());
    // Nothing needs to be done before this replica leads for the first time.
    if leading_rx.wait_for(|leads| *leads).await.is_err() {
        return;
    }
    let namespace = context.namespace.clone();
    let controller =
        Controller::new(Api::<RuntimePool>::all(client.clone()), watcher::Config::default());
    let pools = controller.store();
    let users_of = |kind: Kind| {
        let pools = pools.clone();
        let settings = context.settings.clone();
        move |name: String| {
            let refers = |pool: &Arc<RuntimePool>| {
                let presents = || plan::certificate(pool, &settings).as_ref() == Some(&name);
                (kind == Kind::Secret && presents())
                    || references::references(pool)
                        .iter()
                        .any(|reference| reference.kind == kind && reference.name == name)
            };
            pools
                .state()
                .into_iter()
                .filter(refers)
                .map(|pool| ObjectRef::from_obj(&*pool))
                .collect::<Vec<_>>()
        }
    };
    let (config_map_users, secret_users) = (users_of(Kind::ConfigMap), users_of(Kind::Secret));
    controller
        .owns(Api::<Deployment>::namespaced(client.clone(), &namespace), children(plan::SELECTOR))
        .owns(Api::<Service>::namespaced(client.clone(), &namespace), children(plan::SELECTOR))
        .owns(
            Api::<PodDisruptionBudget>::namespaced(client.clone(), &namespace),
            children(plan::SELECTOR),
        )
        .watches(
            metadata_api::<ConfigMap>(&client, &namespace),
            watcher::Config::default(),
            move |config_map| config_map_users(config_map.name_any()),
        )
        .watches(
            metadata_api::<Secret>(&client, &namespace),
            watcher::Config::default(),
            move |secret| secret_users(secret.name_any()),
        )
        .reconcile_all_on(starts)
        .run(
            reconcile,
            |pool, _, context| Action::requeue(context.failures.count(&pool)),
            Arc::new(context),
        )
        .for_each(|result| async move {
            match result {
                // A deleted pool needs only the garbage collection of its children.
                Ok(_) | Err(controller::Error::ObjectNotFound(_)) => {}
                Err(error) => tracing::warn!(%error, "cannot reconcile a RuntimePool; retrying"),
            }
        })
        .await;
}

/// Returns an API that watches only the metadata of objects. The content of an object is read when
/// a pool refers to it.
fn metadata_api<K>(client: &Client, namespace: &str) -> Api<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace)
}

async fn reconcile(pool: Arc<RuntimePool>, context: Arc<Context>) -> Result<Action, PoolError> {
    if !*context.leading_rx.borrow() || owner::is_being_deleted(&*pool) {
        context.failures.forget(&pool);
        return Ok(Action::await_change());
    }
    let timer = context.metrics.reconcile("RuntimePool");
    let result = apply_and_set_status(&pool, &context).await;
    timer.ended(result.is_ok());
    result.map(|()| {
        context.failures.forget(&pool);
        Action::await_change()
    })
}

/// Applies the objects of a pool, and sets the pool's status, even if an object is refused.
async fn apply_and_set_status(pool: &RuntimePool, context: &Context) -> Result<(), PoolError> {
    let applied = apply(pool, context).await;
    let front = pool.spec.front.as_ref().filter(|_| !context.settings.admit_fronts);
    let (deployment, obstacle, result) = match applied {
        Ok((deployment, obstacle)) => {
            (deployment, obstacle.or(front.map(|_| Obstacle::Front)), Ok(()))
        }
        Err(error) => match Refusal::of(&error.source) {
            Some(refusal) => {
                let stored = stored_deployment(pool, context).await?;
                (stored, Some(Obstacle::Refused(refusal)), Err(error))
            }
            None => return Err(error),
        },
    };
    set_status(pool, context, deployment.as_ref(), obstacle.as_ref()).await?;
    result
}

/// Applies the objects of a pool. Returns the stored Deployment, and the reason why it does not
/// match the spec, if there is one.
async fn apply(
    pool: &RuntimePool,
    context: &Context,
) -> Result<(Option<Deployment>, Option<Obstacle>), PoolError> {
    let failed = |kind| move |source| PoolError { kind, pool: pool.name_any(), source };
    let read =
        references::read(&context.client, &context.namespace, &references::references(pool)).await;
    let (referred, missing) = match read.map_err(failed("references"))? {
        Ok(referred) => (referred, None),
        Err(missing) => (None, Some(Obstacle::Missing(missing))),
    };
    let obstacle = match missing {
        Some(missing) => Some(missing),
        None => missing_certificate(pool, context).await.map_err(failed("certificate"))?,
    };
    let children = plan::children(pool, &context.namespace, &context.settings, referred.as_deref());
    apply_one(context, "Service", &children.service, pool).await?;
    apply_one(context, "PodDisruptionBudget", &children.budget, pool).await?;
    match &children.front {
        Some(front) => _ = apply_one(context, "Service", front, pool).await?,
        None => delete_front(context, pool).await.map_err(failed("Service"))?,
    }
    let deployment = if obstacle.is_none() {
        Some(apply_one(context, "Deployment", &children.deployment, pool).await?)
    } else {
        // Existing nodes continue with the previous content. New nodes could not start.
        stored_deployment(pool, context).await?
    };
    Ok((deployment, obstacle))
}

/// Returns the obstacle of a pool whose certificate has not been issued yet. A Pod that is created
/// before the Secret would wait a minute for its volume.
async fn missing_certificate(
    pool: &RuntimePool,
    context: &Context,
) -> kube::Result<Option<Obstacle>> {
    let Some(secret) = plan::certificate(pool, &context.settings) else { return Ok(None) };
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &context.namespace);
    let found = secrets.get_metadata_opt(&secret).await?;
    Ok(found.is_none().then_some(Obstacle::NoCertificate { secret }))
}

/// Deletes the Service for clients, if the pool had a front.
async fn delete_front(context: &Context, pool: &RuntimePool) -> kube::Result<()> {
    let services: Api<Service> = Api::namespaced(context.client.clone(), &context.namespace);
    match services.delete(&plan::front_name(pool), &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    }
}

async fn stored_deployment(
    pool: &RuntimePool,
    context: &Context,
) -> Result<Option<Deployment>, PoolError> {
    let deployments: Api<Deployment> = Api::namespaced(context.client.clone(), &context.namespace);
    let stored = deployments.get_opt(&plan::child_name(pool)).await;
    stored.map_err(|source| PoolError { kind: "Deployment", pool: pool.name_any(), source })
}

async fn set_status(
    pool: &RuntimePool,
    context: &Context,
    deployment: Option<&Deployment>,
    obstacle: Option<&Obstacle>,
) -> Result<(), PoolError> {
    let status = status::status(pool, deployment, obstacle, Timestamp::now());
    if pool.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let patch = json!({
        "apiVersion": RuntimePool::api_version(&()),
        "kind": RuntimePool::kind(&()),
        "status": status,
    });
    let pools: Api<RuntimePool> = Api::all(context.client.clone());
    let params = PatchParams::apply(MANAGER).force();
    let patched = pools.patch_status(&pool.name_any(), &params, &Patch::Apply(patch)).await;
    patched.map(drop).map_err(|source| PoolError { kind: "status", pool: pool.name_any(), source })
}

async fn apply_one<K>(
    context: &Context,
    kind: &'static str,
    object: &K,
    pool: &RuntimePool,
) -> Result<K, PoolError>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), &context.namespace);
    let params = PatchParams::apply(MANAGER).force();
    let applied = api.patch(&object.name_any(), &params, &Patch::Apply(object)).await;
    applied.map_err(|source| PoolError { kind, pool: pool.name_any(), source })
}
