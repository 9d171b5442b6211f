//! The token whose handlers are running, and the changes that they make to it.

use std::collections::VecDeque;
use std::mem;

use encoding_rs::Encoding;

use crate::content::{self, Content, Owned, Total};
use crate::start_tag::{self, EditError, StartTag};
use crate::tape::{Doctype, ElementId, Kind, Span, Tape, Token};

/// The place at which content is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Before,
    After,
    /// The beginning of an element.
    Prepend,
    /// The end of an element or of the document.
    Append,
    /// The place of the token; for an element, of everything up to its end.
    Replace,
    /// The place of the content of an element.
    Inner,
}

impl Place {
    /// All places. JavaScript names a place by its index.
    pub const ALL: [Self; 6] =
        [Self::Before, Self::After, Self::Prepend, Self::Append, Self::Replace, Self::Inner];
}

/// The content around a token, and in its place.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    pub(super) before: Vec<Content>,
    pub(super) replacement: Option<Content>,
    /// The content after the token, in reverse order: later insertions are closer to the token.
    pub(super) after: Vec<Content>,
    pub(super) is_removed: bool,
}

impl Surroundings {
    fn replace(&mut self, content: Content) {
        self.is_removed = true;
        self.replacement = Some(content);
    }
}

/// The changes to an element that take effect at its end.
#[derive(Debug, Default)]
pub(super) struct ElementEnd {
    /// The content at the end of the element.
    pub(super) append: Vec<Content>,
    /// The content after the element, in reverse order.
    pub(super) after: Vec<Content>,
    pub(super) is_tag_removed: bool,
    /// Set if the content of the element is dropped.
    pub(super) hides_content: bool,
    /// Set if there is a handler for the end tag.
    pub(super) has_handler: bool,
    /// The new name of the element.
    pub(super) name: Option<Owned>,
}

impl ElementEnd {
    pub(super) fn is_changed(&self) -> bool {
        !self.append.is_empty()
            || !self.after.is_empty()
            || self.is_tag_removed
            || self.hides_content
            || self.has_handler
            || self.name.is_some()
    }
}

/// The kind of a token, with the changes that only this kind can have.
#[derive(Debug)]
pub(super) enum CurrentKind {
    Element {
        id: ElementId,
        namespace: &'static str,
        has_content: bool,
        tag: StartTag,
        end: ElementEnd,
    },
    EndTag {
        name: Option<Owned>,
        /// The elements whose handlers for this tag have not run yet.
        handlers: VecDeque<ElementId>,
    },
    Comment {
        text: Span,
        new_text: Option<Owned>,
    },
    Text {
        is_last: bool,
    },
    Doctype(Box<Doctype>),
    End,
}

/// The token whose handlers are running, and the changes to it.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) kind: CurrentKind,
    pub(super) source: Span,
    /// The registrations whose handlers have not run yet.
    pub(super) handlers: Span,
    pub(super) around: Surroundings,
}

impl Current {
    /// Begins the handling of a token.
    ///
    /// # Arguments
    /// * `is_hidden` - whether the token is in an element whose content is dropped.
    pub(super) fn new(token: Token, is_hidden: bool) -> Self {
        let Token { kind, source, handlers } = token;
        let mut around = Surroundings::default();
        let kind = match kind {
            Kind::StartTag { element, attributes, namespace, has_content, is_self_closing } => {
                around.is_removed = is_hidden;
                let tag = StartTag::new(attributes, is_self_closing);
                let end = ElementEnd::default();
                CurrentKind::Element { id: element, namespace, has_content, tag, end }
            }
            Kind::EndTag(_) => CurrentKind::EndTag { name: None, handlers: VecDeque::new() },
            Kind::Comment(text) => CurrentKind::Comment { text, new_text: None },
            Kind::Text { is_last } => CurrentKind::Text { is_last },
            Kind::Doctype(doctype) => CurrentKind::Doctype(doctype),
            Kind::End => CurrentKind::End,
        };
        Self { kind, source, handlers, around }
    }

    /// Inserts content. A place that the token does not have is ignored: nothing can be prepended
    /// to an element like `<br>`.
    pub(super) fn insert(&mut self, place: Place, content: Content) {
        let around = &mut self.around;
        let CurrentKind::Element { has_content: true, tag, end, .. } = &mut self.kind else {
            match place {
                Place::Before => around.before.push(content),
                Place::After => around.after.push(content),
                Place::Replace => around.replace(content),
                Place::Append if matches!(self.kind, CurrentKind::End) => {
                    around.before.push(content);
                }
                Place::Append | Place::Prepend | Place::Inner => {}
            }
            return;
        };
        match place {
            Place::Before => around.before.push(content),
            Place::After => end.after.push(content),
            Place::Prepend => {
                tag.omit_slash();
                around.after.push(content);
            }
            Place::Append => end.append.push(content),
            Place::Replace => {
                around.replace(content);
                end.is_tag_removed = true;
                drop_content(around, end);
            }
            Place::Inner => {
                tag.omit_slash();
                drop_content(around, end);
                around.after.push(content);
            }
        }
    }

