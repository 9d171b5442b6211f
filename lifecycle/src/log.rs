//! Writes the events of a process to standard error, as lines of JSON for machines or of plain text
//! for people.
//!
//! ```text
//!  any thread ── a line ──► queue of 2,048 lines ──► the log's own thread ──► standard error
//!                   └─ full: dropped, and counted in tenon_log_lines_dropped_total
//! ```
//!
//! The reader of standard error may be slow, or stop. A thread that logs never waits for the
//! reader: otherwise the log output of one Worker could block all Workers of a shard.

use std::io::{self, IsTerminal as _, Write};
use std::str::FromStr;

use clap::ValueEnum as _;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, Registry};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter as _;

/// Maximum number of lines waiting to be written: enough for a busy process while its reader is
/// slow. Their text, before control characters are escaped, is at most 128 MiB, because no line
/// that a Worker writes is longer than 64 KiB.
const QUEUE: usize = 2_048;

/// Arguments for logging.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// Format of log lines.
    #[arg(long, env = "TENON_LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,

    /// Events to log: "info", or directives such as "warn,tenon_router=debug".
    #[arg(long, env = "TENON_LOG_LEVEL", default_value = "info")]
    pub log_level: LogLevel,
}

impl LogArgs {
    /// Returns the command-line arguments with which another process logs as this one does.
    pub fn arguments(&self) -> Vec<String> {
        let format = self.log_format.to_possible_value().expect("the log format is hidden");
        vec![
            format!("--log-format={}", format.get_name()),
            format!("--log-level={}", self.log_level.0),
        ]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line, for machines.
    Json,
    /// One line of plain text per event, for people.
    Pretty,
}

/// Filter directives that have been parsed successfully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevel(String);

impl FromStr for LogLevel {
    type Err = tracing_subscriber::filter::ParseError;

    fn from_str(directives: &str) -> Result<Self, Self::Err> {
        EnvFilter::builder().parse(directives).map(|_| Self(directives.to_owned()))
    }
}

/// The log of a process. `main` holds this value until the end; dropping it flushes the lines that
/// are still queued.
#[must_use = "no line is written after the log is dropped"]
#[derive(Debug)]
pub struct Log {
    dropped: ErrorCounter,
    _writer: WorkerGuard,
}

/// Sends the events that `args` selects to standard error, through a thread that this function
/// starts.
/// `main` calls this function once, at its start.
///
/// # Panics
/// Panics if the process already has a global subscriber.
pub fn init(args: &LogArgs) -> Log {
    let (writer, log) = Log::to(std::io::stderr(), QUEUE);
    let filter = EnvFilter::builder()
        .parse(&args.log_level.0)
        .expect("the directives of a LogLevel do not parse");
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match args.log_format {
        LogFormat::Json => subscriber.json().flatten_event(true).with_span_list(false).init(),
        LogFormat::Pretty => {
            let subscriber = subscriber.map_writer(|writer| move || Plain(writer.make_writer()));
            subscriber
                .compact()
                .with_target(false)
                .with_ansi(std::io::stderr().is_terminal())
                .init();
        }
    }
    log
}

impl Log {
    fn to(out: impl Write + Send + 'static, queue: usize) -> (NonBlocking, Self) {
        let builder = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(queue)
            .thread_name("log");
        let (writer, guard) = builder.finish(out);
        let log = Self { dropped: writer.error_counter(), _writer: guard };
        (writer, log)
    }

    /// Adds `tenon_log_lines_dropped_total` to the process's metrics.
    ///
    /// # Errors
    /// Fails if the registry already has this metric.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        let help = "Log lines dropped because standard error was not read fast enough.";
        let counter = IntCounter::new("tenon_log_lines_dropped_total", help)?;
        registry.register(Box::new(Dropped { counter, counted: self.dropped.clone() }))
    }
}

/// Writes an event so that no part of it looks like another event: further lines are prefixed with
/// [`CONTINUED`], and control characters are written as escapes, except tabs and those that set a
/// color. (The JSON format escapes control characters itself.)
struct Plain<W>(W);

