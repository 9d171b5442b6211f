//! Converts byte offsets into lines and columns.

/// A position in a source text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Position<'a> {
    /// Number of the line, from 1.
    pub(super) line: u32,
    /// Number of the column, in characters, from 1.
    pub(super) column: u32,
    /// The whole line without its line break, or an empty string if the line is too long.
    pub(super) text: &'a str,
}

/// Maximum length of a line that is shown, in bytes. A longer line, such as minified code, is not
/// useful.
const MAX_TEXT: usize = 400;

impl<'a> Position<'a> {
    /// Returns the position of a byte offset. An offset within a character is moved back to the
    /// beginning of the character. An offset past the last non-empty line is moved back to the end
    /// of that line, where the author has to continue.
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
