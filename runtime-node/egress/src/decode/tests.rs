//! Tests the decoding of bodies, which may be malformed or hostile.

use std::any::Any;
use std::cell::Cell;

use async_compression::Level;
use async_compression::tokio::bufread::{
    BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder,
};
use http::HeaderValue;
use tokio::io::AsyncReadExt as _;

use super::*;

/// A budget with a limit in bytes, which records how many bytes were requested.
#[derive(Default)]
struct TestBudget {
    limit: usize,
    held: Cell<usize>,
}

impl InvocationBudget for TestBudget {
    fn subrequest(&self) -> Result<(), u32> {
        Ok(())
    }

    fn hold(&self, bytes: usize) -> Option<Box<dyn Any>> {
        self.held.set(self.held.get() + bytes);
        (self.held.get() <= self.limit).then(|| Box::new(()) as Box<dyn Any>)
    }
}

fn test_budget(limit: usize) -> Rc<dyn InvocationBudget> {
    Rc::new(TestBudget { limit, held: Cell::default() })
}

async fn encode(coding: &str, plain: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    match coding {
        "gzip" => GzipEncoder::new(plain).read_to_end(&mut encoded).await,
        "zlib" => ZlibEncoder::new(plain).read_to_end(&mut encoded).await,
        "deflate" => DeflateEncoder::new(plain).read_to_end(&mut encoded).await,
        "br" => BrotliEncoder::with_quality(plain, Level::Fastest).read_to_end(&mut encoded).await,
        "zstd" => ZstdEncoder::new(plain).read_to_end(&mut encoded).await,
        _ => unreachable!("{coding} is not a coding"),
    }
    .unwrap();
    encoded
}

/// Returns the bytes as a body that arrives in pieces of this size.
fn body(bytes: Vec<u8>, piece: usize) -> BodyStream {
    let pieces: Vec<_> =
        bytes.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces).boxed_local()
}

async fn read(mut body: BodyStream) -> Result<Vec<u8>, EgressError> {
    let mut all = Vec::new();
    while let Some(piece) = body.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(all)
}

fn codings_of(header: &str) -> Vec<Coding> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_str(header).unwrap());
    codings(&headers)
}

const CASES: [(&str, Coding); 5] = [
    ("gzip", Coding::Gzip),
    ("zlib", Coding::Deflate),
    ("deflate", Coding::Deflate),
    ("br", Coding::Brotli),
    ("zstd", Coding::Zstd),
];

#[tokio::test]
async fn an_encoded_body_is_decoded_for_any_chunk_size() {
    let plain: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    for (name, coding) in CASES {
        let encoded = encode(name, &plain).await;
        for piece in [1, 7, 1000, usize::MAX] {
            let decoded = decode(&[coding], body(encoded.clone(), piece), &test_budget(64 << 20));
            assert!(read(decoded).await.unwrap() == plain, "{name} in pieces of {piece}");
        }
    }
}

#[tokio::test]
async fn empty_and_one_byte_bodies_are_decoded() {
    for (name, coding) in CASES {
        assert!(
            read(decode(&[coding], body(Vec::new(), 1), &test_budget(64 << 20)))
                .await
                .unwrap()
                .is_empty(),
            "{name}"
        );
        let encoded = encode(name, b"x").await;
        assert_eq!(
            read(decode(&[coding], body(encoded, 1), &test_budget(64 << 20))).await.unwrap(),
            b"x",
            "{name}"
        );
    }
}

#[tokio::test]
async fn content_codings_are_decoded_from_the_last_to_the_first() {
    let once = encode("gzip", b"twice").await;
    let twice = encode("br", &once).await;
    let decoded = decode(&codings_of("gzip, br"), body(twice, 3), &test_budget(64 << 20));
    assert_eq!(read(decoded).await.unwrap(), b"twice");
}

#[tokio::test]
async fn a_decompression_bomb_expands_only_as_it_is_read() {
    let plain = vec![0; 64 << 20];
    for (name, coding) in [CASES[0], CASES[3], CASES[4]] {
        let bomb = encode(name, &plain).await;
        assert!(bomb.len() < 1 << 20, "{name}");
        let mut decoded = decode(&[coding], body(bomb, usize::MAX), &test_budget(64 << 20));
        for _ in 0..10 {
            let piece = decoded.next().await.unwrap().unwrap();
            assert!(piece.len() <= PIECE, "{name}: {}", piece.len());
        }
    }
}

