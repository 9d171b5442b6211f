//! Reads contents of a pack without blocking the thread: immediately if the kernel has the contents
//! in memory, and on another thread otherwise.
//!
//! A stream belongs to one thread.

use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tenon_assets::Site;
use tokio::task::{JoinHandle, spawn_blocking};

/// The maximum part of a file that is in memory at the same time, in bytes. A smaller file is read
/// whole.
pub(crate) const PIECE: usize = 64 * 1024;

/// Reads a part of a pack.
///
/// # Errors
/// Fails if the pack cannot be read, or ends too early.
pub(crate) async fn read(site: &Arc<Site>, offset: u64, length: usize) -> io::Result<Bytes> {
    match read_now(site, offset, length)? {
        Some(bytes) => Ok(bytes),
        None => read_later(site.clone(), offset, length).await?,
    }
}

/// Reads a part of a pack. Returns `None` if the kernel does not have the part in memory.
fn read_now(site: &Site, offset: u64, length: usize) -> io::Result<Option<Bytes>> {
    let mut bytes = vec![0; length];
    let read = loop {
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        match preadv2(site.pack(), &mut buffers, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            read => break read,
        }
    };
    match read {
        Ok(read) if read == length => Ok(Some(bytes.into())),
        // Only a part is in memory, or the file system does not support the flag.
        Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read_later(site: Arc<Site>, offset: u64, length: usize) -> JoinHandle<io::Result<Bytes>> {
    spawn_blocking(move || {
        let mut bytes = vec![0; length];
        site.pack().read_exact_at(&mut bytes, offset)?;
        Ok(bytes.into())
    })
}

/// A part of a pack as a stream of pieces.
pub(crate) struct FileStream {
    site: Arc<Site>,
    /// The position of the next piece in the pack, in bytes.
    offset: u64,
    /// The number of bytes that have not been read.
    left: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileStream {
    pub(crate) fn new(site: Arc<Site>, offset: u64, length: u64) -> Self {
        Self { site, offset, left: length, reading: None }
    }

    /// Returns the number of bytes that have not been read.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Returns the next piece, or `None` at the end.
    ///
    /// # Errors
    /// Fails if the pack cannot be read, or ends too early.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let piece = match &mut self.reading {
            Some(reading) => {
                let read = ready!(Pin::new(reading).poll(cx));
                self.reading = None;
                read.map_err(io::Error::from).flatten()
            }
            None if self.left == 0 => return Poll::Ready(None),
            None => {
                let length = usize::try_from(self.left).map_or(PIECE, |left| left.min(PIECE));
                match read_now(&self.site, self.offset, length) {
                    Ok(Some(bytes)) => Ok(bytes),
                    Ok(None) => {
                        let later = read_later(self.site.clone(), self.offset, length);
                        self.reading = Some(later);
                        return self.poll_piece(cx);
                    }
                    Err(error) => Err(error),
                }
            }
        };
        Poll::Ready(Some(piece.inspect(|piece| {
            self.offset += piece.len() as u64;
            self.left -= piece.len() as u64;
        })))
    }
}
