//! The bytes of responses that wait to be written, in their order.
//!
//! ```text
//!  text:    head, framing, short pieces ──┬───────────────┬──────────────► next
//!  pieces:                                └─ long piece   └─ long piece
//! ```
//!
//! Short pieces are copied behind the head, so that an ordinary response is one slice of memory.
//! Long pieces are not copied; they are written together with the text in one vectored write.
//!
//! This module is pure.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf as _, Bytes};

/// The maximum length of a piece that is copied, in bytes.
const SHORT: usize = 2 * 1024;
/// The number of long pieces at which the outbox is full.
const MAX_PIECES: usize = 16;
/// The number of bytes at which the outbox is full.
const MAX_BYTES: usize = 64 * 1024;
/// The maximum number of slices in one write.
pub(super) const SLICES: usize = 2 * MAX_PIECES + 1;
/// The maximum memory of the text that is kept for the next response, in bytes.
const KEPT: usize = 8 * 1024;

/// The bytes of responses that wait to be written to one connection.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    text: Vec<u8>,
    /// The number of bytes of the text that have been written.
    written: usize,
    pieces: VecDeque<Piece>,
    /// The number of bytes in the pieces.
    in_pieces: usize,
}

#[derive(Debug)]
struct Piece {
    /// The number of bytes of the text before the piece.
    after: usize,
    data: Bytes,
}

impl Outbox {
    /// Returns the text, to which the caller may append.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    pub(super) fn push(&mut self, data: Bytes) {
        if data.len() <= SHORT {
            self.text.extend_from_slice(&data);
        } else {
            self.in_pieces += data.len();
            self.pieces.push_back(Piece { after: self.text.len(), data });
        }
    }

    /// Returns whether more of a body may be added.
    pub(super) fn has_room(&self) -> bool {
        self.pieces.len() < MAX_PIECES
            && self.text.len() - self.written + self.in_pieces < MAX_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written == self.text.len() && self.pieces.is_empty()
    }

    /// Fills in the slices to write next, and returns their number.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let (mut count, mut from) = (0, self.written);
        let mut add = |bytes: &'a [u8]| {
            if !bytes.is_empty() && count < SLICES {
                slices[count] = IoSlice::new(bytes);
                count += 1;
            }
        };
        for Piece { after, data } in &self.pieces {
            add(&self.text[from..*after]);
            add(data);
            from = *after;
        }
        add(&self.text[from..]);
        count
    }

    /// Records that the first `len` bytes have been written.
    pub(super) fn advance(&mut self, mut len: usize) {
        loop {
            let end = self.pieces.front().map_or(self.text.len(), |piece| piece.after);
            let text = len.min(end - self.written);
            self.written += text;
            len -= text;
            let Some(piece) = self.pieces.front_mut().filter(|_| self.written == end) else {
                break;
            };
            let data = len.min(piece.data.len());
            piece.data.advance(data);
            self.in_pieces -= data;
            len -= data;
            if !piece.data.is_empty() {
                break;
            }
            self.pieces.pop_front();
        }
        debug_assert_eq!(len, 0, "more bytes were written than were pending");
        if self.is_empty() {
            self.text.clear();
            self.text.shrink_to(KEPT);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Action {
        Text(Vec<u8>),
        Piece(Vec<u8>),
        Write(usize),
    }

    fn action() -> impl Strategy<Value = Action> {
        let bytes = |max| prop::collection::vec(any::<u8>(), 0..max);
        prop_oneof![
            bytes(40).prop_map(Action::Text),
            bytes(40).prop_map(Action::Piece),
            (1..3 * SHORT).prop_map(|len| Action::Piece(vec![7; len])),
            (0..4 * SHORT).prop_map(Action::Write),
        ]
    }

    /// Writes up to `len` bytes, as a socket does.
    fn write(outbox: &mut Outbox, len: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = outbox.slices(&mut slices);
        let mut written =
            slices[..count].iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>();
        written.truncate(len);
        outbox.advance(written.len());
        written
    }

    proptest! {
        #[test]
        fn the_bytes_are_written_in_order_however_the_socket_takes_them(
            actions in prop::collection::vec(action(), 0..60),
        ) {
            let (mut outbox, mut given, mut taken) = (Outbox::default(), Vec::new(), Vec::new());
            for action in actions {
                match action {
                    Action::Text(_) | Action::Piece(_) if !outbox.has_room() => {}
                    Action::Text(text) => {
                        outbox.text().extend(&text);
                        given.extend(text);
                    }
                    Action::Piece(piece) => {
                        given.extend(&piece);
                        outbox.push(piece.into());
                    }
                    Action::Write(len) => taken.extend(write(&mut outbox, len)),
                }
                prop_assert_eq!(outbox.is_empty(), given.len() == taken.len());
                prop_assert_eq!(
                    outbox.text.len() - outbox.written + outbox.in_pieces,
                    given.len() - taken.len()
                );
            }
            while !outbox.is_empty() {
                taken.extend(write(&mut outbox, usize::MAX));
            }
            prop_assert_eq!(given, taken);
        }
    }

    #[test]
    fn an_ordinary_response_is_one_slice() {
        let mut outbox = Outbox::default();
        outbox.text().extend(b"HTTP/1.1 200 OK\r\n\r\n");
        outbox.push(Bytes::from_static(b"hello"));
        assert_eq!(outbox.slices(&mut [IoSlice::new(&[]); SLICES]), 1);
    }

    #[test]
    fn a_long_head_leaves_no_memory_behind() {
        let mut outbox = Outbox::default();
        outbox.text().extend([7; 100_000]);
        assert!(!outbox.has_room());
        outbox.advance(100_000);
        assert!(outbox.has_room() && outbox.text.capacity() <= KEPT);
    }
}
