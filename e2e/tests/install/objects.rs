//! Lists all objects of a cluster.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DynamicObject, ListParams};
use kube::discovery::{ApiResource, Discovery, verbs};
use kube::{Api, ResourceExt};
use tenon_e2e::Cluster;

/// Kinds whose objects come and go by themselves, or mirror objects of kinds that are compared.
const TRANSIENT_KINDS: [&str; 4] = ["Event", "PodMetrics", "NodeMetrics", "ComponentStatus"];

/// Objects that every namespace has.
const DEFAULT_OBJECTS: [(&str, &str); 2] =
    [("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")];

/// Identifies an object of any kind, and states whether it has Tenon's label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    pub kind: String,
    pub group: String,
    pub namespace: Option<String>,
    pub name: String,
    pub is_labeled: bool,
}

impl Object {
    /// Returns whether the object is a CRD, an object that the API server derives from one, or
    /// Helm's record of the CRDs' release.
    pub fn belongs_to_the_crds(&self) -> bool {
        match self.kind.as_str() {
            "CustomResourceDefinition" | "APIService" => self.name.ends_with(".tenon.dev"),
            "Secret" => self.name.starts_with("sh.helm.release.v1.tenon-crds."),
            _ => false,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
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
            .is_some_and(|product| product == "tenon"),
    };
    let is_default =
        |object: &Object| DEFAULT_OBJECTS.contains(&(object.kind.as_str(), object.name.as_str()));
    Ok(listed.into_iter().map(object).filter(|object| !is_default(object)).collect())
}

fn is_transient(kind: &ApiResource) -> bool {
    TRANSIENT_KINDS.contains(&kind.kind.as_str())
}
