//! The native half of `encoding.js`: text to bytes and back.
//!
//! JavaScript allocates the memory for bytes, which is thus charged to the Worker, and a failed
//! allocation is an ordinary `RangeError`. The functions that encode only fill this memory.

pub(crate) mod base64;

use std::borrow::Cow;
use std::collections::HashMap;

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use tenon_engine::bytes;
use tenon_engine::slot::slot;
use tenon_engine::string::from_text;
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use crate::ops::{Argument, Arguments, Nullable, View};

/// The maximum number of open streaming decoders of an isolate; V8 does not count their memory.
const MAX_DECODERS: usize = 1024;

/// Returns the length of a string's UTF-8 form, in bytes.
#[op]
pub(crate) fn utf8_length(
    scope: &mut v8::PinScope<'_, '_>,
    text: v8::Local<'_, v8::String>,
) -> usize {
    text.utf8_length(scope)
}

/// Writes a string's UTF-8 form to `into`, in whole characters; a lone surrogate is written as
/// U+FFFD. Returns the number of code units read times 2³², plus the number of bytes written.
#[op]
pub(crate) fn utf8_write(
    scope: &mut v8::PinScope<'_, '_>,
    text: v8::Local<'_, v8::String>,
    into: View<'_>,
) -> f64 {
    // A code unit becomes three bytes at most.
    let mut utf8 = vec![0; into.byte_length().min(text.length().saturating_mul(3))];
    let mut read = 0;
    let written =
        text.write_utf8_v2(scope, &mut utf8, v8::WriteFlags::kReplaceInvalidUtf8, Some(&mut read));
    bytes::cells(into, |cells| {
        cells.iter().zip(&utf8[..written]).for_each(|(cell, byte)| cell.set(*byte))
    });
    read as f64 * f64::from(1 << 16) * f64::from(1 << 16) + written as f64
}

/// Returns the name of the encoding with this label, in lower case; `undefined` if there is none.
#[op]
pub(crate) fn encoding_name(label: String) -> Option<String> {
    let encoding = Encoding::for_label_no_replacement(label.as_bytes())?;
    Some(encoding.name().to_ascii_lowercase())
}

/// Decodes bytes. Returns null if they are malformed and `fatal` is set.
#[op]
pub(crate) fn decode<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: View<'s>,
    encoding: Named,
    fatal: bool,
    keep_bom: bool,
) -> Nullable<Option<v8::Local<'s, v8::String>>> {
    let string = bytes::read(bytes, |bytes| {
        let text = text(encoding.0, bytes, fatal, keep_bom)?;
        Some(from_text(scope, &text))
    });
    Nullable(string)
}

/// The encoding with a name that `encoding_name` returned.
pub(crate) struct Named(&'static Encoding);

impl<'s> Argument<'s> for Named {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let name: v8::Local<'_, v8::String> = arguments.take(scope)?;
        let view = v8::ValueView::new(scope, name);
        let encoding = match view.as_str() {
            Some("utf-8") => Some(UTF_8),
            name => Encoding::for_label(name.unwrap_or_default().as_bytes()),
        };
        let unknown = || Thrown::range_error("There is no encoding of this name");
        encoding.map(Self).ok_or_else(unknown)
    }
}

fn text<'b>(
    encoding: &'static Encoding,
    bytes: &'b [u8],
    fatal: bool,
    keep_bom: bool,
) -> Option<Cow<'b, str>> {
    let bytes = if keep_bom { bytes } else { without_bom(encoding, bytes) };
    if fatal {
        encoding.decode_without_bom_handling_and_without_replacement(bytes)
    } else {
        Some(encoding.decode_without_bom_handling(bytes).0)
    }
}

fn without_bom<'b>(encoding: &'static Encoding, bytes: &'b [u8]) -> &'b [u8] {
    let mark: &[u8] = match encoding {
        e if e == UTF_8 => b"\xEF\xBB\xBF",
        e if e == UTF_16LE => b"\xFF\xFE",
        e if e == UTF_16BE => b"\xFE\xFF",
        _ => return bytes,
    };
    bytes.strip_prefix(mark).unwrap_or(bytes)
}

/// An isolate's decoders of unfinished streams, by number. Numbers are not reused.
#[derive(Default)]
struct Decoders {
    last: u32,
    open: HashMap<u32, StreamDecoder>,
}

struct StreamDecoder {
    decoder: Decoder,
    fatal: bool,
}

