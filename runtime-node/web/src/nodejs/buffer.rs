//! The native half of `node-buffer*.js`: Node.js's text encodings, and the comparison and search of
//! bytes.
//!
//! JavaScript allocates the memory for bytes, as in [`crate::encoding`]. Each call takes time in
//! proportion to its input, and the JavaScript caller passes long input in steps.

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use memchr::memmem;
use tenon_engine::bytes;
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use crate::ops::{Argument, Arguments, Maybe, View};

/// A text encoding of Node.js.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The lowest seven bits of each byte when decoding; the lowest eight of each character when
    /// encoding.
    Ascii,
    /// The lowest eight bits of each character.
    Latin1,
    /// Two bytes for each code unit, little-endian.
    Utf16,
    Hex,
    Base64,
    /// Without padding when decoding bytes. Text may use either alphabet of base64.
    Base64Url,
}

impl Encoding {
    /// Returns the encoding with this number in `node-buffer-text.js`.
    fn from_number(number: u32) -> Option<Self> {
        [Self::Ascii, Self::Latin1, Self::Utf16, Self::Hex, Self::Base64, Self::Base64Url]
            .get(number as usize)
            .copied()
    }
}

impl<'s> Argument<'s> for Encoding {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let encoding = arguments.take(scope).map(Self::from_number)?;
        encoding.ok_or_else(|| Thrown::range_error("There is no encoding with this number"))
    }
}

/// Decodes bytes to text. Throws if the text would be longer than V8 allows.
#[op]
pub(crate) fn bytes_to_text<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: View<'s>,
    encoding: Encoding,
) -> Maybe<v8::Local<'s, v8::String>> {
    let octets =
        |octets: &[u8]| v8::String::new_from_one_byte(scope, octets, v8::NewStringType::Normal);
    let text = bytes::read(bytes, |bytes| match encoding {
        Encoding::Latin1 => octets(bytes),
        Encoding::Ascii => octets(&bytes.iter().map(|byte| byte & 0x7F).collect::<Vec<_>>()),
        Encoding::Utf16 => {
            let units: Vec<_> =
                bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            v8::String::new_from_two_byte(scope, &units, v8::NewStringType::Normal)
        }
        Encoding::Hex => octets(&hex(bytes)),
        Encoding::Base64 => octets(STANDARD.encode(bytes).as_bytes()),
        Encoding::Base64Url => octets(URL_SAFE_NO_PAD.encode(bytes).as_bytes()),
    });
    Maybe(text)
}

/// Encodes text. Returns the number of code units read times 2³², plus the number of bytes written.
///
/// An invalid character ends hexadecimal text, and is skipped in base64, which ends at `=`. Unless
/// `last` is set, more base64 follows, and only whole groups of four characters are read.
#[op]
pub(crate) fn text_to_bytes(
    scope: &mut v8::PinScope<'_, '_>,
    text: v8::Local<'_, v8::String>,
    into: View<'_>,
    encoding: Encoding,
    last: bool,
) -> f64 {
    let room = into.byte_length();
    let (read, written) = match encoding {
        Encoding::Ascii | Encoding::Latin1 => {
            let mut octets = vec![0; text.length().min(room)];
            write_octets(scope, text, &mut octets);
            (octets.len(), octets)
        }
        Encoding::Utf16 => {
            let mut units = vec![0; text.length().min(room / 2)];
            text.write_v2(scope, 0, &mut units, v8::WriteFlags::empty());
            (units.len(), units.into_iter().flat_map(u16::to_le_bytes).collect())
        }
        Encoding::Hex | Encoding::Base64 | Encoding::Base64Url => {
            let mut units = vec![0; text.length()];
            text.write_v2(scope, 0, &mut units, v8::WriteFlags::empty());
            if encoding == Encoding::Hex {
                from_hex(&units, room)
            } else {
                from_base64(&units, room, last)
            }
        }
    };
    bytes::cells(into, |cells| cells.iter().zip(&written).for_each(|(cell, byte)| cell.set(*byte)));
    read as f64 * f64::from(1 << 16) * f64::from(1 << 16) + written.len() as f64
}

/// Writes the lowest eight bits of each code unit.
fn write_octets(
    scope: &v8::PinScope<'_, '_>,
    string: v8::Local<'_, v8::String>,
    octets: &mut [u8],
) {
    if string.is_onebyte() {
        string.write_one_byte_v2(scope, 0, octets, v8::WriteFlags::empty());
    } else {
        let mut units = vec![0; octets.len()];
        string.write_v2(scope, 0, &mut units, v8::WriteFlags::empty());
        octets.iter_mut().zip(units).for_each(|(octet, unit)| *octet = unit as u8);
    }
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xF])
        .map(|digit| DIGITS[usize::from(digit)])
        .collect()
}

