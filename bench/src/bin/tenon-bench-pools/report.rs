//! Prints the table of every architecture in every scenario. The conclusions are in
//! [`verdict`](crate::verdict).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::architecture::Architecture;
use crate::histogram::Histogram;
use crate::measurement::Measurement;
use crate::scenario::Scenario;
use crate::table::Table;
use crate::verdict::{self, Figure, Figures};

const HEAD: [&str; 9] =
    ["", "requests", "req/s", "× shared", "p50", "p99", "p999", "CPU", "memory"];

const LEGEND: &str = "req/s and memory (peak resident memory, less that before the first isolate) are from the round with \
     the highest throughput, and CPU (all threads, per request) is from the round with the least CPU time: these rounds \
     were disturbed least. \
     Requests and latencies cover all rounds; × shared is req/s relative to “shared, for a request”. A client sends \
     its next request when it has received the response to the last. Compare within a scenario.";

/// Maximum share of the machine's CPU time that other processes may use without distorting the
/// latencies.
const QUIET: f64 = 0.05;

/// The measurements, round by round.
#[derive(Default)]
pub struct Report {
    rounds: BTreeMap<(Scenario, Architecture), Vec<Measurement>>,
    /// Share of the machine's CPU time that other processes used.
    others: f64,
}

impl Report {
    pub fn add(
        &mut self,
        architecture: Architecture,
        scenario: Scenario,
        measurement: Measurement,
    ) {
        self.rounds.entry((scenario, architecture)).or_default().push(measurement);
    }

    /// Sets the share of the machine's CPU time that other processes used during the measurements.
    pub fn set_others(&mut self, others: f64) {
        self.others = others;
    }

    fn figures(&self) -> Figures {
        let figure = |rounds: &Vec<Measurement>| Figure {
            throughput: best(rounds).throughput,
            cpu: least_cpu(rounds).as_secs_f64(),
        };
        self.rounds.iter().map(|(&key, rounds)| (key, figure(rounds))).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures();
        let mut table = Table::new(HEAD);
        let mut above = None;
        for (&(scenario, architecture), rounds) in &self.rounds {
            if above.replace(scenario) != Some(scenario) {
                let mut title = HEAD.map(|_| String::new());
                title[0] = scenario.to_string();
                table.row(title);
            }
            let shared = figures.get(&(scenario, Architecture::SharedHeld));
            table.row(row(architecture, rounds, shared.map(|shared| shared.throughput)));
        }
        writeln!(f, "{table}\n{}", wrap(LEGEND))?;
        let others = self.others * 100.0;
        write!(f, "\nOther processes used {others:.0} % of the machine's CPU time")?;
        writeln!(
            f,
            "{}",
            if self.others > QUIET { ", which distorts p99 and p999." } else { "." }
        )?;
        for paragraph in verdict::of(&figures) {
            writeln!(f, "\n{}", wrap(&paragraph))?;
        }
        Ok(())
    }
}

fn row(
    architecture: Architecture,
    rounds: &[Measurement],
    shared: Option<f64>,
) -> [String; HEAD.len()] {
    let mut latencies = Histogram::default();
    rounds.iter().for_each(|round| latencies.add(&round.latencies));
    let best = best(rounds);
    [
        format!("  {architecture}"),
        latencies.count().to_string(),
        format!("{:.0}", best.throughput),
        shared.map_or_else(String::new, |shared| format!("{:.2}", best.throughput / shared)),
        format_duration(latencies.quantile(0.5)),
        format_duration(latencies.quantile(0.99)),
        format_duration(latencies.quantile(0.999)),
        format_duration(least_cpu(rounds)),
        format!("{:.1} MiB", best.memory as f64 / f64::from(1 << 20)),
    ]
}

/// Returns the round with the highest throughput.
fn best(rounds: &[Measurement]) -> &Measurement {
    let best = rounds.iter().max_by(|one, other| one.throughput.total_cmp(&other.throughput));
    best.expect("there are no rounds")
}

/// Returns the least CPU time per request of all rounds.
fn least_cpu(rounds: &[Measurement]) -> Duration {
    let least = rounds.iter().map(|round| round.cpu).min();
    least.expect("there are no rounds")
}

fn format_duration(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1_000.0 { format!("{micros:.1} µs") } else { format!("{:.1} ms", micros / 1e3) }
}

/// Wraps text at the width of the table.
fn wrap(text: &str) -> String {
    const WIDTH: usize = 110;
    let mut lines = String::with_capacity(text.len());
    let mut width = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if width > 0 && width + 1 + len > WIDTH {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += len;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(throughput: f64) -> Measurement {
        let mut latencies = Histogram::default();
        latencies.record(Duration::from_micros(1_500));
        Measurement { latencies, throughput, cpu: Duration::from_micros(2), memory: 3 << 20 }
    }

    #[test]
    fn a_row_shows_the_best_round_and_the_latencies_of_all() {
        let rounds = [measurement(100.0), measurement(900.0), measurement(300.0)];
        let row = row(Architecture::Pinned, &rounds, Some(200.0));
        assert_eq!(row[..5], ["  pinned", "3", "900", "4.50", "1.5 ms"]);
        assert_eq!(row[7..], ["2.0 µs", "3.0 MiB"]);
    }

    #[test]
    fn a_scenario_has_its_title_once() {
        let mut report = Report::default();
        for architecture in [Architecture::SharedHeld, Architecture::Pinned] {
            report.add(architecture, Scenario::Wait, measurement(100.0));
        }
        assert_eq!(report.to_string().matches("5 ms of I/O").count(), 1);
    }

    #[test]
    fn lines_end_between_words() {
        let text = wrap(&"word ".repeat(100));
        assert!(text.lines().all(|line| line.len() <= 110 && line.ends_with("word")));
        assert_eq!(text.split_whitespace().count(), 100);
    }
}
