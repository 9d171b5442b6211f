//! The parent's side of a child: reads its output and watches its resource use.

use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::child::CPU;

/// The interval at which the parent checks a silent child.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time that a call may run after it should have been terminated, in CPU time of the thread
/// that makes it, so that load on the machine does not count against the call.
const GRACE: Duration = Duration::from_secs(1);

/// The CPU time after which a call is assumed never to end.
const FOREVER: Duration = Duration::from_secs(4);

/// The memory limit of a Pod, from the chart, in bytes.
const MEMORY: u64 = 1 << 30;

/// The number of consecutive failed starts at which the test gives up. On a slow machine, some
/// starts may fail.
const FAILED_STARTS_LIMIT: usize = 10;

/// The way in which a call misbehaved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Aborted(String),
    TookMemory,
    Held(Duration),
    NeverEnded,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aborted(reason) => write!(f, "ended the process: {reason}"),
            Self::TookMemory => write!(f, "took {} MiB of memory", MEMORY >> 20),
            Self::Held(time) => write!(f, "ran for {time:?} of CPU time"),
            Self::NeverEnded => write!(f, "had not ended after {FOREVER:?} of CPU time"),
        }
    }
}

/// The end of a child, and the last call that it reported.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) call: u32,
    pub(crate) text: String,
    /// `None` if the parent ended the child because `is_enough` had returned true.
    pub(crate) fault: Option<Fault>,
    pub(crate) calls: usize,
}

/// A child that ended outside a call.
#[derive(Debug, thiserror::Error)]
#[error("a child ended outside a call ({status}): {stderr}")]
pub(crate) struct Unattributed {
    status: String,
    stderr: String,
}

/// The reports of a child so far.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) calls: usize,
    /// Set once the last reported call is complete.
    pub(crate) is_done: bool,
    call: u32,
    text: String,
    failed_starts: usize,
    /// The CPU time that the child had used when it reported the call.
    cpu: Duration,
}

/// Runs a child that makes calls until one of them misbehaves or `is_enough` returns true.
///
/// # Arguments
/// * `arguments` - arguments that make this program the child.
/// * `first` - the number of its first call.
///
/// # Errors
/// Returns an error if the child ends outside a call.
pub(crate) fn watch(
    arguments: &[&str],
    first: u32,
    is_enough: impl Fn(&Progress) -> bool,
) -> Result<Ended, Unattributed> {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = lines(&mut child);
    let stderr = stderr(&mut child);
    let mut progress = Progress { is_done: true, call: first, ..Progress::default() };
    let fault = loop {
        match lines.recv_timeout(POLL_INTERVAL) {
            Ok(line) => {
                let cpu = cpu_time(child.id());
                if let Some(fault) = progress.take(&line, cpu) {
                    break Some(fault);
                }
                assert!(progress.failed_starts < FAILED_STARTS_LIMIT, "no isolate starts: {line}");
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait().unwrap();
                let stderr = stderr.join().unwrap();
                if progress.is_done {
                    return Err(Unattributed { status: status.to_string(), stderr });
                }
                break Some(Fault::Aborted(describe(status, &stderr)));
            }
        }
        if progress.is_done && is_enough(&progress) {
            break None;
        }
        if !progress.is_done && cpu_time(child.id()).saturating_sub(progress.cpu) > FOREVER {
            break Some(Fault::NeverEnded);
        }
        if !progress.is_done && resident(child.id()) > MEMORY {
            break Some(Fault::TookMemory);
        }
    };
    // The child may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    Ok(Ended { call: progress.call, text: progress.text, fault, calls: progress.calls })
}

impl Progress {
    /// Processes one line of the child's output. Returns the fault of a call that ran for too long.
    ///
    /// # Arguments
    /// * `cpu` - the child's CPU time so far.
    fn take(&mut self, line: &str, cpu: Duration) -> Option<Fault> {
        let mut words = line.splitn(3, ' ');
        let (what, call, rest) = (words.next()?, words.next()?, words.next()?);
        match what {
            "call" => {
                *self = Self { calls: self.calls + 1, is_done: false, cpu, ..Self::default() };
                (self.call, self.text) = (call.parse().unwrap(), rest.to_owned());
                None
            }
            "done" => {
                self.is_done = true;
                let taken = cpu.saturating_sub(self.cpu);
                (taken > CPU + GRACE).then_some(Fault::Held(taken))
            }
            _ => {
                self.failed_starts += 1;
                None
            }
        }
    }
}

fn lines(child: &mut Child) -> Receiver<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let (line_tx, line_rx) = channel();
    thread::spawn(move || {
        out.lines().map_while(Result::ok).try_for_each(|line| line_tx.send(line))
    });
    line_rx
}

/// Reads the child's standard error until it ends.
fn stderr(child: &mut Child) -> thread::JoinHandle<String> {
    let mut errors = child.stderr.take().unwrap();
    thread::spawn(move || {
        let mut output = Vec::new();
        let _ = errors.read_to_end(&mut output);
        String::from_utf8_lossy(&output).into_owned()
    })
}

/// Returns the signal or exit status, and the line of standard error that states the reason.
fn describe(status: ExitStatus, stderr: &str) -> String {
    let line = stderr.lines().find(|line| line.contains("Fatal") || line.contains("panicked"));
    let line =
        line.or_else(|| stderr.lines().rfind(|line| !line.trim_matches(['#', ' ']).is_empty()));
    match status.signal() {
        Some(signal) => format!("signal {signal}, {}", line.unwrap_or_default().trim()),
        None => format!("{status}, {}", line.unwrap_or_default().trim()),
    }
}

/// Returns the CPU time of the child's main thread so far.
fn cpu_time(process: u32) -> Duration {
    let stat =
        fs::read_to_string(format!("/proc/{process}/task/{process}/schedstat")).unwrap_or_default();
    let nanoseconds = stat.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// Returns the resident memory of a process, in bytes.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
        << 10
}
