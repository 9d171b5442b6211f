//! Passes the text of a module to V8, without a copy where possible.

#![allow(unsafe_code)] // Asserts that the text lives for as long as V8 may read it.

/// Returns a module's text as a string of V8, or `None` if the text is too long for V8. ASCII text
/// is not copied: all isolates of the revision in this process share it. Nearly all code is ASCII,
/// because bundlers escape other characters, and the compiler of Workers replaces them in comments.
pub(super) fn text<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    text: &[u8],
) -> Option<v8::Local<'s, v8::String>> {
    if !text.is_ascii() {
        return v8::String::new_from_utf8(scope, text, v8::NewStringType::Normal);
    }
    // SAFETY: the bytes belong to a module of the isolate's revision. They never move or change,
    // and the revision belongs to the isolate's state, which an `Isolate` drops after V8's isolate.
    let text: &'static [u8] = unsafe { std::slice::from_raw_parts(text.as_ptr(), text.len()) };
    v8::String::new_external_onebyte_static(scope, text)
}
