//! Derives the objects that the operator would create for an object that the API server accepts.
//!
//! All objects that the accepted object references exist here, so any fault in the result is due to
//! the accepted object alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tenon_artifact::Reference;
use tenon_crds::{
    Condition, ConditionStatus, HostGrant, PoolLimits, RuntimePool, Secret, Worker, WorkerRevision,
};
use tenon_operator::artifacts::Compiled;
use tenon_operator::claims::Holder;
use tenon_operator::grants::{self, Grants};
use tenon_operator::index::{Change, Index, Watched};
use tenon_operator::limits;
use tenon_operator::namespaces::Namespaces;
use tenon_operator::pool::plan::{Families, Settings, children};
use tenon_operator::revision::{resolve, worker_of};
use tenon_operator::worker::plan::{draft, plan};
use tenon_proto::id::{ArtifactDigest, WorkerId};
use url::Url;

/// A custom resource of Tenon.
pub trait Kind: Serialize + DeserializeOwned {
    /// Returns the API path at which objects of this kind are created.
    fn collection(namespace: &str) -> String;

    /// Returns the objects that the operator would create next, each with its collection. The
    /// created objects have no owner, because this object has never been stored.
    ///
    /// # Errors
    /// Fails if the operator would reject this object.
    fn consequences(self, namespace: &str) -> anyhow::Result<Vec<(String, Value)>>;
}

impl Kind for Worker {
    fn collection(namespace: &str) -> String {
        format!("/apis/tenon.dev/v1alpha1/namespaces/{namespace}/workers")
    }

    fn consequences(mut self, namespace: &str) -> anyhow::Result<Vec<(String, Value)>> {
        self.metadata.uid = None;
        let id = WorkerId::new(namespace, &self.name_any());
        let mut index = Index::new("platform.test");
        if let Some(reference) = &self.spec.source.config_map_ref {
            let entrypoint = self.spec.entrypoint.as_deref().unwrap_or("worker.js");
            let data = BTreeMap::from([(entrypoint, "export default {}")]);
            let config_map =
                json!({"metadata": {"name": reference.name, "namespace": namespace}, "data": data});
            index.apply(Change::ConfigMap(Watched::Applied(Arc::new(serde_json::from_value(
                config_map,
            )?))));
        }
        for (name, keys) in keys_by_secret(&self.spec.secrets) {
            let secret = json!({"metadata": {"name": name, "namespace": namespace}, "data": keys});
            index
                .apply(Change::Secret(Watched::Applied(Arc::new(serde_json::from_value(secret)?))));
        }
        if let Some(oci) = &self.spec.source.oci {
            oci.image
                .parse::<Reference>()
                .with_context(|| format!("cannot parse the image {:?}", oci.image))?;
            let name = oci.pull_secret_ref.as_ref().map(|reference| &reference.name);
            let secret = json!({"metadata": {"name": name, "namespace": namespace}});
            index
                .apply(Change::Secret(Watched::Applied(Arc::new(serde_json::from_value(secret)?))));
        }
        let pool = json!({"metadata": {"name": self.spec.pool}, "spec": {}});
        index.apply(Change::Pool(Watched::Applied(Arc::new(serde_json::from_value(pool)?))));
        index.apply(Change::Worker(Watched::Applied(Arc::new(self))));
        let candidate = index.candidate(&id).context("the index does not know the Worker")?;

        for (route, holder) in candidate.routes.iter().chain(&candidate.previews) {
            ensure!(*holder == Holder::Claimant, "the Worker does not hold its route {route:?}");
            // Clients parse URLs in this way: they resolve dot segments and encode characters that
            // a path must not contain.
            let requested = Url::parse(&format!("http://example.com{}", route.path))?;
            ensure!(requested.path() == route.path, "no request has the path {:?}", route.path);
        }
        let entrypoint = candidate.worker.spec.entrypoint.clone();
        let artifact = Compiled {
            assets: candidate.worker.spec.assets.as_ref().map(|_| ArtifactDigest::new([2; 32])),
            digest: ArtifactDigest::new([0; 32]),
            entrypoint: entrypoint.unwrap_or_else(|| "worker.js".to_owned()),
        };
        let draft = draft(&candidate).compiled_here().pulled(&candidate.worker, Ok(artifact));
        let plan = plan(&candidate, &draft, None, Timestamp::now());
        let conditions = plan.status.map(|status| status.conditions).unwrap_or_default();
        // A schema cannot describe valid JavaScript, existing dates, existing time zones or the
        // domains below which anyone can register others, and there are neither revisions nor
        // routers here.
        let beyond_schemas = [
            "SyntaxError",
            "NoRevision",
            "RevisionMissing",
            "InvalidSchedule",
            "PublicSuffix",
            "Propagating",
        ];
        let is_beyond_schemas = |reason: &str| beyond_schemas.contains(&reason);
        let refuses =
            |c: &&Condition| c.status != ConditionStatus::True && !is_beyond_schemas(&c.reason);
        if let Some(condition) = conditions.iter().find(refuses) {
            bail!("{}: {}", condition.reason, condition.message);
        }
        let revision = plan.apply.map(|revision| {
            Ok((WorkerRevision::collection(namespace), serde_json::to_value(revision)?))
        });
        revision.into_iter().collect()
    }
}

