//! The ops of handlers, which read and change the current token of a rewriter.

use tenon_engine::collection::make_room;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_html::{Doctype, Editing, Form, MAX_ENCODED_RATIO, Place};
use tenon_op::{Record, op};

use super::{refused, with_rewriter};
use crate::ops::Nullable;

/// Calls `work` with the current token of a rewriter.
fn edit<R>(
    scope: &mut v8::PinScope<'_, '_>,
    number: u32,
    work: impl FnOnce(&mut Editing<'_>) -> R,
) -> Result<R, Thrown> {
    let none = || Thrown::type_error("HTMLRewriter: no handler is running");
    with_rewriter(scope, number, |rewriter| Ok(work(&mut rewriter.current().ok_or_else(none)?)))
}

/// Returns a copy of a string if there is memory for it and for its longest encoded form.
fn copied(
    scope: &mut v8::PinScope<'_, '_>,
    text: v8::Local<'_, v8::String>,
) -> Result<String, Thrown> {
    let length = text.utf8_length(scope).saturating_mul(1 + MAX_ENCODED_RATIO);
    make_room(scope, length).ok_or_else(out_of_memory)?;
    Ok(text.to_rust_string_lossy(scope))
}

/// Returns the name of an element or of an end tag.
#[op]
pub(crate) fn token_name(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<String, Thrown> {
    edit(scope, rewriter, |token| token.name())
}

/// Renames an element or an end tag.
///
/// # Errors
/// Returns a `TypeError` if no tag can have this name.
#[op]
pub(crate) fn token_set_name(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    name: v8::Local<'_, v8::String>,
) -> Result<(), Thrown> {
    let name = copied(scope, name)?;
    edit(scope, rewriter, |token| token.set_name(&name))?.map_err(refused)
}

/// Returns the namespace of an element.
#[op]
pub(crate) fn token_namespace(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<&'static str, Thrown> {
    edit(scope, rewriter, |token| token.namespace())
}

/// Returns the value of an attribute; null if the attribute does not exist.
#[op]
pub(crate) fn token_attribute(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    name: v8::Local<'_, v8::String>,
) -> Result<Nullable<String>, Thrown> {
    let name = copied(scope, name)?;
    edit(scope, rewriter, |token| Nullable(token.attribute(&name)))
}

/// Returns the names and values of all attributes: name, value, name, value, …
#[op]
pub(crate) fn token_attributes(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<Vec<String>, Thrown> {
    edit(scope, rewriter, |token| token.attributes())
}

/// Changes the value of an attribute, or adds the attribute.
///
/// # Errors
/// Returns a `TypeError` if no attribute can have this name.
#[op]
pub(crate) fn token_set_attribute(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    name: v8::Local<'_, v8::String>,
    value: v8::Local<'_, v8::String>,
) -> Result<(), Thrown> {
    let (name, value) = (copied(scope, name)?, copied(scope, value)?);
    edit(scope, rewriter, |token| token.set_attribute(&name, &value))?.map_err(refused)
}

/// Removes an attribute, if it exists.
#[op]
pub(crate) fn token_remove_attribute(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    name: v8::Local<'_, v8::String>,
) -> Result<(), Thrown> {
    let name = copied(scope, name)?;
    edit(scope, rewriter, |token| token.remove_attribute(&name))
}

/// Inserts text, or HTML if `html` is set, at the place with this index in [`Place::ALL`].
#[op]
pub(crate) fn token_insert(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    place: usize,
    text: v8::Local<'_, v8::String>,
    html: bool,
) -> Result<(), Thrown> {
    let text = copied(scope, text)?;
    let form = if html { Form::Html } else { Form::Text };
    let longest = edit(scope, rewriter, |token| token.longest(&text, form))?;
    make_room(scope, longest).ok_or_else(out_of_memory)?;
    edit(scope, rewriter, |token| token.insert(Place::ALL[place], &text, form))
}

/// Inserts the stream that JavaScript holds under the number `stream`, as [`token_insert`] does.
#[op]
pub(crate) fn token_insert_stream(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    place: usize,
    stream: u32,
    html: bool,
) -> Result<(), Thrown> {
    let form = if html { Form::Html } else { Form::Text };
    edit(scope, rewriter, |token| token.insert_stream(Place::ALL[place], stream, form))
}

/// Removes the token; for an element, only its tags if `keeps_content` is set.
#[op]
pub(crate) fn token_remove(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    keeps_content: bool,
) -> Result<(), Thrown> {
    edit(scope, rewriter, |token| token.remove(keeps_content))
}

/// Returns whether the token has been removed or replaced.
#[op]
pub(crate) fn token_is_removed(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<bool, Thrown> {
    edit(scope, rewriter, |token| token.is_removed())
}

/// Requests that the handler of an element's end tag be called. Returns the element's number.
///
/// # Errors
/// Returns a `TypeError` if the element has no end tag.
#[op]
pub(crate) fn token_handle_end(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<u32, Thrown> {
    Ok(edit(scope, rewriter, |token| token.handle_end())?.map_err(refused)?.0)
}

/// Returns the text of a comment or of a text chunk.
#[op]
pub(crate) fn token_text(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<String, Thrown> {
    edit(scope, rewriter, |token| token.text())
}

/// Changes the text of a comment.
///
/// # Errors
/// Returns a `TypeError` if no comment can have this text.
#[op]
pub(crate) fn token_set_text(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
    text: v8::Local<'_, v8::String>,
) -> Result<(), Thrown> {
    let text = copied(scope, text)?;
    edit(scope, rewriter, |token| token.set_text(&text))?.map_err(refused)
}

/// Returns whether a text chunk is the last one of its text node.
#[op]
pub(crate) fn token_is_last(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<bool, Thrown> {
    edit(scope, rewriter, |token| token.is_last())
}

/// The parts of a document type declaration.
#[derive(Record)]
pub(crate) struct DoctypeParts {
    name: Nullable<String>,
    public_id: Nullable<String>,
    system_id: Nullable<String>,
}

/// Returns the parts of a document type declaration.
#[op]
pub(crate) fn token_doctype(
    scope: &mut v8::PinScope<'_, '_>,
    rewriter: u32,
) -> Result<DoctypeParts, Thrown> {
    let Doctype { name, public_id, system_id } = edit(scope, rewriter, |token| token.doctype())?;
    let [name, public_id, system_id] = [name, public_id, system_id].map(Nullable);
    Ok(DoctypeParts { name, public_id, system_id })
}
