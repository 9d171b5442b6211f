//! A piece of a response's body, on its way from the isolate to the network.

use std::fmt;
use std::ops::Deref;

use bytes::{Buf, Bytes};

use super::buffers::Block;
use super::heap::Charge;

/// Bytes to send. Bytes that the Worker's JavaScript made count against the Worker's budget until
/// they have been sent.
#[derive(Default)]
pub struct Piece(Memory);

enum Memory {
    Block {
        block: Block,
        _charge: Charge,
    },
    /// Bytes outside the blocks: they were too long for a block, no block was free, or they do not
    /// come from the Worker's JavaScript.
    Bytes {
        bytes: Bytes,
        /// The charge for the data that is sent with the bytes, such as the response's headers.
        _charge: Option<Charge>,
    },
}

impl Default for Memory {
    fn default() -> Self {
        Self::Bytes { bytes: Bytes::new(), _charge: None }
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Self(Memory::Bytes { bytes, _charge: None })
    }
}

impl Piece {
    /// Creates a piece in a block. `charge` covers the block's content, and the data that is sent
    /// with it.
    pub fn in_block(block: Block, charge: Charge) -> Self {
        Self(Memory::Block { block, _charge: charge })
    }

    /// Creates a piece of bytes that bypass the Worker's JavaScript, and so do not count against
    /// its budget. `charge` covers the data that is sent with the bytes.
    pub fn with(bytes: Bytes, charge: Charge) -> Self {
        Self(Memory::Bytes { bytes, _charge: Some(charge) })
    }

    /// Splits off the first `len` bytes, or all bytes if there are fewer.
    #[must_use]
    pub fn split_to(&mut self, len: usize) -> Self {
        if len >= self.remaining() {
            return std::mem::take(self);
        }
        // `Bytes` are shared. A block has one owner, so the part that is split off is copied.
        Self::from(self.copy_to_bytes(len))
    }

    /// Extends the piece by `len` bytes at the front. Returns these bytes, which the caller must
    /// fill, or `None` if the piece has no room for them.
    pub fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        match &mut self.0 {
            Memory::Block { block, .. } => block.prepend(len),
            Memory::Bytes { .. } => None,
        }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Block { block, .. } => block,
            Memory::Bytes { bytes, .. } => bytes,
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self
    }

    fn advance(&mut self, count: usize) {
        match &mut self.0 {
            Memory::Block { block, .. } => block.advance(count),
            Memory::Bytes { bytes, .. } => bytes.advance(count),
        }
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        match &mut self.0 {
            Memory::Block { block, .. } => block.copy_to_bytes(len),
            Memory::Bytes { bytes, .. } => bytes.copy_to_bytes(len),
        }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
