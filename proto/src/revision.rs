//! What a node runs: an immutable snapshot of a Worker's code and configuration, named by its digest.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};

use crate::catalog::{self, GetRevisionResponse, get_revision_response::Part};
use crate::id::{InvalidDigest, InvalidWorkerId, RevisionDigest, WorkerId};

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

/// Why a stream of `GetRevision` is not a revision.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MalformedRevision {
    #[error("the stream does not begin with the revision's head")]
    NoHead,
    #[error("the head has no limits")]
    NoLimits,
    #[error("a module's first chunk has no name")]
    UnnamedModule,
    #[error("module {0:?} came twice")]
    DuplicateModule(String),
    #[error("{announced} modules were announced and {received} came")]
    Incomplete { announced: u32, received: usize },
    #[error("the entrypoint {0:?} is not among the modules")]
    NoEntrypoint(String),
    #[error("content of digest {actual} came for {announced}")]
    WrongDigest { announced: RevisionDigest, actual: RevisionDigest },
    #[error(transparent)]
    Worker(#[from] InvalidWorkerId),
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
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

/// Puts a revision together from the messages of a `GetRevision` stream.
#[derive(Default)]
pub struct Assembler {
    head: Option<catalog::RevisionHead>,
    modules: BTreeMap<String, Bytes>,
    partial: Option<(String, BytesMut)>,
}

impl Assembler {
    /// Takes the next message.
    pub fn push(&mut self, message: GetRevisionResponse) -> Result<(), MalformedRevision> {
        match message.part {
            Some(Part::Head(head)) => self.head = Some(head),
            Some(Part::Module(chunk)) => self.push_chunk(chunk)?,
            // A part of a newer server that this version does not know.
            None => {}
        }
        Ok(())
    }

    fn push_chunk(&mut self, chunk: catalog::ModuleChunk) -> Result<(), MalformedRevision> {
        let (name, data) = match self.partial.take() {
            Some((name, mut data)) => {
                data.extend_from_slice(&chunk.data);
                (name, data)
            }
            None if chunk.name.is_empty() => return Err(MalformedRevision::UnnamedModule),
            None => (chunk.name, BytesMut::from(chunk.data)),
        };
        if !chunk.end {
            self.partial = Some((name, data));
        } else if self.modules.insert(name.clone(), data.freeze()).is_some() {
            return Err(MalformedRevision::DuplicateModule(name));
        }
        Ok(())
    }

    /// Call at the end of the stream.
    ///
    /// # Errors
    /// When something is missing, or the content does not have the digest that was announced.
    pub fn finish(self) -> Result<(RevisionDigest, Revision), MalformedRevision> {
        let head = self.head.ok_or(MalformedRevision::NoHead)?;
        if self.modules.len() != head.modules as usize {
            return Err(MalformedRevision::Incomplete { announced: head.modules, received: self.modules.len() });
        }
        if !self.modules.contains_key(&head.entrypoint) {
            return Err(MalformedRevision::NoEntrypoint(head.entrypoint));
        }
        let revision = Revision {
            state: head.state().into(),
            worker: head.worker.parse()?,
            name: head.revision,
            entrypoint: head.entrypoint,
            modules: self.modules,
            vars: from_variables(head.vars),
            secrets: from_variables(head.secrets),
            limits: head.limits.ok_or(MalformedRevision::NoLimits)?.into(),
        };
        let announced = RevisionDigest::try_from(&head.digest[..])?;
        let actual = revision.digest();
        if announced != actual {
            return Err(MalformedRevision::WrongDigest { announced, actual });
        }
        Ok((actual, revision))
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
mod tests {
    use super::*;

    fn revision() -> Revision {
        Revision {
            worker: WorkerId::new("shop", "cart"),
            name: "cart-0123456789".into(),
            entrypoint: "worker.js".into(),
            modules: [
                ("worker.js".to_owned(), Bytes::from_static(b"export default {}")),
                ("empty.js".to_owned(), Bytes::new()),
                ("large.js".to_owned(), Bytes::from(vec![b' '; 2 * MODULE_CHUNK + 1])),
            ]
            .into(),
            vars: [("GREETING".to_owned(), "hello".to_owned())].into(),
            secrets: BTreeMap::new(),
            limits: Limits::default(),
            state: StatePolicy::default(),
        }
    }

    fn assemble(messages: impl IntoIterator<Item = GetRevisionResponse>) -> Result<Revision, MalformedRevision> {
        let mut assembler = Assembler::default();
        for message in messages {
            assembler.push(message)?;
        }
        assembler.finish().map(|(_, revision)| revision)
    }

    #[test]
    fn what_is_taken_apart_comes_together_again() {
        assert_eq!(assemble(revision().to_messages()), Ok(revision()));
    }

    #[test]
    fn a_lost_message_is_noticed() {
        let count = revision().to_messages().count();
        for lost in 0..count {
            let rest = revision().to_messages().enumerate().filter(|(i, _)| *i != lost).map(|(_, m)| m);
            assert!(assemble(rest).is_err(), "without message {lost}");
        }
    }

    #[test]
    fn a_byte_changed_on_the_way_is_noticed() {
        let tampered = revision().to_messages().map(|mut message| {
            if let Some(Part::Module(chunk)) = &mut message.part {
                let mut data = chunk.data.to_vec();
                data.iter_mut().take(1).for_each(|byte| *byte ^= 1);
                chunk.data = data.into();
            }
            message
        });
        assert!(matches!(assemble(tampered), Err(MalformedRevision::WrongDigest { .. })));
    }

    #[test]
    fn every_field_is_part_of_the_digest() {
        let base = revision().digest();
        let changes: [fn(&mut Revision); 7] = [
            |r| r.worker = WorkerId::new("shop", "basket"),
            |r| r.name.push('x'),
            |r| r.entrypoint = "empty.js".into(),
            |r| drop(r.modules.remove("empty.js")),
            |r| drop(r.vars.insert("GREETING".into(), "hi".into())),
            |r| drop(r.secrets.insert("KEY".into(), "k".into())),
            |r| r.limits.cpu_ms += 1,
        ];
        for (i, change) in changes.iter().enumerate() {
            let mut changed = revision();
            change(&mut changed);
            assert_ne!(changed.digest(), base, "change {i}");
        }
    }

    #[test]
    fn a_variable_is_not_mistaken_for_a_secret() {
        let mut moved = revision();
        moved.secrets = std::mem::take(&mut moved.vars);
        assert_ne!(moved.digest(), revision().digest());
    }
}
