//! Turns Workers into the revisions that nodes run. Here, a snapshot is the code and configuration
//! of a Worker at one time, and not a V8 heap. This module is pure.
//!
//! ```text
//!  Worker + modules ─► snapshot ─► compiled: WorkerRevision ─► with Secrets' values: Revision
//! ```
//!
//! A WorkerRevision contains references to Secrets, never their values. Its digest covers the code
//! as its author wrote it, and the configuration. Its modules are the output of
//! [`compile`](tenon_compiler::compile). They are stored once, so every replica, of any version,
//! serves the same bytes. If the code is in an OCI artifact, the WorkerRevision contains the
//! artifact's digest in place of the modules, and every replica compiles the code again for the
//! nodes that request it. The [`Revision`]'s digest also covers the values of Secrets: a changed
//! Secret leads to another digest, with the same WorkerRevision.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use sha2::{Digest, Sha256};
use tenon_crds::{
    Accepted, Artifact, Assets, HtmlHandling, NotFoundHandling, PoolLimits, Secret, SecretKeyRef,
    ServiceBinding, SessionAffinity, Worker, WorkerRevisionSpec, WorkerSpec,
};
use tenon_proto::catalog::session_affinity::Part;
use tenon_proto::catalog::{self, Route};
use tenon_proto::egress::{Egress, InvalidHostPattern};
use tenon_proto::id::{InvalidDigest, RevisionDigest, SiteId, WorkerId};
use tenon_proto::revision::{Binding, BoundService, CompatibilityFlag, Revision, StatePolicy};

use crate::limits;

/// The default entrypoints of a Worker with several modules, in order of preference.
const DEFAULT_ENTRYPOINTS: [&str; 2] = ["worker.js", "worker.ts"];

/// The reason why a Worker with these modules cannot become a revision.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SnapshotError {
    #[error("spec.source: there are no modules; add a module such as {}", DEFAULT_ENTRYPOINTS[0])]
    NoModules,
    #[error("spec.entrypoint: {0:?} is not among the modules; set it to the name of one of them")]
    UnknownEntrypoint(String),
    #[error(
        "spec.entrypoint: missing; set it, because there are several modules and none is named {}",
        DEFAULT_ENTRYPOINTS.join(" or ")
    )]
    AmbiguousEntrypoint,
}

/// The error for a Secret or a key of a Secret that does not exist.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "spec.secrets: {name:?} needs key {:?} of Secret {:?}, which does not exist; create the key",
    reference.key, reference.name
)]
pub struct MissingSecret {
    /// Name of the binding.
    pub name: String,
    pub reference: SecretKeyRef,
}

