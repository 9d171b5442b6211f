//! The tokens of a piece of a document, in their order.
//!
//! ```text
//!  parser ─► tape:  bytes │ token, handlers │ bytes │ token, handlers │ … ─► rewriter
//! ```
//!
//! The parser runs ahead of the handlers by one piece, and records which handlers each token has.
//! The rewriter then runs the handlers, one after another, each of which may take any amount of
//! time. The tape keeps all bytes in one buffer, to which the tokens refer.

use std::collections::VecDeque;
use std::ops::Range;

/// The capacity that each list of an empty tape keeps, in bytes. A long token needs more for
/// a short time.
const KEPT: usize = 128 << 10;

/// A range of the bytes of a tape, or of the entries of one of its lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    from: u32,
    to: u32,
}

impl Span {
    pub(super) fn new(range: Range<usize>) -> Self {
        // A tape is far shorter than 4 GiB, because a parser has a memory limit.
        Self { from: range.start as u32, to: range.end as u32 }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.from as usize..self.to as usize
    }

    /// Removes the first index from the span and returns it. Returns `None` if the span is empty.
    pub(super) fn take_first(&mut self) -> Option<usize> {
        (self.from < self.to).then(|| {
            self.from += 1;
            self.from as usize - 1
        })
    }

    pub(super) fn is_empty(self) -> bool {
        self.from == self.to
    }
}

/// The number of an element that has handlers. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementId(pub u32);

/// The number of a registration of handlers, in the order of `on` and `onDocument`.
pub type Registration = u32;

/// An attribute as written in a start tag. The spans refer to the bytes of the tape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceAttribute {
    pub(super) name: Span,
    /// The value without its quotes, if there is one.
    pub(super) value: Option<Span>,
}

/// A part of the document.
#[derive(Debug)]
pub(super) enum Entry {
    /// Bytes without handlers.
    Bytes(Span),
    Token(Token),
}

/// A token with handlers.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// The token in the document's encoding. For text, the text in UTF-8.
    pub(super) source: Span,
    /// The registrations whose handlers are to run.
    pub(super) handlers: Span,
}

#[derive(Debug)]
pub(super) enum Kind {
    StartTag {
        element: ElementId,
        attributes: Span,
        namespace: &'static str,
        /// Whether the element has an end, unlike `<br>`.
        has_content: bool,
        is_self_closing: bool,
    },
    /// An end tag. The span lists the elements that end here, from the inside out: elements
    /// without an end tag of their own end with an outer element.
    EndTag(Span),
    /// A comment, with its text in UTF-8.
    Comment(Span),
    Text {
        is_last: bool,
    },
    Doctype(Box<Doctype>),
    /// The end of the document.
    End,
}

/// The parts of a document type declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doctype {
    pub name: Option<String>,
    pub public_id: Option<String>,
    pub system_id: Option<String>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Tape {
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
    handlers: Vec<Registration>,
    attributes: Vec<SourceAttribute>,
    ended: Vec<ElementId>,
    /// Set if the next bytes are the source of the last token.
    awaits_source: bool,
    /// Number of elements that have been recorded.
    elements: u32,
    /// Number of these that have not ended yet.
    open: usize,
    /// The position in the document up to which everything has been recorded.
    reached: usize,
}

impl Tape {
    // ---- Recording

