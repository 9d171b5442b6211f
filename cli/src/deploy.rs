//! `tenon deploy`: applies the objects in files to a cluster, and waits until the Workers serve
//! requests.
//!
//! ```text
//!  read ─► check, as `tenon check` ─► push ─► apply: ConfigMaps, Secrets, Workers ─► wait ─► URL
//!                    │ a problem        │ refused    │ refused                       │ stalled, late
//!                    └──────────────────┴────────────┴───── exit code 1 ◄────────────┘
//! ```
//!
//! - [`objects`]: the objects in the files, in the order in which they are applied. Pure.
//! - [`push`]: the push of code and static files to a registry.
//! - [`progress`]: the progress of a deployment, read from a Worker's status. Pure.

mod objects;
mod progress;
mod push;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use futures::future::join_all;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, ObjectMeta, Status};
use kube::discovery::ApiResource;
use tenon_crds::Worker;
use tenon_proto::id::WorkerId;

use crate::bundle::Bundler;
use crate::cluster::{Cluster, ClusterArgs};
use crate::load;
use crate::load::Loaded;
use crate::output::count;
use crate::source::SourceArgs;
use objects::{Kind, Object};
use progress::{Applied, Progress};
use push::PushArgs;

/// The owner of the fields that this command sets.
const FIELD_MANAGER: &str = "tenon";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    push: PushArgs,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Maximum time to wait until each Worker serves requests, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,

    /// Have the API server check the objects without storing them.
    #[arg(long)]
    dry_run: bool,

    /// Take over fields that another tool has set.
    #[arg(long)]
    force_conflicts: bool,
}

/// Deploys the Workers, and prints the revision and URL of each. Fails if a Worker is invalid or
/// refused. Returns a failure code if a Worker is stalled, or does not serve requests before the
/// timeout.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = load::Settings { has_cluster: true, ..args.source.settings()? };
    let manifests = Bundler::default().read(&args.source.paths);
    let objects = objects::of(&manifests);
    let bundles = if args.push.is_set() { load::bundles(&manifests) } else { BTreeMap::new() };
    let assets = manifests.assets.clone();
    let load = load::load(manifests, &settings, |_| load::Served::default());
    for note in &load.notes {
        eprintln!("note: {note}");
    }
    let problems = load.problems.iter().map(ToString::to_string);
    let too_large = objects::too_large(&objects);
    let unpushed = assets.keys().map(|id| {
        format!("Worker {id}: spec.assets: the files need a registry; name one with --registry")
    });
    let unpushed = too_large.chain(unpushed).filter(|_| !args.push.is_set());
    let problems: Vec<_> = problems.chain(unpushed).collect();
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if !problems.is_empty() {
        bail!("nothing was deployed; correct the problems above");
    }
    if load.workers.is_empty() && load.in_artifacts.is_empty() {
        bail!("the files contain no Worker; add one, such as examples/hello/worker.yaml");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let objects = args.push.push(objects, &bundles, &assets, args.dry_run).await?;
        deploy(args, &objects, &load.workers).await
    })
}

