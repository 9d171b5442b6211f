//! A script of the suite: a Worker whose first comment states the expected result.
//!
//! ```js
//! // Describes the attack in a sentence or two.
//! // expect: cpu_limit_exceeded
//! // limits: cpu_ms=50 memory_mib=24
//! export default { … }
//! ```
//!
//! | line | meaning |
//! | --- | --- |
//! | `expect:` | how requests end: `CODE`, `start CODE` or `answer TEXT`; alternatives with `or` |
//! | `limits:` | limits that differ from the suite's own |
//! | `requests:` | number of requests, one after another; 1 by default |
//! | `at once:` | number of concurrent requests; 1 by default |
//! | `body:` | the body of the requests |
//! | `calls:` | the name of a binding to another Worker, every call of which fails |
//! | `logs:` | text that a line of the log must contain |
//! | `lines:` | maximum number of log lines |
//! | `flags:` | compatibility flags |
//! | `state:` | `Reset`, for a realm of its own for each request |
//! | `beyond:` | ms added to the neighbor's allowed wait, for a step that cannot be split |
//! | `patch:` | the patch of V8 that the script needs; without the patch, the script is skipped |
//! | `with:` | a file of `runtime-node/web/tests/conformance` that is added as a module |
//! | `revision:` | begins the entrypoint of another revision; the requests go to each in turn |
//! | `module:` | begins the module of that name; lines before the first belong to the entrypoint |
//! | `chain:` | adds that many modules, `chain/1.js` and so on, each of which imports the next |
//! | `deep:` | adds the module `deep.json` of that many nested lists |
//! | `many:` | adds that many modules of each kind: `many/1.json`, `many/1.txt`, `many/1.bin`, … |
//!
//! In the line `expect:`, `CODE` is the code of the handler's failure, `start CODE` that of a
//! failed start, and `TEXT` the whole body of the response.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tenon_engine::V8_IS_PATCHED;
use tenon_proto::revision::{CompatibilityFlag, Limits, StatePolicy};

/// The name of a script's first module.
pub(crate) const ENTRYPOINT: &str = "worker.js";

/// A way in which a request may end, as a script expects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answer(String),
    Failure(String),
    StartFailure(String),
}

/// A script, as its header states it; the table above explains the fields.
pub(crate) struct Script {
    /// The name of the script, `family/name`.
    pub(crate) name: String,
    /// The modules of each revision, as name and source, with the entrypoint first.
    pub(crate) revisions: Vec<Vec<(String, String)>>,
    pub(crate) ends: Vec<End>,
    pub(crate) limits: Limits,
    pub(crate) state: StatePolicy,
    pub(crate) flags: BTreeSet<CompatibilityFlag>,
    /// The time that is added to the neighbor's allowed wait.
    pub(crate) beyond: Duration,
    pub(crate) requests: usize,
    pub(crate) at_once: usize,
    pub(crate) body: String,
    pub(crate) calls: Option<String>,
    pub(crate) logs: Vec<String>,
    pub(crate) lines: Option<usize>,
    patch: Option<String>,
}

/// Reads every script under `directory`, which has a subdirectory for each family.
pub(crate) fn all(directory: &Path) -> Vec<Script> {
    let mut files: Vec<_> = directories(directory).flat_map(|family| files(&family)).collect();
    files.sort();
    let shared = directory.join("../../web/tests/conformance");
    let parse = |file: &Path| {
        Script::parse(&name(directory, file), &std::fs::read_to_string(file).unwrap(), &shared)
    };
    let scripts = files.iter().map(|file| parse(file));
    scripts.filter(|script| script.patch.is_none() || V8_IS_PATCHED).collect()
}

fn directories(directory: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
}

fn files(family: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(family).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "js")).collect()
}

fn name(directory: &Path, file: &Path) -> String {
    file.strip_prefix(directory).unwrap().with_extension("").to_string_lossy().into_owned()
}

