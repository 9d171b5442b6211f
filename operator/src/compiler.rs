//! Compiles Workers in separate processes, which can be killed.
//!
//! ```text
//!  job ─► the namespace's turn ─► a place ─► process: read ─► compile ─► write ─► exit
//!                                              └─ over its CPU or memory limit: report it, exit
//! ```
//!
//! The compiler is not written for hostile input. A hostile program makes it try one reading of its
//! brackets after another, for a time quadratic in its length or practically forever. A thread
//! cannot be stopped from outside; a process can, and its memory is freed with it. The process gets
//! none of the operator's environment.
//!
//! A namespace compiles one Worker at a time, so that its slow Workers delay only its own. The
//! total number of processes is limited to the number of CPUs, but at least two.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tenon_proto::revision::CompatibilityFlag;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::compile::{self, CompileError, Outcome};

/// The argument with which the operator's program compiles one job and exits.
pub const ARGUMENT: &str = "compile";

/// CPU limit of one compilation. The largest possible Worker takes a second or two.
const CPU: Duration = Duration::from_secs(5);
/// Memory limit of one compilation, in MiB.
const MEMORY: u64 = 1024;

/// Interval at which the process checks its resource usage.
const LOOK: Duration = Duration::from_millis(20);

/// Timeout for a process that gets no CPU. Its expiry says nothing about the Worker.
const PATIENCE: Duration = Duration::from_secs(60);

/// The input of one compilation.
#[derive(Clone, Debug)]
pub struct Job {
    pub modules: BTreeMap<String, Bytes>,
    pub entrypoint: String,
    pub flags: BTreeSet<CompatibilityFlag>,
}

/// The error if a compilation gave no result. The caller may retry.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    #[error("cannot run the compiler process: {0}")]
    Process(io::Error),
    #[error("the compiler process ended without a valid result")]
    NoAnswer,
    #[error("the compiler process did not respond within {} s", PATIENCE.as_secs())]
    Silent,
}

#[derive(Clone)]
pub struct Compiler {
    program: PathBuf,
    places: Arc<Semaphore>,
    turns: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

impl Compiler {
    /// # Arguments
    /// * `program` - the operator's executable, which is run with [`ARGUMENT`].
    pub fn new(program: PathBuf) -> Self {
        let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // At least two, so that one slow job does not block all others.
        Self { program, places: Arc::new(Semaphore::new(cpus.max(2))), turns: Arc::default() }
    }

    /// Compiles a job. Dropping the future kills the process.
    ///
    /// # Errors
    /// Fails if the process cannot be started, or gives no valid answer in time.
    pub async fn compile(&self, namespace: &str, job: &Job) -> Result<Outcome, CompilerError> {
        let turn = self.turn(namespace);
        let _turn = turn.acquire().await.expect("the semaphore is never closed");
        let _place = self.places.acquire().await.expect("the semaphore is never closed");
        let answer = tokio::time::timeout(PATIENCE, self.ask(job)).await.map_err(|_| CompilerError::Silent)??;
        let Answer { compiled, errors } = Answer::decode(answer).map_err(|_| CompilerError::NoAnswer)?;
        match (compiled.is_empty(), errors.is_empty()) {
            // A compiled Worker has at least its entrypoint.
            (false, true) => Ok(Ok(compiled)),
            (true, false) => Ok(Err(errors.into_iter().map(Into::into).collect())),
            _ => Err(CompilerError::NoAnswer),
        }
    }

    fn turn(&self, namespace: &str) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(namespace).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Semaphore::new(1));
        turns.insert(namespace.to_owned(), Arc::downgrade(&turn));
        turn
    }

    async fn ask(&self, job: &Job) -> Result<Bytes, CompilerError> {
        let mut process = Command::new(&self.program);
        process.arg(ARGUMENT).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = process.spawn().map_err(CompilerError::Process)?;
        let (mut stdin, mut stdout) = process.stdin.take().zip(process.stdout.take()).expect("both are pipes");
        let question = Question::from(job).encode_to_vec();
        let ask = async {
            stdin.write_all(&question).await?;
            drop(stdin);
            io::Result::Ok(())
        };
        let mut answer = Vec::new();
        let (asked, read) = tokio::join!(ask, stdout.read_to_end(&mut answer));
        read.map_err(CompilerError::Process)?;
        let status = process.wait().await.map_err(CompilerError::Process)?;
        // A process that ended before it had read its input has no valid result.
        if asked.is_err() || !status.success() { Err(CompilerError::NoAnswer) } else { Ok(answer.into()) }
    }
}

