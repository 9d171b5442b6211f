//! The HTML parser: cuts a document into tokens, and determines which handlers each token has.
//!
//! The crate `lol_html` calls a handler while it parses, and writes the token out when the handler
//! returns. A handler of a Worker may be asynchronous, but V8 cannot run on a stack that waits for
//! a promise. The handlers that `lol_html` gets therefore only record, on a [`Tape`], that they
//! were called ([`recorder`]). What a handler of the Worker does later does not affect the parser:
//! selectors see only the original document, and inserted content is not parsed.

use std::borrow::Cow;
use std::cell::RefMut;
use std::rc::Rc;

use encoding_rs::Encoding;
use lol_html::errors::RewritingError;
use lol_html::{AsciiCompatibleEncoding, HtmlRewriter, MemorySettings, OutputSink, Settings};
use memchr::memchr_iter;

use crate::recorder::{self, Handlers, Shared};
use crate::selectors::{self, Cost, InvalidSelector};
use crate::tape::Tape;

/// The number of bytes that the parser's buffer has initially.
const BUFFER: usize = 1024;

/// The memory of a parser without any tokens or elements, in bytes.
const BASE: usize = 8 << 10;

/// Maximum memory per byte of an unfinished token: ` a`, the shortest attribute, is recorded in
/// about 60 bytes, in a list whose capacity doubles.
const UNFINISHED: usize = 64;

/// Memory of an open element that counts toward the limit of the parser, in bytes: an entry of a
/// list whose capacity doubles.
const OPEN: usize = 256;

/// Memory of an open element that has handlers, in bytes: the handler of its end tag.
const MATCHED: usize = 96;

/// The failure to parse a document or to create a parser.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    #[error("'{0}' is not a character encoding")]
    UnknownEncoding(String),
    #[error("a document in the encoding {0} cannot be rewritten; use UTF-8")]
    UnsupportedEncoding(&'static str),
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    #[error("the selectors together are too complex; use fewer or simpler ones")]
    TooComplex,
    #[error("{0}")]
    Document(RewritingError),
    #[error("the document has a token that is too long, or elements that are nested too deeply")]
    TooLarge,
}

impl From<RewritingError> for ParseError {
    fn from(error: RewritingError) -> Self {
        match error {
            RewritingError::MemoryLimitExceeded(_) => Self::TooLarge,
            other => Self::Document(other),
        }
    }
}

struct Output(Shared);

impl OutputSink for Output {
    fn handle_chunk(&mut self, chunk: &[u8]) {
        self.0.borrow_mut().write(chunk);
    }
}

/// See the module's documentation.
pub(super) struct Parser {
    /// `None` after the end of the document or an error.
    html: Option<HtmlRewriter<'static, Output>>,
    tape: Shared,
    cost: Cost,
    encoding: &'static Encoding,
    /// An upper bound on the number of start tags so far.
    tags: usize,
    /// Number of bytes so far.
    fed: usize,
    /// Maximum length of an unfinished token so far: the parser does not shrink its buffer.
    longest: usize,
}

impl Parser {
    /// Creates a parser for documents in the encoding with this label.
    ///
    /// # Errors
    /// Returns an error if a selector or the encoding is not supported, or if the selectors
    /// together are too complex.
    pub(super) fn new(handlers: &[Handlers], encoding: &str) -> Result<Self, ParseError> {
        let encoding = Encoding::for_label_no_replacement(encoding.as_bytes())
            .ok_or_else(|| ParseError::UnknownEncoding(encoding.to_owned()))?;
        let compatible = AsciiCompatibleEncoding::new(encoding)
            .ok_or(ParseError::UnsupportedEncoding(encoding.name()))?;
        let mut cost = Cost::default();
        for one in handlers {
            match &one.selector {
                Some(selector) => cost.add(selector),
                None => cost.add_document(),
            }
        }
        if cost.is_too_high() {
            return Err(ParseError::TooComplex);
        }
        let memory = MemorySettings::new()
            .with_preallocated_parsing_buffer_size(BUFFER)
            .with_max_allowed_memory_usage(cost.memory_limit());
        // Markup whose meaning depends on the whole tree stops the rewriting: a handler could
        // otherwise miss elements that a browser sees.
        let mut settings = Settings::new()
            .with_encoding(compatible)
            .with_memory_settings(memory)
            .with_strict(true);
        let tape = Shared::default();
        for (registration, handlers) in (0..).zip(handlers) {
            settings = match &handlers.selector {
                Some(selector) => settings.append_element_content_handler((
                    Cow::Owned(selectors::parse(selector)?),
                    recorder::of_elements(&tape, registration, handlers),
                )),
                None => settings.append_document_content_handler(recorder::of_document(
                    &tape,
                    registration,
                    handlers,
                )),
            };
        }
        let html = Some(HtmlRewriter::new(settings, Output(Rc::clone(&tape))));
        Ok(Self { html, tape, cost, encoding, tags: 0, fed: 0, longest: 0 })
    }

    pub(super) fn encoding(&self) -> &'static Encoding {
        self.encoding
    }

    /// Returns the tape, which must not be borrowed during the calls that parse.
    pub(super) fn tape(&self) -> RefMut<'_, Tape> {
        self.tape.borrow_mut()
    }

    /// Parses the beginning of `input`, at least one byte. Returns the number of bytes. After an
    /// error or the end of the document, discards the whole input.
    ///
    /// # Errors
    /// Returns an error if the document cannot be parsed. The tape then has the tokens that precede
    /// the error.
    pub(super) fn parse(&mut self, input: &[u8]) -> Result<usize, ParseError> {
        let Some(html) = &mut self.html else { return Ok(input.len()) };
        let piece = &input[..input.len().min(self.cost.piece(self.tags))];
        if let Err(error) = html.write(piece) {
            self.html = None;
            return Err(error.into());
        }
        self.tags += start_tags(piece);
        self.fed += piece.len();
        self.longest = self.longest.max(self.fed.saturating_sub(self.tape.borrow().reached()));
        Ok(piece.len())
    }

    /// Parses the end of the document.
    ///
    /// # Errors
    /// Returns an error if the document cannot be parsed.
    pub(super) fn end(&mut self) -> Result<(), ParseError> {
        self.html.take().map_or(Ok(()), |html| Ok(html.end()?))
    }

    /// Returns an upper bound on the memory of the parser, in bytes. The bound assumes that no
    /// element has ended: the parser does not report how many are open.
    pub(super) fn memory(&self) -> usize {
        let Self { cost, .. } = self;
        if self.html.is_none() {
            return 0;
        }
        let tags = if cost.has_selectors() { self.tags } else { 0 };
        let open = tags.min(cost.depth());
        let limited = (UNFINISHED * self.longest + OPEN * open).min(cost.memory_limit());
        let unlimited = open * cost.open_element_memory() + tags * cost.start_tag_memory();
        let matched = MATCHED * self.tape.borrow().open_elements();
        BASE + cost.compiled_memory() + limited + unlimited + matched
    }
}

/// Returns an upper bound on the number of start tags in a piece of a document.
fn start_tags(piece: &[u8]) -> usize {
    let begins = |at: &usize| piece.get(at + 1).is_none_or(u8::is_ascii_alphabetic);
    memchr_iter(b'<', piece).filter(begins).count()
}
