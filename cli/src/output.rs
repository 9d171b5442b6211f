//! The output of commands. This module is pure.

use std::borrow::Cow;

use clap::ValueEnum;
use k8s_openapi::jiff::Timestamp;

/// The form of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
}

/// Returns a number of things, such as "1 Worker" or "2 Workers".
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Aligns the cells of rows in columns.
pub(crate) fn table<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    });
    lines.collect()
}

/// Escapes the control characters, except line ends and tabs, of text from a cluster, because they
/// would control the terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    Cow::Owned(printable)
}

/// Formats the time since `then` in the largest unit of which at least two have passed, or in
/// seconds.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["A", "B"], ["long", "x"], ["ü", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(table(rows), "A     B\nlong  x\nü\n");
    }

    #[test]
    fn control_characters_are_escaped_except_line_ends_and_tabs() {
        assert_eq!(printable("a\tb\nü"), "a\tb\nü");
        assert_eq!(printable("\u{1b}[31mred\r\n"), "\\u{1b}[31mred\\r\n");
    }

    #[test]
    fn an_age_has_one_unit() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let cases =
            [(5, "5s"), (119, "119s"), (120, "2m"), (7_200, "2h"), (200_000, "2d"), (-5, "0s")];
        for (seconds, expected) in cases {
            assert_eq!(age(Timestamp::from_second(1_000_000 - seconds).unwrap(), now), expected);
        }
    }
}
