//! The recorders: handlers that the parser calls, and that record the tokens on a [`Tape`].

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use lol_html::html_content::{
    self, Comment, DocumentEnd, Element, EndTag, TextChunk, UserData as _,
};
use lol_html::{
    CommentHandler, DocumentContentHandlers, ElementContentHandlers, EndTagHandler, TextHandler,
};

use crate::tape::{Doctype, Kind, Registration, SourceAttribute, Span, Tape};

/// The handlers that a call of `on` or `onDocument` registers.
#[derive(Clone, Debug)]
pub struct Handlers {
    /// The selector; `None` for `onDocument`.
    pub selector: Option<String>,
    /// Set for a handler of elements or, without a selector, of the document type.
    pub element: bool,
    pub comments: bool,
    pub text: bool,
    /// Set for a handler of the document's end.
    pub end: bool,
}

/// A tape that the handlers share with the parser's output.
pub(super) type Shared = Rc<RefCell<Tape>>;

/// Returns the recorders for the handlers of a selector.
pub(super) fn of_elements(
    tape: &Shared,
    registration: Registration,
    handlers: &Handlers,
) -> ElementContentHandlers<'static> {
    let mut all = ElementContentHandlers::default();
    if handlers.element {
        let tape = Rc::clone(tape);
        all = all.element(move |element: &mut Element<'_, '_>| {
            record_element(&tape, element, registration);
            Ok(())
        });
    }
    if handlers.comments {
        all = all.comments(comments(tape, registration));
    }
    if handlers.text {
        all = all.text(text(tape, registration));
    }
    all
}

/// Returns the recorders for the handlers of a document.
pub(super) fn of_document(
    tape: &Shared,
    registration: Registration,
    handlers: &Handlers,
) -> DocumentContentHandlers<'static> {
    let mut all = DocumentContentHandlers::default();
    if handlers.element {
        let tape = Rc::clone(tape);
        all = all.doctype(move |doctype: &mut html_content::Doctype<'_>| {
            record_doctype(&mut tape.borrow_mut(), doctype, registration);
            Ok(())
        });
    }
    if handlers.comments {
        all = all.comments(comments(tape, registration));
    }
    if handlers.text {
        all = all.text(text(tape, registration));
    }
    if handlers.end {
        let tape = Rc::clone(tape);
        all = all.end(move |_: &mut DocumentEnd<'_>| {
            tape.borrow_mut().document_end(registration);
            Ok(())
        });
    }
    all
}

fn comments(tape: &Shared, registration: Registration) -> CommentHandler<'static> {
    let tape = Rc::clone(tape);
    Box::new(move |comment| {
        record_comment(&mut tape.borrow_mut(), comment, registration);
        Ok(())
    })
}

fn text(tape: &Shared, registration: Registration) -> TextHandler<'static> {
    let tape = Rc::clone(tape);
    Box::new(move |text| {
        record_text(&mut tape.borrow_mut(), text, registration);
        Ok(())
    })
}

fn record_element(shared: &Shared, element: &mut Element<'_, '_>, registration: Registration) {
    let mut tape = shared.borrow_mut();
    if tape.is_in_token() {
        return tape.handler(registration);
    }
    // The source of the tag comes next on the tape.
    let (begin, place) = (element.source_location().bytes().start, tape.position());
    let on_tape =
        |range: Range<usize>| Span::new(range.start - begin + place..range.end - begin + place);
    let attributes = element.attributes().iter().filter_map(|attribute| {
        let name = on_tape(attribute.name_source_location()?.bytes());
        let value = attribute.value_source_location().map(|location| on_tape(location.bytes()));
        Some(SourceAttribute { name, value })
    });
    let id = tape.next_element();
    let kind = Kind::StartTag {
        element: id,
        attributes: tape.attributes(attributes),
        namespace: element.namespace_uri(),
        has_content: element.can_have_content(),
        is_self_closing: element.is_self_closing(),
    };
    tape.token(kind, Some(registration));
    if let Some(handlers) = element.end_tag_handlers() {
        tape.open();
        let shared = Rc::clone(shared);
        let end: EndTagHandler<'static> = Box::new(move |_: &mut EndTag<'_>| {
            shared.borrow_mut().end(id);
            Ok(())
        });
        handlers.push(end);
    }
}

fn record_comment(tape: &mut Tape, comment: &mut Comment<'_>, registration: Registration) {
    if tape.is_in_token() {
        return tape.handler(registration);
    }
    let text = tape.note(&comment.text());
    tape.token(Kind::Comment(text), Some(registration));
}

/// A mark on a text chunk that has been recorded.
struct Recorded;

fn record_text(tape: &mut Tape, text: &mut TextChunk<'_>, registration: Registration) {
    if text.user_data().is::<Recorded>() {
        return tape.handler(registration);
    }
    text.set_user_data(Recorded);
    let end = text.source_location().bytes().end;
    tape.text(text.as_str(), text.last_in_text_node(), end, registration);
    // Unlike the other tokens, a text chunk has no source that the parser would write unchanged.
    text.remove();
}

fn record_doctype(
    tape: &mut Tape,
    doctype: &mut html_content::Doctype<'_>,
    registration: Registration,
) {
    if tape.is_in_token() {
        return tape.handler(registration);
    }
    let parts = Doctype {
        name: doctype.name(),
        public_id: doctype.public_id(),
        system_id: doctype.system_id(),
    };
    tape.token(Kind::Doctype(Box::new(parts)), Some(registration));
}
