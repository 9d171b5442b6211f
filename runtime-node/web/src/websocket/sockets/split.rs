//! Cuts long WebSocket frames into short frames (RFC 6455 §5.4) before the protocol library
//! receives them.
//!
//! ```text
//!  in:   header: text, 1 MiB, final ─► bytes
//!  out:  text, 16 KiB ─► continuation, 16 KiB ─► … ─► continuation, final
//! ```
//!
//! The library allocates memory for a whole frame once it has read the frame's header, and keeps
//! the memory for the next frame. By sending a few bytes, any client could thus take as much of the
//! node's memory as the longest message needs, and the Worker would not be charged for it. With
//! short frames, the library keeps little memory, and the message is counted as it arrives.
//!
//! Frames that cannot be cut are passed on unchanged, so that the library reports the error. This
//! module does no I/O.

use std::io::Cursor;

use bytes::{Buf as _, Bytes};
use tokio::io::ReadBuf;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// The maximum payload of a frame that is passed on, in bytes; a multiple of the mask's length, so
/// that every piece begins with the first byte of the mask.
pub(crate) const FRAGMENT: usize = 16 * 1024;

/// Cuts the frames in one direction of a socket.
#[derive(Default)]
pub(crate) struct Splitter {
    /// An incomplete header.
    header: Vec<u8>,
    /// Bytes to pass on before anything else.
    pending: Bytes,
    state: State,
    /// The number of message bytes that have been passed on since the last call of
    /// [`Splitter::take_counted`].
    counted: usize,
}

#[derive(Default)]
enum State {
    #[default]
    Header,
    /// `left` bytes of a frame, or of a piece of one, follow.
    Payload { left: u64, is_data: bool, rest: Option<Rest> },
    /// The input is not a valid frame. It and all further input is passed on unchanged.
    Lost,
}

/// The part of a frame after the current piece.
struct Rest {
    header: FrameHeader,
    /// Set if the original frame is the last of its message.
    is_final: bool,
    left: u64,
}

impl Splitter {
    /// Moves bytes from `input` to `output` while there is room.
    ///
    /// # Arguments
    /// * `longest` - the maximum length of a frame that is cut, in bytes; longer frames are passed
    ///   on unchanged.
    pub(crate) fn pass(&mut self, input: &mut Bytes, output: &mut ReadBuf<'_>, longest: usize) {
        while output.remaining() > 0 {
            if !self.pending.is_empty() {
                take(&mut self.pending, usize::MAX, output);
                continue;
            }
            match &mut self.state {
                State::Payload { left: 0, rest: None, .. } => self.state = State::Header,
                State::Payload { left: 0, rest: Some(_), .. } => self.next_piece(),
                _ if input.is_empty() => return,
                State::Payload { left, is_data, .. } => {
                    let taken = take(input, usize::try_from(*left).unwrap_or(usize::MAX), output);
                    *left -= taken as u64;
                    self.counted += if *is_data { taken } else { 0 };
                }
                State::Header => {
                    self.header.push(input.get_u8());
                    self.read_header(longest);
                }
                State::Lost => drop(take(input, usize::MAX, output)),
            }
        }
    }

    /// Returns the number of message bytes passed on since the last call.
    pub(crate) fn take_counted(&mut self) -> usize {
        std::mem::take(&mut self.counted)
    }

    fn read_header(&mut self, longest: usize) {
        let (header, length) = match FrameHeader::parse(&mut Cursor::new(&self.header)) {
            Ok(Some(read)) => read,
            Ok(None) => return,
            Err(_) => {
                self.pending = std::mem::take(&mut self.header).into();
                self.state = State::Lost;
                return;
            }
        };
        let is_data =
            matches!(header.opcode, OpCode::Data(Data::Text | Data::Binary | Data::Continue));
        let bytes = std::mem::take(&mut self.header);
        if !is_data || length <= FRAGMENT as u64 || length > longest as u64 {
            self.pending = bytes.into();
            self.state = State::Payload { left: length, is_data, rest: None };
            return;
        }
        let is_final = header.is_final;
        self.state = State::Payload {
            left: 0,
            is_data,
            rest: Some(Rest { header, is_final, left: length }),
        };
    }

    fn next_piece(&mut self) {
        let State::Payload { rest, .. } = &mut self.state else { return };
        let Some(mut rest) = rest.take() else { return };
        let piece = rest.left.min(FRAGMENT as u64);
        rest.left -= piece;
        rest.header.is_final = rest.is_final && rest.left == 0;
        let mut bytes = Vec::new();
        rest.header.format(piece, &mut bytes).expect("writing to a vector cannot fail");
        self.pending = bytes.into();
        rest.header.opcode = OpCode::Data(Data::Continue);
        let rest = (rest.left > 0).then_some(rest);
        self.state = State::Payload { left: piece, is_data: true, rest };
    }
}

