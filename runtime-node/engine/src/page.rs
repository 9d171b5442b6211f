//! The page that a shard's process shares with its supervisor. It shows which revision's code is
//! running, and whether its turn overruns.
//!
//! ```text
//!  shard's thread ── begin(digest), end ──►┐
//!  watchdog ──────── set_overrun ─────────►│ page ──► supervisor: whose turn crashed or hangs
//!  event loop ────── beat ────────────────►┘
//! ```
//!
//! The page outlives the process that writes it, so after the end of a process it names the
//! revision that was running. One thread at a time writes each field, and another process reads it.
//! While a turn begins, a reader may see the digest of the previous turn. This is harmless: the
//! supervisor acts on the page of a process that has ended, or of a turn that has overrun for a
//! second or more.

#![allow(unsafe_code)] // Reads and writes memory that two processes share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use tenon_proto::id::RevisionDigest;

/// Size of the page, in bytes. The kernel shares only whole pages.
const SIZE: u64 = 4096;

/// A mapping of the page. The supervisor and the shard each have their own mapping.
pub struct Page {
    map: MmapRaw,
}

/// The layout of the page.
#[repr(C)]
struct Fields {
    /// The digest of the revision that is running, or ran last.
    digest: [AtomicU64; 4],
    /// 1 while code is running, and otherwise 0.
    running: AtomicU64,
    /// CPU time of the running turn since the order to end it, in milliseconds.
    overrun: AtomicU64,
    /// Number of heartbeats of the event loop.
    beats: AtomicU64,
}

/// A reading of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The revision whose code is running.
    pub running: Option<RevisionDigest>,
    /// CPU time of the running turn since the order to end it.
    pub overrun: Duration,
    /// Number of heartbeats of the event loop.
    pub beats: u64,
}

impl Page {
    /// Creates a page, and the file through which another process maps it.
    ///
    /// # Errors
    /// Fails if the system cannot create or map the file.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("tenon-page", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, SIZE)?;
        let page = Self::map(&file)?;
        Ok((page, file))
    }

    /// Maps a page that another process has created.
    ///
    /// # Errors
    /// Fails if the file is smaller than a page, or cannot be mapped.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        if file.metadata()?.len() < SIZE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the shared page is too small"));
        }
        Self::map(&file)
    }

    fn map(file: &impl AsFd) -> io::Result<Self> {
        let file = File::from(file.as_fd().try_clone_to_owned()?);
        Ok(Self { map: MmapRaw::map_raw(&file)? })
    }

    fn fields(&self) -> &Fields {
        // SAFETY: the mapping is a page, which is larger than the fields and aligned for them, and
        // lives as long as `self`. Its file was made with the size of a page, and neither process
        // truncates it. All fields are atomics, for which every bit pattern is valid and which
        // other threads and processes may write concurrently.
        unsafe { &*self.map.as_ptr().cast::<Fields>() }
    }

    /// Marks code of this revision as running.
    pub fn begin(&self, digest: &RevisionDigest) {
        let fields = self.fields();
        let words = digest
            .as_bytes()
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        fields
            .digest
            .iter()
            .zip(words)
            .for_each(|(field, word)| field.store(word, Ordering::Relaxed));
        fields.running.store(1, Ordering::Release);
    }

    /// Records that no code is running.
    pub fn end(&self) {
        self.fields().running.store(0, Ordering::Release);
    }

    /// Records the CPU time that the running turn has taken since the order to end it, or zero if
    /// there is no such order.
    pub fn set_overrun(&self, by: Duration) {
        self.fields()
            .overrun
            .store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts a heartbeat of the event loop.
    pub fn beat(&self) {
        self.fields().beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads all fields. Their values may be from different moments.
    pub fn read(&self) -> Reading {
        let fields = self.fields();
        let is_running = fields.running.load(Ordering::Acquire) != 0;
        let mut digest = [0; 32];
        for (bytes, field) in digest.chunks_exact_mut(8).zip(&fields.digest) {
            bytes.copy_from_slice(&field.load(Ordering::Relaxed).to_ne_bytes());
        }
        Reading {
            running: is_running.then(|| RevisionDigest::new(digest)),
            overrun: Duration::from_millis(fields.overrun.load(Ordering::Relaxed)),
            beats: fields.beats.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supervisor_reads_the_values_that_the_shard_writes() {
        let (supervisor, file) = Page::create().unwrap();
        let shard = Page::open(file).unwrap();
        assert_eq!(supervisor.read(), Reading { running: None, overrun: Duration::ZERO, beats: 0 });
        let digest = RevisionDigest::new(std::array::from_fn(|i| i as u8));
        shard.begin(&digest);
        shard.set_overrun(Duration::from_millis(1001));
        shard.beat();
        let reading =
            Reading { running: Some(digest), overrun: Duration::from_millis(1001), beats: 1 };
        assert_eq!(supervisor.read(), reading);
        shard.end();
        assert_eq!(supervisor.read().running, None);
    }

    #[test]
    fn an_empty_file_is_refused() {
        let file = memfd_create("tenon-page", MemfdFlags::CLOEXEC).unwrap();
        assert!(Page::open(file).is_err());
    }
}