/// The reason why a node could not run a snapshot.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ResolveError {
    #[error(transparent)]
    Secret(#[from] MissingSecret),
    // The schema refuses such patterns.
    #[error("spec.egress.allow: {0}")]
    Egress(String),
    // The schema refuses such digests.
    #[error("spec.artifact.digest: {0}")]
    Artifact(#[from] InvalidDigest),
}

/// Maximum total size of the modules in a WorkerRevision and their source maps, in bytes. etcd
/// limits an object to 1.5 MiB, and some characters of a module take two to six bytes in the JSON
/// of the object.
const MAX_OBJECT_BYTES: usize = 1_300_000;

/// Returns the Worker's id. An object without a namespace, as in a file, belongs to `default`.
pub fn worker_id(worker: &Worker) -> WorkerId {
    WorkerId::new(worker.namespace().as_deref().unwrap_or("default"), &worker.name_any())
}

/// Returns the snapshot of `worker` with the current modules of its source, before compilation.
///
/// # Errors
/// Fails if the entrypoint cannot be determined, or is not among the modules.
pub fn snapshot(
    worker: &Worker,
    modules: &BTreeMap<String, Bytes>,
) -> Result<WorkerRevisionSpec, SnapshotError> {
    let entrypoint = entrypoint(worker.spec.entrypoint.as_deref(), modules)?;
    let (modules, binary_modules) = split_modules(modules);
    Ok(snapshot_with(worker, entrypoint, None, modules, binary_modules))
}

/// Returns the snapshot of `worker` with the code in an artifact.
///
/// # Arguments
/// * `entrypoint` - the name of the entrypoint among the artifact's modules.
pub fn snapshot_of_artifact(
    worker: &Worker,
    artifact: Artifact,
    entrypoint: String,
) -> WorkerRevisionSpec {
    snapshot_with(worker, entrypoint, Some(artifact), BTreeMap::new(), BTreeMap::new())
}

fn snapshot_with(
    worker: &Worker,
    entrypoint: String,
    artifact: Option<Artifact>,
    modules: BTreeMap<String, String>,
    binary_modules: BTreeMap<String, ByteString>,
) -> WorkerRevisionSpec {
    // The pattern does not use `..`, so that a new field must be either copied or named as a field
    // that is not part of a revision.
    let WorkerSpec {
        source: _,
        entrypoint: _,
        pool: _,
        routes: _,
        traffic: _,
        rollout: _,
        session_affinity: _,
        affinity: _,
        rate_limits: _,
        vars,
        secrets,
        services,
        assets,
        schedules: _,
        egress,
        compatibility_flags,
        limits,
        state,
        revision_history_limit: _,
    } = &worker.spec;
    let mut spec = WorkerRevisionSpec {
        worker: worker.name_any(),
        digest: String::new(),
        entrypoint,
        artifact,
        modules,
        binary_modules,
        vars: vars.clone(),
        secrets: secrets.clone(),
        services: services.clone(),
        assets: assets.clone(),
        egress: egress.clone(),
        compatibility_flags: compatibility_flags.clone(),
        limits: *limits,
        state: Some(*state).filter(|state| *state != tenon_crds::StatePolicy::default()),
    };
    // All maps are ordered, so equal snapshots have equal bytes.
    let bytes = serde_json::to_vec(&spec).expect("a snapshot has string keys only");
    spec.digest = RevisionDigest::new(Sha256::digest(bytes).into()).to_string();
    spec
}

/// Replaces the modules of a snapshot with compiled modules. The largest source maps are left out
/// if an object cannot contain all of them.
#[must_use]
pub fn with_compiled(
    spec: WorkerRevisionSpec,
    compiled: BTreeMap<String, Bytes>,
) -> WorkerRevisionSpec {
    let stored = tenon_compiler::without_maps_beyond(MAX_OBJECT_BYTES, compiled);
    let (modules, binary_modules) = split_modules(&stored);
    // Every field except the modules is kept, including new fields.
    WorkerRevisionSpec { modules, binary_modules, ..spec }
}

/// Returns the name of the module whose default export handles events.
///
/// # Errors
/// Fails if the name cannot be determined, or is not among the modules.
pub fn entrypoint(
    requested: Option<&str>,
    modules: &BTreeMap<String, Bytes>,
) -> Result<String, SnapshotError> {
    let default = DEFAULT_ENTRYPOINTS.into_iter().find(|name| modules.contains_key(*name));
    match (requested, default) {
        (Some(name), _) if modules.contains_key(name) => Ok(name.to_owned()),
        (Some(name), _) => Err(SnapshotError::UnknownEntrypoint(name.to_owned())),
        (None, Some(name)) => Ok(name.to_owned()),
        (None, None) if modules.len() > 1 => Err(SnapshotError::AmbiguousEntrypoint),
        (None, None) => modules.keys().next().cloned().ok_or(SnapshotError::NoModules),
    }
}

/// Splits modules into text modules and binary modules, as Kubernetes objects store them.
fn split_modules(
    modules: &BTreeMap<String, Bytes>,
) -> (BTreeMap<String, String>, BTreeMap<String, ByteString>) {
    let (mut text, mut binary) = (BTreeMap::new(), BTreeMap::new());
    for (name, content) in modules {
        match String::from_utf8(content.to_vec()) {
            Ok(content) => drop(text.insert(name.clone(), content)),
            Err(error) => drop(binary.insert(name.clone(), ByteString(error.into_bytes()))),
        }
    }
    (text, binary)
}

/// Joins text and binary modules, the inverse of `split_modules`.
pub fn join_modules<'a>(
    text: impl IntoIterator<Item = (&'a String, &'a String)>,
    binary: impl IntoIterator<Item = (&'a String, &'a ByteString)>,
) -> BTreeMap<String, Bytes> {
    let text = text
        .into_iter()
        .map(|(name, text)| (name.clone(), Bytes::copy_from_slice(text.as_bytes())));
    let binary =
        binary.into_iter().map(|(name, bytes)| (name.clone(), Bytes::copy_from_slice(&bytes.0)));
    text.chain(binary).collect()
}

/// Returns the modules in a ConfigMap, named by its keys.
pub fn modules_of_config_map(config_map: &ConfigMap) -> BTreeMap<String, Bytes> {
    join_modules(config_map.data.iter().flatten(), config_map.binary_data.iter().flatten())
}

