//! Cuts the lines around a place out of a source text. This module is pure.

use std::fmt;

use tenon_proto::failure::Place;

/// Number of lines before and after the place.
const AROUND: usize = 3;

/// Maximum number of characters of a line. Longer lines, such as minified code, are cut to the part
/// around the place.
const WIDTH: usize = 160;

/// The lines around a place. When they are displayed, a caret marks the column.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// Number of the first line, from 1.
    pub(super) first: usize,
    pub(super) lines: Vec<String>,
    /// Index of the line with the place.
    pub(super) marked: usize,
    /// Number of characters of the marked line before the place.
    pub(super) before: usize,
}

impl Excerpt {
    /// Returns the lines around a place, or `None` if the text has no such line.
    pub(super) fn of(text: &str, place: &Place) -> Option<Self> {
        let marked = (place.line as usize).checked_sub(1)?;
        let first = marked.saturating_sub(AROUND);
        let lines: Vec<&str> = text.lines().skip(first).take(marked - first + 1 + AROUND).collect();
        let column = characters(lines.get(marked - first)?, place.column.saturating_sub(1));
        let start = if column < WIDTH { 0 } else { column - WIDTH / 2 };
        let cut = |line: &&str| line.chars().skip(start).take(WIDTH).collect();
        Some(Self {
            first: first + 1,
            lines: lines.iter().map(cut).collect(),
            marked: marked - first,
            before: column - start,
        })
    }

    /// Returns each line with its number, and whether it has the place.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let lines = self.lines.iter().enumerate();
        lines.map(|(at, line)| (self.first + at, line.as_str(), at == self.marked))
    }

    /// Returns the number of digits of the greatest line number.
    pub(super) fn gutter(&self) -> usize {
        (self.first + self.lines.len()).saturating_sub(1).to_string().len()
    }

    /// Returns the whitespace before the caret below the marked line. Tabs are kept, so that
    /// the caret lines up with the column.
    pub(super) fn indent(&self) -> String {
        let before = self.lines[self.marked].chars().take(self.before);
        before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect()
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.gutter();
        for (number, line, is_marked) in self.numbered() {
            writeln!(f, "{number:width$} | {line}")?;
            if is_marked {
                writeln!(f, "{:width$} | {}^", "", self.indent())?;
            }
        }
        Ok(())
    }
}

/// Returns the number of characters that the first `units` UTF-16 code units of a line encode.
fn characters(line: &str, units: u32) -> usize {
    let mut left = units as usize;
    line.chars()
        .take_while(|c| {
            let fits = left > 0;
            left = left.saturating_sub(c.len_utf16());
            fits
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, line: u32, column: u32) -> Option<String> {
        let place = Place { file: "a.ts".to_owned(), line, column };
        Excerpt::of(text, &place).map(|excerpt| excerpt.to_string())
    }

    #[test]
    fn the_lines_around_a_place_are_shown_with_a_caret_below_the_column() {
        let text = "1\n2\n3\n4\n5\n\tthrow it;\r\n7\n8\n9\n10\n";
        let expected = "3 | 3\n4 | 4\n5 | 5\n6 | \tthrow it;\n  | \t      ^\n7 | 7\n8 | 8\n9 | 9\n";
        assert_eq!(excerpt(text, 6, 8).as_deref(), Some(expected));
        assert_eq!(excerpt("a", 1, 1).as_deref(), Some("1 | a\n  | ^\n"));
    }

    #[test]
    fn a_column_counts_utf_16_code_units_and_may_be_past_the_end() {
        assert_eq!(excerpt("'𝄞' x", 1, 6).as_deref(), Some("1 | '𝄞' x\n  |     ^\n"));
        assert_eq!(excerpt("ab", 1, 99).as_deref(), Some("1 | ab\n  |   ^\n"));
    }

    #[test]
    fn a_text_without_the_line_has_no_excerpt() {
        assert_eq!(excerpt("a\nb", 3, 1), None);
        assert_eq!(excerpt("a\nb", 0, 1), None);
        assert_eq!(excerpt("", 1, 1), None);
    }

    #[test]
    fn a_long_line_is_cut_to_the_part_around_the_place() {
        let minified = format!("{}here{}", "x".repeat(100_000), "y".repeat(100_000));
        let place = Place { file: String::new(), line: 1, column: 100_001 };
        let excerpt = Excerpt::of(&minified, &place).unwrap();
        assert_eq!(excerpt.lines[0].chars().count(), WIDTH);
        assert!(excerpt.lines[0][excerpt.before..].starts_with("here"));
    }
}