    /// Records the next bytes of the document. Directly after a token, these are its source.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.reached += bytes.len();
        self.append(bytes);
    }

    fn append(&mut self, bytes: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let span = Span::new(from..self.bytes.len());
        let is_source = std::mem::take(&mut self.awaits_source);
        match self.entries.back_mut() {
            Some(Entry::Token(token)) if is_source => token.source = span,
            Some(Entry::Bytes(before)) if before.to == span.from => before.to = span.to,
            _ if bytes.is_empty() => {}
            _ => self.entries.push_back(Entry::Bytes(span)),
        }
    }

    /// Returns whether the last token is still being recorded: its source has not been written yet.
    pub(super) fn is_in_token(&self) -> bool {
        self.awaits_source
    }

    /// Records a token with its first handler, if it has one. Its source comes next.
    pub(super) fn token(&mut self, kind: Kind, handler: Option<Registration>) {
        let from = self.handlers.len();
        self.handlers.extend(handler);
        let handlers = Span::new(from..self.handlers.len());
        self.entries.push_back(Entry::Token(Token { kind, source: Span::default(), handlers }));
        self.awaits_source = true;
    }

    /// Records a further handler of the last token.
    pub(super) fn handler(&mut self, handler: Registration) {
        self.handlers.push(handler);
        if let Some(Entry::Token(token)) = self.entries.back_mut() {
            token.handlers.to += 1;
        }
    }

    /// Records a token that consists of this text.
    ///
    /// # Arguments
    /// * `end` - the position in the document at which the text ends.
    pub(super) fn text(&mut self, text: &str, is_last: bool, end: usize, handler: Registration) {
        self.token(Kind::Text { is_last }, Some(handler));
        self.append(text.as_bytes());
        self.reached = self.reached.max(end);
    }

    /// Records text that belongs to the next token. Returns its place.
    pub(super) fn note(&mut self, text: &str) -> Span {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        Span::new(from..self.bytes.len())
    }

    /// Returns the place at which the source of the next token will begin.
    pub(super) fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Records attributes that belong to the next token. Returns their place.
    pub(super) fn attributes(&mut self, all: impl Iterator<Item = SourceAttribute>) -> Span {
        let from = self.attributes.len();
        self.attributes.extend(all);
        Span::new(from..self.attributes.len())
    }

    /// Returns the number for the next element.
    pub(super) fn next_element(&mut self) -> ElementId {
        self.elements += 1;
        ElementId(self.elements)
    }

    /// Records that the last element will have an end.
    pub(super) fn open(&mut self) {
        self.open += 1;
    }

    /// Returns the number of elements that have not ended yet.
    pub(super) fn open_elements(&self) -> usize {
        self.open
    }

    /// Records the end of an element with the end tag that is being recorded, or with a new one.
    pub(super) fn end(&mut self, element: ElementId) {
        if !self.awaits_source {
            let from = self.ended.len();
            self.token(Kind::EndTag(Span::new(from..from)), None);
        }
        self.ended.push(element);
        self.open -= 1;
        if let Some(Entry::Token(Token { kind: Kind::EndTag(ended), .. })) = self.entries.back_mut()
        {
            ended.to += 1;
        }
    }

    /// Records the end of the document with one of its handlers.
    pub(super) fn document_end(&mut self, handler: Registration) {
        match self.entries.back() {
            Some(Entry::Token(Token { kind: Kind::End, .. })) => self.handler(handler),
            _ => {
                self.token(Kind::End, Some(handler));
                self.awaits_source = false;
            }
        }
    }

    /// Returns the position in the document up to which everything has been recorded.
    pub(super) fn reached(&self) -> usize {
        self.reached
    }

    // ---- Reading

    /// Takes the next entry. The bytes to which it refers remain until the next call of
    /// [`Tape::clear`].
    pub(super) fn take(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    pub(super) fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.range()]
    }

    /// Returns text that has been recorded as text.
    pub(super) fn str(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).expect("the bytes were recorded as text")
    }

    pub(super) fn attribute_list(&self, span: Span) -> &[SourceAttribute] {
        &self.attributes[span.range()]
    }

    /// Returns the source of an attribute, given its name and its value: with the quotes around the
    /// value, if there are any.
    pub(super) fn attribute_source(&self, name: Span, value: Span) -> &[u8] {
        let (from, to) = (name.range().start, value.range().end);
        let quote = self.bytes[value.range().start - 1];
        let is_quoted = matches!(quote, b'"' | b'\'') && self.bytes.get(to) == Some(&quote);
        &self.bytes[from..to + usize::from(is_quoted)]
    }

    pub(super) fn registration(&self, index: usize) -> Registration {
        self.handlers[index]
    }

    pub(super) fn ended(&self, span: Span) -> &[ElementId] {
        &self.ended[span.range()]
    }

    /// Drops everything that has been recorded, except the counts of elements and the position in
    /// the document. All entries must have been taken.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.entries.shrink_to(KEPT / size_of::<Entry>());
        self.handlers.clear();
        self.handlers.shrink_to(KEPT / size_of::<Registration>());
        self.attributes.clear();
        self.attributes.shrink_to(KEPT / size_of::<SourceAttribute>());
        self.ended.clear();
        self.ended.shrink_to(KEPT / size_of::<ElementId>());
    }

    /// Returns the memory of the tape, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.handlers.capacity() * size_of::<Registration>()
            + self.attributes.capacity() * size_of::<SourceAttribute>()
            + self.ended.capacity() * size_of::<ElementId>()
    }
}
