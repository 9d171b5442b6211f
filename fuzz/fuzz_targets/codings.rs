//! Fuzzes the content codings of an origin's response body. Wherever the input is split, decoding
//! fails or yields the same bytes, in pieces of bounded length, and charges the same memory. An
//! encoded body decodes to the original.

#![no_main]

use arbitrary::Arbitrary;
use async_compression::tokio::bufread::{
    BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder,
};
use bytes::Bytes;
use futures::executor::block_on;
use http::{HeaderMap, HeaderValue, header};
use libfuzzer_sys::fuzz_target;
use tenon_egress::fuzzing::{Decoded, decode};
use tenon_fuzz::pieces;
use tokio::io::AsyncReadExt as _;

/// Maximum number of decoded bytes. A decompression bomb need not be decoded to its end.
const MAX_DECODED: usize = 1 << 20;

/// Memory limit in bytes: for three codings, each with the 17 MiB of the most demanding decoder.
const MEMORY: usize = 3 * (17 << 20);

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    codings: [u8; 3],
    header: Option<&'a [u8]>,
    cuts: Vec<u8>,
    body: &'a [u8],
}

const CODINGS: [&str; 8] = ["gzip", "deflate", "br", "zstd", "x-gzip", "identity", "", "GZIP"];

fn undo(coding: &HeaderValue, body: Vec<Bytes>) -> Decoded {
    let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, coding.clone())]);
    block_on(decode(&headers, body, MAX_DECODED, MEMORY))
}

fuzz_target!(|input: Input<'_>| {
    let names = input.codings.map(|number| CODINGS[usize::from(number) % CODINGS.len()]);
    let coding = match input.header {
        Some(header) => HeaderValue::from_bytes(header),
        None => HeaderValue::from_str(&names.join(", ")),
    };
    let Ok(coding) = coding else { return };

    let whole = undo(&coding, vec![Bytes::copy_from_slice(input.body)]);
    assert!(whole.codings <= 3 && (whole.codings == 0 || whole.longest <= 32 << 10));
    let cut = undo(&coding, pieces(input.body, &input.cuts));
    // The number of bytes decoded before an error is detected depends on the pieces.
    assert_eq!(cut.failure.is_some(), whole.failure.is_some(), "{coding:?}: {cut:?} {whole:?}");
    let common = cut.bytes.len().min(whole.bytes.len());
    assert_eq!(cut.bytes[..common], whole.bytes[..common]);
    if whole.failure.is_none() {
        assert_eq!((cut.bytes.len(), cut.held), (whole.bytes.len(), whole.held));
    }

    let (encoded, name) = encode(input.codings[0], input.body);
    let again = undo(&HeaderValue::from_static(name), pieces(&encoded, &input.cuts));
    assert_eq!(
        (again.failure, &again.bytes[..]),
        (None, &input.body[..input.body.len().min(MAX_DECODED)]),
        "{name}"
    );
});

fn encode(coding: u8, body: &[u8]) -> (Vec<u8>, &'static str) {
    let mut encoded = Vec::new();
    let (read, name) = match coding % 5 {
        0 => (block_on(GzipEncoder::new(body).read_to_end(&mut encoded)), "gzip"),
        1 => (block_on(ZlibEncoder::new(body).read_to_end(&mut encoded)), "deflate"),
        2 => (block_on(DeflateEncoder::new(body).read_to_end(&mut encoded)), "deflate"),
        3 => {
            let quality = async_compression::Level::Fastest;
            (block_on(BrotliEncoder::with_quality(body, quality).read_to_end(&mut encoded)), "br")
        }
        _ => (block_on(ZstdEncoder::new(body).read_to_end(&mut encoded)), "zstd"),
    };
    read.expect("cannot encode the body");
    (encoded, name)
}