/// Runs the compiling process: reads a job from standard input, compiles it, and writes the outcome
/// to standard output.
///
/// # Errors
/// Fails if the input is not that of a [`Compiler`], or the output cannot be written.
pub fn answer() -> io::Result<()> {
    let mut question = Vec::new();
    io::stdin().read_to_end(&mut question)?;
    let question = Question::decode(Bytes::from(question)).map_err(io::Error::other)?;
    let job = Job::try_from(question).map_err(io::Error::other)?;
    io::stdout().write_all(&Answer::from(within_limits(job)).encode_to_vec())
}

fn within_limits(job: Job) -> Outcome {
    let at_work = Arc::new(Mutex::new(job.entrypoint.clone()));
    let (ended_tx, ended_rx) = mpsc::channel();
    let begins = Arc::clone(&at_work);
    thread::spawn(move || {
        let begins = |file: &str| file.clone_into(&mut begins.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = ended_tx.send(compile::compile_and_tell(&job.modules, &job.entrypoint, &job.flags, begins));
    });
    loop {
        let too_much = match ended_rx.recv_timeout(LOOK) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => "the compiler failed on this module".to_owned(),
            Err(RecvTimeoutError::Timeout) if taken::cpu() > CPU => {
                format!("the module takes more than {} s to compile; nest brackets less deeply", CPU.as_secs())
            }
            Err(RecvTimeoutError::Timeout) if taken::memory() > MEMORY => {
                format!("the module takes more than {MEMORY} MiB to compile; split it, or nest brackets less deeply")
            }
            Err(RecvTimeoutError::Timeout) => continue,
        };
        let file = at_work.lock().unwrap_or_else(PoisonError::into_inner);
        return Err(vec![CompileError::of_module(&file, too_much)]);
    }
}

/// Resource usage of this process, from the kernel. If it cannot be read, the parent's timeout
/// applies.
mod taken {
    use std::fs;
    use std::time::Duration;

    /// Length of a clock tick; a hundredth of a second in proc(5) on every supported architecture.
    const TICK: Duration = Duration::from_millis(10);

    pub(super) fn cpu() -> Duration {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Counted after the name, which may contain anything, user and system time are the fields
        // 12 and 13.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
        let ticks: u32 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
        TICK * ticks
    }

    /// Returns the resident memory, in MiB.
    pub(super) fn memory() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|resident| resident.split_ascii_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or_default() / 1024
    }
}

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(btree_map = "string, bytes", tag = "1")]
    modules: BTreeMap<String, Bytes>,
    #[prost(string, tag = "2")]
    entrypoint: String,
    #[prost(string, repeated, tag = "3")]
    flags: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(btree_map = "string, bytes", tag = "1")]
    compiled: BTreeMap<String, Bytes>,
    #[prost(message, repeated, tag = "2")]
    errors: Vec<Told>,
}

/// The encoded form of a [`CompileError`].
#[derive(Clone, PartialEq, Message)]
struct Told {
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

impl From<&Job> for Question {
    fn from(job: &Job) -> Self {
        let flags = job.flags.iter().map(|flag| flag.as_str().to_owned()).collect();
        Self { modules: job.modules.clone(), entrypoint: job.entrypoint.clone(), flags }
    }
}

impl TryFrom<Question> for Job {
    type Error = tenon_proto::revision::UnknownFlag;

    fn try_from(question: Question) -> Result<Self, Self::Error> {
        let flags = question.flags.iter().map(|flag| flag.parse()).collect::<Result<_, _>>()?;
        Ok(Self { modules: question.modules, entrypoint: question.entrypoint, flags })
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(compiled) => Self { compiled, errors: Vec::new() },
            Err(errors) => Self { compiled: BTreeMap::new(), errors: errors.into_iter().map(Into::into).collect() },
        }
    }
}

impl From<CompileError> for Told {
    fn from(CompileError { file, line, column, message, source_line }: CompileError) -> Self {
        Self { file, line, column, message, source_line }
    }
}

impl From<Told> for CompileError {
    fn from(Told { file, line, column, message, source_line }: Told) -> Self {
        Self { file, line, column, message, source_line }
    }
}