/// Returns the name of a snapshot's WorkerRevision: the Worker's name and the first ten digits of
/// the digest.
pub fn revision_name(spec: &WorkerRevisionSpec) -> String {
    format!("{}-{}", spec.worker, &spec.digest[..spec.digest.len().min(10)])
}

/// Returns the name of the Worker to which a WorkerRevision of this name belongs.
pub fn worker_of(revision_name: &str) -> Option<&str> {
    revision_name.rsplit_once('-').map(|(worker, _)| worker)
}

/// Returns the first binding whose Secret, or key of the Secret, does not exist.
///
/// # Arguments
/// * `secret` - returns the value of a Secret's key in the Worker's namespace.
pub fn missing_secret(
    bound: &[Secret],
    secret: impl Fn(&SecretKeyRef) -> Option<String>,
) -> Option<MissingSecret> {
    let missing = bound.iter().find(|bound| secret(&bound.secret_key_ref).is_none())?;
    let Secret { name, secret_key_ref } = missing;
    Some(MissingSecret { name: name.clone(), reference: secret_key_ref.clone() })
}

/// Resolves a snapshot's bindings and its granted limits, and returns the revision that a node
/// runs, without a salt.
///
/// # Arguments
/// * `pool` - the limits of the Worker's pool.
/// * `secret` - a function that returns the value of a Secret's key in the Worker's namespace.
///
/// # Errors
/// Fails if a Secret or a key does not exist, or if a host pattern or a digest is invalid.
pub fn resolve(
    id: &WorkerId,
    name: &str,
    spec: &WorkerRevisionSpec,
    pool: &PoolLimits,
    secret: impl Fn(&SecretKeyRef) -> Option<String>,
) -> Result<Revision, ResolveError> {
    // The pattern does not use `..`, so the compiler demands that a new field is handled here. The
    // id and the name are arguments, and the digest of the snapshot is not part of a revision.
    let WorkerRevisionSpec {
        worker: _,
        digest: _,
        entrypoint,
        artifact,
        modules,
        binary_modules,
        vars,
        secrets,
        services,
        assets,
        egress: allowed,
        compatibility_flags,
        limits,
        state,
    } = spec;
    let mut bindings = BTreeMap::new();
    for (name, value) in vars {
        bindings.insert(name.clone(), Binding::Var(value.clone()));
    }
    for Secret { name, secret_key_ref } in secrets {
        let missing = || MissingSecret { name: name.clone(), reference: secret_key_ref.clone() };
        bindings.insert(name.clone(), Binding::Secret(secret(secret_key_ref).ok_or_else(missing)?));
    }
    for ServiceBinding { name, worker, entrypoint } in services {
        let worker = WorkerId::new(id.namespace(), worker);
        let entrypoint = entrypoint.clone().filter(|entrypoint| entrypoint != "default");
        bindings.insert(name.clone(), Binding::Service(BoundService { worker, entrypoint }));
    }
    if let Some(name) = assets.as_ref().and_then(|assets| assets.binding.as_ref()) {
        bindings.insert(name.clone(), Binding::Assets);
    }
    Ok(Revision {
        worker: id.clone(),
        name: name.to_owned(),
        entrypoint: entrypoint.clone(),
        modules: join_modules(modules, binary_modules),
        artifact: artifact.as_ref().map(|artifact| artifact.digest.parse()).transpose()?,
        assets: resolve_assets(id, assets.as_ref(), artifact.as_ref())?,
        bindings,
        salt: Bytes::new(),
        egress: egress(allowed)?,
        compatibility_flags: flags(compatibility_flags),
        limits: limits::granted(limits, pool),
        state: match state.unwrap_or_default() {
            tenon_crds::StatePolicy::Persist => StatePolicy::Persist,
            tenon_crds::StatePolicy::Reset => StatePolicy::Reset,
        },
    })
}

/// Returns the settings with which routers serve the files of an artifact, if the Worker serves
/// any.
fn resolve_assets(
    id: &WorkerId,
    assets: Option<&Assets>,
    artifact: Option<&Artifact>,
) -> Result<Option<catalog::Assets>, ResolveError> {
    let digest = artifact.and_then(|artifact| artifact.assets.as_ref());
    let Some((assets, digest)) = assets.zip(digest) else { return Ok(None) };
    let site = SiteId::of(id.namespace(), &digest.parse()?);
    Ok(Some(served_assets(assets, site)))
}

