//! `.env` files: the values of secrets on a developer's machine, by binding name.

use std::collections::BTreeMap;

/// The error of a line that does not assign a value to a name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line} is not of the form NAME=VALUE")]
pub(crate) struct MalformedLine {
    line: usize,
}

/// Parses lines of `NAME=VALUE`, with or without `export` before the name. The value may be quoted.
/// Empty lines and lines that begin with `#` are skipped.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, String>, MalformedLine> {
    let lines = text.lines().map(str::trim).enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(i, line)| {
            let (name, value) = line
                .strip_prefix("export ")
                .unwrap_or(line)
                .split_once('=')
                .ok_or_else(|| MalformedLine { line: i + 1 })?;
            Ok((name.trim().to_owned(), unquote(value.trim()).to_owned()))
        })
        .collect()
}

fn unquote(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read() {
        let text = "# keys\n\nexport API_KEY = \"a=b\"\nEMPTY=\nNAME='x y'\n";
        let expected = [("API_KEY", "a=b"), ("EMPTY", ""), ("NAME", "x y")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse(text).unwrap(), BTreeMap::from(expected));
    }

    #[test]
    fn the_error_names_the_malformed_line_without_its_secret() {
        let error = parse("A=1\nB").unwrap_err().to_string();
        assert_eq!(error, "line 2 is not of the form NAME=VALUE");
    }
}
