//! Compiles Workers in separate processes, which can be killed.
//!
//! ```text
//!  job ─► permit of its namespace ─► permit of all ─► process: read ─► compile ─► write ─► exit
//!                                                      └─ over a limit: report it, exit
//! ```
//!
//! The compiler is not written for hostile input. A hostile program makes the compiler try one
//! interpretation of the program's brackets after another, for a time that grows with the square of
//! the program's length or faster. A thread cannot be stopped from outside. A process can be
//! killed, and its memory is then freed. The process does not inherit the operator's environment.
//!
//! A namespace compiles one Worker at a time, so that slow Workers delay only the Workers of their
//! own namespace. The number of processes is limited to the number of CPUs, but the limit is at
//! least two.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rustix::process::Signal;
use tenon_lifecycle::permits::NamespacePermits;
use tenon_proto::revision::CompatibilityFlag;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::{CompileError, Outcome, compile_with_progress};

/// The argument with which the operator's program compiles one job and exits.
pub const ARGUMENT: &str = "compile";

/// Maximum CPU time of one compilation. The largest possible Worker takes a second or two.
const CPU: Duration = Duration::from_secs(5);
/// Maximum resident memory of one compilation, in MiB.
const MEMORY: u64 = 1024;

/// Interval at which the process checks its resource usage.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Time limit of a process. The Worker is not to blame for a process that exceeds it, because the
/// process may have got no CPU.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The input of one compilation.
#[derive(Clone, Debug)]
pub struct Job {
    pub modules: BTreeMap<String, Bytes>,
    pub entrypoint: String,
    pub flags: BTreeSet<CompatibilityFlag>,
}

/// The reason why a compilation has no result. The caller may retry the compilation.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    #[error("cannot run the compiler process: {0}")]
    Process(io::Error),
    #[error("the compiler process ended without a valid result")]
    NoResult,
    #[error("the compiler process did not respond within {} s", TIMEOUT.as_secs())]
    TimedOut,
}

/// A handle that compiles Workers in separate processes.
#[derive(Clone)]
pub struct Compiler {
    program: PathBuf,
    /// Limits the number of processes.
    permits: NamespacePermits,
}

impl Compiler {
    /// Creates a compiler. This function starts no process.
    ///
    /// # Arguments
    /// * `program` - the operator's executable, which is run with [`ARGUMENT`].
    pub fn new(program: PathBuf) -> Self {
        let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // There are at least two permits, so that one slow job does not block all others.
        Self { program, permits: NamespacePermits::new(cpus.max(2), 1) }
    }

    /// Compiles a job. Dropping the future kills the process.
    ///
    /// # Errors
    /// Fails if the process cannot be started, or returns no valid result within the time limit.
    pub async fn compile(&self, namespace: &str, job: &Job) -> Result<Outcome, CompilerError> {
        let _permit = self.permits.acquire(namespace).await;
        let response = tokio::time::timeout(TIMEOUT, self.run(job))
            .await
            .map_err(|_| CompilerError::TimedOut)??;
        let Some(response) = response else {
            let message = "the compiler ran out of stack or memory; nest the code less deeply, or \
                           split the module";
            return Ok(Err(vec![CompileError::of_module(&job.entrypoint, message)]));
        };
        let Response { compiled, errors } =
            Response::decode(response).map_err(|_| CompilerError::NoResult)?;
        match (compiled.is_empty(), errors.is_empty()) {
            // A compiled Worker has at least its entrypoint.
            (false, true) => Ok(Ok(compiled)),
            (true, false) => Ok(Err(errors.into_iter().map(Into::into).collect())),
            _ => Err(CompilerError::NoResult),
        }
    }

    /// Runs a process for a job. Returns the output of the process, or `None` if the process ran
    /// out of stack or memory.
    async fn run(&self, job: &Job) -> Result<Option<Bytes>, CompilerError> {
        let mut process = Command::new(&self.program);
        process
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut process = process.spawn().map_err(CompilerError::Process)?;
        let (mut stdin, mut stdout) =
            process.stdin.take().zip(process.stdout.take()).expect("a pipe is missing");
        let request = Request::from(job).encode_to_vec();
        let write = async {
            stdin.write_all(&request).await?;
            drop(stdin);
            io::Result::Ok(())
        };
        let mut response = Vec::new();
        let (written, read) = tokio::join!(write, stdout.read_to_end(&mut response));
        read.map_err(CompilerError::Process)?;
        let status = process.wait().await.map_err(CompilerError::Process)?;
        // Rust aborts a process whose stack overflows, or that gets no more memory.
        if status.signal() == Some(Signal::ABORT.as_raw()) {
            return Ok(None);
        }
        // A process that ended before it had read its input has no valid result.
        if written.is_err() || !status.success() {
            Err(CompilerError::NoResult)
        } else {
            Ok(Some(response.into()))
        }
    }
}

