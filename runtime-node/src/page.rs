//! The page that a shard's process shares with its supervisor: whose code is running, and whether it overruns.
//!
//! ```text
//!  shard's thread ── begin(digest), end ──►┐
//!  watchdog ──────── overruns ────────────►│ page ──► supervisor: whose turn ended the process, or does not end
//!  event loop ────── beat ────────────────►┘
//! ```
//!
//! The page outlives the process that writes it, so what it says at the end of a process names the revision that
//! ended it. Every field is written by one thread and read by another process; a reader that meets a turn as it begins
//! may see the digest of the turn before. That does not matter: the supervisor reads of a process that has ended, or of a
//! turn that has overrun for a second or more.

#![allow(unsafe_code)] // Reads and writes memory that two processes share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use tenon_proto::id::RevisionDigest;

/// The kernel shares whole pages.
const SIZE: u64 = 4096;

/// One mapping of the page. The supervisor and the shard each have their own.
pub struct Page {
    map: MmapRaw,
}

/// What lies in the page.
#[repr(C)]
struct Fields {
    /// Of the revision that runs, or ran last.
    digest: [AtomicU64; 4],
    /// 1 while code runs.
    running: AtomicU64,
    /// How long ago, in milliseconds of its thread's CPU time, the running turn was told to end.
    overrun: AtomicU64,
    /// Counts up while the event loop turns.
    beats: AtomicU64,
}

/// What the page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The revision whose code is running.
    pub running: Option<RevisionDigest>,
    /// CPU time that its turn has taken since it was told to end.
    pub overrun: Duration,
    pub beats: u64,
}

impl Page {
    /// Makes a page, and the file by which another process maps it too.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("tenon-page", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, SIZE)?;
        let page = Self::map(&file)?;
        Ok((page, file))
    }

    /// Maps the page that another process has made.
    ///
    /// # Errors
    /// When the file is not such a page, or cannot be mapped.
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
        // SAFETY: the mapping is a page, which is larger than the fields and aligned for them, and lives as long as
        // `self`. Its file was made with that size and neither process truncates it. All fields are atomics, for
        // which every bit pattern is valid and which other threads and processes may write meanwhile.
        unsafe { &*self.map.as_ptr().cast::<Fields>() }
    }

    /// Code of this revision runs from now on.
    pub fn begin(&self, digest: &RevisionDigest) {
        let fields = self.fields();
        let words =
            digest.as_bytes().chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        fields.digest.iter().zip(words).for_each(|(field, word)| field.store(word, Ordering::Relaxed));
        fields.running.store(1, Ordering::Release);
    }

    /// No code runs any more.
    pub fn end(&self) {
        self.fields().running.store(0, Ordering::Release);
    }

    /// The running turn has taken this much CPU time since it was told to end; nothing when it is in order.
    pub fn overruns(&self, by: Duration) {
        self.fields().overrun.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The event loop turns.
    pub fn beat(&self) {
        self.fields().beats.fetch_add(1, Ordering::Relaxed);
    }

    pub fn look(&self) -> Look {
        let fields = self.fields();
        let is_running = fields.running.load(Ordering::Acquire) != 0;
        let mut digest = [0; 32];
        for (bytes, field) in digest.chunks_exact_mut(8).zip(&fields.digest) {
            bytes.copy_from_slice(&field.load(Ordering::Relaxed).to_ne_bytes());
        }
        Look {
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
    fn what_one_mapping_writes_the_other_reads() {
        let (supervisor, file) = Page::create().unwrap();
        let shard = Page::open(file).unwrap();
        assert_eq!(supervisor.look(), Look { running: None, overrun: Duration::ZERO, beats: 0 });
        let digest = RevisionDigest::new(std::array::from_fn(|i| i as u8));
        shard.begin(&digest);
        shard.overruns(Duration::from_millis(1001));
        shard.beat();
        let look = Look { running: Some(digest), overrun: Duration::from_millis(1001), beats: 1 };
        assert_eq!(supervisor.look(), look);
        shard.end();
        assert_eq!(supervisor.look().running, None);
    }

    #[test]
    fn a_file_that_is_no_page_is_refused() {
        let file = memfd_create("tenon-page", MemfdFlags::CLOEXEC).unwrap();
        assert!(Page::open(file).is_err());
    }
}