    /// Removes the token; for an element, everything up to its end.
    pub(super) fn remove(&mut self) {
        self.remove_tags();
        if let CurrentKind::Element { has_content: true, end, .. } = &mut self.kind {
            drop_content(&mut self.around, end);
        }
    }

    /// Removes the token; for an element, only its tags.
    pub(super) fn remove_tags(&mut self) {
        self.around.is_removed = true;
        if let CurrentKind::Element { has_content: true, end, .. } = &mut self.kind {
            end.is_tag_removed = true;
        }
    }

    /// Returns the name of an element or of an end tag, as it is written.
    pub(super) fn name<'b>(&'b self, tape: &'b Tape) -> &'b [u8] {
        let new = match &self.kind {
            CurrentKind::Element { tag, .. } => tag.new_name(),
            CurrentKind::EndTag { name, .. } => name.as_deref(),
            _ => None,
        };
        new.unwrap_or_else(|| start_tag::name_in(tape.bytes(self.source)))
    }

    /// Renames an element or an end tag.
    ///
    /// # Errors
    /// Returns an error if no tag can have this name, or if the encoding cannot express it.
    pub(super) fn set_name(
        &mut self,
        new: &str,
        encoding: &'static Encoding,
        total: &Total,
    ) -> Result<(), EditError> {
        let new = start_tag::tag_name(new, encoding)?;
        match &mut self.kind {
            CurrentKind::Element { has_content, tag, end, .. } => {
                end.name = has_content.then(|| total.own(new.clone()));
                tag.set_name(total.own(new));
            }
            CurrentKind::EndTag { name, .. } => *name = Some(total.own(new)),
            _ => {}
        }
        Ok(())
    }

    /// Requests that the handler of the element's end tag be called. Returns the element's number.
    ///
    /// # Errors
    /// Returns an error if the element has no end tag.
    pub(super) fn handle_end(&mut self) -> Result<ElementId, EditError> {
        match &mut self.kind {
            CurrentKind::Element { id, has_content: true, end, .. } => {
                end.has_handler = true;
                Ok(*id)
            }
            _ => Err(EditError::NoEndTag),
        }
    }

    /// Changes the text of a comment.
    ///
    /// # Errors
    /// Returns an error if no comment can have this text, or if the encoding cannot express it.
    pub(super) fn set_text(
        &mut self,
        text: &str,
        encoding: &'static Encoding,
        total: &Total,
    ) -> Result<(), EditError> {
        let ends = ["-->", "--!>"].iter().any(|end| text.contains(end));
        if ends || text.starts_with('>') || text.starts_with("->") {
            return Err(EditError::EndsComment);
        }
        let text = content::encode_name(text, encoding).ok_or(EditError::Unencodable)?;
        if let CurrentKind::Comment { new_text, .. } = &mut self.kind {
            *new_text = Some(total.own(text));
        }
        Ok(())
    }

    /// Appends the token itself to `out`, without the content around it.
    pub(super) fn write(&mut self, tape: &Tape, encoding: &'static Encoding, out: &mut Vec<u8>) {
        let source = tape.bytes(self.source);
        match &mut self.kind {
            CurrentKind::Element { tag, .. } => tag.write(self.source, tape, out),
            CurrentKind::EndTag { name: Some(name), .. } => {
                out.extend_from_slice(b"</");
                out.extend_from_slice(name);
                out.push(b'>');
            }
            CurrentKind::Comment { new_text: Some(text), .. } => {
                out.extend_from_slice(b"<!--");
                out.extend_from_slice(text);
                out.extend_from_slice(b"-->");
            }
            CurrentKind::Text { .. } => content::encode(tape.str(self.source), encoding, out),
            CurrentKind::EndTag { .. } | CurrentKind::Comment { .. } | CurrentKind::Doctype(_) => {
                out.extend_from_slice(source);
            }
            CurrentKind::End => {}
        }
    }

    /// Returns the memory of the list of attributes, in bytes.
    pub(super) fn memory(&self) -> usize {
        match &self.kind {
            CurrentKind::Element { tag, .. } => tag.memory(),
            _ => 0,
        }
    }
}

/// Drops the content of an element, both the original and the inserted content.
fn drop_content(around: &mut Surroundings, end: &mut ElementEnd) {
    end.hides_content = true;
    mem::take(&mut around.after);
    mem::take(&mut end.append);
}
