//! Logs: one line per event on standard error, as JSON for machines or plain for people.

use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How a process logs.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// How log lines are written.
    #[arg(long, env = "TENON_LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,

    /// Which events are logged: "info", or directives such as "warn,tenon_router=debug".
    #[arg(long, env = "TENON_LOG_LEVEL", default_value = "info")]
    pub log_level: LogLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// One plain line, for people.
    Pretty,
}

/// Directives that are known to parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevel(String);

impl FromStr for LogLevel {
    type Err = tracing_subscriber::filter::ParseError;

    fn from_str(directives: &str) -> Result<Self, Self::Err> {
        EnvFilter::builder().parse(directives).map(|_| Self(directives.to_owned()))
    }
}

/// Sends every event of this process to standard error. Call once, first thing in `main`.
///
/// # Panics
/// When the process already has a subscriber: two would each believe that they have every event.
pub fn init(args: &LogArgs) {
    let filter = EnvFilter::builder().parse(&args.log_level.0).expect("a LogLevel holds directives that parse");
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Json => subscriber.json().flatten_event(true).with_span_list(false).init(),
        LogFormat::Pretty => subscriber.compact().with_target(false).with_ansi(std::io::stderr().is_terminal()).init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        log: LogArgs,
    }

    #[test]
    fn a_process_logs_json_at_info_unless_told_otherwise() {
        let args = Args::parse_from(["process"]).log;
        assert_eq!((args.log_format, args.log_level), (LogFormat::Json, LogLevel("info".into())));
    }

    #[test]
    fn directives_that_do_not_parse_are_refused_with_the_arguments() {
        assert!(Args::try_parse_from(["process", "--log-level", "warn,tenon_router=debug"]).is_ok());
        assert!(Args::try_parse_from(["process", "--log-level", "tenon=loudly"]).is_err());
    }
}
