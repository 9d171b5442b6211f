//! `tenon-dashboards`: generates, checks and draws dashboards.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand};
use http::Uri;
use tenon_dashboards::check::{Outcome, Settings};
use tenon_dashboards::prometheus::{Http, Window};
use tenon_dashboards::variables::Values;
use tenon_dashboards::{boards, check, draw, read, variables};

/// Generates, checks and draws Tenon's Grafana dashboards.
#[derive(Parser)]
#[command(name = "tenon-dashboards", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write each dashboard to a file.
    Generate {
        /// Directory for the files.
        directory: PathBuf,
    },
    /// Print every query as a recording rule, for promtool to check.
    Queries,
    /// Run the queries of every panel, and report the queries without data.
    Check(QueryArgs),
    /// Draw each dashboard as an SVG file.
    Draw {
        #[command(flatten)]
        query: QueryArgs,
        /// Directory for the files.
        #[arg(long)]
        out: PathBuf,
    },
}

#[derive(Args)]
struct QueryArgs {
    /// URL of Prometheus.
    #[arg(long, value_name = "http://HOST:PORT")]
    prometheus: Uri,
    /// Directory of the dashboards.
    #[arg(long, default_value = "charts/tenon/dashboards")]
    dashboards: PathBuf,
    /// Length of the queried time range, which ends now, in minutes.
    #[arg(long, default_value_t = 15)]
    minutes: u64,
    /// Interval over which rates are computed, in seconds: at least four times the scrape interval.
    #[arg(long, default_value_t = 60)]
    interval: u64,
    /// Value of a dashboard variable. Defaults to all values, or to the first if only one can be
    /// selected.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Approximate number of points per line.
const POINTS: u64 = 90;

impl QueryArgs {
    fn settings(&self) -> Settings {
        let end = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let start = end.saturating_sub(self.minutes.max(1) * 60);
        let window = Window { start, end, step: ((end - start) / POINTS).max(1) };
        Settings { window, interval: self.interval, set: self.set.iter().cloned().collect() }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Generate { directory } => {
            std::fs::create_dir_all(&directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
            for dashboard in boards::all() {
                let path = directory.join(dashboard.file_name());
                let written = std::fs::write(&path, dashboard.to_json());
                written.with_context(|| format!("cannot write {}", path.display()))?;
            }
            Ok(())
        }
        Command::Queries => {
            print_queries();
            Ok(())
        }
        Command::Check(query) => {
            let findings = check::check(
                &read(&query.dashboards)?,
                &Http::at(&query.prometheus)?,
                &query.settings(),
            )
            .await?;
            let mut bad = 0;
            for finding in findings.iter().filter(|finding| !finding.has_data()) {
                bad += 1;
                let why = match &finding.outcome {
                    Outcome::Refused(why) => why.as_str(),
                    _ => "no data",
                };
                println!("{} / {}: {why}\n    {}", finding.dashboard, finding.panel, finding.query);
            }
            if bad > 0 {
                bail!("{bad} of {} queries returned no data", findings.len());
            }
            println!("all {} queries returned data", findings.len());
            Ok(())
        }
        Command::Draw { query, out } => {
            let (prometheus, settings) = (Http::at(&query.prometheus)?, query.settings());
            std::fs::create_dir_all(&out)
                .with_context(|| format!("cannot create {}", out.display()))?;
            for dashboard in read(&query.dashboards)? {
                let path = out.join(dashboard.file_name()).with_extension("svg");
                let picture = draw::draw(&dashboard, &prometheus, &settings).await?;
                std::fs::write(&path, picture)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            Ok(())
        }
    }
}

fn print_queries() {
    let mut values = variables::built_in(Window { start: 0, end: 3600, step: 15 }, 60);
    println!("groups:\n- name: dashboards\n  rules:");
    for dashboard in boards::all() {
        let names = dashboard
            .templating
            .list
            .iter()
            .map(|variable| (variable.name.clone(), "x".to_owned()));
        values.extend(names.collect::<Values>());
        for (nth, panel) in dashboard.queried().enumerate() {
            for (at, target) in panel.targets.iter().enumerate() {
                let name: String = format!("{}:{}:{nth}:{at}", dashboard.uid, panel.title)
                    .chars()
                    .map(as_name)
                    .collect();
                let query = serde_json::Value::from(variables::fill(&target.expr, &values));
                println!("  - record: {name}\n    expr: {query}");
            }
        }
    }
}

fn as_name(letter: char) -> char {
    if letter.is_ascii_alphanumeric() || letter == ':' { letter } else { '_' }
}
