//! The digest of a revision: a hash of everything that affects how a node runs it, and of a salt
//! that keeps its secrets from being guessed from the digest.
//!
//! A field that was added later is hashed only if its value is not the default. The default is what
//! nodes did before the field existed. The digests of revisions that do not set the field therefore
//! stay the same across versions of the operator and of nodes. A field that was added later, except
//! `state`, is hashed after a word that names it.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::{ByKind, DEFAULT_SUBREQUESTS, Limits, Revision, StatePolicy};
use crate::catalog;
use crate::egress::Egress;
use crate::id::RevisionDigest;

impl Revision {
    /// Returns the SHA-256 hash over every field in a fixed order, each preceded by its length, so
    /// that no two revisions have the same encoding. The hash covers the resolved secrets: a
    /// changed Secret leads to another digest, and therefore to new isolates. The digest of an
    /// artifact is hashed in place of its modules.
    pub fn digest(&self) -> RevisionDigest {
        // The pattern does not use `..`, so the compiler demands that a new field is handled here.
        let Self {
            worker,
            name,
            entrypoint,
            modules,
            artifact,
            assets,
            bindings,
            limits,
            state,
            egress,
            compatibility_flags,
            salt,
        } = self;
        let ByKind { vars, secrets, services, assets: assets_binding } = ByKind::of(bindings);
        let &Limits {
            cpu_ms,
            wall_ms,
            memory_mib,
            startup_ms,
            concurrency,
            request_body_mib,
            subrequests,
        } = limits;
        let mut hash = Hasher::new(b"tenon.revision.v1");
        hash.field(worker.as_str());
        hash.field(name);
        hash.field(entrypoint);
        match artifact {
            None => hash.map(modules.iter()),
            Some(artifact) => {
                hash.field("artifact");
                hash.field(artifact.as_bytes());
            }
        }
        hash.map(vars.into_iter());
        hash.map(secrets.into_iter());
        for limit in [cpu_ms, wall_ms, memory_mib, startup_ms, concurrency, request_body_mib] {
            hash.field(limit.to_le_bytes());
        }
        if *state != StatePolicy::default() {
            hash.field([catalog::StatePolicy::from(*state) as u8]);
        }
        if subrequests != DEFAULT_SUBREQUESTS {
            hash.field("subrequests");
            hash.field(subrequests.to_le_bytes());
        }
        if let Egress::Only(patterns) = egress {
            hash.field("egress");
            hash.list(patterns.iter().map(ToString::to_string));
        }
        if !services.is_empty() {
            hash.field("services");
            hash.list(services.iter().flat_map(|(name, service)| [*name, service.worker.as_str()]));
        }
        let entrypoints = services
            .iter()
            .filter_map(|(name, service)| Some([*name, service.entrypoint.as_deref()?]));
        let entrypoints: Vec<_> = entrypoints.flatten().collect();
        if !entrypoints.is_empty() {
            hash.field("entrypoints");
            hash.list(entrypoints.into_iter());
        }
        if let Some(assets) = assets {
            // The pattern does not use `..`, for the same reason as above.
            let catalog::Assets { site, html_handling, not_found_handling, run_worker_first } =
                assets;
            hash.field("assets");
            hash.field(site);
            hash.field(html_handling.to_le_bytes());
            hash.field(not_found_handling.to_le_bytes());
            hash.list(run_worker_first.iter());
        }
        if let Some(name) = assets_binding {
            hash.field("assetsBinding");
            hash.field(name);
        }
        if !compatibility_flags.is_empty() {
            hash.field("compatibilityFlags");
            hash.list(compatibility_flags.iter().map(|flag| flag.as_str()));
        }
        if !salt.is_empty() {
            hash.field("salt");
            hash.field(salt);
        }
        RevisionDigest::new(hash.finish())
    }
}

/// Returns the SHA-256 hash of modules and their names.
pub fn modules_digest(modules: &BTreeMap<String, Bytes>) -> [u8; 32] {
    let mut hash = Hasher::new(b"tenon.modules.v1");
    hash.map(modules.iter());
    hash.finish()
}

struct Hasher(Sha256);

impl Hasher {
    /// Begins a hash of `kind`, which must not be a prefix of another kind.
    fn new(kind: &[u8]) -> Self {
        let mut sha = Sha256::new();
        sha.update(kind);
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

    /// Hashes pairs that are sorted by key.
    fn map<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        pairs: impl ExactSizeIterator<Item = (K, V)>,
    ) {
        self.field((pairs.len() as u64).to_le_bytes());
        for (key, value) in pairs {
            self.field(key);
            self.field(value);
        }
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
