//! The `tenon` command.
//!
//! ```text
//!  files ─► manifest ─► load: revisions or problems ─┬─► check: report
//!    ▲                                               ├─► deploy: a cluster's API server
//!    │                                               └─► dev: changes ─► catalog ─► node, router
//!  watch ── a file was saved ─────────────────────────────┘
//! ```
//!
//! `tenon dev` is the platform in one process: the same catalog, node and router as on a cluster,
//! with files in place of the Kubernetes API. `manifest` parses the files into objects, `bundle`
//! builds code that needs a bundler, `inspect` serves debuggers, `tail` follows the logs of a
//! cluster's nodes, `profile` profiles a Worker on one of them, `status`, `revisions`, `rollback`
//! and `secret` read or change a Worker on a cluster, `init` creates a project, `import` writes a
//! manifest from a wrangler project, `types` writes the type of `env` from a manifest, and
//! `packaging` generates the completions and manual pages that packages contain.

mod annotation;
mod assets;
mod bundle;
mod check;
mod cluster;
mod deploy;
mod dev;
mod env_file;
mod folder;
mod import;
mod init;
mod inspect;
mod load;
mod manifest;
mod output;
mod packaging;
mod profile;
mod revisions;
mod rollback;
mod schema;
mod secret;
mod served_workers;
mod source;
mod status;
mod tail;
mod types;
mod watch;

use std::env;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// JavaScript Workers on Kubernetes, and on your machine.
#[derive(Parser)]
#[command(name = "tenon", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a project from a template.
    Init(init::Args),
    /// Serve the Workers in files, and reload them when the files change.
    Dev(dev::Args),
    /// Check the Workers in files without serving them.
    Check(check::Args),
    /// Apply the Workers in files to a cluster, and wait until they serve requests.
    Deploy(deploy::Args),
    /// Follow the logs of Workers on a cluster.
    Tail(tail::Args),
    /// Take a CPU profile or a heap snapshot of a Worker on a cluster.
    Profile(profile::Args),
    /// Show the status of a Worker on a cluster.
    Status(revisions::Args),
    /// List the revisions of a Worker on a cluster.
    Revisions(revisions::Args),
    /// Serve an earlier revision of a Worker on a cluster.
    Rollback(rollback::Args),
    /// Set a secret of a Worker on a cluster.
    #[command(subcommand)]
    Secret(secret::Command),
    /// Write a Worker's manifest from a wrangler project.
    Import(import::Args),
    /// Write the TypeScript type of a Worker's `env` from its manifest.
    Types(types::Args),
    /// Print a completion script for a shell.
    #[command(alias = "completion")]
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages.
    #[command(hide = true)]
    Man(packaging::ManArgs),
}

fn main() -> ExitCode {
    // V8 is initialized first: on processors with memory protection keys, threads that were created
    // before V8 was initialized cannot run JavaScript.
    tenon_engine::init();
    let result = match parse().command {
        Command::Init(args) => init::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Dev(args) => dev::run(args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::run(&args),
        Command::Deploy(args) => deploy::run(&args),
        Command::Tail(args) => tail::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Profile(args) => profile::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Status(args) => status::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Revisions(args) => revisions::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Rollback(args) => rollback::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Secret(command) => secret::run(&command).map(|()| ExitCode::SUCCESS),
        Command::Import(args) => import::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Types(args) => types::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Completions { shell } => {
            packaging::complete(shell, Args::command()).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(args) => {
            packaging::write_pages(&args, Args::command()).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Parses the arguments. Exits if they are invalid, or request help or the version.
fn parse() -> Args {
    let name = packaging::called_as(env::args_os().next().as_deref());
    let matches = Args::command().bin_name(name).get_matches();
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}
