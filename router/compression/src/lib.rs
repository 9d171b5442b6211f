//! Compresses the responses of a thread's requests.
//!
//! ```text
//!  a complete body ──── a kept encoder ─┐
//!                                       ├─► turns: 64 KiB in each turn of the event loop
//!  a stream: slot ─► its own encoder ───┘
//! ```
//!
//! A complete body is compressed by an encoder that the thread keeps for all complete bodies, so it
//! takes no memory while it waits. A stream takes a slot, and memory for an encoder of its own. A
//! response for which there is no slot or no memory is sent uncompressed, and is never delayed or
//! refused.
//!
//! - [`Coding`]: the content codings.
//! - [`encoder`]: encodes responses while they are sent.
//! - [`turns`]: the bound on the time that compression takes from other requests.
//! - [`metrics`]: the bytes that were compressed.
//!
//! A [`Compression`] belongs to one thread. The crate knows nothing of the router that uses it.

mod coding;
pub mod encoder;
pub mod metrics;
pub mod turns;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use tenon_clients::Client;
use tenon_clients::quota::{Hold, Peer, Quota};
use tenon_lifecycle::metrics::EnumMap;

pub use crate::coding::Coding;
use crate::encoder::{Encoder, Then};
use crate::metrics::{CompressionMetrics, Lack};
use crate::turns::Turns;

/// The codings by preference. `cargo bench --bench compression` measures the reason: at the levels
/// of [`encoder`], the results have nearly the same size, and zstd takes the least time and brotli
/// the most.
pub const ORDER: [Coding; 3] = [Coding::Zstd, Coding::Gzip, Coding::Brotli];

/// The maximum number of streams that a thread compresses at the same time.
const SLOTS: usize = 64;

/// The compression of a thread.
pub struct Compression {
    /// The turns in which content is compressed.
    pub turns: Turns,
    slots: Quota,
    /// The encoders for complete bodies.
    kept: RefCell<EnumMap<Coding, Option<Encoder>>>,
    metrics: CompressionMetrics,
}

/// The compression of one stream.
pub struct Stream {
    encoder: Encoder,
    coding: Coding,
    compression: Rc<Compression>,
    _slot: Hold,
    _memory: Hold,
}

impl Compression {
    /// Creates the compression of a thread. All threads share the metrics.
    pub fn new(metrics: CompressionMetrics) -> Rc<Self> {
        Rc::new(Self {
            turns: Turns::default(),
            slots: Quota::new(SLOTS),
            kept: RefCell::default(),
            metrics,
        })
    }

    /// Compresses a complete body.
    ///
    /// # Errors
    /// Fails if there is no memory for an encoder.
    pub fn compress(&self, content: &[u8], coding: Coding) -> io::Result<Bytes> {
        let kept = self.kept.borrow_mut().get_mut(coding).take();
        let mut encoder = kept.map_or_else(|| Encoder::new(coding), Ok)?;
        let mut output = Vec::with_capacity(content.len() / 2);
        encoder.encode(content, Then::Finish, &mut output)?;
        *self.kept.borrow_mut().get_mut(coding) = encoder.reset();
        self.metrics.count(coding, content.len(), output.len());
        Ok(output.into())
    }

    /// Begins the compression of a stream. Returns `None` if the client's address has its share of
    /// the slots, or if there is no memory.
    pub fn stream(self: &Rc<Self>, coding: Coding, peer: Peer, client: &Client) -> Option<Stream> {
        let slot = self.slots.account(peer).take(1);
        let slot = slot.or_else(|| self.metrics.lack(Lack::Slots))?;
        let memory = client.free_memory(Encoder::memory(coding));
        let memory = memory.or_else(|| self.metrics.lack(Lack::Memory))?;
        let encoder = Encoder::new(coding)
            .inspect_err(|error| tracing::warn!(%error, "cannot compress a response"))
            .ok()?;
        Some(Stream { encoder, coding, compression: self.clone(), _slot: slot, _memory: memory })
    }
}

impl Stream {
    /// Compresses the next piece.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn encode(&mut self, piece: &[u8], then: Then, output: &mut Vec<u8>) -> io::Result<()> {
        let before = output.len();
        self.encoder.encode(piece, then, output)?;
        self.compression.metrics.count(self.coding, piece.len(), output.len() - before);
        Ok(())
    }
}
