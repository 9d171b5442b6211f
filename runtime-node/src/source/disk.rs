//! Bytecode that outlives the process: a file for each revision, in a directory for this process
//! alone.
//!
//! The bytecode is executed, so no other process may write there. A file that is damaged or from
//! another V8 version is rejected when it is loaded, and written anew after the start. A failing
//! disk costs only time: starts then compile.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use tenon_proto::id::RevisionDigest;
use tokio::task::spawn_blocking;

use crate::cache::Cache;

/// Capacity, in bytes.
const CAPACITY: usize = 1 << 30;

/// An index of the files in the directory.
pub(super) struct Disk {
    directory: PathBuf,
    files: Cache<()>,
}

impl Disk {
    /// Creates the directory if necessary, and indexes its files.
    ///
    /// # Errors
    /// Fails if the directory cannot be created or read.
    pub(super) fn open(directory: PathBuf) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut found: Vec<(SystemTime, RevisionDigest, usize)> = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let digest = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let (Some(digest), Ok(metadata)) = (digest, entry.metadata()) else {
                // A partial file that a process left behind.
                drop(fs::remove_file(entry.path()));
                continue;
            };
            found.push((metadata.modified()?, digest, metadata.len() as usize));
        }
        found.sort();
        let mut disk = Self { directory, files: Cache::new(CAPACITY) };
        for (_, digest, bytes) in found {
            disk.enter(digest, bytes);
        }
        Ok(disk)
    }

    /// Reads the bytecode of a revision, or returns `None` if it has no file.
    pub(super) fn read(
        &mut self,
        digest: RevisionDigest,
    ) -> Option<impl Future<Output = Option<Bytes>> + use<>> {
        self.files.get(&digest)?;
        let path = self.path(digest);
        let read = spawn_blocking(move || {
            let read = fs::read(&path);
            let read = read.inspect_err(|error| {
                tracing::info!(path = %path.display(), %error, "cannot read a code cache; removing it");
                drop(fs::remove_file(&path));
            });
            read.ok().map(Bytes::from)
        });
        Some(async { read.await.ok().flatten() })
    }

    /// Writes the bytecode of a revision in the background.
    pub(super) fn write(&mut self, digest: RevisionDigest, bytecode: Bytes) {
        self.enter(digest, bytecode.len());
        let path = self.path(digest);
        spawn_blocking(move || {
            if let Err(error) = write(&path, &bytecode) {
                tracing::warn!(path = %path.display(), %error, "cannot write a code cache");
            }
        });
    }

    fn enter(&mut self, digest: RevisionDigest, bytes: usize) {
        for gone in self.files.insert(digest, (), bytes) {
            drop(fs::remove_file(self.path(gone)));
        }
    }

    fn path(&self, digest: RevisionDigest) -> PathBuf {
        self.directory.join(digest.to_string())
    }
}

/// Writes to a temporary name first: a file is complete or absent.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(bytes)?;
    fs::rename(partial, path)
}
