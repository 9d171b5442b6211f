//! From a byte offset to what a person calls a place.

/// A place in a source text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Position<'a> {
    /// From 1.
    pub(super) line: u32,
    /// In characters, from 1.
    pub(super) column: u32,
    /// The whole line, without its end.
    pub(super) text: &'a str,
}

/// A line of minified code is of no use to anybody in full.
const MAX_TEXT: usize = 400;

impl<'a> Position<'a> {
    /// `offset` counts bytes; one that is past the end, or within a character, is moved back. The end is that of
    /// the last line with anything on it: there somebody has to go on writing.
    pub(super) fn of(source: &'a str, offset: usize) -> Self {
        let end = source.trim_end_matches(['\r', '\n']).len();
        let offset = source.floor_char_boundary(offset.min(end));
        let before = &source[..offset];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = &source[start..];
        let text = rest[..rest.find('\n').unwrap_or(rest.len())].trim_end_matches('\r');
        let column = before[start..].chars().count() as u32 + 1;
        let line = before.matches('\n').count() as u32 + 1;
        let text = if text.len() > MAX_TEXT { "" } else { text };
        Self { line, column, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(source: &str, offset: usize) -> (u32, u32, &str) {
        let Position { line, column, text } = Position::of(source, offset);
        (line, column, text)
    }

    #[test]
    fn lines_and_columns_count_from_one() {
        assert_eq!(at("", 0), (1, 1, ""));
        assert_eq!(at("ab\ncd", 1), (1, 2, "ab"));
        assert_eq!(at("ab\r\ncd", 5), (2, 2, "cd"));
        assert_eq!(at("ab\r\ncd", 0), (1, 1, "ab"));
        assert_eq!(at("ab\n\n", 99), (1, 3, "ab"));
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(at("'é' x", "'é' ".len()), (1, 5, "'é' x"));
        assert_eq!(at("é", 1), (1, 1, "é"));
    }
}
