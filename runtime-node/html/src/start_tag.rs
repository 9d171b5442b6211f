//! A start tag that handlers read and change. Unchanged attributes keep their source.

use encoding_rs::Encoding;

use crate::content::{self, Owned, Total};
use crate::tape::{SourceAttribute, Span, Tape};

/// The failure to change a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("a name must not be empty")]
    EmptyName,
    #[error("the name of a tag must begin with an ASCII letter")]
    NotALetter,
    #[error("a name must not contain '{0}'")]
    Forbidden(char),
    #[error("the encoding of the document does not have all of these characters")]
    Unencodable,
    #[error("the text would end the comment")]
    EndsComment,
    #[error("an element like this one has no end tag")]
    NoEndTag,
}

/// Returns the encoded form of a tag's name.
///
/// # Errors
/// Returns an error if no tag can have this name, or if the encoding cannot express it.
pub(super) fn tag_name(name: &str, encoding: &'static Encoding) -> Result<Vec<u8>, EditError> {
    match name.chars().next() {
        None => return Err(EditError::EmptyName),
        Some(first) if !first.is_ascii_alphabetic() => return Err(EditError::NotALetter),
        Some(_) => {}
    }
    encoded(name, |character| matches!(character, '/' | '>'), encoding)
}

/// Returns the encoded form of an attribute's name, in lower case.
fn attribute_name(name: &str, encoding: &'static Encoding) -> Result<Vec<u8>, EditError> {
    if name.is_empty() {
        return Err(EditError::EmptyName);
    }
    let name = name.to_ascii_lowercase();
    encoded(&name, |character| matches!(character, '/' | '>' | '='), encoding)
}

fn encoded(
    name: &str,
    is_delimiter: impl Fn(char) -> bool,
    encoding: &'static Encoding,
) -> Result<Vec<u8>, EditError> {
    let is_forbidden =
        |c: &char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c') || is_delimiter(*c);
    if let Some(forbidden) = name.chars().find(is_forbidden) {
        return Err(EditError::Forbidden(forbidden));
    }
    content::encode_name(name, encoding).ok_or(EditError::Unencodable)
}

/// Bytes of the source, or others that replace them.
#[derive(Debug)]
enum Text {
    Source(Span),
    New(Owned),
}

impl Text {
    fn bytes<'b>(&'b self, tape: &'b Tape) -> &'b [u8] {
        match self {
            Self::Source(span) => tape.bytes(*span),
            Self::New(bytes) => bytes,
        }
    }
}

#[derive(Debug)]
struct Attribute {
    name: Text,
    value: Option<Text>,
}

impl Attribute {
    fn is_named(&self, lower: &[u8], tape: &Tape) -> bool {
        self.name.bytes(tape).eq_ignore_ascii_case(lower)
    }

    fn value<'b>(&'b self, tape: &'b Tape) -> &'b [u8] {
        self.value.as_ref().map_or(&[], |value| value.bytes(tape))
    }

    /// Appends the attribute to `out`: as in its source, with its quotes, if it is unchanged.
    fn write(&self, tape: &Tape, out: &mut Vec<u8>) {
        match (&self.name, &self.value) {
            (Text::Source(name), None) => out.extend_from_slice(tape.bytes(*name)),
            (Text::Source(name), Some(Text::Source(value))) => {
                out.extend_from_slice(tape.attribute_source(*name, *value));
            }
            (name, _) => {
                out.extend_from_slice(name.bytes(tape));
                out.extend_from_slice(b"=\"");
                for (i, part) in self.value(tape).split(|byte| *byte == b'"').enumerate() {
                    out.extend_from_slice(if i > 0 { b"&quot;" } else { b"" });
                    out.extend_from_slice(part);
                }
                out.push(b'"');
            }
        }
    }
}

/// A start tag and its changes.
#[derive(Debug)]
pub(super) struct StartTag {
    /// The attributes in the source.
    source: Span,
    is_self_closing: bool,
    is_changed: bool,
    name: Option<Owned>,
    /// The attributes, once they have been read.
    attributes: Option<Vec<Attribute>>,
}

impl StartTag {
    pub(super) fn new(source: Span, is_self_closing: bool) -> Self {
        Self { source, is_self_closing, is_changed: false, name: None, attributes: None }
    }

