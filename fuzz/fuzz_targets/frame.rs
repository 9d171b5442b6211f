//! Fuzzes messages between processes. They are decoded from a stream as they were encoded, wherever
//! the stream is split.

#![no_main]

use arbitrary::Arbitrary;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tenon_fuzz::pieces;
use tenon_proto::frame::{Decoder, encode};
use tenon_proto::runtime::InvokeRequest;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    cuts: Vec<u8>,
    stream: &'a [u8],
}

/// Returns the messages that are decoded from a stream, and a description of the stream's end.
fn read(stream: impl IntoIterator<Item = Bytes>) -> (Vec<InvokeRequest>, String) {
    let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
    for piece in stream {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, error.to_string()),
            }
        }
    }
    let end = decoder.finish().map_or_else(|error| error.to_string(), |()| "whole".to_owned());
    (messages, end)
}

fuzz_target!(|input: Input<'_>| {
    let whole = read([Bytes::copy_from_slice(input.stream)]);
    assert_eq!(read(pieces(input.stream, &input.cuts)), whole);

    let again: Vec<_> = whole.0.iter().map(encode).collect();
    assert_eq!(read(again), (whole.0, "whole".to_owned()));
});
