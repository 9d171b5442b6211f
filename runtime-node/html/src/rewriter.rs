//! The steps in which a document is rewritten.
//!
//! ```text
//!  feed ─► parser ─► tape ─► next_step ─┬─► a handler to run, which may change the token
//!                                       ├─► a stream to insert
//!                                       └─► output to take, when the token is written
//! ```
//!
//! The caller calls [`Rewriter::next_step`] in a loop and does what the [`Step`] says. Any
//! amount of time may pass between two calls. All effects occur in the order of the document,
//! because a token is taken from the tape only after the previous one has been written.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::content::{Content, Inserting, NotUtf8, Total};
use crate::edit::Editing;
use crate::parser::{ParseError, Parser};
use crate::recorder::Handlers;
use crate::start_tag;
use crate::tape::{ElementId, Entry, Kind, Registration, Span, Token};
use crate::token::{Current, CurrentKind, ElementEnd};

/// The number of bytes of output at which [`Rewriter::next_step`] asks for the output to be taken.
const FULL: usize = 64 << 10;

/// The memory of an entry of [`Rewriter::open`], in bytes, with its name and its share of the map.
const OPEN: usize = 2 * size_of::<(ElementId, Open)>() + 32;

/// The next step of a rewriting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Feed more of the document, or end it.
    Input,
    /// Take the output.
    Output,
    /// Insert the next bytes of the stream with this number, or end the stream.
    Stream(u32),
    /// Run the handler with this number on the current token, an element. The steps for comments,
    /// texts and document types do the same.
    Element(Registration),
    /// Run the handler that the element with this number has for the current end tag.
    EndTag(ElementId),
    Comment(Registration),
    Text(Registration),
    Doctype(Registration),
    /// Run a handler of the document's end.
    End(Registration),
    /// Take the last output.
    Done,
}

/// An element whose end may differ from its source.
struct Open {
    /// The name of the element in the source, in lower case.
    name: Box<[u8]>,
    end: ElementEnd,
}

/// A rewriter of one document. The caller decides what the handlers do; see [`Step`].
pub struct Rewriter {
    parser: Parser,
    current: Option<Current>,
    open: FxHashMap<ElementId, Open>,
    /// Number of open elements whose content is dropped.
    hidden: usize,
    /// The content to write next, after the stream that is being inserted.
    waiting: VecDeque<Content>,
    inserting: Option<Inserting>,
    output: Vec<u8>,
    total: Total,
    has_ended: bool,
    /// The reason why the parser has stopped. It is reported after the tokens that precede the
    /// error.
    failure: Option<ParseError>,
}

impl Rewriter {
    /// Creates a rewriter for a document in the encoding with this label.
    ///
    /// # Errors
    /// Returns an error if a selector or the encoding is not supported, or if the selectors
    /// together are too complex.
    pub fn new(handlers: &[Handlers], encoding: &str) -> Result<Self, ParseError> {
        Ok(Self {
            parser: Parser::new(handlers, encoding)?,
            current: None,
            open: FxHashMap::default(),
            hidden: 0,
            waiting: VecDeque::new(),
            inserting: None,
            output: Vec::new(),
            total: Total::default(),
            has_ended: false,
            failure: None,
        })
    }

    /// Feeds the beginning of `input`, after the step [`Step::Input`]. Returns the number of bytes
    /// that were fed; the caller feeds the others after the next such step.
    pub fn feed(&mut self, input: &[u8]) -> usize {
        self.parser.tape().clear();
        self.parser.parse(input).unwrap_or_else(|error| {
            self.failure = Some(error);
            input.len()
        })
    }

    /// Ends the document, after the step [`Step::Input`].
    pub fn end(&mut self) {
        self.parser.tape().clear();
        self.failure = self.parser.end().err();
        self.has_ended = true;
    }

    /// Returns the next step.
    ///
    /// # Errors
    /// Returns an error if the document cannot be parsed.
    pub fn next_step(&mut self) -> Result<Step, ParseError> {
        loop {
            if self.output.len() >= FULL {
                return Ok(Step::Output);
            }
            if let Some(inserting) = &self.inserting {
                return Ok(Step::Stream(inserting.number()));
            }
            if let Some(content) = self.waiting.pop_front() {
                match content {
                    Content::Stream { number, form, .. } => {
                        self.inserting = Some(Inserting::new(number, form));
                    }
                    // Long content becomes an output of its own, so that it is not copied.
                    Content::Bytes(bytes) if bytes.len() < FULL => {
                        self.output.extend_from_slice(&bytes);
                    }
                    Content::Bytes(bytes) if self.output.is_empty() => {
                        self.output = bytes.into_bytes();
                    }
                    long => {
                        self.waiting.push_front(long);
                        return Ok(Step::Output);
                    }
                }
            } else if let Some(step) = self.next_handler() {
                return Ok(step);
            } else if let Some(current) = self.current.take() {
                self.write(current);
            } else {
                let entry = self.parser.tape().take();
                match entry {
                    Some(Entry::Token(token)) => self.begin(token),
                    Some(Entry::Bytes(span)) if self.hidden == 0 => {
                        self.output.extend_from_slice(self.parser.tape().bytes(span));
                    }
                    Some(Entry::Bytes(_)) => {}
                    None => return self.at_the_end_of_the_tape(),
                }
            }
        }
    }

