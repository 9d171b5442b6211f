//! Tables of text.

use std::fmt;

/// A table of text. The first column is aligned left, and the others are aligned right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row[..].get(column));
        let width = |column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (i, row) in self.rows.iter().enumerate() {
            let cells =
                row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
            if i == 0 {
                writeln!(
                    f,
                    "{}",
                    "─".repeat(widths.iter().sum::<usize>() + 2 * (columns.max(1) - 1))
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["", "µs"]);
        table.row(["Envoy + deno".into(), "5".into()]);
        table.row(["Tenon".into(), "1234".into()]);
        let lines: Vec<_> = table.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "                µs");
        assert_eq!(lines[2], "Envoy + deno     5");
        assert_eq!(lines[3], "Tenon         1234");
    }
}