#[tokio::test]
async fn decoding_a_bomb_yields_to_other_tasks() {
    let bomb = encode("gzip", &vec![0; 8 << 20]).await;
    let mut reading =
        Box::pin(read(decode(&[Coding::Gzip], body(bomb, usize::MAX), &test_budget(64 << 20))));
    let mut yields = 0;
    while futures::poll!(&mut reading).is_pending() {
        yields += 1;
        tokio::task::yield_now().await;
    }
    assert!(yields >= (8 << 20) / (PIECES_PER_YIELD as usize * PIECE) - 1, "{yields}");
}

#[tokio::test]
async fn a_decoder_that_needs_more_memory_than_the_budget_has_is_an_error() {
    let encoded = encode("br", &[7; 100_000]).await;
    let decoded = decode(&[Coding::Brotli], body(encoded, 1000), &test_budget(1 << 20));
    assert!(matches!(read(decoded).await, Err(EgressError::Memory)));
}

#[tokio::test]
async fn a_malformed_or_truncated_encoding_is_an_error() {
    for (name, coding) in CASES {
        let plain: Vec<u8> = (0..50_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut encoded = encode(name, &plain).await;
        encoded.truncate(encoded.len() / 2);
        let error =
            read(decode(&[coding], body(encoded, 1000), &test_budget(64 << 20))).await.unwrap_err();
        assert!(matches!(error, EgressError::Decode { .. }), "{name}: {error}");
    }
    let error = read(decode(
        &[Coding::Gzip],
        body(b"<html>plain text".to_vec(), 1000),
        &test_budget(1 << 20),
    ))
    .await
    .unwrap_err();
    assert!(error.to_string().contains("not gzip"), "{error}");
}

#[tokio::test]
async fn an_error_of_the_body_passes_through_the_decoder() {
    let encoded = encode("gzip", &[1; 1000]).await;
    let broken = stream::iter([
        Ok(Bytes::from(encoded[..20].to_vec())),
        Err(EgressError::Body("lost".into())),
    ]);
    let error = read(decode(&[Coding::Gzip], broken.boxed_local(), &test_budget(1 << 20)))
        .await
        .unwrap_err();
    assert!(matches!(error, EgressError::Body(_)), "{error}");
}

#[test]
fn a_body_with_an_unsupported_coding_or_too_many_codings_is_not_decoded() {
    assert_eq!(codings_of("gzip"), [Coding::Gzip]);
    assert_eq!(codings_of("X-GZIP"), [Coding::Gzip]);
    assert_eq!(codings_of("identity"), []);
    assert_eq!(
        codings_of("deflate ,\tbr,,identity, zstd"),
        [Coding::Deflate, Coding::Brotli, Coding::Zstd]
    );
    assert_eq!(codings_of("gzip, compress"), []);
    assert_eq!(codings_of("gzip, gzip, gzip, gzip"), []);
}

#[tokio::test]
async fn the_window_size_is_read_from_the_first_bytes() {
    assert_eq!(brotli_window(&encode("br", &[0; 10]).await), 22);
    assert_eq!(
        [0x00, 0x01, 0x21, 0x0f, 0x7f].map(|byte| brotli_window(&[byte])),
        [16, 17, 10, 24, 24]
    );
    // The cases are a window of 2^20 bytes, a window of 2^27 bytes, a single segment of 300 bytes,
    // a skippable frame, and a truncated magic number.
    assert_eq!(zstd_window(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 10 << 3, 0]), 20);
    assert_eq!(zstd_window(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0]), ZSTD_WINDOW);
    assert_eq!(zstd_window(&[0x28, 0xb5, 0x2f, 0xfd, 0x60, 44, 0, 0]), ZSTD_SMALLEST);
    assert_eq!(zstd_window(&[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]), ZSTD_WINDOW);
    assert_eq!(zstd_window(&[0x28, 0xb5]), ZSTD_WINDOW);
}
