//! Paths of files, and of URLs. This module is pure.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The maximum length of a file's path, in bytes.
pub const MAX_PATH: usize = 1_024;

/// The characters that are percent-encoded in the path of a location.
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

/// Returns whether a string is a relative path of a file that stays within its folder.
pub fn is_path(text: &str) -> bool {
    (1..=MAX_PATH).contains(&text.len())
        && !text.chars().any(|c| c.is_control() || c == '\\')
        && text.split('/').all(|segment| !["", ".", ".."].contains(&segment))
}

/// Percent-decodes a path. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn decode(path: &str) -> Cow<'_, str> {
    percent_decode_str(path).decode_utf8_lossy()
}

/// Percent-encodes a path for a URL.
pub(crate) fn encode(path: &str) -> String {
    utf8_percent_encode(path, IN_PATH).to_string()
}
