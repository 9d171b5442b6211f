//! `tenon check`: reports problems with the Workers in files.

use std::process::ExitCode;

use crate::bundle::Bundler;
use crate::load;
use crate::output::count;
use crate::source::SourceArgs;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
}

/// Prints problems and notes to standard error, and the numbers of problems and of valid Workers to
/// standard output. Returns a failure code if there is a problem.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = args.source.settings()?;
    let manifests = Bundler::default().read(&args.source.paths);
    let load = load::load(manifests, &settings, |_| load::Served::default());
    for note in &load.notes {
        eprintln!("note: {note}");
    }
    for problem in &load.problems {
        eprintln!("error: {problem}");
    }
    match load.problems.len() {
        0 => {
            println!("{} valid", count(load.workers.len(), "Worker"));
            Ok(ExitCode::SUCCESS)
        }
        problems => {
            println!(
                "{}, {} valid",
                count(problems, "problem"),
                count(load.workers.len(), "Worker")
            );
            Ok(ExitCode::FAILURE)
        }
    }
}