/// The separator before each further line of an event.
const CONTINUED: &[u8] = b"\n  | ";

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = event.strip_suffix(b"\n").unwrap_or(event);
        if line.iter().any(is_control) {
            self.0.write_all(&escape(line))?;
            self.0.write_all(&event[line.len()..])?;
        } else {
            self.0.write_all(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn is_control(byte: &u8) -> bool {
    matches!(byte, 0..=8 | 10..=31 | 127)
}

fn escape(line: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(line.len() + 64);
    for (at, byte) in line.iter().enumerate() {
        match byte {
            b'\x1b' if is_color(&line[at + 1..]) => escaped.push(*byte),
            b'\n' => escaped.extend_from_slice(CONTINUED),
            byte if is_control(byte) => escaped.extend(byte.escape_ascii()),
            byte => escaped.push(*byte),
        }
    }
    escaped
}

/// Returns whether these bytes, which follow an escape character, set a color. Sequences that move
/// the cursor or erase text do not set one.
fn is_color(bytes: &[u8]) -> bool {
    let parameters = bytes.strip_prefix(b"[").unwrap_or_default();
    parameters.iter().find(|byte| !matches!(byte, b'0'..=b'9' | b';')) == Some(&b'm')
}

/// Exposes the writer's count of dropped lines.
struct Dropped {
    counter: IntCounter,
    counted: ErrorCounter,
}

impl Collector for Dropped {
    fn desc(&self) -> Vec<&Desc> {
        self.counter.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Only one thread gathers metrics, so the counter cannot change before the increase.
        self.counter
            .inc_by((self.counted.dropped_lines() as u64).saturating_sub(self.counter.get()));
        self.counter.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        log: LogArgs,
    }

    #[test]
    fn a_process_logs_json_at_info_by_default() {
        let args = Args::parse_from(["process"]).log;
        assert_eq!((args.log_format, args.log_level), (LogFormat::Json, LogLevel("info".into())));
    }

    #[test]
    fn a_child_process_logs_as_its_parent_does() {
        let line = ["process", "--log-level", "warn,tenon_router=debug", "--log-format", "pretty"];
        let args = Args::parse_from(line).log;
        let other =
            Args::parse_from(["process".to_owned()].into_iter().chain(args.arguments())).log;
        assert_eq!((other.log_format, other.log_level), (args.log_format, args.log_level));
    }

    #[test]
    fn invalid_directives_are_refused_when_the_arguments_are_parsed() {
        assert!(
            Args::try_parse_from(["process", "--log-level", "warn,tenon_router=debug"]).is_ok()
        );
        assert!(Args::try_parse_from(["process", "--log-level", "tenon=loudly"]).is_err());
    }

    /// Processes and the chart must accept the same log levels.
    #[test]
    fn log_levels_agree_with_the_chart() {
        let verdicts = include_str!("../../charts/tests/testdata/log-levels.txt").lines();
        for (verdict, level) in
            verdicts.filter_map(|line| line.split_once(' ')).filter(|(verdict, _)| *verdict != "#")
        {
            let is_accepted = Args::try_parse_from(["process", "--log-level", level]).is_ok();
            assert_eq!(is_accepted, verdict == "accepted", "{level}");
        }
    }

    /// A reader of the log, which announces each line that it begins to read, and then waits for
    /// permission to continue.
    struct Reader {
        begun_tx: Sender<Vec<u8>>,
        go_on_rx: Receiver<()>,
    }

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.begun_tx.send(line.to_vec()).map_err(io::Error::other)?;
            // If the sender is gone, continue without permission.
            let _ = self.go_on_rx.recv();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn dropped_lines(registry: &Registry) -> f64 {
        registry.gather()[0].get_metric()[0].get_counter().get_value()
    }

    #[test]
    fn an_event_cannot_forge_another_line() {
        for (event, written) in [
            ("INFO a: \x1b[1mb\x1b[0m\n", "INFO a: \x1b[1mb\x1b[0m\n"),
            ("INFO says: one\nWARN two\n", "INFO says: one\n  | WARN two\n"),
            (
                "INFO says: a\r\x0bb\x7f\0\tc \u{e9}\n",
                "INFO says: a\\r\\x0bb\\x7f\\x00\tc \u{e9}\n",
            ),
        ] {
            let mut out = Vec::new();
            Plain(&mut out).write_all(event.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), written);
        }
    }

    /// A buffer for the events of a test.
    #[derive(Clone, Default)]
    struct Out(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn logged_request_data_stays_within_its_event() {
        let out = Out::default();
        let plain = out.clone();
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || Plain(plain.clone())).compact().finish();
        tracing::subscriber::with_default(subscriber, || {
            let forged = "x\n2026-01-01T00:00:00Z  WARN forged\x1b[2J";
            tracing::info!(shown = %forged, debugged = ?forged, text = forged, "{forged}");
        });
        let written = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert!(!written.contains("\x1b[2J"), "{written:?}");
        let mut lines = written.lines();
        assert!(lines.next().is_some_and(|line| line.contains("INFO")));
        assert!(lines.all(|line| line.starts_with("  | ")), "{written:?}");
    }

    #[test]
    fn a_thread_that_logs_does_not_wait_for_the_reader() {
        let (begun_tx, begun_rx) = mpsc::channel();
        let (go_on_tx, go_on_rx) = mpsc::channel();
        let (mut writer, log) = Log::to(Reader { begun_tx, go_on_rx }, 2);
        let registry = Registry::new();
        log.register(&registry).unwrap();
        assert_eq!(dropped_lines(&registry), 0.0);

        writer.write_all(b"0").unwrap();
        assert_eq!(begun_rx.recv().unwrap(), b"0");
        for line in [b"1", b"2", b"3", b"4", b"5"] {
            writer.write_all(line).unwrap();
        }
        assert_eq!(dropped_lines(&registry), 3.0);
        assert_eq!(dropped_lines(&registry), 3.0);

        drop(go_on_tx);
        drop(log);
        assert_eq!(begun_rx.iter().collect::<Vec<_>>(), [b"1", b"2"]);
    }
}
