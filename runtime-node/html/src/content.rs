//! Content that handlers insert into a document: escaped if it is text, and in the encoding of the
//! document.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

use encoding_rs::{Encoding, UTF_8};
use memchr::memchr3;

/// The number of bytes of a text that are encoded at a time.
const STEP: usize = 16 << 10;

/// The maximum length of a character's encoded form relative to that of its UTF-8 form: `ж`, which
/// has two bytes, becomes `&#1078;` in an encoding without this character.
pub const MAX_ENCODED_RATIO: usize = 4;

/// The memory of an [`Owned`] without its bytes, in a list whose capacity doubles.
const OVERHEAD: usize = 96;

/// The memory of all [`Owned`] of a rewriter, in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Total(Rc<Cell<usize>>);

impl Total {
    pub(super) fn get(&self) -> usize {
        self.0.get()
    }

    /// Counts these bytes until they are dropped.
    pub(super) fn own(&self, bytes: Vec<u8>) -> Owned {
        self.0.set(self.0.get() + OVERHEAD + bytes.capacity());
        Owned { bytes, total: self.clone() }
    }
}

/// Bytes that count toward a [`Total`].
#[derive(Debug)]
pub(super) struct Owned {
    bytes: Vec<u8>,
    total: Total,
}

impl Owned {
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.total.0.set(self.total.0.get() - self.bytes.capacity());
        std::mem::take(&mut self.bytes)
    }
}

impl Deref for Owned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.total.0.set(self.total.0.get() - OVERHEAD - self.bytes.capacity());
    }
}

/// A piece of inserted content.
#[derive(Debug)]
pub(super) enum Content {
    Bytes(Owned),
    /// A stream of UTF-8, which the caller holds under this number.
    Stream {
        number: u32,
        form: Form,
        /// Counts the memory of this entry; it has no bytes.
        _entry: Owned,
    },
}

/// The form of inserted content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Html,
    /// Text, whose special characters become character references.
    Text,
}

/// Returns the maximum length of `text` once it is inserted, in bytes.
pub(super) fn longest(text: &str, form: Form, encoding: &'static Encoding) -> usize {
    let escaped = match form {
        Form::Html => text.len(),
        // `&amp;` is the longest of the three references.
        Form::Text => {
            let special = memchr::memchr3_iter(b'&', b'<', b'>', text.as_bytes()).count();
            text.len() + special * ("&amp;".len() - 1)
        }
    };
    if encoding == UTF_8 { escaped } else { escaped * MAX_ENCODED_RATIO }
}

/// Appends `text` to `out`. Characters that the encoding does not have become character references.
pub(super) fn write(mut text: &str, form: Form, encoding: &'static Encoding, out: &mut Vec<u8>) {
    while form == Form::Text
        && let Some(at) = memchr3(b'&', b'<', b'>', text.as_bytes())
    {
        encode(&text[..at], encoding, out);
        out.extend_from_slice(match text.as_bytes()[at] {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            _ => b"&gt;",
        });
        text = &text[at + 1..];
    }
    encode(text, encoding, out);
}

