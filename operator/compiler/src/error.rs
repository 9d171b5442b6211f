//! Compile errors, and their human-readable form.

use std::fmt;

use super::position::Position;

/// Maximum length of a message in bytes, without the ellipsis that marks a shortened one. Messages
/// quote names from the code, which may have any length, but all errors of a Worker's modules must
/// fit into one condition.
const MAX_MESSAGE: usize = 480;

/// A compile error, which is displayed as `worker.js:3:14: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Name of the module.
    pub file: String,
    /// Number of the line, from 1.
    pub line: u32,
    /// Number of the column, in characters, from 1.
    pub column: u32,
    pub message: String,
    /// The line without its line break. Empty if the line is too long to be shown, or if the error
    /// is about the module as a whole.
    pub source_line: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for CompileError {}

impl CompileError {
    /// Returns the error for display, followed by the source line with a caret under the column.
    pub fn with_source(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            fmt::Display::fmt(self, f)?;
            if self.source_line.is_empty() {
                return Ok(());
            }
            // Tabs are kept, so that the caret lines up with the column in a terminal.
            let before = self.source_line.chars().take(self.column as usize - 1);
            let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let gutter = self.line.to_string();
            write!(
                f,
                "\n  {gutter} | {}\n  {:width$} | {indent}^",
                self.source_line,
                "",
                width = gutter.len()
            )
        })
    }

    /// Returns an error at a byte offset in a module.
    pub(super) fn at(file: &str, source: &str, offset: usize, message: impl Into<String>) -> Self {
        let Position { line, column, text } = Position::of(source, offset);
        Self {
            file: file.to_owned(),
            line,
            column,
            message: shorten(message.into()),
            source_line: text.to_owned(),
        }
    }

    /// Returns an error about a module as a whole.
    pub(crate) fn of_module(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 1,
            column: 1,
            message: shorten(message.into()),
            source_line: String::new(),
        }
    }
}

fn shorten(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push('…');
    }
    message
}