/// Moves at most `most` bytes. Returns the number of bytes moved.
fn take(from: &mut Bytes, most: usize, to: &mut ReadBuf<'_>) -> usize {
    let len = from.len().min(most).min(to.remaining());
    to.put_slice(&from[..len]);
    from.advance(len);
    len
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use proptest::prelude::*;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

    use super::*;

    const MAX_LEN: usize = 1 << 20;

    fn masked(payload: Vec<u8>, opcode: Data, is_final: bool) -> Vec<u8> {
        let mut frame = Frame::message(payload, OpCode::Data(opcode), is_final);
        frame.header_mut().mask = Some([1, 2, 3, 4]);
        let mut bytes = Vec::new();
        frame.format(&mut bytes).unwrap();
        bytes
    }

    /// Passes `bytes` through a splitter, divided at `cuts`, and returns the output.
    fn split(bytes: &[u8], cuts: &[usize], room: usize) -> Vec<u8> {
        let mut splitter = Splitter::default();
        let mut out = Vec::new();
        let mut from = 0;
        for to in cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([bytes.len()]) {
            let mut input = Bytes::copy_from_slice(&bytes[from.min(to)..to]);
            from = from.max(to);
            loop {
                let mut buffer = vec![0; room];
                let mut buffer = ReadBuf::new(&mut buffer);
                splitter.pass(&mut input, &mut buffer, MAX_LEN);
                if buffer.filled().is_empty() {
                    break;
                }
                out.extend_from_slice(buffer.filled());
            }
        }
        out
    }

    /// Reads messages like a server that accepts frames of at most [`FRAGMENT`] bytes.
    fn messages(bytes: &[u8]) -> Vec<Message> {
        let config = WebSocketConfig::default().max_frame_size(Some(FRAGMENT));
        let stream = std::io::Cursor::new(bytes.to_vec());
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config))
            .now_or_never()
            .unwrap();
        let messages = stream.take_while(|message| futures::future::ready(message.is_ok()));
        messages.map(Result::unwrap).collect::<Vec<_>>().now_or_never().unwrap()
    }

    proptest! {
        #[test]
        fn chunking_does_not_change_messages(
            lengths in prop::collection::vec((0_usize..5 * FRAGMENT, any::<bool>()), 1..5),
            cuts in prop::collection::vec(any::<usize>(), 0..6),
            room in 1_usize..40_000,
        ) {
            let payload = |length: usize| (0..length).map(|n| (n % 251) as u8).collect::<Vec<_>>();
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (length, in_two) in lengths {
                let (first, rest) = (payload(length), payload(length / 3));
                if in_two {
                    bytes.extend(masked(first.clone(), Data::Binary, false));
                    bytes.extend(masked(rest.clone(), Data::Continue, true));
                    expected.push(Message::binary([first, rest].concat()));
                } else {
                    bytes.extend(masked(first.clone(), Data::Binary, true));
                    expected.push(Message::binary(first));
                }
            }
            let mut cuts = cuts;
            cuts.iter_mut().for_each(|cut| *cut %= bytes.len() + 1);
            cuts.sort_unstable();
            prop_assert_eq!(messages(&split(&bytes, &cuts, room)), expected);
        }

        #[test]
        fn arbitrary_bytes_pass_through_without_growth(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let out = split(&bytes, &[], 100);
            // Cutting a frame adds headers, but far fewer bytes than this.
            prop_assert!(out.len() <= bytes.len() + 2_000);
        }
    }

    #[test]
    fn short_and_overlong_frames_are_unchanged() {
        let short = masked(vec![7; FRAGMENT], Data::Text, true);
        assert_eq!(split(&short, &[], 1000), short);
        let long = masked(vec![7; MAX_LEN + 1], Data::Text, true);
        assert_eq!(split(&long, &[], 1000), long);
    }

    #[test]
    fn only_the_bytes_of_messages_are_counted() {
        let mut splitter = Splitter::default();
        let mut input = Bytes::from(
            [masked(vec![0; 3 * FRAGMENT], Data::Binary, true), vec![0x89, 2, 0, 0]].concat(),
        );
        let mut buffer = vec![0; 4 * FRAGMENT];
        splitter.pass(&mut input, &mut ReadBuf::new(&mut buffer), MAX_LEN);
        assert_eq!((splitter.take_counted(), splitter.take_counted()), (3 * FRAGMENT, 0));
    }
}
