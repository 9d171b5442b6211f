//! What the regular expressions of a source cost to compile, as far as the source's length does not tell. Pure.
//!
//! A property of Unicode in a few characters of source (`\p{RGI_Emoji}`) is a set of thousands of ranges, or of strings.
//! V8 makes that set where it reads the literal, before anything runs, and cannot be interrupted.

/// How many properties a source may name: a tenth of a second's work, or a second's where all of them are of strings and
/// letters of both cases are alike.
pub const MAX_PROPERTIES: usize = 4096;

/// How many properties of characters one of strings counts for.
const STRINGS: usize = 64;

/// The longest name there is has some tens of characters.
const LONGEST: usize = 64;

/// How many properties of Unicode a source names, by a look that takes strings and comments for code.
pub fn properties(source: &[u8]) -> usize {
    let named = |(at, window): (usize, &[u8])| match window {
        [b'\\', b'p' | b'P', b'{'] => Some(cost(&source[at + window.len()..])),
        _ => None,
    };
    source.windows(3).enumerate().filter_map(named).sum()
}

/// # Arguments
/// * `rest` - of the source, from the property's name on.
fn cost(rest: &[u8]) -> usize {
    let name = rest.iter().take(LONGEST).position(|byte| *byte == b'}').map_or(rest, |end| &rest[..end]);
    let is_of_strings = name.starts_with(b"RGI_") || name == b"Basic_Emoji" || name == b"Emoji_Keycap_Sequence";
    if is_of_strings { STRINGS } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_counted_and_those_of_strings_for_many() {
        assert_eq!(properties(br"/a\p{L}\P{Lu}[\p{Script=Latin}]/u"), 3);
        assert_eq!(properties(br"/\p{RGI_Emoji}/v; /[\p{Basic_Emoji}]/v"), 2 * STRINGS);
        assert_eq!(properties(br"/\p/; /p{L}/; '\u{1}'"), 0);
        assert_eq!(properties(br"\p{"), 1);
    }
}
