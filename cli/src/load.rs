//! Turns objects into revisions, as the operator does, or into a list of problems. This module is
//! pure, except that it reads and packs static files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use tenon_artifact::Bundle;
use tenon_crds::{PoolLimits, Schedule, SecretKeyRef, Worker};
use tenon_engine::inspector::Script;
use tenon_operator::revision;
use tenon_operator::revision::ResolveError;
use tenon_proto::catalog::Route;
use tenon_proto::id::{RevisionDigest, SiteId, WorkerId};
use tenon_proto::revision::Revision;
use tenon_schedule::timetable::Timetable;

use crate::annotation::MAIN;
use crate::assets::{self, Packed};
use crate::inspect::scripts;
use crate::manifest::{Location, Manifests, Problem};

/// Wall-clock limit of Workers that can be debugged, in milliseconds. It leaves time for code that
/// is paused.
const DEBUGGED_WALL_MS: u32 = 24 * 60 * 60 * 1000;

/// Settings that the files do not contain.
pub(crate) struct Settings {
    /// Domain of Workers without routes, which answer at `<name>.<namespace>.<domain>`.
    pub(crate) domain: String,
    /// Values of secrets by binding name, for secrets whose Secret is not among the files.
    pub(crate) env: BTreeMap<String, String>,
    /// Whether the Workers are deployed on a cluster, which may have the Secrets that the files
    /// lack.
    pub(crate) has_cluster: bool,
    /// Directory to which the files' paths are relative, if the Workers may be debugged.
    pub(crate) debug_directory: Option<PathBuf>,
}

/// A Worker that can be served.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loaded {
    pub(crate) location: Location,
    pub(crate) revision: Arc<Revision>,
    pub(crate) digest: RevisionDigest,
    pub(crate) routes: Vec<Route>,
    pub(crate) schedules: Vec<Schedule>,
    /// Descriptions of the Worker's modules for debuggers.
    pub(crate) scripts: BTreeMap<String, Script>,
    /// The Worker's modules as their author wrote them.
    pub(crate) sources: Arc<BTreeMap<String, Bytes>>,
    /// The Worker's static files.
    pub(crate) assets: Option<Packed>,
}

/// The revision and static files that a Worker is being served with. They are reused if they have
/// not changed.
#[derive(Clone, Default)]
pub(crate) struct Served {
    pub(crate) revision: Option<Arc<Revision>>,
    pub(crate) assets: Option<Packed>,
}

/// The state that the files describe.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) workers: BTreeMap<WorkerId, Loaded>,
    /// Workers whose code is in OCI artifacts. They are neither checked nor served here.
    pub(crate) in_artifacts: BTreeSet<WorkerId>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) notes: Vec<String>,
}

/// Builds a revision of each valid Worker whose code the manifests contain.
///
/// # Arguments
/// * `served` - returns the revision and static files that a Worker is being served with.
pub(crate) fn load(
    manifests: Manifests,
    settings: &Settings,
    served: impl Fn(&WorkerId) -> Served,
) -> Load {
    let mut load = Load::default();
    for (id, (location, worker)) in &manifests.workers {
        if worker.spec.source.oci.is_some() {
            load.in_artifacts.insert(id.clone());
            load.notes.push(format!(
                "{id}: the code is in an OCI artifact, which only an operator pulls, so the Worker is neither checked nor served here"
            ));
            continue;
        }
        let served = served(id);
        let assets = pack_assets(&manifests, id, worker, served.assets.as_ref());
        let loaded = assets.and_then(|assets| {
            let site = assets.as_ref().map(|assets| assets.site);
            let built =
                revision_of(&manifests, settings, id, (location, worker), site, served.revision)?;
            Ok((built, assets))
        });
        match loaded {
            Ok((Built { revision, scripts, sources }, assets)) => {
                let (digest, routes) =
                    (revision.digest(), revision::routes(worker, &settings.domain));
                let schedules = worker.spec.schedules.clone();
                // An invalid schedule is reported and skipped; the Worker still serves.
                let invalid = schedules.iter().filter_map(|schedule| Timetable::of(schedule).err());
                load.problems.extend(invalid.map(|invalid| Problem {
                    location: location.clone(),
                    worker: Some(id.clone()),
                    message: invalid.to_string(),
                }));
                let loaded = Loaded {
                    location: location.clone(),
                    revision: Arc::new(revision),
                    digest,
                    routes,
                    schedules,
                    scripts,
                    sources,
                    assets,
                };
                load.workers.insert(id.clone(), loaded);
            }
            Err(messages) => load.problems.extend(messages.into_iter().map(|message| Problem {
                location: location.clone(),
                worker: Some(id.clone()),
                message,
            })),
        }
    }
    load.add_domain_route(&settings.domain);
    load.settle_conflicts();
    load.problems.extend(manifests.problems);
    load.problems.sort();
    load.notes.extend(manifests.notes);
    load
}

