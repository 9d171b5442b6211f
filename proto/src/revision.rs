//! What a node runs: an immutable snapshot of a Worker's code and configuration, named by its digest.

mod assembler;

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::catalog::{self, GetRevisionResponse, get_revision_response::Part};
use crate::id::{RevisionDigest, WorkerId};

pub use assembler::{Assembler, MalformedRevision, TooLarge};

/// How many modules a Worker may have.
pub const MAX_MODULES: usize = 1_000;

/// The largest module, in bytes. A ConfigMap cannot hold more, and an inline module not even that.
pub const MAX_MODULE_BYTES: usize = 1024 * 1024;

/// The most that a Worker's modules may have together, their names included, in bytes. What Kubernetes keeps of a
/// Worker is far less; it is for what comes from elsewhere, and a node has it in memory for every Worker that it runs.
pub const MAX_SOURCE_BYTES: usize = 16 * 1024 * 1024;

/// The largest piece of a module in one message, in bytes: well under gRPC's default limit of 4 MiB.
const MODULE_CHUNK: usize = 256 * 1024;

/// A revision with its bindings resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    pub worker: WorkerId,
    /// Name of the WorkerRevision, for logs.
    pub name: String,
    /// Name of the module whose default export handles events; a key of `modules`.
    pub entrypoint: String,
    /// Source text by module name.
    pub modules: BTreeMap<String, Bytes>,
    pub vars: BTreeMap<String, String>,
    pub secrets: BTreeMap<String, String>,
    pub limits: Limits,
    pub state: StatePolicy,
}

/// What of an invocation's global state the next one sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatePolicy {
    /// All of it, while the isolate lives.
    #[default]
    Persist,
    /// Nothing: each has a global object of its own.
    Reset,
}

/// What one isolate and one invocation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// CPU time of one invocation, milliseconds.
    pub cpu_ms: u32,
    /// Wall-clock time of one invocation, milliseconds.
    pub wall_ms: u32,
    /// JavaScript heap and array buffers of one isolate, MiB.
    pub memory_mib: u32,
    /// CPU time of compiling and evaluating the modules, milliseconds.
    pub startup_ms: u32,
    /// Invocations at once in one isolate.
    pub concurrency: u32,
    /// Largest request body, MiB.
    pub request_body_mib: u32,
}

impl Default for Limits {
    /// What a Worker gets that asks for nothing.
    fn default() -> Self {
        Self { cpu_ms: 50, wall_ms: 30_000, memory_mib: 128, startup_ms: 400, concurrency: 100, request_body_mib: 16 }
    }
}

impl Revision {
    /// SHA-256 over every field in a fixed order, each preceded by its length, so that no two revisions share
    /// an encoding. Covers the resolved secrets: a changed Secret is another digest, and so other isolates.
    pub fn digest(&self) -> RevisionDigest {
        let mut hash = Hasher::new();
        hash.field(self.worker.as_str());
        hash.field(&self.name);
        hash.field(&self.entrypoint);
        hash.map(&self.modules);
        hash.map(&self.vars);
        hash.map(&self.secrets);
        let limits = &self.limits;
        for limit in [
            limits.cpu_ms,
            limits.wall_ms,
            limits.memory_mib,
            limits.startup_ms,
            limits.concurrency,
            limits.request_body_mib,
        ] {
            hash.field(limit.to_le_bytes());
        }
        // Not where it is what it was before it could be chosen.
        if self.state != StatePolicy::default() {
            hash.field([catalog::StatePolicy::from(self.state) as u8]);
        }
        hash.finish()
    }

    /// The messages that carry this revision in answer to `GetRevision`.
    pub fn to_messages(&self) -> impl Iterator<Item = GetRevisionResponse> + use<> {
        let head = catalog::RevisionHead {
            digest: self.digest().as_bytes().to_vec(),
            worker: self.worker.to_string(),
            revision: self.name.clone(),
            entrypoint: self.entrypoint.clone(),
            vars: to_variables(&self.vars),
            secrets: to_variables(&self.secrets),
            limits: Some(self.limits.into()),
            modules: self.modules.len() as u32,
            state: catalog::StatePolicy::from(self.state).into(),
        };
        let modules = self.modules.clone();
        let chunks = modules.into_iter().flat_map(|(name, mut rest)| {
            let mut name = Some(name);
            std::iter::from_fn(move || {
                if name.is_none() && rest.is_empty() {
                    return None;
                }
                let data = rest.split_to(rest.len().min(MODULE_CHUNK));
                Some(catalog::ModuleChunk { name: name.take().unwrap_or_default(), data, end: rest.is_empty() })
            })
        });
        std::iter::once(Part::Head(head))
            .chain(chunks.map(Part::Module))
            .map(|part| GetRevisionResponse { part: Some(part) })
    }
}

struct Hasher(Sha256);

impl Hasher {
    fn new() -> Self {
        let mut sha = Sha256::new();
        sha.update(b"tenon.revision.v1");
        Self(sha)
    }

    fn field(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn map<V: AsRef<[u8]>>(&mut self, map: &BTreeMap<String, V>) {
        self.field((map.len() as u64).to_le_bytes());
        for (key, value) in map {
            self.field(key);
            self.field(value);
        }
    }

    fn finish(self) -> RevisionDigest {
        RevisionDigest::new(self.0.finalize().into())
    }
}

fn to_variables(map: &BTreeMap<String, String>) -> Vec<catalog::Variable> {
    map.iter().map(|(name, value)| catalog::Variable { name: name.clone(), value: value.clone() }).collect()
}

fn from_variables(variables: Vec<catalog::Variable>) -> BTreeMap<String, String> {
    variables.into_iter().map(|variable| (variable.name, variable.value)).collect()
}

impl From<StatePolicy> for catalog::StatePolicy {
    fn from(policy: StatePolicy) -> Self {
        match policy {
            StatePolicy::Persist => Self::Persist,
            StatePolicy::Reset => Self::Reset,
        }
    }
}

impl From<catalog::StatePolicy> for StatePolicy {
    fn from(policy: catalog::StatePolicy) -> Self {
        match policy {
            catalog::StatePolicy::Persist => Self::Persist,
            catalog::StatePolicy::Reset => Self::Reset,
        }
    }
}

impl From<Limits> for catalog::Limits {
    fn from(limits: Limits) -> Self {
        let Limits { cpu_ms, wall_ms, memory_mib, startup_ms, concurrency, request_body_mib } = limits;
        Self { cpu_ms, wall_ms, memory_mib, startup_ms, concurrency, request_body_mib }
    }
}

impl From<catalog::Limits> for Limits {
    fn from(limits: catalog::Limits) -> Self {
        let catalog::Limits { cpu_ms, wall_ms, memory_mib, startup_ms, concurrency, request_body_mib } = limits;
        Self { cpu_ms, wall_ms, memory_mib, startup_ms, concurrency, request_body_mib }
    }
}

#[cfg(test)]
mod tests;
