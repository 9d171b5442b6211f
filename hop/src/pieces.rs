//! The data of a stream that has arrived and has not been read. This module is pure.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The length, in bytes, below which pieces after the first are copied and joined. A piece that is
/// not copied keeps the whole buffer into which it was read, so a small one would cost many times
/// its length.
pub(crate) const SMALL: usize = 8 * 1024;

/// The pieces of a stream's data, in the order in which they arrived.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The first piece, which is usually the only one.
    first: Option<Bytes>,
    more: VecDeque<Bytes>,
    /// The last piece, if it consists of small pieces.
    tail: BytesMut,
}

impl Pieces {
    pub(crate) fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        if self.is_empty() {
            self.first = Some(piece);
            return;
        }
        let is_small = piece.len() < SMALL;
        let joins = is_small && self.tail.len() < SMALL;
        if !self.tail.is_empty() && !joins {
            let tail = self.tail.split().freeze();
            self.more.push_back(tail);
        }
        if is_small {
            self.tail.extend_from_slice(&piece);
        } else {
            self.more.push_back(piece);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let piece = self.first.take().or_else(|| self.more.pop_front());
        piece.or_else(|| (!self.tail.is_empty()).then(|| self.tail.split().freeze()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty() && self.tail.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_in_order() {
        let all: Vec<u8> = (0..60_000_u32).map(|at| at as u8).collect();
        let (mut pieces, mut rest) = (Pieces::default(), Bytes::from(all.clone()));
        for len in [1, 10_000, 3, 4, 20_000, 7_000, 5_000, 8] {
            pieces.push(rest.split_to(len));
        }
        pieces.push(rest);
        let read: Vec<u8> = std::iter::from_fn(|| pieces.pop()).flatten().collect();
        assert!(read == all);
        assert!(pieces.is_empty());
    }

    #[test]
    fn small_pieces_are_joined() {
        let mut pieces = Pieces::default();
        (0..8 * SMALL).for_each(|_| pieces.push(Bytes::from_static(b"x")));
        assert!(pieces.more.len() <= 8);
    }
}
