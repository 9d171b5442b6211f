//! Runs a contest, which puts the same load on one contender after another, round by round, so that
//! a disturbance of the machine affects all contenders alike.
//!
//! ```text
//!  round 1:  A warm-up, A measured │ B warm-up, B measured │ …
//!  round 2:  A warm-up, A measured │ …
//! ```
//!
//! All contenders run from the first round to the last; a contender without load is idle. The
//! report shows the median of each figure over the rounds.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::hello::ANSWER;
use crate::load::{Figures, Load, Target};
use crate::process::Process;
use crate::quantile::median;
use crate::syscalls;

/// A server that runs the hello Worker, and its processes.
pub struct Contender {
    pub name: String,
    pub target: Target,
    /// The processes in the order in which a request passes through them.
    pub processes: Vec<Process>,
}

/// The number of rounds, and the durations of the loads in each.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub rounds: u32,
    pub warm_up: Duration,
    pub measured: Duration,
}

/// The measurements of one contender in one round.
#[derive(Clone, Debug)]
pub struct Sample {
    pub figures: Figures,
    /// The CPU time of each process, in the order of the contender's processes.
    pub cpu: Vec<Duration>,
}

/// The measurements of one contender in all rounds. Its figures are the medians over the rounds.
#[derive(Clone, Debug)]
pub struct Record {
    pub name: String,
    pub processes: Vec<&'static str>,
    pub samples: Vec<Sample>,
}

/// Runs the contest, and returns the records in the order of the contenders.
///
/// # Errors
/// Fails if a contender exits or does not respond, or if a request fails.
pub fn run(
    contenders: &mut [Contender],
    load: &Load,
    schedule: Schedule,
) -> anyhow::Result<Vec<Record>> {
    for contender in contenders.iter_mut() {
        contender.await_up()?;
    }
    let mut records: Vec<_> = contenders.iter().map(Contender::record).collect();
    for round in 1..=schedule.rounds {
        for (contender, record) in contenders.iter().zip(&mut records) {
            eprintln!("round {round} of {}: {}", schedule.rounds, contender.name);
            let sample =
                contender.sample(load, schedule).with_context(|| contender.name.clone())?;
            record.samples.push(sample);
        }
    }
    Ok(records)
}

impl Contender {
    fn await_up(&mut self) -> anyhow::Result<()> {
        let ensure_running = || self.processes.iter_mut().try_for_each(Process::ensure_running);
        self.target.await_answer(ANSWER, ensure_running).with_context(|| self.name.clone())
    }

    fn sample(&self, load: &Load, schedule: Schedule) -> anyhow::Result<Sample> {
        load.run(self.target, schedule.warm_up)?;
        let before = self.cpu()?;
        let figures = load.run(self.target, schedule.measured)?;
        let cpu = self.cpu()?.iter().zip(before).map(|(after, before)| *after - before).collect();
        Ok(Sample { figures, cpu })
    }

    /// Returns the number of system calls per request.
    ///
    /// # Errors
    /// Fails if the processes cannot be traced, or if a request fails.
    pub fn syscalls(&self, load: &Load, duration: Duration, scratch: &Path) -> anyhow::Result<f64> {
        let (calls, figures) =
            syscalls::count(&self.processes, scratch, || load.run(self.target, duration))?;
        Ok(calls as f64 / figures.requests.max(1) as f64)
    }

    fn cpu(&self) -> anyhow::Result<Vec<Duration>> {
        self.processes.iter().map(Process::cpu).collect()
    }

    fn record(&self) -> Record {
        let processes = self.processes.iter().map(Process::name).collect();
        Record { name: self.name.clone(), processes, samples: Vec::new() }
    }
}

impl Record {
    pub fn requests_per_second(&self) -> f64 {
        self.median(|sample| sample.figures.requests as f64 / sample.figures.duration.as_secs_f64())
    }

    pub fn p50(&self) -> Duration {
        Duration::from_secs_f64(self.median(|sample| sample.figures.p50.as_secs_f64()))
    }

    pub fn p99(&self) -> Duration {
        Duration::from_secs_f64(self.median(|sample| sample.figures.p99.as_secs_f64()))
    }

    /// Returns the CPU time per request in each process.
    pub fn cpu_by_process(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        self.processes
            .iter()
            .enumerate()
            .map(|(i, name)| (*name, self.cpu_per_request(|cpu| cpu[i])))
    }

    /// Returns the CPU time per request in all processes together.
    pub fn cpu(&self) -> Duration {
        self.cpu_per_request(|cpu| cpu.iter().sum())
    }

    /// Returns the CPU time per request in the processes of this name.
    pub fn cpu_of(&self, process: &str) -> Duration {
        self.cpu_by_process().filter(|(name, _)| *name == process).map(|(_, cpu)| cpu).sum()
    }

    fn cpu_per_request(&self, of: impl Fn(&[Duration]) -> Duration) -> Duration {
        Duration::from_secs_f64(
            self.median(|sample| {
                of(&sample.cpu).as_secs_f64() / sample.figures.requests.max(1) as f64
            }),
        )
    }

    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rounds: &[(u64, u64, u64)]) -> Record {
        let samples = rounds.iter().map(|(requests, router_ms, node_ms)| Sample {
            figures: Figures {
                requests: *requests,
                duration: Duration::from_secs(1),
                p50: Duration::from_millis(1),
                p99: Duration::from_millis(2),
            },
            cpu: vec![Duration::from_millis(*router_ms), Duration::from_millis(*node_ms)],
        });
        Record {
            name: "Tenon".to_owned(),
            processes: vec!["router", "node"],
            samples: samples.collect(),
        }
    }

    #[test]
    fn the_cpu_time_of_each_process_is_divided_by_the_requests() {
        let record = record(&[(1_000, 20, 10)]);
        let by_process: Vec<_> = record.cpu_by_process().collect();
        assert_eq!(
            by_process,
            [("router", Duration::from_micros(20)), ("node", Duration::from_micros(10))]
        );
        assert_eq!(record.cpu_of("node"), Duration::from_micros(10));
        assert_eq!(record.cpu(), Duration::from_micros(30));
    }

    #[test]
    fn a_single_disturbed_round_does_not_change_the_figures() {
        let record = record(&[(1_000, 20, 10), (100, 900, 900), (1_000, 20, 10)]);
        assert_eq!(record.requests_per_second(), 1_000.0);
        assert_eq!(record.cpu(), Duration::from_micros(30));
    }
}
