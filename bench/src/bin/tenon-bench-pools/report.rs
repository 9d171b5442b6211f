//! The table, and under it what is to be said of it: everything from this run's ratios.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::architecture::Architecture;
use crate::histogram::Histogram;
use crate::measurement::Measurement;
use crate::scenario::Scenario;
use crate::table::Table;

/// What was measured, round by round.
#[derive(Default)]
pub struct Report {
    rounds: BTreeMap<(Scenario, Architecture), Vec<Measurement>>,
}

impl Report {
    pub fn add(&mut self, architecture: Architecture, scenario: Scenario, measurement: Measurement) {
        self.rounds.entry((scenario, architecture)).or_default().push(measurement);
    }

    /// Requests in a second, the median of the rounds.
    fn throughput(&self, scenario: Scenario, architecture: Architecture) -> Option<f64> {
        let rounds = self.rounds.get(&(scenario, architecture))?;
        Some(median(rounds.iter().map(|round| round.throughput)))
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["", "requests", "req/s", "to shared", "p50", "p99", "p999", "CPU", "memory"]);
        let mut last = None;
        for (&(scenario, architecture), rounds) in &self.rounds {
            if last.replace(scenario) != Some(scenario) {
                table.row([
                    format!("{scenario}"),
                    "".into(),
                    "".into(),
                    "".into(),
                    "".into(),
                    "".into(),
                    "".into(),
                    "".into(),
                    "".into(),
                ]);
            }
            let mut latencies = Histogram::default();
            rounds.iter().for_each(|round| latencies.add(&round.latencies));
            let throughput = median(rounds.iter().map(|round| round.throughput));
            let shared = self.throughput(scenario, Architecture::SharedHeld);
            table.row([
                format!("  {architecture}"),
                latencies.count().to_string(),
                format!("{throughput:.0}"),
                shared.map_or_else(String::new, |shared| format!("{:.2}", throughput / shared)),
                show(latencies.quantile(0.5)),
                show(latencies.quantile(0.99)),
                show(latencies.quantile(0.999)),
                show(Duration::from_secs_f64(median(rounds.iter().map(|round| round.cpu.as_secs_f64())))),
                format!("{:.1} MiB", median(rounds.iter().map(|round| round.memory as f64)) / f64::from(1 << 20)),
            ]);
        }
        write!(f, "{table}")
    }
}

fn show(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1_000.0 { format!("{micros:.2} µs") } else { format!("{:.2} ms", micros / 1e3) }
}
