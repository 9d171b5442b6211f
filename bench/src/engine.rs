//! The engine's figures, which the node's own benchmark measures and prints: no network, no second process.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

/// What the bars need of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// An invocation of the hello Worker in an isolate that runs.
    pub warm: Option<Duration>,
    /// A Worker of 1 KB, from its source to its first response.
    pub cold: Option<Duration>,
}

/// Runs the benchmark and shows what it prints.
///
/// # Errors
/// When it cannot be run, or fails.
pub fn run() -> anyhow::Result<Figures> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["bench", "--quiet", "--package", "tenon-runtime-node", "--bench", "engine"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    ensure!(output.status.success(), "the engine's benchmark: {}", output.status);
    Ok(Figures { warm: figure(&printed, "warm"), cold: figure(&printed, "cold start") })
}

/// The first duration in the first line that begins with `label`.
fn figure(printed: &str, label: &str) -> Option<Duration> {
    let line = printed.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).find_map(|pair| duration(pair[0].parse().ok()?, pair[1]))
}

fn duration(value: f64, unit: &str) -> Option<Duration> {
    let seconds = match unit.trim_end_matches(',') {
        "ns" => 1e-9,
        "µs" | "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(value * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_first_duration_behind_its_label() {
        let printed =
            "                 p50      p99\nwarm, hello   3.5 µs   9.0 µs\ncold start, 1 KB   1.25 ms   2 ms\n";
        assert_eq!(figure(printed, "warm"), Some(Duration::from_nanos(3_500)));
        assert_eq!(figure(printed, "cold start"), Some(Duration::from_micros(1_250)));
    }

    #[test]
    fn what_is_not_printed_is_no_figure() {
        assert_eq!(figure("nothing of the kind\n", "warm"), None);
        assert_eq!(figure("warm: very\n", "warm"), None);
    }
}