async fn deploy(
    args: &Args,
    objects: &[Object],
    loaded: &BTreeMap<WorkerId, Loaded>,
) -> anyhow::Result<ExitCode> {
    let cluster = args.cluster.connect().await?;
    let (mut changed, mut workers) = (BTreeSet::new(), Vec::new());
    for object in objects {
        let stored = cluster.apply(args, object).await?;
        if object.kind == Kind::ConfigMap && stored.modules_changed() {
            changed.insert((stored.now.metadata.namespace.clone(), object.name.clone()));
        }
        if let Some(id) = &object.worker {
            let has_new_modules = object.config_map.as_ref().is_some_and(|name| {
                changed.contains(&(stored.now.metadata.namespace.clone(), name.clone()))
            });
            let revision = loaded.get(id).map_or("", |loaded| &loaded.revision.name);
            workers.push(stored.applied(revision, has_new_modules));
        }
    }
    if args.dry_run {
        println!("{} would be applied", count(objects.len(), "object"));
        return Ok(ExitCode::SUCCESS);
    }
    let limit = Duration::from_secs(args.timeout);
    let serving = workers.iter().map(|worker| cluster.await_serving(worker, limit));
    let serving = join_all(serving).await;
    let mut code = ExitCode::SUCCESS;
    for outcome in serving {
        match outcome {
            Ok(line) => println!("{line}"),
            Err(error) => {
                eprintln!("error: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

impl Cluster {
    /// Applies an object with server-side apply. Returns the object as it was stored before and
    /// after.
    async fn apply(&self, args: &Args, object: &Object) -> anyhow::Result<Stored> {
        let resource = object.kind.resource();
        let namespace = object.namespace.as_deref().unwrap_or(&self.namespace);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &resource);
        let mut params = PatchParams::apply(FIELD_MANAGER);
        params.dry_run = args.dry_run;
        params.force = args.force_conflicts;
        let what = format!("{} {namespace}/{}", resource.kind, object.name);
        let stored = async {
            let before = api.get_opt(&object.name).await?;
            let now = api.patch(&object.name, &params, &Patch::Apply(&object.body)).await?;
            Ok(Stored { before, now })
        };
        stored.await.map_err(|error| refusal(&what, &resource, error))
    }

    /// Waits until a Worker serves what was applied, and returns a line to print.
    async fn await_serving(
        &self,
        (metadata, applied): &(ObjectMeta, Applied),
        limit: Duration,
    ) -> anyhow::Result<String> {
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let judge = |worker: &Worker| match progress::of(worker, applied) {
            Progress::Serving { revision, url } => {
                let share = progress::share(worker, &revision);
                let line = format!("{namespace}/{name}  {revision}  {url}{share}");
                ControlFlow::Break(Ok(line))
            }
            Progress::Stalled(why) => {
                ControlFlow::Break(Err(anyhow!("Worker {namespace}/{name}: {why}")))
            }
            Progress::Waiting(why) => ControlFlow::Continue(why),
        };
        self.await_worker((namespace, name), limit, "is not serving requests", judge).await
    }
}

/// An object as the API server stored it before and after it was applied.
struct Stored {
    before: Option<DynamicObject>,
    now: DynamicObject,
}

impl Stored {
    /// Returns whether a ConfigMap existed before and had other modules.
    fn modules_changed(&self) -> bool {
        let modules = |object: &DynamicObject| {
            ["data", "binaryData"].map(|field| object.data.get(field).cloned())
        };
        self.before.as_ref().is_some_and(|before| modules(before) != modules(&self.now))
    }

    /// Returns a Worker's metadata and the state that was applied to the Worker.
    fn applied(self, revision: &str, has_new_modules: bool) -> (ObjectMeta, Applied) {
        let generation = self.now.metadata.generation;
        let before = self.before.filter(|_| has_new_modules);
        let has_new_spec =
            before.as_ref().is_some_and(|before| before.metadata.generation != generation);
        let outdated = before.and_then(|before| {
            before.data.pointer("/status/latestRevision")?.as_str().map(str::to_owned)
        });
        let applied = Applied {
            generation: generation.unwrap_or_default(),
            revision: revision.to_owned(),
            outdated,
            has_new_spec,
        };
        (self.now.metadata, applied)
    }
}

/// Returns an error that states why the API server refuses an object, and what to do.
fn refusal(what: &str, resource: &ApiResource, error: kube::Error) -> anyhow::Error {
    match &error {
        kube::Error::Api(status) if is_conflict(status) => anyhow!(
            "{what}: {}; repeat with --force-conflicts to take these fields over",
            status.message
        ),
        kube::Error::Api(status) if status.is_not_found() && resource.group == "tenon.dev" => {
            anyhow!(
                "{what}: the cluster does not know the kind Worker, or the namespace does not exist; install the chart tenon-crds, or create the namespace"
            )
        }
        kube::Error::Api(status) => anyhow!("{what}: {}", status.message),
        _ => anyhow::Error::new(error).context(format!("cannot apply {what}")),
    }
}

fn is_conflict(status: &Status) -> bool {
    status.code == 409
}
