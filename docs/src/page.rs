//! Replaces the tables between the marks of a page.

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

/// The reasons why a page cannot be filled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PageError {
    #[error("there is no table {0:?}; use one of those in docs/src/lib.rs")]
    UnknownTable(String),
    #[error("the table {0:?} has no end; add the line \"<!-- end -->\" below it")]
    Unended(String),
}

/// Returns the page, in which the lines between its marks are replaced by the tables that the marks
/// name.
///
/// # Arguments
/// * `table` - returns the table with the given name, or `None` if there is no such table.
///
/// # Errors
/// Fails if a mark names a table that does not exist, or if a table has no end mark.
pub fn fill(page: &str, table: impl Fn(&str) -> Option<String>) -> Result<String, PageError> {
    let mut filled = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        filled.push_str(line);
        filled.push('\n');
        let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let table = table(name).ok_or_else(|| PageError::UnknownTable(name.to_owned()))?;
        lines
            .by_ref()
            .find(|line| *line == END)
            .ok_or_else(|| PageError::Unended(name.to_owned()))?;
        // Markdown needs an empty line between the comment and the table.
        filled.push_str(&format!("\n{table}\n{END}\n"));
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(name: &str) -> Option<String> {
        (name == "letters").then(|| "| a |\n".to_owned())
    }

    #[test]
    fn a_table_replaces_the_text_between_its_marks() {
        let page = "# Letters\n<!-- generated: letters -->\nstale\n<!-- end -->\nmore\n";
        let filled = "# Letters\n<!-- generated: letters -->\n\n| a |\n\n<!-- end -->\nmore\n";
        assert_eq!(fill(page, letters).as_deref(), Ok(filled));
        assert_eq!(fill(filled, letters).as_deref(), Ok(filled));
    }

    #[test]
    fn a_mark_without_a_table_or_without_an_end_is_an_error() {
        let unknown = fill("<!-- generated: digits -->\n<!-- end -->\n", letters);
        assert_eq!(unknown, Err(PageError::UnknownTable("digits".to_owned())));
        let unended = fill("<!-- generated: letters -->\n", letters);
        assert_eq!(unended, Err(PageError::Unended("letters".to_owned())));
    }
}
