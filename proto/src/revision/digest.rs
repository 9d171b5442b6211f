//! The digest of a revision: a hash of everything that affects how a node runs it.
//!
//! A field that was added later is hashed only if it differs from the behaviour before the field
//! existed, so that the digests of revisions that do not set it stay the same across versions of
//! the operator and of nodes. When it is hashed, it follows a word that names it.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::{DEFAULT_SUBREQUESTS, Revision, StatePolicy};
use crate::catalog;
use crate::egress::Egress;
use crate::id::RevisionDigest;

impl Revision {
    /// Returns the SHA-256 hash over every field in a fixed order, each preceded by its length, so
    /// that no two revisions share an encoding. It covers the resolved secrets: a changed Secret
    /// gives another digest, and therefore new isolates.
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
        if self.state != StatePolicy::default() {
            hash.field([catalog::StatePolicy::from(self.state) as u8]);
        }
        if limits.subrequests != DEFAULT_SUBREQUESTS {
            hash.field("subrequests");
            hash.field(limits.subrequests.to_le_bytes());
        }
        if let Egress::Only(patterns) = &self.egress {
            hash.field("egress");
            hash.list(patterns.iter().map(ToString::to_string));
        }
        if !self.services.is_empty() {
            hash.field("services");
            hash.list(self.services.iter().flat_map(|(name, worker)| [name.as_str(), worker.as_str()]));
        }
        if !self.compatibility_flags.is_empty() {
            hash.field("compatibilityFlags");
            hash.list(self.compatibility_flags.iter().map(|flag| flag.as_str()));
        }
        hash.finish()
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

    fn list<T: AsRef<[u8]>>(&mut self, items: impl Iterator<Item = T>) {
        let items: Vec<_> = items.collect();
        self.field((items.len() as u64).to_le_bytes());
        items.iter().for_each(|item| self.field(item));
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