/// Returns the code of every Worker whose modules are in files, as the modules' author wrote them.
pub(crate) fn bundles(manifests: &Manifests) -> BTreeMap<WorkerId, Bundle> {
    let bundle = |(id, (_, worker)): (&WorkerId, &(Location, Worker))| {
        let modules = modules(manifests, id, worker).ok()?;
        Some((id.clone(), Bundle { entrypoint: worker.spec.entrypoint.clone(), modules }))
    };
    manifests.workers.iter().filter_map(bundle).collect()
}

/// A revision, with the parts of its modules that only the author's tools need.
struct Built {
    revision: Revision,
    scripts: BTreeMap<String, Script>,
    sources: Arc<BTreeMap<String, Bytes>>,
}

fn revision_of(
    manifests: &Manifests,
    settings: &Settings,
    id: &WorkerId,
    (location, worker): (&Location, &Worker),
    site: Option<SiteId>,
    served: Option<Arc<Revision>>,
) -> Result<Built, Vec<String>> {
    let written = modules(manifests, id, worker).map_err(|message| {
        // If the code could not be bundled, a problem has already been reported.
        let is_reported = worker.annotations().contains_key(MAIN)
            && manifests.problems.iter().any(|problem| problem.worker.as_ref() == Some(id));
        if is_reported { Vec::new() } else { vec![message] }
    })?;
    let snapshot = revision::snapshot(worker, &written).map_err(|error| vec![error.to_string()])?;
    let secret = |reference: &SecretKeyRef| {
        let key = (id.namespace().to_owned(), reference.name.clone());
        let value =
            manifests.secrets.get(&key).and_then(|secret| secret_value(secret, &reference.key));
        let value = value.or_else(|| {
            let binding =
                worker.spec.secrets.iter().find(|binding| binding.secret_key_ref == *reference)?;
            settings.env.get(&binding.name).cloned()
        });
        value.or_else(|| settings.has_cluster.then(String::new))
    };
    let name = revision::revision_name(&snapshot);
    let mut revision = revision::resolve(id, &name, &snapshot, &PoolLimits::default(), secret)
        .map_err(|error| vec![with_hint(error)])?;
    let assets = worker.spec.assets.as_ref().zip(site);
    revision.assets = assets.map(|(assets, site)| revision::served_assets(assets, site));
    // A revision's name is derived from the modules before compilation, so revisions with the same
    // name have the same compiled modules.
    revision.modules = match served.filter(|served| served.name == name) {
        Some(served) => served.modules.clone(),
        None => {
            tenon_compiler::compile(&written, &revision.entrypoint, &revision.compatibility_flags)
                .map_err(|errors| {
                errors.iter().map(|error| error.with_source().to_string()).collect::<Vec<_>>()
            })?
        }
    };
    let mut scripts = BTreeMap::new();
    if let Some(directory) = &settings.debug_directory {
        revision.limits.wall_ms = DEBUGGED_WALL_MS;
        let folder = manifests.folder_of(location, worker).map(|folder| directory.join(folder));
        scripts = scripts::of(&scripts::base(id, folder), &written, &revision.modules);
    }
    Ok(Built { revision, scripts, sources: Arc::new(written) })
}

