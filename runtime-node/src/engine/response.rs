//! A response's body, from its isolate to the socket.

use std::fmt;
use std::ops::Deref;

use bytes::{Buf, Bytes};

use super::heap::Charge;
use crate::buffers::Block;

/// What a Worker answered, counted against its budget until it has been sent.
#[derive(Default)]
pub struct ResponseBody(Memory);

enum Memory {
    Block {
        block: Block,
        _charge: Charge,
    },
    /// What was too long for a block, or came when none was free.
    Bytes(Bytes),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self(Memory::Bytes(bytes))
    }
}

impl ResponseBody {
    pub(super) fn in_block(block: Block, charge: Charge) -> Self {
        Self(Memory::Block { block, _charge: charge })
    }

    /// Cuts off the first `len` bytes, or all when there are no more.
    #[must_use]
    pub fn split_to(&mut self, len: usize) -> Self {
        if len >= self.remaining() {
            return std::mem::take(self);
        }
        // Bytes are shared; of a block, which has one owner, so much is copied.
        Self(Memory::Bytes(self.copy_to_bytes(len)))
    }

    /// Room for `len` bytes before the body, for the caller to write, which thereby come before it. `None` when there
    /// is no such room.
    pub fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        match &mut self.0 {
            Memory::Block { block, .. } => block.prepend(len),
            Memory::Bytes(_) => None,
        }
    }
}

impl Deref for ResponseBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Block { block, .. } => block,
            Memory::Bytes(bytes) => bytes,
        }
    }
}

impl Buf for ResponseBody {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self
    }

    fn advance(&mut self, count: usize) {
        match &mut self.0 {
            Memory::Block { block, .. } => block.advance(count),
            Memory::Bytes(bytes) => bytes.advance(count),
        }
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        match &mut self.0 {
            Memory::Block { block, .. } => block.copy_to_bytes(len),
            Memory::Bytes(bytes) => bytes.copy_to_bytes(len),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