/// Returns the referenced keys of each Secret, with a value in Base64.
fn keys_by_secret(bindings: &[Secret]) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let mut by_secret: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for Secret { secret_key_ref: reference, .. } in bindings {
        by_secret.entry(&reference.name).or_default().insert(&reference.key, "dmFsdWU=");
    }
    by_secret
}

impl Kind for WorkerRevision {
    fn collection(namespace: &str) -> String {
        format!("/apis/tenon.dev/v1alpha1/namespaces/{namespace}/workerrevisions")
    }

    fn consequences(self, namespace: &str) -> anyhow::Result<Vec<(String, Value)>> {
        let name = self.name_any();
        ensure!(
            worker_of(&name) == Some(self.spec.worker.as_str()),
            "the name {name} is not that of a revision of {}",
            self.spec.worker
        );
        let id = WorkerId::new(namespace, &self.spec.worker);
        let revision =
            resolve(&id, &name, &self.spec, &PoolLimits::default(), |_| Some("value".to_owned()))?;
        if let Some(assets) = &revision.assets {
            tenon_assets::Settings::of(assets)?;
        }
        if let Some(artifact) = &self.spec.artifact {
            artifact
                .image
                .parse::<Reference>()
                .with_context(|| format!("cannot parse the image {:?}", artifact.image))?;
        }
        ensure!(
            revision.artifact.is_some() || revision.modules.contains_key(&revision.entrypoint),
            "there is no entrypoint {}",
            revision.entrypoint
        );
        let assets = self.spec.assets.as_ref().and_then(|assets| assets.binding.as_ref());
        let bindings = self.spec.vars.len()
            + self.spec.secrets.len()
            + self.spec.services.len()
            + assets.iter().count();
        ensure!(
            revision.bindings.len() == bindings,
            "of {bindings} bindings, only {} are left",
            revision.bindings.len()
        );
        Ok(Vec::new())
    }
}

impl Kind for RuntimePool {
    fn collection(_: &str) -> String {
        "/apis/tenon.dev/v1alpha1/runtimepools".to_owned()
    }

    fn consequences(mut self, namespace: &str) -> anyhow::Result<Vec<(String, Value)>> {
        self.metadata.uid = None;
        if let Some(allowed) = &self.spec.allowed_namespaces
            && let Some(selector) = &allowed.selector
        {
            selector.to_selector().context("the selector cannot be used")?;
        }
        // A Worker without limits must get values that the pool allows.
        limits::check(&self.spec.limits.default, &self.spec.limits, &self.name_any())?;
        let settings = Settings {
            image: "node:1".to_owned(),
            image_pull_policy: Some("IfNotPresent".to_owned()),
            image_pull_secrets: vec!["registry".to_owned()],
            service_account: Some("tenon-runtime-node".to_owned()),
            priority_class: Some("tenon".to_owned()),
            pod_labels: BTreeMap::new(),
            pod_annotations: BTreeMap::new(),
            architectures: vec!["amd64".to_owned()],
            user_assigned: false,
            listen_ip: None,
            front_families: Families::default(),
            tls_secret: Some("tenon-runtime-node-tls".to_owned()),
            admit_fronts: true,
            catalog: "https://operator:7070".to_owned(),
            starting_catalog: Some("https://operator-starting:7070".to_owned()),
            router: "https://router:8081".to_owned(),
            log: vec!["--log-format=json".to_owned()],
        };
        let children = children(&self, namespace, &settings, None);
        let services = format!("/api/v1/namespaces/{namespace}/services");
        let front = children.front.map(serde_json::to_value).transpose()?;
        let front = front.map(|front| (services.clone(), front));
        let objects = [
            (
                format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
                serde_json::to_value(children.deployment)?,
            ),
            (services, serde_json::to_value(children.service)?),
            (
                format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"),
                serde_json::to_value(children.budget)?,
            ),
        ];
        Ok(objects.into_iter().chain(front).collect())
    }
}

impl Kind for HostGrant {
    fn collection(_: &str) -> String {
        "/apis/tenon.dev/v1alpha1/hostgrants".to_owned()
    }

    fn consequences(self, namespace: &str) -> anyhow::Result<Vec<(String, Value)>> {
        if let Some(selector) = &self.spec.namespaces.selector {
            selector.to_selector().context("the selector cannot be used")?;
        }
        // No host is in the domain of this platform.
        let (mut grants, namespaces) = (Grants::new("platform.test", false), Namespaces::default());
        grants.set("grant", Some(&self.spec));
        for host in &self.spec.hosts {
            let is_public = grants::check(host, "platform.test").is_err();
            let is_listed = self.spec.namespaces.names.iter().any(|name| name == namespace);
            ensure!(
                is_public || is_listed || !grants.permits(host, namespace, &namespaces),
                "the grant of {host} does not keep other namespaces from it"
            );
        }
        Ok(Vec::new())
    }
}
