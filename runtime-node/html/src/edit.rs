//! Reads and changes the current token on behalf of its handlers.

use std::cell::RefMut;

use encoding_rs::Encoding;

use crate::content::{self, Content, Form, Total};
use crate::start_tag::EditError;
use crate::tape::{Doctype, ElementId, Tape};
use crate::token::{Current, CurrentKind, Place};

/// The current token, with what is needed to read and change it.
pub struct Editing<'r> {
    pub(super) token: &'r mut Current,
    pub(super) tape: RefMut<'r, Tape>,
    pub(super) encoding: &'static Encoding,
    pub(super) total: &'r Total,
}

impl Editing<'_> {
    /// Returns the name of an element or of an end tag, in lower case.
    pub fn name(&self) -> String {
        content::decode(self.token.name(&self.tape), self.encoding).to_ascii_lowercase()
    }

    /// Renames an element or an end tag.
    ///
    /// # Errors
    /// Returns an error if no tag can have this name, or if the encoding cannot express it.
    pub fn set_name(&mut self, name: &str) -> Result<(), EditError> {
        self.token.set_name(name, self.encoding, self.total)
    }

    /// Returns the namespace of an element. Returns an empty string for any other token.
    pub fn namespace(&self) -> &'static str {
        match self.token.kind {
            CurrentKind::Element { namespace, .. } => namespace,
            _ => "",
        }
    }

    /// Returns the value of an attribute. Returns `None` if the attribute does not exist.
    pub fn attribute(&mut self, name: &str) -> Option<String> {
        let CurrentKind::Element { tag, .. } = &mut self.token.kind else { return None };
        tag.attribute(name, &self.tape, self.encoding)
    }

    /// Returns the names and values of all attributes: name, value, name, value, …
    pub fn attributes(&mut self) -> Vec<String> {
        let CurrentKind::Element { tag, .. } = &mut self.token.kind else { return Vec::new() };
        tag.attributes(&self.tape, self.encoding)
    }

    /// Changes the value of an attribute, or adds the attribute.
    ///
    /// # Errors
    /// Returns an error if no attribute can have this name, or if the encoding cannot express it.
    pub fn set_attribute(&mut self, name: &str, value: &str) -> Result<(), EditError> {
        let CurrentKind::Element { tag, .. } = &mut self.token.kind else { return Ok(()) };
        tag.set_attribute(name, value, &self.tape, self.encoding, self.total)
    }

    /// Removes an attribute, if it exists.
    pub fn remove_attribute(&mut self, name: &str) {
        if let CurrentKind::Element { tag, .. } = &mut self.token.kind {
            tag.remove_attribute(name, &self.tape, self.encoding);
        }
    }

    /// Returns the maximum number of bytes that inserting `text` takes.
    pub fn longest(&self, text: &str, form: Form) -> usize {
        content::longest(text, form, self.encoding)
    }

    /// Inserts text or HTML.
    pub fn insert(&mut self, place: Place, text: &str, form: Form) {
        let mut bytes = Vec::with_capacity(text.len());
        content::write(text, form, self.encoding, &mut bytes);
        self.token.insert(place, Content::Bytes(self.total.own(bytes)));
    }

    /// Inserts the stream that the caller holds under this number.
    pub fn insert_stream(&mut self, place: Place, number: u32, form: Form) {
        let entry = self.total.own(Vec::new());
        self.token.insert(place, Content::Stream { number, form, _entry: entry });
    }

    /// Removes the token. For an element, this removes everything up to its end.
    ///
    /// # Arguments
    /// * `keeps_content` - whether only the tags of an element are removed.
    pub fn remove(&mut self, keeps_content: bool) {
        if keeps_content {
            self.token.remove_tags();
        } else {
            self.token.remove();
        }
    }

    /// Returns whether the token has been removed or replaced.
    pub fn is_removed(&self) -> bool {
        self.token.around.is_removed
    }

    /// Requests that the handler of the element's end tag be called. Returns the element's number.
    ///
    /// # Errors
    /// Returns an error if the element has no end tag.
    pub fn handle_end(&mut self) -> Result<ElementId, EditError> {
        self.token.handle_end()
    }

    /// Returns the text of a comment or of a text chunk.
    pub fn text(&self) -> String {
        match &self.token.kind {
            CurrentKind::Comment { new_text: Some(new), .. } => content::decode(new, self.encoding),
            CurrentKind::Comment { text, .. } => self.tape.str(*text).to_owned(),
            CurrentKind::Text { .. } => self.tape.str(self.token.source).to_owned(),
            _ => String::new(),
        }
    }

    /// Changes the text of a comment.
    ///
    /// # Errors
    /// Returns an error if no comment can have this text, or if the encoding cannot express it.
    pub fn set_text(&mut self, text: &str) -> Result<(), EditError> {
        self.token.set_text(text, self.encoding, self.total)
    }

    /// Returns whether a text chunk is the last part of its text node.
    pub fn is_last(&self) -> bool {
        matches!(self.token.kind, CurrentKind::Text { is_last: true })
    }

    /// Returns the parts of a document type declaration.
    pub fn doctype(&self) -> Doctype {
        match &self.token.kind {
            CurrentKind::Doctype(doctype) => (**doctype).clone(),
            _ => Doctype::default(),
        }
    }
}