/// Appends `text` to `out` without escaping it.
pub(super) fn encode(mut text: &str, encoding: &'static Encoding, out: &mut Vec<u8>) {
    if encoding == UTF_8 {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    while !text.is_empty() {
        let (now, later) = text.split_at(text.floor_char_boundary(STEP));
        out.extend_from_slice(&encoding.encode(now).0);
        text = later;
    }
}

/// Returns the encoded form of a name. Character references have no meaning in a name. Returns
/// `None` if the encoding does not have all characters of the name.
pub(super) fn encode_name(name: &str, encoding: &'static Encoding) -> Option<Vec<u8>> {
    let (bytes, _, has_replacements) = encoding.encode(name);
    (!has_replacements).then(|| bytes.into_owned())
}

/// Returns the text that bytes of the document encode.
pub(super) fn decode(bytes: &[u8], encoding: &'static Encoding) -> String {
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

/// The bytes of a stream are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the content of a stream is not UTF-8")]
pub struct NotUtf8;

/// A stream whose content is being inserted.
#[derive(Debug)]
pub(super) struct Inserting {
    number: u32,
    form: Form,
    /// The first bytes of an incomplete character.
    partial: Vec<u8>,
}

impl Inserting {
    pub(super) fn new(number: u32, form: Form) -> Self {
        Self { number, form, partial: Vec::new() }
    }

    /// Returns the number under which the caller holds the stream.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Appends the next bytes of the stream to `out`.
    ///
    /// # Errors
    /// Returns an error if the bytes are not UTF-8. A character may continue in the next bytes.
    pub(super) fn write(
        &mut self,
        mut bytes: &[u8],
        encoding: &'static Encoding,
        out: &mut Vec<u8>,
    ) -> Result<(), NotUtf8> {
        while !self.partial.is_empty()
            && let Some((next, rest)) = bytes.split_first()
        {
            self.partial.push(*next);
            bytes = rest;
            match std::str::from_utf8(&self.partial) {
                Ok(character) => {
                    write(character, self.form, encoding, out);
                    self.partial.clear();
                }
                Err(error) if error.error_len().is_some() => return Err(NotUtf8),
                Err(_) => {}
            }
        }
        let complete = match std::str::from_utf8(bytes) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_some() => return Err(NotUtf8),
            Err(error) => error.valid_up_to(),
        };
        let (complete, partial) = bytes.split_at(complete);
        self.partial.extend_from_slice(partial);
        let text = std::str::from_utf8(complete).expect("the bytes are valid up to this point");
        write(text, self.form, encoding, out);
        Ok(())
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// Returns an error if the stream ends within a character.
    pub(super) fn end(self) -> Result<(), NotUtf8> {
        if self.partial.is_empty() { Ok(()) } else { Err(NotUtf8) }
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::{GBK, WINDOWS_1252};

    use super::*;

    fn written(text: &str, form: Form, encoding: &'static Encoding) -> Vec<u8> {
        let mut out = Vec::new();
        write(text, form, encoding, &mut out);
        assert!(out.len() <= longest(text, form, encoding), "{text}");
        out
    }

    #[test]
    fn text_is_escaped_and_html_is_not() {
        let text = "a<b>&\"c\" é€";
        assert_eq!(written(text, Form::Html, UTF_8), text.as_bytes());
        assert_eq!(written(text, Form::Text, UTF_8), "a&lt;b&gt;&amp;\"c\" é€".as_bytes());
        assert_eq!(written("<&>", Form::Text, GBK), b"&lt;&amp;&gt;");
    }

    #[test]
    fn characters_that_an_encoding_does_not_have_become_references() {
        assert_eq!(written("é€ж", Form::Html, WINDOWS_1252), b"\xe9\x80&#1078;");
        let long = "ж".repeat(STEP);
        assert_eq!(written(&long, Form::Text, WINDOWS_1252), "&#1078;".repeat(STEP).as_bytes());
        assert_eq!(encode_name("é", WINDOWS_1252).unwrap(), b"\xe9");
        assert_eq!(encode_name("ж", WINDOWS_1252), None);
    }

    #[test]
    fn a_stream_may_be_split_anywhere() {
        let text = "<é€𝄞>";
        for length in 1..text.len() {
            let mut inserting = Inserting::new(1, Form::Text);
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(length) {
                inserting.write(piece, UTF_8, &mut out).unwrap();
            }
            inserting.end().unwrap();
            assert_eq!(out, "&lt;é€𝄞&gt;".as_bytes(), "pieces of {length}");
        }
    }

    #[test]
    fn a_stream_that_is_not_utf_8_is_refused() {
        for pieces in [&[&b"a\xff"[..]][..], &[b"\xc3", b"a"], &[b"\xe2\x82", b"\xac\x82"]] {
            let mut inserting = Inserting::new(1, Form::Html);
            let mut out = Vec::new();
            let result = pieces.iter().try_for_each(|p| inserting.write(p, UTF_8, &mut out));
            assert_eq!(result, Err(NotUtf8), "{pieces:?}");
        }
        let mut inserting = Inserting::new(1, Form::Html);
        inserting.write(b"\xe2\x82", UTF_8, &mut Vec::new()).unwrap();
        assert_eq!(inserting.end(), Err(NotUtf8));
    }

    #[test]
    fn bytes_count_until_they_are_dropped() {
        let total = Total::default();
        let [first, second] = [total.own(vec![0; 10]), total.own(vec![0; 20])];
        assert_eq!(total.get(), 30 + 2 * OVERHEAD);
        drop(first);
        assert_eq!(total.get(), 20 + OVERHEAD);
        assert_eq!((second.into_bytes().len(), total.get()), (20, 0));
    }
}
