//! What is printed: tables, ratios within the run, and what became of the bars.

use std::fmt;
use std::time::Duration;

use crate::apply::{self, Stage};
use crate::table::Table;
use crate::{contest, engine};

/// Whose CPU time for a request is the bar.
const REFERENCE: &str = "Envoy + deno";

const FIRST_200_WITHIN: Duration = Duration::from_secs(1);
const WARM_WITHIN: Duration = Duration::from_micros(20);
const COLD_WITHIN: Duration = Duration::from_millis(3);

/// All that was measured.
#[derive(Debug, Default)]
pub struct Report {
    pub apply: Option<apply::Record>,
    pub contest: Vec<contest::Record>,
    pub engine: engine::Figures,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(apply) = &self.apply {
            writeln!(f, "A new Worker, from its apply ({} of them, one after another)\n", apply.count())?;
            writeln!(f, "{}", apply_table(apply))?;
        }
        if !self.contest.is_empty() {
            writeln!(f, "The hello Worker; the median of {} rounds\n", self.contest[0].samples.len())?;
            writeln!(f, "{}", contest_table(&self.contest))?;
        }
        writeln!(f, "{}", bars_table(&self.bars()))
    }
}

impl Report {
    fn bars(&self) -> [Bar; 4] {
        let cpu = |name| self.contest.iter().find(|record| record.name == name).map(contest::Record::cpu);
        [
            Bar {
                what: "apply → first 200, p99".to_owned(),
                measured: self.apply.as_ref().map(|apply| apply.p99(Stage::FIRST_200)),
                at_most: Some(FIRST_200_WITHIN),
            },
            Bar {
                what: "warm invocation on a shard".to_owned(),
                measured: self.engine.warm,
                at_most: Some(WARM_WITHIN),
            },
            Bar {
                what: "cold start of a 1 KB Worker".to_owned(),
                measured: self.engine.cold,
                at_most: Some(COLD_WITHIN),
            },
            Bar {
                what: format!("CPU time for a request, router + node beside {REFERENCE}"),
                measured: cpu("Tenon"),
                at_most: cpu(REFERENCE),
            },
        ]
    }
}

fn apply_table(record: &apply::Record) -> Table {
    let mut table = Table::new(["until", "p50", "p99", "worst"]);
    for (what, stage) in [("stored by the API server", Stage::STORED), ("first 200", Stage::FIRST_200)] {
        let [p50, p99, max] = [record.p50(stage), record.p99(stage), record.max(stage)].map(human);
        table.row([what.to_owned(), p50, p99, max]);
    }
    table
}

fn contest_table(records: &[contest::Record]) -> Table {
    let reference = records.iter().find(|record| record.name == REFERENCE);
    let ratio = |record: &contest::Record, of: fn(&contest::Record) -> f64| match reference.map(of) {
        Some(to) if to > 0.0 => format!("× {:.2}", of(record) / to),
        _ => "-".to_owned(),
    };
    let mut table = Table::new(["", "requests/s", "", "p50", "p99", "CPU µs/request", "", "of which"]);
    for record in records {
        let by_process = record.cpu_by_process().map(|(name, cpu)| format!("{name} {}", micros(cpu)));
        table.row([
            record.name.to_owned(),
            format!("{:.0}", record.requests_per_second()),
            ratio(record, contest::Record::requests_per_second),
            human(record.p50()),
            human(record.p99()),
            micros(record.cpu()),
            ratio(record, |record| record.cpu().as_secs_f64()),
            by_process.collect::<Vec<_>>().join(" + "),
        ]);
    }
    table
}

/// A promise, and what was measured of it.
struct Bar {
    what: String,
    measured: Option<Duration>,
    at_most: Option<Duration>,
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

fn bars_table(bars: &[Bar]) -> Table {
    let mut table = Table::new(["bar", "at most", "measured", "verdict"]);
    for bar in bars {
        let show = |duration: Option<Duration>| duration.map_or_else(|| "-".to_owned(), human);
        table.row([bar.what.clone(), show(bar.at_most), show(bar.measured), bar.verdict().to_owned()]);
    }
    table
}

fn micros(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e6)
}

/// In the unit that leaves one to three digits before the point.
fn human(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 1e-3 => format!("{:.1} µs", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(measured: Option<u64>, at_most: Option<u64>) -> Bar {
        let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
        Bar { what: "x".into(), measured: millis(measured), at_most: millis(at_most) }
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
    fn durations_are_in_a_unit_that_suits_them() {
        assert_eq!(human(Duration::from_nanos(12_340)), "12.3 µs");
        assert_eq!(human(Duration::from_micros(999_000)), "999.0 ms");
        assert_eq!(human(Duration::from_millis(1_250)), "1.25 s");
    }

    #[test]
    fn an_empty_report_says_that_nothing_was_measured() {
        let report = Report::default().to_string();
        assert_eq!(report.matches("not measured").count(), 4, "{report}");
    }
}
