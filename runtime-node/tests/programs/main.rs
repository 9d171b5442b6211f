//! Tests real programs: packages that authors of Workers install from npm, bundled as the authors'
//! tools bundle them, and requested as clients request them.
//!
//! A program is a Worker's entrypoint, `tests/programs/NAME.{js,jsx,ts}`, or a framework's project
//! in the directory `tests/programs/NAME`. `NAME.json` lists the requests that the program receives
//! in turn, and the expected responses. Versions are pinned in `package-lock.json`; npm, the
//! frameworks' own builds and a bundler run when the suite begins.

#![allow(clippy::unwrap_used)] // Clippy knows tests by an attribute that this harness does not use.

mod assets;
mod databases;
#[path = "../engine/harness.rs"]
#[allow(dead_code, unused_imports, unused_macros)] // The other suites use more of the harness.
mod harness;
#[path = "../../egress/src/tests/origin.rs"]
#[allow(dead_code)] // The client's own tests use the other functions.
mod origin;
mod service;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use bytes::Bytes;
use libtest_mimic::{Arguments, Trial};
use serde::Deserialize;
use serde_json::Value;
use tenon_egress::{Client, EgressMetrics, Policy, Settings};
use tenon_engine::{Body, Engine, FetchRequest};
use tenon_proto::revision::{CompatibilityFlag, Limits};
use tenon_proto::runtime::Header;
use tenon_web::Web;
use tenon_web::response_cache::ResponseCache;

use assets::Assets;
use harness::{Loaded, Shard};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");

/// A request and its expected response.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default = "get")]
    method: String,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    send: String,

    #[serde(default = "ok")]
    status: u16,
    /// The expected response headers.
    #[serde(default)]
    expect: BTreeMap<String, String>,
    /// The whole expected body.
    body: Option<String>,
    /// The whole expected body, as JSON.
    json: Option<Value>,
    /// Texts that the body must contain.
    #[serde(default)]
    contains: Vec<String>,
    /// The beginning of a path that the body must contain. A request for the whole path must
    /// succeed.
    names: Option<String>,
}

fn get() -> String {
    "GET".to_owned()
}

fn ok() -> u16 {
    200
}

fn main() {
    tenon_engine::init();
    harness::collect_logs();
    let arguments = Arguments::from_args();
    let mut names = names();
    names.retain(|name| arguments.filter.as_ref().is_none_or(|filter| name.contains(filter)));
    if !arguments.list {
        bundle(&names);
    }
    let trials = names
        .into_iter()
        .map(|name| harness::trial(name.clone(), move |shard| Box::pin(run_cases(name, shard))));
    let trials: Vec<Trial> = trials.collect();
    libtest_mimic::run(&arguments, trials).exit()
}

/// Returns the names of the programs, each of which has a file of cases.
fn names() -> Vec<String> {
    let files = std::fs::read_dir(SOURCES).unwrap().map(|entry| entry.unwrap().path());
    let cases = files.filter(|file| file.extension().is_some_and(|kind| kind == "json"));
    let names = cases.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with("package")).collect();
    names.sort();
    names
}

/// Returns the directory of the bundles.
fn bundles() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs")
}

/// Installs the programs' dependencies if the lock file has changed since the last installation,
/// and bundles the named programs.
fn bundle(names: &[String]) {
    let (lock, installed) = (["package-lock.json", "node_modules/.package-lock.json"]
        .map(|file| Path::new(SOURCES).join(file)))
    .into();
    let changed = |file: &PathBuf| file.metadata().and_then(|data| data.modified()).ok();
    if changed(&installed) < changed(&lock) {
        run(Command::new("npm").args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ]));
    }
    run(Command::new("node").arg("bundle.mjs").arg(bundles()).args(names));
}

fn run(command: &mut Command) {
    let status = command.current_dir(SOURCES).status();
    let status = status
        .unwrap_or_else(|error| panic!("{command:?} cannot be run; is Node.js installed? {error}"));
    assert!(status.success(), "{command:?} failed: {status}");
}

/// Returns an engine whose Workers reach this machine and these assets, and have a response cache.
fn engine(assets: Assets) -> Engine {
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()], vec![]);
    let settings = Settings::isolated(policy, Vec::new(), hickory_resolver::Hosts::default());
    let web = Web::default()
        .with_egress(Client::new(&settings, EgressMetrics::default()))
        .with_responses(ResponseCache::new(1 << 20))
        .with_services(Rc::new(assets));
    harness::engine(web)
}

async fn run_cases(name: String, shard: Rc<Shard>) {
    let cases = std::fs::read(Path::new(SOURCES).join(&name).with_extension("json")).unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&cases).unwrap();
    let source = std::fs::read_to_string(bundles().join(&name).with_extension("js")).unwrap();
    let service = service::start().await;
    let (redis, postgres) = databases::start().await;
    let assets = Assets::start(&shard, &bundles().join(&name).with_extension("assets")).await;
    let shard = shard.on(engine(assets));
    let flags = [CompatibilityFlag::NodejsCompat].into();
    let worker =
        shard.modules(&[("worker.js", &source)]).var("ORIGIN", &service).var("GREETING", "Hello");
    let worker = worker.var("REDIS", &redis.to_string()).var("POSTGRES", &postgres.to_string());
    let worker = worker.service(assets::BINDING, assets::NAME).flags(&flags);
    let worker = worker.limits(|limits| {
        // These limits suffice for unoptimized builds on a busy machine. Only one program tests the
        // time limits.
        let (cpu_ms, startup_ms) = match name.as_str() {
            "default-limits" => (Limits::default().cpu_ms, Limits::default().startup_ms),
            _ => (20_000, 20_000),
        };
        (limits.cpu_ms, limits.startup_ms) = (cpu_ms, startup_ms);
    });
    let worker = worker.start().await.unwrap();
    for case in cases {
        check(&worker, case).await;
    }
}

async fn check(worker: &Loaded, case: Case) {
    let what = format!("{} {}", case.method, case.path);
    let header = |(name, value): (&String, &String)| Header {
        name: name.clone(),
        value: Bytes::from(value.clone()),
    };
    let request = FetchRequest {
        method: case.method,
        url: format!("https://program.test{}", case.path),
        headers: case.headers.iter().map(header).collect(),
        body: Body::Full(case.send.into()),
        ..harness::request("/")
    };
    let answer =
        worker.0.fetch(request).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    let (status, headers) = (answer.status, answer.headers);
    let body = answer.body.collect().await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    let text = String::from_utf8_lossy(&body);
    assert_eq!(status, case.status, "{what}: {text}");
    for (name, value) in case.expect {
        let found = headers.iter().find(|header| header.name == name);
        let found = found.map(|header| String::from_utf8_lossy(&header.value).into_owned());
        assert_eq!(found, Some(value), "{what}: {name}");
    }
    if let Some(expected) = case.body {
        assert_eq!(text, expected, "{what}");
    }
    if let Some(expected) = case.json {
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap_or_else(|_| panic!("{what}: {text}")),
            expected,
            "{what}"
        );
    }
    for part in case.contains {
        assert!(text.contains(&part), "{what}: no {part:?} in {text}");
    }
    if let Some(beginning) = case.names {
        let place =
            text.find(&beginning).unwrap_or_else(|| panic!("{what}: no {beginning:?} in {text}"));
        let path = text[place..].split(['"', '\'', ')']).next().unwrap_or_default();
        let answer = worker.get(path).await.unwrap_or_else(|failure| panic!("{path}: {failure}"));
        assert_eq!(answer.status, 200, "{path}");
    }
}