/// Reads a job from standard input, compiles it, and writes the outcome to standard output, in the
/// separate process.
///
/// # Errors
/// Fails if the input does not come from a [`Compiler`], or the output cannot be written.
pub fn compile_stdin() -> io::Result<()> {
    let mut request = Vec::new();
    io::stdin().read_to_end(&mut request)?;
    let request = Request::decode(Bytes::from(request)).map_err(io::Error::other)?;
    let job = Job::try_from(request).map_err(io::Error::other)?;
    io::stdout().write_all(&Response::from(compile_within_limits(job)).encode_to_vec())
}

fn compile_within_limits(job: Job) -> Outcome {
    let current_file = Arc::new(Mutex::new(job.entrypoint.clone()));
    let (outcome_tx, outcome_rx) = mpsc::channel();
    let current_file_of_thread = Arc::clone(&current_file);
    thread::spawn(move || {
        let on_module = |file: &str| {
            let mut current = current_file_of_thread.lock().unwrap_or_else(PoisonError::into_inner);
            file.clone_into(&mut current);
        };
        let _ = outcome_tx.send(compile_with_progress(
            &job.modules,
            &job.entrypoint,
            &job.flags,
            on_module,
        ));
    });
    loop {
        let message = match outcome_rx.recv_timeout(CHECK_INTERVAL) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => "the compiler failed on this module".to_owned(),
            Err(RecvTimeoutError::Timeout) if usage::cpu() > CPU => {
                format!(
                    "the module takes more than {} s to compile; nest brackets less deeply",
                    CPU.as_secs()
                )
            }
            Err(RecvTimeoutError::Timeout) if usage::memory() > MEMORY => {
                format!(
                    "the module takes more than {MEMORY} MiB to compile; split the module, or nest \
                     brackets less deeply"
                )
            }
            Err(RecvTimeoutError::Timeout) => continue,
        };
        let file = current_file.lock().unwrap_or_else(PoisonError::into_inner);
        return Err(vec![CompileError::of_module(&file, message)]);
    }
}

/// The resource usage of this process, as the kernel reports it. A usage that cannot be read counts
/// as zero, and then only the parent's time limit applies.
mod usage {
    use std::fs;
    use std::time::Duration;

    /// Length of a clock tick in proc(5), a hundredth of a second on every supported architecture.
    const TICK: Duration = Duration::from_millis(10);

    /// Returns the CPU time that this process has used.
    pub(super) fn cpu() -> Duration {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The program's name, in parentheses, may contain any characters. Among the fields after
        // it, the user time is the twelfth and the system time the thirteenth.
        let fields =
            stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
        let ticks: u32 =
            fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
        TICK * ticks
    }

    /// Returns the resident memory, in MiB.
    pub(super) fn memory() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident
            .and_then(|resident| resident.split_ascii_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or_default() / 1024
    }
}

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(btree_map = "string, bytes", tag = "1")]
    modules: BTreeMap<String, Bytes>,
    #[prost(string, tag = "2")]
    entrypoint: String,
    #[prost(string, repeated, tag = "3")]
    flags: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(btree_map = "string, bytes", tag = "1")]
    compiled: BTreeMap<String, Bytes>,
    #[prost(message, repeated, tag = "2")]
    errors: Vec<EncodedError>,
}

/// The encoded form of a [`CompileError`].
#[derive(Clone, PartialEq, Message)]
struct EncodedError {
    #[prost(string, tag = "1")]
    file: String,
    #[prost(uint32, tag = "2")]
    line: u32,
    #[prost(uint32, tag = "3")]
    column: u32,
    #[prost(string, tag = "4")]
    message: String,
    #[prost(string, tag = "5")]
    source_line: String,
}

impl From<&Job> for Request {
    fn from(job: &Job) -> Self {
        let flags = job.flags.iter().map(|flag| flag.as_str().to_owned()).collect();
        Self { modules: job.modules.clone(), entrypoint: job.entrypoint.clone(), flags }
    }
}

impl TryFrom<Request> for Job {
    type Error = tenon_proto::revision::UnknownFlag;

    fn try_from(request: Request) -> Result<Self, Self::Error> {
        let flags = request.flags.iter().map(|flag| flag.parse()).collect::<Result<_, _>>()?;
        Ok(Self { modules: request.modules, entrypoint: request.entrypoint, flags })
    }
}

impl From<Outcome> for Response {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(compiled) => Self { compiled, errors: Vec::new() },
            Err(errors) => Self {
                compiled: BTreeMap::new(),
                errors: errors.into_iter().map(Into::into).collect(),
            },
        }
    }
}

impl From<CompileError> for EncodedError {
    fn from(CompileError { file, line, column, message, source_line }: CompileError) -> Self {
        Self { file, line, column, message, source_line }
    }
}

impl From<EncodedError> for CompileError {
    fn from(EncodedError { file, line, column, message, source_line }: EncodedError) -> Self {
        Self { file, line, column, message, source_line }
    }
}
