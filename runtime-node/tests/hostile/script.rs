//! A script of the suite: a Worker, and in the comment at its head what must become of it.
//!
//! ```js
//! // What it tries, in a sentence or two.
//! // expect: cpu_limit_exceeded
//! // limits: cpu_ms=50 memory_mib=24
//! export default { … }
//! ```
//!
//! | line | meaning |
//! | --- | --- |
//! | `expect:` | how every request ends: a failure's code, `start` and a code, or `answer` and the text; alternatives with `or` |
//! | `limits:` | other limits than [`Limits`]' own |
//! | `requests:` | how many, one after another; one unless said |
//! | `at once:` | how many, together; one unless said |
//! | `body:` | the requests' body |
//! | `logs:` | what a line of the log must have in it |
//! | `lines:` | how many lines the log may have at most |
//! | `flags:` | compatibility flags |
//! | `state:` | `Reset`, for a realm of its own for each request |
//! | `beyond:` | milliseconds that the neighbour may wait in addition: for a step that nothing can break up |
//! | `with:` | a file of `tests` that is a module beside it |
//! | `revision:` | what follows is the entrypoint of another revision of the Worker; requests go to all of them in turn |
//! | `module:` | what follows is the module of that name; what came before is the entrypoint |
//! | `chain:` | so many modules more, `chain/1.js` and so on, each of which imports the next |
//! | `deep:` | one module more, `deep.json`, of so many lists within each other |
//! | `many:` | so many modules more of each kind, `many/1.json`, `many/1.txt`, `many/1.bin` and so on |

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tenon_proto::revision::{CompatibilityFlag, Limits, StatePolicy};

/// The module that a script begins with.
pub(crate) const ENTRYPOINT: &str = "worker.js";

/// How a request may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answer(String),
    Failure(String),
    StartFailure(String),
}

pub(crate) struct Script {
    /// `family/name`.
    pub(crate) name: String,
    /// Of each revision the modules, name and source; the entrypoint first.
    pub(crate) revisions: Vec<Vec<(String, String)>>,
    pub(crate) ends: Vec<End>,
    pub(crate) limits: Limits,
    pub(crate) state: StatePolicy,
    pub(crate) flags: BTreeSet<CompatibilityFlag>,
    pub(crate) beyond: Duration,
    pub(crate) requests: usize,
    pub(crate) at_once: usize,
    pub(crate) body: String,
    pub(crate) logs: Vec<String>,
    pub(crate) lines: Option<usize>,
}

/// Every script under `directory`, which has a directory for each family.
pub(crate) fn all(directory: &Path) -> Vec<Script> {
    let mut files: Vec<_> = directories(directory).flat_map(|family| files(&family)).collect();
    files.sort();
    let shared = directory.parent().unwrap();
    let parse = |file: &Path| Script::parse(&name(directory, file), &std::fs::read_to_string(file).unwrap(), shared);
    files.iter().map(|file| parse(file)).collect()
}

fn directories(directory: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
}

fn files(family: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(family).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "js")).collect()
}

fn name(directory: &Path, file: &Path) -> String {
    file.strip_prefix(directory).unwrap().with_extension("").to_string_lossy().into_owned()
}

impl Script {
    /// # Arguments
    /// * `shared` - where the files are that scripts are `with:`.
    fn parse(name: &str, text: &str, shared: &Path) -> Self {
        let mut script = Self {
            name: name.to_owned(),
            revisions: vec![entrypoint()],
            ends: Vec::new(),
            // Time enough for a busy machine, and no more memory than a test needs.
            limits: Limits { cpu_ms: 50, wall_ms: 2_000, startup_ms: 2_000, memory_mib: 32, ..Limits::default() },
            state: StatePolicy::default(),
            flags: BTreeSet::new(),
            beyond: Duration::ZERO,
            requests: 1,
            at_once: 1,
            body: String::new(),
            logs: Vec::new(),
            lines: None,
        };
        let mut reading = 0;
        for line in text.lines() {
            let word = line.strip_prefix("// ").and_then(|line| line.split_once(": "));
            if word.is_some_and(|(word, value)| script.heed(word, value, shared)) {
                match word {
                    Some(("module", _)) => reading = script.modules().len() - 1,
                    Some(("revision", _)) => reading = 0,
                    _ => {}
                }
            } else {
                script.modules()[reading].1.push_str(&format!("{line}\n"));
            }
        }
        assert!(!script.ends.is_empty(), "{name} does not say what to expect");
        script
    }

    /// Those of the revision that is being read.
    fn modules(&mut self) -> &mut Vec<(String, String)> {
        self.revisions.last_mut().expect("there is one from the first")
    }

    /// Whether a comment was a line of the header's.
    fn heed(&mut self, word: &str, value: &str, shared: &Path) -> bool {
        match word {
            "expect" => self.ends = value.split(" or ").map(End::parse).collect(),
            "limits" => value.split(' ').for_each(|limit| self.limit(limit)),
            "requests" => self.requests = value.parse().unwrap(),
            "at once" => self.at_once = value.parse().unwrap(),
            "body" => value.clone_into(&mut self.body),
            "logs" => self.logs.push(value.to_owned()),
            "lines" => self.lines = Some(value.parse().unwrap()),
            "state" => self.state = state(value),
            "flags" => self.flags = value.split(' ').map(|flag| flag.parse().unwrap()).collect(),
            "beyond" => self.beyond = Duration::from_millis(value.parse().unwrap()),
            "with" => self.modules().push((value.to_owned(), std::fs::read_to_string(shared.join(value)).unwrap())),
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

/// Modules each of which imports the next; the last imports nothing.
fn chain(length: usize) -> impl Iterator<Item = (String, String)> {
    (1..=length).map(move |n| {
        let import = if n < length { format!("import './{}.js';", n + 1) } else { String::new() };
        (format!("chain/{n}.js"), import)
    })
}

/// A module of lists within each other.
fn deep(levels: usize) -> (String, String) {
    ("deep.json".to_owned(), "[".repeat(levels) + &"]".repeat(levels))
}

/// Modules that are no code.
fn many(number: usize) -> impl Iterator<Item = (String, String)> {
    (1..=number).flat_map(|n| ["json", "txt", "bin"].map(|kind| (format!("many/{n}.{kind}"), n.to_string())))
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
