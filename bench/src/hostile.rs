//! Runs the suite of hostile Workers in a release build. Each script runs beside a neighbor that
//! receives requests throughout.
//!
//! The suite checks the scripts: a script passes if it ends as its file says and its neighbor waits
//! no longer than allowed. Except for the scripts of the
//! family `ends`, all of them run in one process, which they try to crash. The suite prints its
//! summary only if that process has survived.

use std::fmt;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Context;

use crate::objective::Objective;

/// The outcome of the suite.
#[derive(Debug)]
pub struct Record {
    /// The summary, or `None` if the process ended before it printed one.
    summary: Option<Summary>,
    /// The output without the lines for each script: the figures of the suite, and the reasons why
    /// scripts failed.
    report: Vec<String>,
    status: ExitStatus,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Summary {
    passed: u64,
    failed: u64,
}

/// Runs the suite.
///
/// # Errors
/// Fails if the suite cannot be run, but not if a script fails.
pub fn run() -> anyhow::Result<Record> {
    eprintln!("hostile: the suite of hostile Workers");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--release", "--workspace", "--test", "hostile"])
        // Scripts run one after another, so that each neighbor waits only for the script beside
        // it.
        .args(["--", "--format", "pretty", "--test-threads", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    Ok(Record {
        summary: Summary::parse(&printed),
        report: report(&printed),
        status: output.status,
    })
}

impl Summary {
    /// Parses the line `test result: ok. 101 passed; 0 failed; …` of the output. Returns `None` if
    /// the output has no such line.
    fn parse(printed: &str) -> Option<Self> {
        let line = printed.lines().find_map(|line| line.strip_prefix("test result: "))?;
        let words: Vec<_> = line.split_whitespace().collect();
        let count = |what: &str| {
            words.windows(2).find(|pair| pair[1].trim_end_matches(';') == what)?[0].parse().ok()
        };
        Some(Self { passed: count("passed")?, failed: count("failed")? })
    }
}

fn report(printed: &str) -> Vec<String> {
    let is_about_a_script =
        |line: &&str| line.starts_with("test ") || line.starts_with("running ") || line.is_empty();
    printed.lines().filter(|line| !is_about_a_script(line)).map(str::to_owned).collect()
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 2] {
    let failed = record.and_then(|record| record.summary).map(|summary| summary.failed);
    let ended = record.map(|record| u64::from(record.summary.is_none()));
    [
        Objective::never(
            "hostile scripts without the expected error, or with a delayed neighbor",
            failed,
        ),
        Objective::never("unexpected ends of the process that runs hostile scripts", ended),
    ]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.summary {
            Some(Summary { passed, failed }) => {
                writeln!(f, "{passed} of {} hostile scripts passed", passed + failed)?
            }
            None => writeln!(f, "A hostile script crashed the process of the suite")?,
        }
        if !self.status.success() {
            writeln!(f, "The suite of hostile Workers failed: {}", self.status)?;
        }
        self.report.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str =
        "\nrunning 2 tests\ntest loops/plain   ... ok\ntest loops/json    ... FAILED\n
failures:\n\n---- loops/json ----\nthe neighbor waited for 4s\n
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n
neighbors waited for 51.2 ms at most\n";

    fn record(printed: &str) -> Record {
        Record {
            summary: Summary::parse(printed),
            report: report(printed),
            status: ExitStatus::default(),
        }
    }

    fn verdicts(record: Option<&Record>) -> [&'static str; 2] {
        objectives(record).map(|objective| objective.verdict())
    }

    #[test]
    fn scripts_that_fail_are_counted_and_printed() {
        let record = record(PRINTED);
        assert_eq!(record.summary, Some(Summary { passed: 1, failed: 1 }));
        assert_eq!(verdicts(Some(&record)), ["MISSED", "held"]);
        let text = record.to_string();
        assert!(
            text.contains("1 of 2") && text.contains("waited for 4s") && text.contains("51.2 ms"),
            "{text}"
        );
        assert!(!text.contains("loops/plain"), "{text}");
    }

    #[test]
    fn a_suite_without_a_summary_was_crashed_by_a_script() {
        let record = record("\nrunning 2 tests\ntest loops/plain   ... ok\n");
        assert_eq!(verdicts(Some(&record)), ["not measured", "MISSED"]);
    }

    #[test]
    fn a_suite_that_did_not_run_has_no_verdict() {
        assert_eq!(verdicts(None), ["not measured", "not measured"]);
    }
}