/// Packs the static files of a Worker. Returns `None` if the Worker serves none.
fn pack_assets(
    manifests: &Manifests,
    id: &WorkerId,
    worker: &Worker,
    before: Option<&Packed>,
) -> Result<Option<Packed>, Vec<String>> {
    if worker.spec.assets.is_none() {
        return Ok(None);
    }
    // If the list is missing, a problem has already been reported.
    let files = manifests.assets.get(id).ok_or_else(Vec::new)?;
    assets::pack(files, before).map(Some).map_err(|message| vec![message])
}

fn with_hint(error: ResolveError) -> String {
    match error {
        ResolveError::Secret(missing) => {
            format!("{missing}, or set --env-file to a file with {}=VALUE", missing.name)
        }
        ResolveError::Egress(_) | ResolveError::Artifact(_) => error.to_string(),
    }
}

fn modules(
    manifests: &Manifests,
    id: &WorkerId,
    worker: &Worker,
) -> Result<BTreeMap<String, Bytes>, String> {
    match (&worker.spec.source.modules, &worker.spec.source.config_map_ref) {
        (Some(modules), None) => Ok(revision::join_modules(modules, [])),
        (None, Some(reference)) => {
            let key = (id.namespace().to_owned(), reference.name.clone());
            manifests.config_maps.get(&key).map(revision::modules_of_config_map).ok_or_else(|| {
                let (namespace, name) = key;
                format!(
                    "spec.source.configMapRef: ConfigMap {namespace}/{name} is not among the files; add it, or a folder \
                     {name} with its modules beside the Worker's file"
                )
            })
        }
        _ => {
            Err("spec.source: modules and configMapRef are both set or both unset; set one of them"
                .to_owned())
        }
    }
}

fn secret_value(secret: &Secret, key: &str) -> Option<String> {
    // `stringData` overrides `data`, as in the API server.
    let text = secret.string_data.as_ref().and_then(|data| data.get(key).cloned());
    text.or_else(|| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok())
}

impl Load {
    /// Routes the bare domain, which `tenon dev` prints first, to the Worker if there is only one
    /// Worker and it has no routes of its own.
    fn add_domain_route(&mut self, domain: &str) {
        if self.workers.len() == 1
            && let Some(mut only) = self.workers.first_entry()
        {
            let loaded = only.get_mut();
            let default = format!(
                "{}.{}.{domain}",
                loaded.revision.worker.name(),
                loaded.revision.worker.namespace()
            );
            if loaded.routes.iter().all(|route| route.host == default) {
                loaded.routes.insert(0, Route { host: domain.to_owned(), path: "/".to_owned() });
            }
        }
    }

    /// Assigns each route to the first Worker in the files that declares it. The route is removed
    /// from other Workers.
    fn settle_conflicts(&mut self) {
        let mut by_location: Vec<_> = self.workers.iter_mut().collect();
        by_location.sort_by(|(_, a), (_, b)| a.location.cmp(&b.location));
        let mut owners: BTreeMap<(String, String), WorkerId> = BTreeMap::new();
        for (id, loaded) in by_location {
            let Loaded { location, routes, .. } = loaded;
            routes.retain(|route| {
                let key = (route.host.clone(), route.path.clone());
                let owner = owners.entry(key).or_insert_with(|| id.clone());
                if owner != id {
                    let message = format!(
                        "spec.routes: {}{} belongs to Worker {owner}, which comes first in the files; choose another host \
                         or path",
                        route.host, route.path
                    );
                    let (location, worker) = (location.clone(), Some(id.clone()));
                    self.problems.push(Problem { location, worker, message });
                }
                owner == id
            });
        }
    }
}

#[cfg(test)]
#[path = "load/tests.rs"]
mod tests;