impl StreamDecoder {
    fn new(encoding: &'static Encoding, fatal: bool, keep_bom: bool) -> Self {
        let decoder = if keep_bom {
            encoding.new_decoder_without_bom_handling()
        } else {
            encoding.new_decoder_with_bom_removal()
        };
        Self { decoder, fatal }
    }

    /// Returns the text of the next bytes; `None` if the decoder is fatal and the bytes are
    /// malformed.
    fn push(&mut self, bytes: &[u8], last: bool) -> Option<String> {
        let mut text = String::with_capacity(self.decoder.max_utf8_buffer_length(bytes.len())?);
        if self.fatal {
            match self.decoder.decode_to_string_without_replacement(bytes, &mut text, last).0 {
                DecoderResult::InputEmpty => Some(text),
                DecoderResult::OutputFull | DecoderResult::Malformed(..) => None,
            }
        } else {
            // The capacity of `text` suffices for the whole input.
            let _input_empty = self.decoder.decode_to_string(bytes, &mut text, last);
            Some(text)
        }
    }
}

/// Opens a streaming decoder. Returns its number; `undefined` if too many are open.
#[op]
pub(crate) fn decoder_open(
    scope: &mut v8::PinScope<'_, '_>,
    encoding: Named,
    fatal: bool,
    keep_bom: bool,
) -> Option<u32> {
    let decoders = slot::<Decoders>(scope);
    if decoders.open.len() >= MAX_DECODERS {
        return None;
    }
    decoders.last += 1;
    decoders.open.insert(decoders.last, StreamDecoder::new(encoding.0, fatal, keep_bom));
    Some(decoders.last)
}

/// Decodes the next bytes. Returns their text; null if the decoder is fatal and the bytes are
/// malformed; `undefined` if the decoder is closed. The decoder closes after the last bytes, and
/// when it returns null.
#[op]
pub(crate) fn decoder_push(
    scope: &mut v8::PinScope<'_, '_>,
    decoder: u32,
    bytes: Option<View<'_>>,
    last: bool,
) -> Option<Nullable<String>> {
    let decoders = scope.get_slot_mut::<Decoders>()?;
    let open = decoders.open.get_mut(&decoder)?;
    let text = match bytes {
        Some(view) => bytes::read(view, |bytes| open.push(bytes, last)),
        None => open.push(&[], last),
    };
    if last || text.is_none() {
        decoders.open.remove(&decoder);
    }
    Some(Nullable(text))
}

/// Drops a decoder.
#[op]
pub(crate) fn decoder_close(scope: &mut v8::PinScope<'_, '_>, decoder: u32) {
    if let Some(decoders) = scope.get_slot_mut::<Decoders>() {
        decoders.open.remove(&decoder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_of_the_encoding_is_removed_unless_it_is_kept() {
        assert_eq!(text(UTF_8, b"\xEF\xBB\xBFa", false, false).unwrap(), "a");
        assert_eq!(text(UTF_8, b"\xEF\xBB\xBFa", false, true).unwrap(), "\u{FEFF}a");
        assert_eq!(text(UTF_16LE, b"\xEF\xBBa\0", false, false).unwrap(), "\u{BBEF}a");
    }

    #[test]
    fn invalid_bytes_are_replaced_unless_decoding_is_fatal() {
        assert_eq!(text(UTF_8, b"a\xFFb", false, false).unwrap(), "a\u{FFFD}b");
        assert!(text(UTF_8, b"a\xFFb", true, false).is_none());
    }

    #[test]
    fn a_character_may_be_cut_between_two_pushes() {
        let mut decoder = StreamDecoder::new(UTF_8, true, false);
        assert_eq!(decoder.push(b"\xC3", false).unwrap(), "");
        assert_eq!(decoder.push(b"\xA9", false).unwrap(), "é");
        assert_eq!(decoder.push(b"", true).unwrap(), "");
    }

    #[test]
    fn a_character_truncated_by_the_end_is_invalid() {
        let mut fatal = StreamDecoder::new(UTF_8, true, false);
        assert_eq!(fatal.push(b"\xC3", false).unwrap(), "");
        assert!(fatal.push(b"", true).is_none());
        let mut lenient = StreamDecoder::new(UTF_8, false, false);
        assert_eq!(lenient.push(b"\xC3", true).unwrap(), "\u{FFFD}");
    }
}