    fn at_the_end_of_the_tape(&mut self) -> Result<Step, ParseError> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None if self.has_ended => Ok(Step::Done),
            None => Ok(Step::Input),
        }
    }

    /// Takes the next handler of the current token.
    fn next_handler(&mut self) -> Option<Step> {
        let current = self.current.as_mut()?;
        if let CurrentKind::EndTag { handlers, .. } = &mut current.kind {
            return handlers.pop_front().map(Step::EndTag);
        }
        let registration = self.parser.tape().registration(current.handlers.take_first()?);
        Some(match current.kind {
            CurrentKind::Element { .. } => Step::Element(registration),
            CurrentKind::Comment { .. } => Step::Comment(registration),
            CurrentKind::Text { .. } => Step::Text(registration),
            CurrentKind::Doctype(_) => Step::Doctype(registration),
            CurrentKind::EndTag { .. } | CurrentKind::End => Step::End(registration),
        })
    }

    fn begin(&mut self, token: Token) {
        let ended = match token.kind {
            Kind::EndTag(ended) => ended,
            _ => Span::default(),
        };
        let mut current = Current::new(token, self.hidden > 0);
        if !ended.is_empty() {
            self.end_elements(ended, &mut current);
        }
        self.current = Some(current);
    }

    /// Applies the changes to elements that end with an end tag. The tag belongs to the last of
    /// them at most; the others have no end tag of their own, and end before it.
    fn end_elements(&mut self, ended: Span, current: &mut Current) {
        let CurrentKind::EndTag { name: new_name, handlers } = &mut current.kind else { return };
        let tape = self.parser.tape();
        let name = start_tag::name_in(tape.bytes(current.source)).to_ascii_lowercase();
        let around = &mut current.around;
        for element in tape.ended(ended) {
            let Some(Open { name: own, end }) = self.open.remove(element) else { continue };
            if end.hides_content {
                self.hidden -= 1;
                around.before.clear();
            }
            around.before.extend(end.append);
            if end.has_handler {
                handlers.push_back(*element);
            }
            if *own == *name {
                around.is_removed = end.is_tag_removed;
                around.after = end.after;
                *new_name = end.name;
            } else {
                around.before.extend(end.after.into_iter().rev());
            }
        }
    }

    /// Writes a token whose handlers have run.
    fn write(&mut self, mut current: Current) {
        // The end of the document is visible even if an element around it has not ended.
        if self.hidden == 0 || matches!(current.kind, CurrentKind::End) {
            let around = std::mem::take(&mut current.around);
            around.before.into_iter().for_each(|content| self.put(content));
            if !around.is_removed {
                self.write_token(&mut current);
            }
            around.replacement.into_iter().for_each(|content| self.put(content));
            around.after.into_iter().rev().for_each(|content| self.put(content));
        }
        if let CurrentKind::Element { id, end, .. } = current.kind
            && end.is_changed()
        {
            self.hidden += usize::from(end.hides_content);
            let tape = self.parser.tape();
            let name = start_tag::name_in(tape.bytes(current.source)).to_ascii_lowercase();
            self.open.insert(id, Open { name: name.into(), end });
        }
    }

    fn write_token(&mut self, current: &mut Current) {
        let Self { parser, waiting, output, .. } = self;
        if waiting.is_empty() {
            current.write(&parser.tape(), parser.encoding(), output);
        } else {
            let mut bytes = Vec::new();
            current.write(&parser.tape(), parser.encoding(), &mut bytes);
            waiting.push_back(Content::Bytes(self.total.own(bytes)));
        }
    }

    /// Writes content, or appends it to the content that waits.
    fn put(&mut self, content: Content) {
        match content {
            Content::Bytes(bytes) if self.waiting.is_empty() && bytes.len() < FULL => {
                self.output.extend_from_slice(&bytes);
            }
            content => self.waiting.push_back(content),
        }
    }

    /// Inserts the next bytes of the stream of the last step.
    ///
    /// # Errors
    /// Returns an error if the bytes are not UTF-8.
    pub fn insert_bytes(&mut self, bytes: &[u8]) -> Result<(), NotUtf8> {
        let Self { parser, inserting, output, .. } = self;
        inserting.as_mut().map_or(Ok(()), |one| one.write(bytes, parser.encoding(), output))
    }

    /// Ends the stream of the last step.
    ///
    /// # Errors
    /// Returns an error if the stream ends within a character.
    pub fn end_stream(&mut self) -> Result<(), NotUtf8> {
        self.inserting.take().map_or(Ok(()), Inserting::end)
    }

    /// Takes the output, which may be empty.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Returns the current token, with what is needed to read and change it.
    pub fn current(&mut self) -> Option<Editing<'_>> {
        let Self { parser, current, total, .. } = self;
        let encoding = parser.encoding();
        Some(Editing { token: current.as_mut()?, tape: parser.tape(), encoding, total })
    }

    /// Returns the memory of the rewriter, in bytes.
    pub fn memory(&self) -> usize {
        self.parser.memory()
            + self.parser.tape().memory()
            + self.output.capacity()
            + self.total.get()
            + self.current.as_ref().map_or(0, Current::memory)
            + self.waiting.capacity() * size_of::<Content>()
            + self.open.len() * OPEN
    }
}

#[cfg(test)]
mod tests;
