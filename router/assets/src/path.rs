//! Paths of files, and of URLs. This module is pure.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The longest path of a file, in bytes.
pub const MAX_PATH: usize = 1_024;

/// The characters that a path in a location must not contain.
const IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Returns whether a text is a relative path of a file that stays within its folder.
pub fn is_path(text: &str) -> bool {
    (1..=MAX_PATH).contains(&text.len())
        && !text.chars().any(|c| c.is_control() || c == '\\')
        && text.split('/').all(|segment| !["", ".", ".."].contains(&segment))
}

/// Decodes a path. A path that is not UTF-8 finds no file.
pub(crate) fn decode(path: &str) -> Cow<'_, str> {
    percent_decode_str(path).decode_utf8_lossy()
}

/// Encodes a path for a URL.
pub(crate) fn encode(path: &str) -> String {
    utf8_percent_encode(path, IN_PATH).to_string()
}
