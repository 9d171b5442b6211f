//! Keeps compiled modules on the disk of the Pod. The modules survive a restart of the container,
//! which can then serve them while a registry is unavailable.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use prost::Message;
use sha2::{Digest as _, Sha256};
use tenon_lifecycle::disk_cache::DiskCache;
use tenon_proto::id::{ArtifactDigest, InvalidDigest};
use tenon_proto::revision::{CompatibilityFlag, modules_digest};

/// The identity of compiled modules: a hash of everything that determines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeKey(ArtifactDigest);

impl CodeKey {
    /// Returns the key of the modules that are compiled from an artifact.
    pub fn new(
        artifact: ArtifactDigest,
        entrypoint: &str,
        flags: &BTreeSet<CompatibilityFlag>,
    ) -> Self {
        let mut hash = Sha256::new();
        let flags = flags.iter().map(|flag| flag.as_str());
        // Another version of this program may compile the modules differently.
        for part in [env!("CARGO_PKG_VERSION"), entrypoint].into_iter().chain(flags) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(artifact.as_bytes());
        Self(ArtifactDigest::new(hash.finalize().into()))
    }
}

impl fmt::Display for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CodeKey {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The content of a file of the store.
#[derive(Clone, PartialEq, Message)]
struct Stored {
    /// The digest of the modules, which reveals whether the file is damaged.
    #[prost(bytes = "bytes", tag = "1")]
    digest: Bytes,
    #[prost(btree_map = "string, bytes", tag = "2")]
    modules: BTreeMap<String, Bytes>,
}

/// A store of compiled modules on disk. A store without a directory is always empty.
#[derive(Clone, Default)]
pub struct Store(Option<Arc<Mutex<DiskCache<CodeKey>>>>);

impl Store {
    /// Opens a directory that only this process uses.
    ///
    /// # Arguments
    /// * `capacity` - the capacity of the directory, in bytes. Beyond it, the least recently used
    ///   modules are removed.
    ///
    /// # Errors
    /// Fails if the directory cannot be created or read.
    pub fn open(directory: PathBuf, capacity: usize) -> io::Result<Self> {
        Ok(Self(Some(Arc::new(Mutex::new(DiskCache::open(directory, capacity)?)))))
    }

    /// Returns the modules of a key, unless they are missing or damaged.
    pub async fn read(&self, key: CodeKey) -> Option<BTreeMap<String, Bytes>> {
        let disk = self.0.as_ref()?;
        let read = disk.lock().unwrap_or_else(PoisonError::into_inner).read(key)?;
        let Stored { digest, modules } = Stored::decode(read.await?).ok()?;
        (digest == modules_digest(&modules)[..]).then_some(modules)
    }

    /// Writes modules in the background.
    pub fn write(&self, key: CodeKey, modules: &BTreeMap<String, Bytes>) {
        let Some(disk) = &self.0 else { return };
        let digest = Bytes::copy_from_slice(&modules_digest(modules));
        let content = Stored { digest, modules: modules.clone() }.encode_to_vec();
        disk.lock().unwrap_or_else(PoisonError::into_inner).write(key, content.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(byte: u8, entrypoint: &str, flags: &[CompatibilityFlag]) -> CodeKey {
        let flags = flags.iter().copied().collect();
        CodeKey::new(ArtifactDigest::new([byte; 32]), entrypoint, &flags)
    }

    #[test]
    fn a_key_covers_everything_that_determines_the_modules() {
        let keys = BTreeSet::from([
            key_of(1, "worker.js", &[]),
            key_of(2, "worker.js", &[]),
            key_of(1, "other.js", &[]),
            key_of(1, "worker.js", &CompatibilityFlag::ALL),
        ]);
        assert_eq!(keys.len(), 4);
        assert!(keys.iter().all(|key| key.to_string().parse() == Ok(*key)));
    }

    #[tokio::test]
    async fn modules_survive_a_restart_unless_they_are_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Store::open(directory.path().to_owned(), 1 << 20).unwrap();
        let modules = BTreeMap::from([("a.js".to_owned(), Bytes::from_static(b"export {}"))]);
        let key = key_of(1, "a.js", &[]);
        let path = directory.path().join(key.to_string());

        open().write(key, &modules);
        while !path.exists() {
            tokio::task::yield_now().await;
        }
        assert_eq!(open().read(key).await, Some(modules));
        assert_eq!(open().read(key_of(2, "a.js", &[])).await, None);

        let mut content = std::fs::read(&path).unwrap();
        *content.last_mut().unwrap() ^= 1;
        std::fs::write(&path, content).unwrap();
        assert_eq!(open().read(key).await, None);
    }
}