/// Returns the settings with which routers serve files.
///
/// # Arguments
/// * `site` - the id of the files.
pub fn served_assets(assets: &Assets, site: SiteId) -> catalog::Assets {
    // Only nodes use the name of the binding.
    let Assets { binding: _, html_handling, not_found_handling, run_worker_first } = assets;
    catalog::Assets {
        site: site.as_bytes().to_vec(),
        html_handling: match html_handling {
            HtmlHandling::AutoTrailingSlash => catalog::HtmlHandling::AutoTrailingSlash,
            HtmlHandling::ForceTrailingSlash => catalog::HtmlHandling::ForceTrailingSlash,
            HtmlHandling::DropTrailingSlash => catalog::HtmlHandling::DropTrailingSlash,
            HtmlHandling::None => catalog::HtmlHandling::None,
        }
        .into(),
        not_found_handling: match not_found_handling {
            NotFoundHandling::None => catalog::NotFoundHandling::None,
            NotFoundHandling::NotFoundPage => catalog::NotFoundHandling::NotFoundPage,
            NotFoundHandling::SinglePageApplication => {
                catalog::NotFoundHandling::SinglePageApplication
            }
        }
        .into(),
        run_worker_first: run_worker_first.clone(),
    }
}

/// Converts the compatibility flags of a spec.
pub fn flags(flags: &[tenon_crds::CompatibilityFlag]) -> BTreeSet<CompatibilityFlag> {
    let flags = flags.iter().map(|flag| match flag {
        tenon_crds::CompatibilityFlag::NodejsCompat => CompatibilityFlag::NodejsCompat,
    });
    flags.collect()
}

fn egress(egress: &tenon_crds::Egress) -> Result<Egress, ResolveError> {
    let Some(allow) = &egress.allow else { return Ok(Egress::Open) };
    let patterns = allow.iter().map(|host| host.parse());
    let patterns = patterns.collect::<Result<_, InvalidHostPattern>>();
    patterns.map(Egress::Only).map_err(|invalid| ResolveError::Egress(invalid.to_string()))
}

/// Returns the routes in a Worker's spec. If the spec has none, returns a route for every path of
/// `<name>.<namespace>.<domain>`.
pub fn routes(worker: &Worker, domain: &str) -> Vec<Route> {
    if worker.spec.routes.is_empty() {
        let id = worker_id(worker);
        return vec![Route {
            host: format!("{}.{}.{domain}", id.name(), id.namespace()),
            path: "/".to_owned(),
        }];
    }
    let routes = worker.spec.routes.iter();
    routes.map(|route| Route { host: route.host.clone(), path: route.path.clone() }).collect()
}

/// Returns the routes of the previews of a Worker's revisions.
pub fn previews(worker: &Worker, domain: &str) -> Vec<Route> {
    let tags = worker.spec.traffic.iter().filter_map(|target| target.tag.as_deref());
    tags.map(|tag| preview(&preview_host(&worker_id(worker), tag, domain))).collect()
}

/// Returns the host of the preview of a tagged revision.
pub fn preview_host(id: &WorkerId, tag: &str, domain: &str) -> String {
    format!("{tag}--{}.{}.{domain}", id.name(), id.namespace())
}

/// Returns the route of a preview.
pub fn preview(host: &str) -> Route {
    Route { host: host.to_owned(), path: "/".to_owned() }
}

/// Returns the accepted part of a request that selects the request's revision, or `None` if there
/// is none.
pub fn session_affinity(accepted: &Accepted) -> Option<catalog::SessionAffinity> {
    let SessionAffinity { cookie, header } = accepted.session_affinity.as_ref()?;
    let cookie = cookie.clone().map(Part::Cookie);
    let part = cookie.or_else(|| header.as_ref().map(|name| Part::Header(name.to_lowercase())));
    Some(catalog::SessionAffinity { part })
}

/// Returns the routes with which a Worker was accepted.
pub fn accepted_routes(accepted: &Accepted) -> impl Iterator<Item = Route> {
    let routes = accepted.routes.iter();
    routes.map(|route| Route { host: route.host.clone(), path: route.path.clone() })
}

/// Returns the URL of a route with the default port. A wildcard host is kept as it is.
pub fn url(route: &Route) -> String {
    format!("http://{}{}", route.host, route.path)
}

#[cfg(test)]
mod tests;
