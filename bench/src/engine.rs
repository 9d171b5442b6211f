//! Reports figures of the engine. The node's own benchmark measures them, without a network or a
//! second process.

use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::objective::Objective;
use crate::table::Table;
use crate::unit::{human, mib};

/// Labels of the rows of the benchmark that the objectives use.
const WARM: &str = "warm, hello";
const COLD_SPARE: &str = "cold start, 1 KB, spare ready";
const COLD: &str = "cold start, 1 KB";
const COLD_LARGE: &str = "cold start, 1 MiB, bytecode";

const WARM_WITHIN: Duration = Duration::from_micros(5);
/// Minimum number of warm invocations per second on one core.
const WARM_RATE: f64 = 180_000.0;
const COLD_SPARE_WITHIN: Duration = Duration::from_micros(500);
const COLD_SPARE_P99_WITHIN: Duration = Duration::from_micros(1_500);
const COLD_WITHIN: Duration = Duration::from_millis(2);
const COLD_LARGE_WITHIN: Duration = Duration::from_millis(5);

/// All rows of the benchmark, by their labels.
#[derive(Debug, PartialEq)]
pub struct Record {
    times: BTreeMap<String, Times>,
    /// Amounts of memory in bytes.
    memory: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    p50: Duration,
    p99: Duration,
    /// The CPU time of the whole process per invocation or start.
    cpu: Duration,
}

/// A line of the benchmark's output, with durations in nanoseconds.
#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Times { label: String, p50: u64, p99: u64, cpu: u64 },
    Memory { label: String, bytes: u64 },
}

/// Runs the benchmark.
///
/// # Errors
/// Fails if the benchmark cannot be run, if it fails, or if it prints a malformed row.
pub fn run() -> anyhow::Result<Record> {
    eprintln!("engine: invocations and starts without a network");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["bench", "--quiet", "--workspace", "--bench", "engine", "--", "--json"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "the engine's benchmark ended with {}", output.status);
    Record::parse(&String::from_utf8_lossy(&output.stdout))
}

impl Record {
    fn parse(printed: &str) -> anyhow::Result<Self> {
        let mut record = Self { times: BTreeMap::new(), memory: BTreeMap::new() };
        for line in printed.lines().filter(|line| line.starts_with('{')) {
            match serde_json::from_str(line)
                .with_context(|| format!("cannot parse a row of the engine's benchmark: {line}"))?
            {
                Row::Times { label, p50, p99, cpu } => {
                    let [p50, p99, cpu] = [p50, p99, cpu].map(Duration::from_nanos);
                    record.times.insert(label, Times { p50, p99, cpu });
                }
                Row::Memory { label, bytes } => {
                    record.memory.insert(label, bytes);
                }
            }
        }
        Ok(record)
    }
}

impl Times {
    /// Returns the number of invocations or starts that one core can do per second, by their CPU
    /// time.
    fn per_second(self) -> f64 {
        1.0 / self.cpu.as_secs_f64()
    }
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 6] {
    let times = |label: &str| record.and_then(|record| record.times.get(label));
    let p50 = |label| times(label).map(|times| times.p50);
    [
        Objective::time("warm invocation on a shard, p50", p50(WARM), Some(WARM_WITHIN)),
        Objective::rate(
            "warm invocations on a core, by CPU time in a loop",
            times(WARM).map(|times| times.per_second()),
            Some(WARM_RATE),
        ),
        Objective::time(
            "cold start of 1 KB, spare isolate ready, p50",
            p50(COLD_SPARE),
            Some(COLD_SPARE_WITHIN),
        ),
        Objective::time(
            "cold start of 1 KB, spare isolate ready, p99",
            times(COLD_SPARE).map(|times| times.p99),
            Some(COLD_SPARE_P99_WITHIN),
        ),
        Objective::time("cold start of 1 KB, no spare isolate, p50", p50(COLD), Some(COLD_WITHIN)),
        Objective::time(
            "cold start of 1 MiB, code cache present, p50",
            p50(COLD_LARGE),
            Some(COLD_LARGE_WITHIN),
        ),
    ]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The engine, without a network\n")?;
        let mut table = Table::new(["", "p50", "p99", "CPU", "per second per core", "memory"]);
        let nothing = || "-".to_owned();
        for (label, times) in &self.times {
            let [p50, p99, cpu] = [times.p50, times.p99, times.cpu].map(human);
            table.row([
                label.clone(),
                p50,
                p99,
                cpu,
                format!("{:.0}", times.per_second()),
                nothing(),
            ]);
        }
        for (label, bytes) in &self.memory {
            table.row([label.clone(), nothing(), nothing(), nothing(), nothing(), mib(*bytes)]);
        }
        writeln!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"{"bytes":1363149,"label":"memory of each of 200"}
{"cpu":4000,"label":"warm, hello","p50":4900,"p99":9000}
{"cpu":400000,"label":"cold start, 1 KB, spare ready","p50":400000,"p99":2000000}
"#;

    #[test]
    fn rows_are_found_by_their_labels() {
        let record = Record::parse(PRINTED).unwrap();
        let nanos = Duration::from_nanos;
        assert_eq!(
            record.times[WARM],
            Times { p50: nanos(4_900), p99: nanos(9_000), cpu: nanos(4_000) }
        );
        assert_eq!(record.memory["memory of each of 200"], 1_363_149);
    }

    #[test]
    fn each_bound_has_its_own_row() {
        let record = Record::parse(PRINTED).unwrap();
        let verdicts = objectives(Some(&record)).map(|objective| objective.verdict());
        assert_eq!(verdicts, ["held", "held", "held", "MISSED", "not measured", "not measured"]);
    }

    #[test]
    fn the_rate_of_a_core_is_the_inverse_of_the_cpu_time() {
        let times = Record::parse(PRINTED).unwrap().times[WARM];
        assert_eq!(times.per_second().round(), 250_000.0);
    }

    #[test]
    fn a_malformed_row_is_an_error() {
        assert!(Record::parse("{\"label\": \"warm, hello\"}").is_err());
        assert!(Record::parse("Compiling\n").unwrap().times.is_empty());
    }

    #[test]
    fn the_benchmark_has_a_row_for_every_bound() {
        let benchmark = include_str!("../../runtime-node/benches/engine.rs");
        for label in [WARM, COLD_SPARE, COLD, COLD_LARGE] {
            assert!(
                benchmark.contains(&format!("\"{label}\"")),
                "the benchmark has no row {label:?}"
            );
        }
    }
}
