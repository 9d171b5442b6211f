//! What is printed: tables, ratios within the run, and what became of the bars.

use std::fmt;
use std::time::Duration;

use crate::contest::Record;

/// Text in columns; the first to the left, the others to the right.
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
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
            if i == 0 {
                writeln!(f, "{}", "─".repeat(widths.iter().sum::<usize>() + 2 * (columns.max(1) - 1)))?;
            }
        }
        Ok(())
    }
}

/// The contest; ratios are to the record named `reference`.
pub fn contest(records: &[Record], reference: &str) -> Table {
    let reference = records.iter().find(|record| record.name == reference);
    let ratio = |of: f64, to: fn(&Record) -> f64| match reference.map(to) {
        Some(to) if to > 0.0 => format!("{:.2}", of / to),
        _ => "-".to_owned(),
    };
    let mut table = Table::new(["", "requests/s", "ratio", "p50", "p99", "CPU µs/request", "ratio", "of which"]);
    for record in records {
        let by_process = record.cpu_by_process().map(|(name, cpu)| format!("{name} {}", micros(cpu)));
        table.row([
            record.name.to_owned(),
            format!("{:.0}", record.requests_per_second()),
            ratio(record.requests_per_second(), Record::requests_per_second),
            millis(record.p50()),
            millis(record.p99()),
            micros(record.cpu()),
            ratio(record.cpu().as_secs_f64(), |record| record.cpu().as_secs_f64()),
            by_process.collect::<Vec<_>>().join(" + "),
        ]);
    }
    table
}

/// A promise, and what was measured of it.
pub struct Bar {
    pub what: String,
    pub measured: Option<Duration>,
    pub at_most: Option<Duration>,
    pub format: fn(Duration) -> String,
}

impl Bar {
    fn verdict(&self) -> &'static str {
        match (self.measured, self.at_most) {
            (Some(measured), Some(at_most)) if measured <= at_most => "held",
            (Some(_), Some(_)) => "MISSED",
            _ => "not measured",
        }
    }
}

pub fn bars(bars: &[Bar]) -> Table {
    let mut table = Table::new(["", "at most", "measured", "verdict"]);
    for bar in bars {
        let show = |duration: Option<Duration>| duration.map_or_else(|| "-".to_owned(), bar.format);
        table.row([bar.what.clone(), show(bar.at_most), show(bar.measured), bar.verdict().to_owned()]);
    }
    table
}

pub fn micros(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e6)
}

pub fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(measured: Option<u64>, at_most: Option<u64>) -> Bar {
        let millis_of = |ms: Option<u64>| ms.map(Duration::from_millis);
        Bar { what: "x".into(), measured: millis_of(measured), at_most: millis_of(at_most), format: millis }
    }

    #[test]
    fn a_bar_is_held_up_to_itself() {
        assert_eq!(bar(Some(3), Some(3)).verdict(), "held");
        assert_eq!(bar(Some(4), Some(3)).verdict(), "MISSED");
    }

    #[test]
    fn what_was_not_measured_is_not_held() {
        assert_eq!(bar(None, Some(3)).verdict(), "not measured");
        assert_eq!(bar(Some(3), None).verdict(), "not measured");
    }

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
