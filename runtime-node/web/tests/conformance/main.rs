//! Tests the conformance of the Web interfaces. Runs the Workers of `tests/conformance`, each of
//! which is a list of named checks of a specification, and makes every check a test.
//!
//! The Workers that test a folder of `src` are in the folder of the same name here. They are not
//! below `src`, because `build.rs` watches that folder: each edit of a test would rebuild the
//! snapshot.
//!
//! The checks run in the real engine, on the main thread, before the test harness creates any other
//! thread; the harness then only reports their results.

mod summary;

use std::error::Error;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use libtest_mimic::{Arguments, Trial};
use serde::Deserialize;
use tenon_engine::{Body, CallContext, Engine, FetchRequest, Isolate, Watchdog};
use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::revision::{CompatibilityFlag, Limits, Revision};
use tenon_proto::runtime::Header;
use tenon_web::Web;
use tenon_web::response_cache::ResponseCache;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use summary::Summary;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance");

/// The folder whose Workers import Node.js modules, and have the compatibility flag for these
/// modules.
const NODEJS: &str = "nodejs";

/// The modules that every Worker may import: named checks, a WebAssembly assembler, and the
/// fixtures of several Workers.
const SHARED: [&str; 4] = ["check.js", "assembler.js", "key-fixtures.js", "stream-fixtures.js"];

fn main() -> Result<(), Box<dyn Error>> {
    tenon_engine::init();
    let arguments = Arguments::from_args();
    let lines = Lines::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines.clone()))?;

    let web = Web::default().with_responses(ResponseCache::new(64 << 20));
    let engine = Rc::new(Engine::new(&Watchdog::spawn(), ShardId(0), Rc::new(web)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut verdicts = Vec::new();
    for worker in workers()? {
        match tokio::task::LocalSet::new().block_on(&runtime, checks(&engine, &worker)) {
            Ok(checks) => {
                let mut lines = lines.take().into_iter();
                verdicts.extend(checks.into_iter().map(|check| check.verdict(&worker, &mut lines)));
            }
            Err(failure) => {
                let message = format!("{failure}\n{}", lines.take().join("\n"));
                verdicts.push(Verdict::of(&worker, "the Worker starts and responds", Err(message)));
            }
        }
    }
    let mut summary = Summary::default();
    verdicts
        .iter()
        .for_each(|verdict| summary.add(&verdict.subject, &verdict.check, &verdict.outcome));
    let trials = verdicts.into_iter().map(Trial::from).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        summary.publish()?;
    }
    conclusion.exit()
}

/// Returns the sorted ids of all Workers, `folder/file`. The entrypoint of each is
/// `folder/file.js`.
fn workers() -> std::io::Result<Vec<WorkerId>> {
    let mut workers = Vec::new();
    for folder in std::fs::read_dir(DIRECTORY)? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(folder.path())? {
            let (folder, file) = (folder.file_name(), file?.file_name());
            if let Some(name) = file.to_string_lossy().strip_suffix(".js") {
                workers.push(WorkerId::new(&folder.to_string_lossy(), name));
            }
        }
    }
    workers.sort();
    Ok(workers)
}

/// One check of a Worker and its result.
#[derive(Deserialize)]
struct Check {
    name: String,
    /// The subject of the check, such as an interface, if the Worker states one.
    about: Option<String>,
    failure: Option<String>,
    /// The lines that the check should have logged.
    lines: Vec<String>,
}

impl Check {
    /// Takes as many lines from the log as the check expects, and returns the verdict.
    fn verdict(self, worker: &WorkerId, logged: &mut impl Iterator<Item = String>) -> Verdict {
        let logged: Vec<_> = logged.by_ref().take(self.lines.len()).collect();
        let outcome = match (
            self.failure,
            self.lines.iter().zip(&logged).find(|(expected, actual)| expected != actual),
        ) {
            (Some(failure), _) => Err(failure),
            (None, Some((expected, actual))) => {
                Err(format!("expected the line\n{expected}\ngot\n{actual}"))
            }
            (None, None) if logged.len() < self.lines.len() => {
                Err(format!("expected {} lines, got {}", self.lines.len(), logged.len()))
            }
            (None, None) => Ok(()),
        };
        let verdict = Verdict::of(worker, &self.name, outcome);
        Verdict { subject: self.about.unwrap_or_else(|| verdict.group.clone()), ..verdict }
    }
}

/// The result of a check, with the names under which it is reported.
struct Verdict {
    /// The Worker's id.
    group: String,
    subject: String,
    check: String,
    outcome: Result<(), String>,
}

impl Verdict {
    fn of(worker: &WorkerId, check: &str, outcome: Result<(), String>) -> Self {
        let group = worker.to_string();
        Self { subject: group.clone(), group, check: check.to_owned(), outcome }
    }
}

impl From<Verdict> for Trial {
    fn from(verdict: Verdict) -> Self {
        Self::test(format!("{}: {}", verdict.group, verdict.check), || {
            verdict.outcome.map_err(Into::into)
        })
    }
}

/// Starts the Worker and runs its checks.
async fn checks(engine: &Rc<Engine>, worker: &WorkerId) -> Result<Vec<Check>, Box<dyn Error>> {
    let entrypoint = format!("{worker}.js");
    let module = |name: &str| {
        Ok((name.to_owned(), Bytes::from(std::fs::read(Path::new(DIRECTORY).join(name))?)))
    };
    let modules = std::iter::once(entrypoint.as_str())
        .chain(SHARED)
        .map(module)
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    let revision = Revision {
        name: "test".to_owned(),
        entrypoint,
        // These limits are generous, because limits are not tested here.
        limits: Limits { cpu_ms: 10_000, startup_ms: 10_000, ..Limits::default() },
        compatibility_flags: (worker.namespace() == NODEJS)
            .then_some(CompatibilityFlag::NodejsCompat)
            .into_iter()
            .collect(),
        ..Revision::with_modules(worker.clone(), modules)
    };
    let isolate = Isolate::start(engine, revision.digest(), Rc::new(revision), None).await?;
    let response = isolate
        .fetch(FetchRequest {
            request_id: "web".to_owned(),
            method: "POST".to_owned(),
            url: "https://web.test/path?a=1".to_owned(),
            headers: vec![Header { name: "x-test".to_owned(), value: Bytes::from_static(b"yes") }],
            body: Body::Full(Bytes::from_static(b"the body")),
            entry: None,
            call_context: CallContext::default(),
        })
        .await?;
    isolate.idle().await;
    Ok(serde_json::from_slice(&response.body.collect().await?)?)
}

/// The lines that Workers have logged, each as `LEVEL text`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("nothing panics while it holds the lines"))
    }
}

impl<S: tracing::Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        if event.metadata().target() == "tenon::worker" {
            let mut message = Message(String::new());
            event.record(&mut message);
            let line = format!("{} {}", event.metadata().level(), message.0);
            self.0.lock().expect("nothing panics while it holds the lines").push(line);
        }
    }
}
