//! Tests that an uninstallation leaves only the CRDs behind. Helm keeps the CRDs, because their
//! deletion deletes every Worker.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::discovery::{ApiResource, Discovery, verbs};
use kube::{Api, ResourceExt};
use tenon_crds::Worker;
use tenon_e2e::{Cluster, await_condition};

use crate::helm::set;
use crate::stage::{SYSTEM, Stage};

/// Time limit for deletions, which wait for Kubernetes' garbage collector and the Pods' grace
/// period.
const GONE_WITHIN: Duration = Duration::from_secs(120);

/// Kinds whose objects come and go by themselves, or mirror objects of kinds that are compared.
const TRANSIENT_KINDS: [&str; 4] = ["Event", "PodMetrics", "NodeMetrics", "ComponentStatus"];

/// Objects that every namespace has.
const DEFAULT_OBJECTS: [(&str, &str); 2] =
    [("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")];

/// Identifies an object of any kind, and states whether it has Tenon's label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    kind: String,
    group: String,
    namespace: Option<String>,
    name: String,
    is_labeled: bool,
}

pub async fn uninstalling_leaves_only_the_crds(stage: &Stage) -> anyhow::Result<String> {
    stage.helm.uninstall("tenon").await?;
    let left = await_condition(
        "all objects of Tenon except its CRDs to be gone",
        GONE_WITHIN,
        async || {
            let left = left(stage).await?;
            let (crds, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(Object::belongs_to_the_crds);
            ensure!(others.is_empty(), "these objects still exist: {}", list(&others));
            Ok(crds)
        },
    )
    .await?;
    let workers = stage.namespace.api::<Worker>().list(&ListParams::default()).await?.items.len();
    ensure!(workers > 0, "the uninstallation deleted the Workers of tenants");
    Ok(format!("these still exist: {workers} Workers, {}", list(&left)))
}

pub async fn the_crds_are_removed_on_request(stage: &Stage) -> anyhow::Result<String> {
    let chart = stage.current.chart("tenon-crds");
    stage.helm.upgrade("tenon-crds", &chart, &[set("keep", "false")]).await?;
    stage.helm.uninstall("tenon-crds").await?;
    await_condition("the CRDs to be gone", GONE_WITHIN, async || {
        let left: Vec<_> = left(stage).await?.into_iter().collect();
        ensure!(left.is_empty(), "these objects still exist: {}", list(&left));
        Ok(())
    })
    .await?;
    stage.namespace.delete().await?;
    Api::<Namespace>::all(stage.cluster.client()).delete(SYSTEM, &DeleteParams::default()).await?;
    Ok(String::new())
}

impl Object {
    /// Returns whether the object is a CRD, an object that the API server derives from one, or
    /// Helm's record of the CRDs' release.
    fn belongs_to_the_crds(&self) -> bool {
        match self.kind.as_str() {
            "CustomResourceDefinition" | "APIService" => self.name.ends_with(".tenon.dev"),
            "Secret" => self.name.starts_with("sh.helm.release.v1.tenon-crds."),
            _ => false,
        }
    }
}

/// Returns the objects that were not in the cluster before the installation: those in Tenon's
/// namespace, cluster-scoped ones, and those with Tenon's label in other namespaces, except the
/// namespace of the tests.
async fn left(stage: &Stage) -> anyhow::Result<BTreeSet<Object>> {
    let before =
        stage.before.get().context("the objects were not listed before the installation")?;
    let mut now = everything(&stage.cluster).await?;
    now.retain(|object| {
        let is_checked = match object.namespace.as_deref() {
            None | Some(SYSTEM) => true,
            Some(namespace) => object.is_labeled && namespace != stage.namespace.name(),
        };
        is_checked && !before.contains(object)
    });
    Ok(now)
}

/// Returns every object that the API server can list, except transient and default ones.
pub async fn everything(cluster: &Cluster) -> anyhow::Result<BTreeSet<Object>> {
    let discovery = Discovery::new(cluster.client())
        .run()
        .await
        .context("cannot list the API server's kinds")?;
    let listable = discovery.groups().flat_map(|group| group.recommended_resources());
    let listable = listable.filter(|(kind, capabilities)| {
        capabilities.supports_operation(verbs::LIST) && !is_transient(kind)
    });
    let lists = stream::iter(listable).map(|(kind, _)| objects(cluster, kind)).buffer_unordered(8);
    Ok(lists.try_collect::<Vec<_>>().await?.into_iter().flatten().collect())
}

async fn objects(cluster: &Cluster, kind: ApiResource) -> anyhow::Result<Vec<Object>> {
    let api: Api<DynamicObject> = Api::all_with(cluster.client(), &kind);
    let listed = match api.list_metadata(&ListParams::default()).await {
        Ok(listed) => listed.items,
        // The kind was deleted after discovery.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot list {}", kind.plural)),
    };
    let object = |found: kube::core::PartialObjectMeta<DynamicObject>| Object {
        kind: kind.kind.clone(),
        group: kind.group.clone(),
        namespace: found.namespace(),
        name: found.name_any(),
        is_labeled: found
            .labels()
            .get("app.kubernetes.io/part-of")
            .is_some_and(|whole| whole == "tenon"),
    };
    let is_default =
        |object: &Object| DEFAULT_OBJECTS.contains(&(object.kind.as_str(), object.name.as_str()));
    Ok(listed.into_iter().map(object).filter(|object| !is_default(object)).collect())
}

fn is_transient(kind: &ApiResource) -> bool {
    TRANSIENT_KINDS.contains(&kind.kind.as_str())
}

fn list(objects: &[Object]) -> String {
    objects.iter().map(Object::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
