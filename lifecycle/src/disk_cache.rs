//! A cache that outlives the process. Each entry is a file in a directory that only this process
//! uses. Subdirectories are ignored, because they belong to other code.
//!
//! The content, such as compiled code, is trusted, so no other process may write to the directory.
//! Users of a file detect damage themselves, and write the file again. A failing disk costs only
//! the time that it takes to produce the content again.

use std::fmt::Display;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::Hash;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::cache::Cache;

/// An index of the files in the directory. The name of a file is its key.
pub struct DiskCache<K> {
    directory: PathBuf,
    /// The files of the entries, and those that are being written in the background.
    files: Arc<Mutex<Cache<K, ()>>>,
}

impl<K: Copy + Ord + Hash + Display + FromStr + Send + 'static> DiskCache<K> {
    /// Creates the directory if necessary, and indexes its files. Removes the files whose names are
    /// not keys, and the oldest files while the files together exceed the capacity.
    ///
    /// # Arguments
    /// * `capacity` - the capacity in bytes.
    ///
    /// # Errors
    /// Fails if the directory cannot be created or read.
    pub fn open(directory: PathBuf, capacity: usize) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut found: Vec<(SystemTime, K, usize)> = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                continue;
            }
            let key = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let (Some(key), Ok(metadata)) = (key, entry.metadata()) else {
                // An earlier process left a partial file behind.
                drop(fs::remove_file(entry.path()));
                continue;
            };
            found.push((metadata.modified()?, key, metadata.len() as usize));
        }
        found.sort();
        let mut disk = Self { directory, files: Arc::new(Mutex::new(Cache::new(capacity))) };
        for (_, key, bytes) in found {
            disk.index_file(key, bytes);
        }
        Ok(disk)
    }

    /// Starts to read the entry of a key, and returns a future that waits for the content. Returns
    /// `None` if the key has no file. The future returns `None` if the file cannot be read; such a
    /// file is removed.
    pub fn read(&mut self, key: K) -> Option<impl Future<Output = Option<Bytes>> + use<K>> {
        lock(&self.files).get(&key)?;
        let path = self.path(key);
        let read = spawn_blocking(move || {
            let read = fs::read(&path);
            let read = read.inspect_err(|error| {
                tracing::info!(path = %path.display(), %error, "cannot read a cached file; removing it");
                drop(fs::remove_file(&path));
            });
            read.ok().map(Bytes::from)
        });
        Some(async { read.await.ok().flatten() })
    }

    /// Writes an entry in the background. A failure is only logged.
    pub fn write(&mut self, key: K, content: Bytes) {
        self.index_file(key, content.len());
        let (path, files) = (self.path(key), Arc::clone(&self.files));
        spawn_blocking(move || {
            if let Err(error) = write(&path, &content) {
                tracing::warn!(path = %path.display(), %error, "cannot write a cached file");
            }
            // The entry may have been evicted before it had a file. The lock is held until the file
            // is removed, so that no newer entry of the same key loses its file.
            let mut files = lock(&files);
            if files.get(&key).is_none() {
                drop(fs::remove_file(&path));
            }
        });
    }

    /// Opens the file of a key, or returns `None` if the key has no file or the file cannot be
    /// opened. A file that is removed stays readable for as long as it is open.
    pub fn open_file(&mut self, key: K) -> Option<fs::File> {
        lock(&self.files).get(&key)?;
        fs::File::open(self.path(key)).ok()
    }

    /// Creates an empty file under a name that no entry has.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn create_partial(&self) -> io::Result<Partial> {
        let path = self.directory.join(format!("{:032x}.partial", fastrand::u128(..)));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Partial { path, file })
    }

    /// Makes a partial file the entry of a key.
    ///
    /// # Errors
    /// Fails if the file's size cannot be read, or if the file cannot be renamed.
    pub fn adopt(&mut self, key: K, partial: &Partial) -> io::Result<()> {
        let bytes = fs::metadata(&partial.path)?.len() as usize;
        fs::rename(&partial.path, self.path(key))?;
        self.index_file(key, bytes);
        Ok(())
    }

    fn index_file(&mut self, key: K, bytes: usize) {
        let mut files = lock(&self.files);
        for evicted in files.insert(key, (), bytes) {
            drop(fs::remove_file(self.path(evicted)));
        }
    }

    fn path(&self, key: K) -> PathBuf {
        self.directory.join(key.to_string())
    }
}

/// A file that is being written. Dropping this value removes the file, unless [`DiskCache::adopt`]
/// has made the file an entry of the cache.
pub struct Partial {
    path: PathBuf,
    file: fs::File,
}

impl Partial {
    /// Returns another handle to the file. All handles share one position in the file.
    ///
    /// # Errors
    /// Fails if no descriptor is free.
    pub fn file(&self) -> io::Result<fs::File> {
        self.file.try_clone()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // An adopted file has another name, so nothing is removed.
        drop(fs::remove_file(&self.path));
    }
}

/// Writes a file under a temporary name and then renames it, so that no reader finds an incomplete
/// file at `path`.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(bytes)?;
    fs::rename(partial, path)
}

/// Locks the index. Poisoning is ignored, because a panic leaves no partial change.
fn lock<K>(files: &Mutex<Cache<K, ()>>) -> MutexGuard<'_, Cache<K, ()>> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_entry_that_is_evicted_before_it_is_written_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut one_thread = tokio::runtime::Builder::new_current_thread();
        one_thread.max_blocking_threads(1).build().unwrap().block_on(async {
            let mut disk = DiskCache::<u32>::open(directory.path().to_owned(), 1).unwrap();
            let (begin_tx, begin_rx) = mpsc::channel::<()>();
            let blocked = spawn_blocking(move || begin_rx.recv());
            disk.write(1, Bytes::from_static(b"evicted"));
            disk.write(2, Bytes::from_static(b"kept"));
            begin_tx.send(()).unwrap();
            blocked.await.unwrap().unwrap();
            // The thread carries out its tasks in order.
            spawn_blocking(|| ()).await.unwrap();
        });
        let names = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["2"]);
    }
}