    pub(super) fn new_name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    pub(super) fn set_name(&mut self, name: Owned) {
        self.is_changed = true;
        self.name = Some(name);
    }

    /// Omits the `/` of `<div/>` when the tag is written, if it is written with changes.
    pub(super) fn omit_slash(&mut self) {
        self.is_self_closing = false;
    }

    /// Returns the value of an attribute. Returns `None` if the attribute does not exist.
    pub(super) fn attribute(
        &mut self,
        name: &str,
        tape: &Tape,
        encoding: &'static Encoding,
    ) -> Option<String> {
        let name = attribute_name(name, encoding).ok()?;
        let found = self.read(tape).iter().find(|one| one.is_named(&name, tape))?;
        Some(content::decode(found.value(tape), encoding))
    }

    /// Returns the names and values of all attributes: name, value, name, value, …
    pub(super) fn attributes(&mut self, tape: &Tape, encoding: &'static Encoding) -> Vec<String> {
        let pair = |one: &Attribute| {
            let name = content::decode(one.name.bytes(tape), encoding).to_ascii_lowercase();
            [name, content::decode(one.value(tape), encoding)]
        };
        self.read(tape).iter().flat_map(pair).collect()
    }

    /// Changes the value of an attribute, or adds the attribute.
    ///
    /// # Errors
    /// Returns an error if no attribute can have this name, or if the encoding cannot express it.
    pub(super) fn set_attribute(
        &mut self,
        name: &str,
        value: &str,
        tape: &Tape,
        encoding: &'static Encoding,
        total: &Total,
    ) -> Result<(), EditError> {
        let name = attribute_name(name, encoding)?;
        let value = Some(Text::New(total.own(encoding.encode(value).0.into_owned())));
        self.is_changed = true;
        let attributes = self.read(tape);
        match attributes.iter_mut().find(|one| one.is_named(&name, tape)) {
            Some(attribute) => attribute.value = value,
            None => attributes.push(Attribute { name: Text::New(total.own(name)), value }),
        }
        Ok(())
    }

    /// Removes an attribute, if it exists.
    pub(super) fn remove_attribute(
        &mut self,
        name: &str,
        tape: &Tape,
        encoding: &'static Encoding,
    ) {
        let Ok(name) = attribute_name(name, encoding) else { return };
        let attributes = self.read(tape);
        let before = attributes.len();
        attributes.retain(|one| !one.is_named(&name, tape));
        self.is_changed |= attributes.len() < before;
    }

    fn read(&mut self, tape: &Tape) -> &mut Vec<Attribute> {
        self.attributes.get_or_insert_with(|| attributes_in(self.source, tape))
    }

    /// Returns the memory of the list of attributes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.attributes.as_ref().map_or(0, |all| all.capacity() * size_of::<Attribute>())
    }

    /// Appends the tag to `out`.
    ///
    /// # Arguments
    /// * `source` - the source of the tag.
    pub(super) fn write(&mut self, source: Span, tape: &Tape, out: &mut Vec<u8>) {
        let source = tape.bytes(source);
        if !self.is_changed {
            return out.extend_from_slice(source);
        }
        out.push(b'<');
        out.extend_from_slice(self.new_name().unwrap_or_else(|| name_in(source)));
        let is_self_closing = self.is_self_closing;
        let attributes = self.read(tape);
        for attribute in &*attributes {
            out.push(b' ');
            attribute.write(tape, out);
        }
        out.extend_from_slice(match is_self_closing {
            false => b">",
            // Without a space, the slash would belong to a value without quotes.
            true if attributes.is_empty() => b"/>",
            true => b" />",
        });
    }
}

fn attributes_in(source: Span, tape: &Tape) -> Vec<Attribute> {
    let attribute = |one: &SourceAttribute| Attribute {
        name: Text::Source(one.name),
        value: one.value.map(Text::Source),
    };
    tape.attribute_list(source).iter().map(attribute).collect()
}

/// Returns the name of a tag in the tag's source, which begins with `<` or `</`.
pub(super) fn name_in(tag: &[u8]) -> &[u8] {
    let name = tag.strip_prefix(b"</").or_else(|| tag.strip_prefix(b"<")).unwrap_or(tag);
    let ends = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'/' | b'>');
    &name[..name.iter().position(ends).unwrap_or(name.len())]
}
