//! Fuzzes built-in functions: for a given time, calls the functions that are reachable from the
//! global object, with values of extreme sizes and shapes.
//!
//! ```text
//!  this process                     a child, as many as it takes
//!  chooses a seed ────────────────► for each call: a Worker plans it   ──► "call 7 (atob).call(…)"
//!  reads the calls, and watches the (builtins/caller.js), then makes it ──► "done 7 12 returned"
//!  child's CPU time and memory   ◄──
//! ```
//!
//! A finding is a call during which the child aborts, uses more memory than a Pod has, or runs for
//! more than a second of CPU time after it should have been terminated. V8's built-in functions
//! cannot all be bounded, so findings do not fail the test: a finding costs a process, which a
//! supervisor would restart. The test prints the findings, grouped by function. It fails if a
//! finding cannot be attributed, that is, if a child ends outside a call, because a supervisor
//! could not know which Worker to quarantine either.
//!
//! The seed and the number of a call alone determine the call. `TENON_BUILTINS_SEED` and
//! `TENON_BUILTINS_CALL` repeat a call; `TENON_BUILTINS_SECONDS` replaces the default duration of
//! 30 seconds.

#![allow(clippy::unwrap_used)] // Clippy knows tests by an attribute that this harness does not use.

mod child;
mod findings;
mod watch;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};

use findings::Findings;
use watch::{Ended, Fault, Progress, Unattributed, watch};

/// The argument that makes this program the child. The seed and the number of the first call
/// follow.
const CHILD: &str = "--child";

/// The argument that makes this program a child that stages a finding. The kind of finding follows.
const STAGE: &str = "--stage";

/// The minimum number of functions that a complete walk from the global object finds.
const FUNCTIONS: usize = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    match &arguments[..] {
        [_, child, seed, call] if child == CHILD => {
            child::run(seed.parse().unwrap(), call.parse().unwrap())
        }
        [_, stage, finding] if stage == STAGE => child::stage(finding),
        _ => {}
    }
    let trials = vec![
        Trial::test("every_call_that_ends_a_process_is_named", fuzz),
        Trial::test("a_call_that_aborts_is_named", || {
            expect_found("abort", |fault| matches!(fault, Fault::Aborted(_)))
        }),
        Trial::test("a_call_that_holds_its_thread_is_named", || {
            expect_found("hold", |fault| matches!(fault, Fault::Held(_)))
        }),
        Trial::test("a_call_that_never_ends_is_named", || {
            expect_found("spin", |fault| *fault == Fault::NeverEnded)
        }),
        Trial::test("a_call_that_uses_more_memory_than_a_pod_has_is_named", || {
            expect_found("grow", |fault| *fault == Fault::TookMemory)
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Checks that a finding that a child stages is detected, and that its call is named.
fn expect_found(staged: &str, is_expected: impl Fn(&Fault) -> bool) -> Result<(), Failed> {
    let ended = watch(&[STAGE, staged], 0, |_| false)?;
    assert_eq!((ended.call, &ended.text[..]), (7, staged));
    assert!(ended.fault.as_ref().is_some_and(is_expected), "{ended:?}");
    Ok(())
}

fn fuzz() -> Result<(), Failed> {
    let seed = setting("SEED").unwrap_or_else(std::process::id);
    if let Some(call) = setting("CALL") {
        let ended = run_child(seed, call, |progress| progress.calls == 1 && progress.is_done)?;
        println!("{ended:#?}");
        return Ok(());
    }
    let time = Duration::from_secs(setting("SECONDS").unwrap_or(30));
    let (findings, calls) = find(seed, time)?;
    println!("TENON_BUILTINS_SEED={seed}: {calls} calls, {findings}");
    if calls == 0 { Err("no call was made".into()) } else { Ok(()) }
}

fn run_child(
    seed: u32,
    first: u32,
    is_enough: impl Fn(&Progress) -> bool,
) -> Result<Ended, Unattributed> {
    watch(&[CHILD, &seed.to_string(), &first.to_string()], first, is_enough)
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(format!("TENON_BUILTINS_{name}")).ok()?.parse().ok()
}

/// Collects findings for `time`, and returns them with the number of calls made.
fn find(seed: u32, time: Duration) -> Result<(Findings, usize), Unattributed> {
    let (mut findings, mut next, mut calls) = (Findings::default(), 0, 0);
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        let Ended { call, text, fault, calls: made } =
            run_child(seed, next, |_| Instant::now() >= deadline)?;
        calls += made;
        next = call + 1;
        if let Some(fault) = fault {
            println!("call {call}: {text}: {fault}");
            findings.add(call, text, fault);
        }
    }
    Ok((findings, calls))
}