fn from_hex(units: &[u16], room: usize) -> (usize, Vec<u8>) {
    let digit = |unit: u16| char::from_u32(unit.into()).and_then(|digit| digit.to_digit(16));
    let pairs = units.chunks_exact(2).take(room);
    let bytes: Vec<u8> =
        pairs.map_while(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect();
    (2 * bytes.len(), bytes)
}

/// Decodes base64 to at most `room` bytes. Returns the number of code units consumed, and the
/// bytes. If `last` is set, all code units are consumed.
fn from_base64(units: &[u16], room: usize, last: bool) -> (usize, Vec<u8>) {
    let mut bytes = Vec::with_capacity((units.len() / 4 * 3 + 3).min(room));
    let (mut group, mut count, mut read) = (0_u32, 0, 0);
    for (at, unit) in units.iter().enumerate() {
        let six = match u8::try_from(*unit).unwrap_or_default() {
            byte @ b'A'..=b'Z' => byte - b'A',
            byte @ b'a'..=b'z' => byte - b'a' + 26,
            byte @ b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                finish(&mut bytes, group, count, room);
                return (units.len(), bytes);
            }
            _ => continue,
        };
        group = group << 6 | u32::from(six);
        count += 1;
        if count == 4 {
            let room = room - bytes.len();
            bytes.extend(group.to_be_bytes()[1..].iter().take(room));
            (group, count, read) = (0, 0, at + 1);
        }
    }
    if last || count == 0 {
        finish(&mut bytes, group, count, room);
        read = units.len();
    }
    (read, bytes)
}

/// Decodes the two or three characters of an incomplete group.
fn finish(bytes: &mut Vec<u8>, group: u32, count: usize, room: usize) {
    let room = room - bytes.len();
    match count {
        2 => bytes.extend([(group >> 4) as u8].iter().take(room)),
        3 => bytes.extend([(group >> 10) as u8, (group >> 2) as u8].iter().take(room)),
        _ => {}
    }
}

/// Compares bytes lexicographically.
#[op]
pub(crate) fn bytes_compare(a: View<'_>, b: View<'_>) -> Ordering {
    bytes::read(a, |a: &[u8]| bytes::read(b, |b| a.cmp(b)))
}

/// Returns whether the bytes are equal, in constant time for inputs of equal length.
#[op]
pub(crate) fn bytes_same(a: View<'_>, b: View<'_>) -> bool {
    let same = |a: &[u8], b: &[u8]| aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok();
    bytes::read(a, |a| bytes::read(b, |b| same(a, b)))
}

/// Returns the index of the last `needle` in `bytes`, or -1.
#[op]
pub(crate) fn bytes_find_last(bytes: View<'_>, needle: View<'_>) -> f64 {
    let found = bytes::read(needle, |needle| bytes::read(bytes, |all| memmem::rfind(all, needle)));
    found.map_or(-1.0, |found| found as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn base64_of_either_alphabet_is_decoded_and_other_characters_are_skipped() {
        for text in ["_-+/", "_ -\n+/", "_-€+/"] {
            assert_eq!(from_base64(&units(text), 9, true).1, [0xFF, 0xEF, 0xBF], "{text}");
        }
        assert_eq!(from_base64(&units("YWI=Yw"), 9, true), (6, b"ab".to_vec()));
        assert_eq!(from_base64(&units("YWJj"), 2, true).1, b"ab");
        assert_eq!(from_base64(&units("Y"), 9, true), (1, Vec::new()));
    }

    #[test]
    fn base64_that_continues_is_decoded_in_whole_groups() {
        assert_eq!(from_base64(&units("YWJjYWI"), 9, false), (4, b"abc".to_vec()));
        assert_eq!(from_base64(&units("   "), 9, false), (3, Vec::new()));
        assert_eq!(from_base64(&units("YWJjYWI"), 9, true), (7, b"abcab".to_vec()));
    }

    #[test]
    fn hexadecimal_decoding_stops_at_the_first_invalid_pair() {
        assert_eq!(from_hex(&units("61Fg62"), 9), (2, b"a".to_vec()));
        assert_eq!(from_hex(&units("616"), 9), (2, b"a".to_vec()));
        assert_eq!(from_hex(&units("616263"), 2), (4, b"ab".to_vec()));
        assert_eq!(hex(b"a\xFF"), b"61ff");
    }
}
