//! Runs the steps in order and reports the duration and the remarks of each.

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, timeout};

use crate::stage::Stage;

/// Time limit of a step: a step that takes longer has failed.
const STEP_TIMEOUT: Duration = Duration::from_secs(900);

type Running<'a> = Pin<Box<dyn Future<Output = anyhow::Result<String>> + 'a>>;

/// An operation on the installation, with the conditions that must hold.
pub struct Step {
    name: &'static str,
    run: fn(&Stage) -> Running<'_>,
    is_essential: bool,
}

impl Step {
    /// Declares a step that all later steps depend on: if it fails, the later steps do not run.
    pub const fn essential(name: &'static str, run: fn(&Stage) -> Running<'_>) -> Self {
        Self { name, run, is_essential: true }
    }

    /// Declares a step that can be skipped, and whose failure does not affect later steps.
    pub const fn optional(name: &'static str, run: fn(&Stage) -> Running<'_>) -> Self {
        Self { name, run, is_essential: false }
    }

    fn is_selected(&self, words: &[String]) -> bool {
        self.is_essential
            || words.is_empty()
            || words.iter().any(|word| self.name.contains(word.as_str()))
    }
}

#[tokio::main]
pub async fn run(steps: &[Step]) -> anyhow::Result<ExitCode> {
    // Options are ignored: Cargo's own test harnesses take them, but this one takes only words.
    let words: Vec<_> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let stage = Stage::from_env().await?;
    let (mut passed, mut failed) = (0, Vec::new());
    for step in steps.iter().filter(|step| step.is_selected(&words)) {
        let began = Instant::now();
        let outcome = timeout(STEP_TIMEOUT, (step.run)(&stage)).await;
        let outcome = outcome
            .unwrap_or_else(|_| Err(anyhow!("the step did not finish within {STEP_TIMEOUT:?}")));
        let took = began.elapsed().as_secs_f64();
        match outcome {
            Ok(remark) => {
                passed += 1;
                println!("ok     {took:6.1} s  {}", step.name);
                remark.lines().for_each(|line| println!("                 {line}"));
            }
            Err(error) => {
                failed.push(step.name);
                println!(
                    "FAILED {took:6.1} s  {}\n{error:#}\n{}",
                    step.name,
                    stage.diagnostics().await
                );
                if step.is_essential {
                    println!(
                        "later steps depend on {} and do not run; the installation is kept for inspection",
                        step.name
                    );
                    break;
                }
            }
        }
    }
    println!("\n{passed} steps passed, {} failed", failed.len());
    failed.iter().for_each(|name| println!("    {name}"));
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
