//! Header blocks (RFC 7541), without a dynamic table and without Huffman codes. This module
//! is pure.

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The start of a request's header block, before the length of the timeout:
/// `:method: POST`, `:scheme: http`, `:path`, `content-type`, `te` and the name `grpc-timeout`.
const REQUEST: &[u8] =
    b"\x83\x86\x04\x20/tenon.runtime.v1.Runtime/Invoke\x0f\x10\x10application/grpc\
      \x00\x02te\x08trailers\x00\x0cgrpc-timeout";

/// The block of a response: `:status: 200` and `content-type`.
pub(crate) const RESPONSE: &[u8] = b"\x88\x0f\x10\x10application/grpc";

/// The trailers of a response that succeeded.
pub(crate) const SUCCESS: &[u8] = b"\x00\x0bgrpc-status\x010";

/// The maximum number of digits of a timeout in gRPC.
const MAX_DIGITS: usize = 8;

/// The maximum timeout, in seconds: the largest number of [`MAX_DIGITS`] digits.
const MAX_SECONDS: u64 = 99_999_999;

/// The maximum length of a block of trailers that is sent, in bytes. Such a block fits into one
/// frame.
const MAX_TRAILERS: usize = 12 * 1024;

/// A bound on the bytes that a literal adds to its name and value: its first byte, and two lengths
/// of at most three bytes each.
const LITERAL_OVERHEAD: usize = 8;

/// Returns the header block of a request.
///
/// # Arguments
/// * `seconds` - the timeout that is sent to the shard, in seconds.
pub(crate) fn request(seconds: u64) -> Vec<u8> {
    let timeout = format!("{}S", seconds.min(MAX_SECONDS));
    let mut block = Vec::with_capacity(REQUEST.len() + 1 + timeout.len());
    block.extend_from_slice(REQUEST);
    block.push(timeout.len() as u8);
    block.extend_from_slice(timeout.as_bytes());
    block
}

/// Returns the timeout of a request in seconds, or `None` if the block is not one that [`request`]
/// writes.
pub(crate) fn read_request(block: &[u8]) -> Option<u64> {
    let (&len, value) = block.strip_prefix(REQUEST)?.split_first()?;
    let digits = value.strip_suffix(b"S")?;
    if usize::from(len) != value.len()
        || digits.is_empty()
        || digits.len() > MAX_DIGITS
        || !digits.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    Some(digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

/// Writes headers as literals. A header that would make the block longer than [`MAX_TRAILERS`] is
/// left out; earlier headers have precedence.
pub(crate) fn put_literals(out: &mut BytesMut, headers: &HeaderMap) {
    let mut left = MAX_TRAILERS;
    for (name, value) in headers {
        let len = name.as_str().len() + value.len() + LITERAL_OVERHEAD;
        let Some(rest) = left.checked_sub(len) else { continue };
        left = rest;
        out.put_u8(0);
        put_string(out, name.as_str().as_bytes());
        put_string(out, value.as_bytes());
    }
}

fn put_string(out: &mut BytesMut, string: &[u8]) {
    const PREFIX: usize = 127;
    if string.len() < PREFIX {
        out.put_u8(string.len() as u8);
    } else {
        out.put_u8(PREFIX as u8);
        let mut rest = string.len() - PREFIX;
        while rest >= 128 {
            out.put_u8((rest % 128 + 128) as u8);
            rest /= 128;
        }
        out.put_u8(rest as u8);
    }
    out.put_slice(string);
}

/// Returns the headers of a block, or `None` if [`put_literals`] does not write such blocks.
pub(crate) fn read_literals(mut block: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    while let Some((0, rest)) = block.split_first() {
        let (name, rest) = read_string(rest)?;
        let (value, rest) = read_string(rest)?;
        let name = HeaderName::from_lowercase(name).ok()?;
        headers.append(name, HeaderValue::from_bytes(value).ok()?);
        block = rest;
    }
    block.is_empty().then_some(headers)
}

/// Returns the string at the start of `block` and the bytes that follow the string, or `None` if
/// the string is incomplete or Huffman-coded.
fn read_string(block: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, mut rest) = block.split_first()?;
    let mut len = usize::from(first);
    if len == 127 {
        let mut shift = 0;
        loop {
            let (&byte, more) = rest.split_first()?;
            rest = more;
            len += usize::from(byte % 128) << shift;
            if byte < 128 {
                break;
            }
            shift += 7;
            // The length of a string in a frame needs no more bytes.
            if shift > 14 {
                return None;
            }
        }
    } else if len > 127 {
        // The string is Huffman-coded.
        return None;
    }
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_proto::runtime::INVOKE_PATH;

    use super::*;

    #[test]
    fn the_request_names_the_method() {
        let path = INVOKE_PATH.as_bytes();
        let names_path = REQUEST.windows(path.len()).any(|part| part == path);
        assert!(names_path, "REQUEST does not contain {INVOKE_PATH}");
        assert_eq!(usize::from(REQUEST[3]), INVOKE_PATH.len());
    }

    #[test]
    fn the_timeout_of_a_request_is_read() {
        for seconds in [0, 1, 32, MAX_SECONDS] {
            assert_eq!(read_request(&request(seconds)), Some(seconds));
        }
        assert_eq!(read_request(&request(u64::MAX)), Some(MAX_SECONDS));
    }

    #[test]
    fn a_block_that_differs_from_that_of_a_request_is_refused() {
        let block = request(32);
        for cut in 0..block.len() {
            assert_eq!(read_request(&block[..cut]), None);
        }
        assert_eq!(read_request(&[&block[..], b"\x83"].concat()), None);
        assert_eq!(read_request(&[REQUEST, b"\x01S"].concat()), None);
        assert_eq!(read_request(&[REQUEST, b"\x03-1S"].concat()), None);
    }

    proptest! {
        #[test]
        fn literals_are_read_as_they_were_written(
            headers in prop::collection::vec(("[a-z][a-z0-9-]{0,20}", "[ -~]{0,400}"), 0..8),
        ) {
            let headers: HeaderMap = headers
                .into_iter()
                .map(|(name, value)| {
                    (HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap())
                })
                .collect();
            let mut out = BytesMut::new();
            put_literals(&mut out, &headers);
            prop_assert_eq!(read_literals(&out), Some(headers));
        }

        #[test]
        fn any_block_is_read_without_a_panic(block: Vec<u8>) {
            _ = read_literals(&block);
            _ = read_request(&block);
        }
    }

    #[test]
    fn a_header_that_is_too_long_is_left_out() {
        let long = HeaderValue::try_from("x".repeat(MAX_TRAILERS)).unwrap();
        let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("2"));
        let headers =
            HeaderMap::from_iter([status.clone(), (HeaderName::from_static("grpc-message"), long)]);
        let mut out = BytesMut::new();
        put_literals(&mut out, &headers);
        assert_eq!(read_literals(&out), Some(HeaderMap::from_iter([status])));
    }
}
