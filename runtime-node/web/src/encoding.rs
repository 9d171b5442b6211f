//! The native half of `encoding.js`: text to bytes and back.
//!
//! JavaScript always allocates the memory, so that it is charged and a refusal is an ordinary
//! `RangeError`; these functions only fill it.

pub(crate) mod base64;

use std::borrow::Cow;
use std::collections::HashMap;

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use tenon_engine::bytes;
use tenon_engine::slot::slot;

crate::ops::native! {
    "utf8Length(text: string): number" => utf8_length,
    "utf8Write(text: string, into: View): number" => utf8_write,
    "encodingName(label: string): string | undefined" => encoding_name,
    "decode(bytes: View, encoding: string, fatal: boolean, ignoreBOM: boolean): string | null" => decode,
    "decoderOpen(encoding: string, fatal: boolean, ignoreBOM: boolean): number | undefined" => decoder_open,
    "decoderPush(decoder: number, bytes: View | undefined, last: boolean): string | null" => decoder_push,
    "decoderClose(decoder: number): void" => decoder_close,
}

/// The most streaming decoders that an isolate may have open: V8 does not count their memory.
const DECODERS: usize = 1024;

/// `utf8Length(string)`: returns the length of its UTF-8 form, in bytes.
pub(crate) fn utf8_length(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    if let Ok(string) = args.get(0).try_cast::<v8::String>() {
        result.set_double(string.utf8_length(scope) as f64);
    }
}

/// `utf8Write(string, view)`: returns code units read · 2³² + bytes written. Writes whole
/// characters only; a lone surrogate is written as U+FFFD.
pub(crate) fn utf8_write(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let (Ok(string), Ok(view)) =
        (args.get(0).try_cast::<v8::String>(), args.get(1).try_cast::<v8::ArrayBufferView>())
    else {
        return;
    };
    // A code unit becomes three bytes at most.
    let mut utf8 = vec![0; view.byte_length().min(string.length().saturating_mul(3))];
    let mut read = 0;
    let written = string.write_utf8_v2(
        scope,
        &mut utf8,
        v8::WriteFlags::kReplaceInvalidUtf8,
        Some(&mut read),
    );
    bytes::cells(view, |cells| {
        cells.iter().zip(&utf8[..written]).for_each(|(cell, byte)| cell.set(*byte))
    });
    result.set_double(read as f64 * f64::from(1 << 16) * f64::from(1 << 16) + written as f64);
}

/// `encodingName(label)`: returns the encoding's name in lower case, or undefined.
pub(crate) fn encoding_name(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let label = args.get(0).to_rust_string_lossy(scope);
    let Some(encoding) = Encoding::for_label_no_replacement(label.as_bytes()) else { return };
    if let Some(name) = v8::String::new(scope, &encoding.name().to_ascii_lowercase()) {
        result.set(name.into());
    }
}

/// `decode(view, encoding, fatal, ignoreBOM)`: returns a string, or null if the bytes are malformed
/// and `fatal` is set.
pub(crate) fn decode(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Ok(view) = args.get(0).try_cast::<v8::ArrayBufferView>() else { return };
    let Some(encoding) = encoding(scope, args.get(1)) else { return };
    let (fatal, keep_bom) = (args.get(2).is_true(), args.get(3).is_true());
    let string = bytes::read(view, |bytes| match text(encoding, bytes, fatal, keep_bom) {
        None => Ok(()),
        Some(text) => Err(v8::String::new(scope, &text)),
    });
    match string {
        Ok(()) => result.set_null(),
        Err(Some(string)) => result.set(string.into()),
        Err(None) => {}
    }
}

/// Returns the encoding with a name that `encodingName` returned.
fn encoding(
    scope: &mut v8::PinScope<'_, '_>,
    name: v8::Local<'_, v8::Value>,
) -> Option<&'static Encoding> {
    let name = name.try_cast::<v8::String>().ok()?;
    let view = v8::ValueView::new(scope, name);
    match view.as_str()? {
        "utf-8" => Some(UTF_8),
        name => Encoding::for_label(name.as_bytes()),
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

    /// Returns the text of the next bytes; `None` if they are malformed and that is fatal.
    fn push(&mut self, bytes: &[u8], last: bool) -> Option<String> {
        let mut text = String::with_capacity(self.decoder.max_utf8_buffer_length(bytes.len())?);
        if self.fatal {
            match self.decoder.decode_to_string_without_replacement(bytes, &mut text, last).0 {
                DecoderResult::InputEmpty => Some(text),
                DecoderResult::OutputFull | DecoderResult::Malformed(..) => None,
            }
        } else {
            // The capacity suffices for all of it.
            let _input_empty = self.decoder.decode_to_string(bytes, &mut text, last);
            Some(text)
        }
    }
}

/// `decoderOpen(encoding, fatal, ignoreBOM)`: returns the decoder's number, or undefined if too
/// many are open.
pub(crate) fn decoder_open(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(encoding) = encoding(scope, args.get(0)) else { return };
    let decoder = StreamDecoder::new(encoding, args.get(1).is_true(), args.get(2).is_true());
    let decoders = slot::<Decoders>(scope);
    if decoders.open.len() >= DECODERS {
        return;
    }
    decoders.last += 1;
    decoders.open.insert(decoders.last, decoder);
    result.set_uint32(decoders.last);
}

/// `decoderPush(number, view | undefined, last)`: returns a string, or null if the bytes are
/// malformed and that is fatal. The decoder is closed by the last bytes and by malformed ones.
pub(crate) fn decoder_push(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(number) = args.get(0).uint32_value(scope) else { return };
    let view = args.get(1).try_cast::<v8::ArrayBufferView>().ok();
    let last = args.get(2).is_true();
    let Some(decoders) = scope.get_slot_mut::<Decoders>() else { return };
    let Some(decoder) = decoders.open.get_mut(&number) else { return };
    let text = match view {
        Some(view) => bytes::read(view, |bytes| decoder.push(bytes, last)),
        None => decoder.push(&[], last),
    };
    if last || text.is_none() {
        decoders.open.remove(&number);
    }
    match text.map(|text| v8::String::new(scope, &text)) {
        None => result.set_null(),
        Some(Some(string)) => result.set(string.into()),
        Some(None) => {}
    }
}

/// `decoderClose(number)`: drops the decoder.
pub(crate) fn decoder_close(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _result: v8::ReturnValue<'_>,
) {
    let Some(number) = args.get(0).uint32_value(scope) else { return };
    if let Some(decoders) = scope.get_slot_mut::<Decoders>() {
        decoders.open.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_goes_only_if_it_is_of_the_encoding_and_not_to_be_kept() {
        assert_eq!(text(UTF_8, b"\xEF\xBB\xBFa", false, false).unwrap(), "a");
        assert_eq!(text(UTF_8, b"\xEF\xBB\xBFa", false, true).unwrap(), "\u{FEFF}a");
        assert_eq!(text(UTF_16LE, b"\xEF\xBBa\0", false, false).unwrap(), "\u{BBEF}a");
    }

    #[test]
    fn wrong_bytes_are_replaced_unless_that_is_fatal() {
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
    fn a_character_cut_by_the_end_is_wrong() {
        let mut fatal = StreamDecoder::new(UTF_8, true, false);
        assert_eq!(fatal.push(b"\xC3", false).unwrap(), "");
        assert!(fatal.push(b"", true).is_none());
        let mut lenient = StreamDecoder::new(UTF_8, false, false);
        assert_eq!(lenient.push(b"\xC3", true).unwrap(), "\u{FFFD}");
    }
}
