//! The part of the cost of compiling a source's regular expressions that does not depend on the
//! source's length. This module is pure.
//!
//! A Unicode property takes a few characters of source (`\p{RGI_Emoji}`) and stands for a set of
//! thousands of ranges, or of strings. V8 builds that set when it parses the literal, before any
//! code runs, and cannot be interrupted.

/// The maximum total weight of the Unicode properties in a source. Properties of this weight take a
/// tenth of a second to compile, or a second if all of them are properties of strings and the
/// expressions ignore case.
pub const MAX_PROPERTIES: usize = 4096;

/// The weight of a property of strings. A property of characters has weight 1.
const STRINGS: usize = 64;

/// A bound on the length of a property's name, in bytes. The longest existing name has a few dozen
/// characters.
const MAX_PARAMETER: usize = 64;

/// Returns the weighted number of Unicode properties that a source names. The scan also counts
/// matches in strings and comments.
pub fn properties(source: &[u8]) -> usize {
    let named = |(at, window): (usize, &[u8])| match window {
        [b'\\', b'p' | b'P', b'{'] => Some(weight(&source[at + window.len()..])),
        _ => None,
    };
    source.windows(3).enumerate().filter_map(named).sum()
}

/// Returns the weight of one property.
///
/// # Arguments
/// * `rest` - the source from the property's name on.
fn weight(rest: &[u8]) -> usize {
    let name = rest
        .iter()
        .take(MAX_PARAMETER)
        .position(|byte| *byte == b'}')
        .map_or(rest, |end| &rest[..end]);
    let is_of_strings =
        name.starts_with(b"RGI_") || name == b"Basic_Emoji" || name == b"Emoji_Keycap_Sequence";
    if is_of_strings { STRINGS } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unicode_properties_are_counted_and_string_properties_weigh_more() {
        assert_eq!(properties(br"/a\p{L}\P{Lu}[\p{Script=Latin}]/u"), 3);
        assert_eq!(properties(br"/\p{RGI_Emoji}/v; /[\p{Basic_Emoji}]/v"), 2 * STRINGS);
        assert_eq!(properties(br"/\p/; /p{L}/; '\u{1}'"), 0);
        assert_eq!(properties(br"\p{"), 1);
    }
}