impl Script {
    /// Parses a script.
    ///
    /// # Arguments
    /// * `shared` - the directory of the files that `with:` refers to.
    fn parse(name: &str, text: &str, shared: &Path) -> Self {
        let mut script = Self {
            name: name.to_owned(),
            revisions: vec![entrypoint()],
            ends: Vec::new(),
            // The time suffices on a busy machine, and the memory is no more than a test needs.
            limits: Limits {
                cpu_ms: 50,
                wall_ms: 2_000,
                startup_ms: 2_000,
                memory_mib: 32,
                ..Limits::default()
            },
            state: StatePolicy::default(),
            flags: BTreeSet::new(),
            beyond: Duration::ZERO,
            requests: 1,
            at_once: 1,
            body: String::new(),
            calls: None,
            logs: Vec::new(),
            lines: None,
            patch: None,
        };
        let mut reading = 0;
        for line in text.lines() {
            let header = line.strip_prefix("// ").and_then(|line| line.split_once(": "));
            if header.is_some_and(|(word, value)| script.apply(word, value, shared)) {
                match header {
                    Some(("module", _)) => reading = script.modules().len() - 1,
                    Some(("revision", _)) => reading = 0,
                    _ => {}
                }
            } else {
                script.modules()[reading].1.push_str(&format!("{line}\n"));
            }
        }
        assert!(!script.ends.is_empty(), "{name} has no line `expect:`");
        script
    }

    /// Returns the modules of the revision that is being read.
    fn modules(&mut self) -> &mut Vec<(String, String)> {
        self.revisions.last_mut().expect("a script has at least one revision")
    }

    /// Applies a line of the header. Returns whether `word` is one of those in the table above.
    fn apply(&mut self, word: &str, value: &str, shared: &Path) -> bool {
        match word {
            "expect" => self.ends = value.split(" or ").map(End::parse).collect(),
            "limits" => value.split(' ').for_each(|limit| self.limit(limit)),
            "requests" => self.requests = value.parse().unwrap(),
            "at once" => self.at_once = value.parse().unwrap(),
            "body" => value.clone_into(&mut self.body),
            "calls" => self.calls = Some(value.to_owned()),
            "logs" => self.logs.push(value.to_owned()),
            "lines" => self.lines = Some(value.parse().unwrap()),
            "state" => self.state = state(value),
            "flags" => self.flags = value.split(' ').map(|flag| flag.parse().unwrap()).collect(),
            "beyond" => self.beyond = Duration::from_millis(value.parse().unwrap()),
            "patch" => self.patch = Some(value.to_owned()),
            "with" => self
                .modules()
                .push((value.to_owned(), std::fs::read_to_string(shared.join(value)).unwrap())),
            "revision" => self.revisions.push(entrypoint()),
            "module" => self.modules().push((value.to_owned(), String::new())),
            "chain" => self.modules().extend(chain(value.parse().unwrap())),
            "deep" => self.modules().push(deep(value.parse().unwrap())),
            "many" => self.modules().extend(many(value.parse().unwrap())),
            _ => return false,
        }
        true
    }

    fn limit(&mut self, limit: &str) {
        let (name, value) = limit.split_once('=').unwrap();
        let limit = match name {
            "cpu_ms" => &mut self.limits.cpu_ms,
            "wall_ms" => &mut self.limits.wall_ms,
            "memory_mib" => &mut self.limits.memory_mib,
            "startup_ms" => &mut self.limits.startup_ms,
            _ => panic!("{}: there is no limit {name}", self.name),
        };
        *limit = value.parse().unwrap();
    }
}

fn entrypoint() -> Vec<(String, String)> {
    vec![(ENTRYPOINT.to_owned(), String::new())]
}

fn state(value: &str) -> StatePolicy {
    match value {
        "Reset" => StatePolicy::Reset,
        _ => panic!("there is no state {value}"),
    }
}

/// Returns a chain of modules, each of which imports the next module; the last module imports
/// nothing.
fn chain(length: usize) -> impl Iterator<Item = (String, String)> {
    (1..=length).map(move |n| {
        let import = if n < length { format!("import './{}.js';", n + 1) } else { String::new() };
        (format!("chain/{n}.js"), import)
    })
}

/// Returns a JSON module of nested lists.
fn deep(levels: usize) -> (String, String) {
    ("deep.json".to_owned(), "[".repeat(levels) + &"]".repeat(levels))
}

/// Returns `number` JSON modules, text modules and modules of bytes.
fn many(number: usize) -> impl Iterator<Item = (String, String)> {
    (1..=number).flat_map(|n| {
        ["json", "txt", "bin"].map(|kind| (format!("many/{n}.{kind}"), n.to_string()))
    })
}

impl End {
    fn parse(text: &str) -> Self {
        if let Some(answer) = text.strip_prefix("answer ") {
            Self::Answer(answer.to_owned())
        } else if let Some(code) = text.strip_prefix("start ") {
            Self::StartFailure(code.to_owned())
        } else {
            Self::Failure(text.to_owned())
        }
    }
}
