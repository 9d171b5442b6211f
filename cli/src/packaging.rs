//! Generates the content of packages besides the program: completions for shells, and manual pages.
//! Also determines the name under which the program was called, because packages link a second name
//! to the program.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The name under which kubectl finds the program on the `PATH` as its plugin `tenon`.
const PLUGIN: &str = "kubectl-tenon";

#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Directory to write the pages to. It must exist.
    directory: PathBuf,
}

/// Returns the command that runs the program, as help and errors print it: `kubectl tenon` if
/// kubectl runs the program as a plugin.
///
/// # Arguments
/// * `program` - the path under which the program was called.
pub(crate) fn called_as(program: Option<&OsStr>) -> &'static str {
    let name = program.and_then(|program| Path::new(program).file_name());
    if name == Some(OsStr::new(PLUGIN)) { "kubectl tenon" } else { "tenon" }
}

/// Prints a shell's completions.
pub(crate) fn complete(
    shell: clap_complete::Shell,
    mut command: clap::Command,
) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "tenon", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}

/// Writes a manual page for the program and for each of its commands that is not hidden.
pub(crate) fn write_pages(args: &ManArgs, command: clap::Command) -> anyhow::Result<()> {
    clap_mangen::generate_to(command, &args.directory).with_context(|| {
        let directory = args.directory.display();
        format!("cannot write the pages to {directory}; name a directory that exists")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_plugin_of_kubectl_is_called_by_kubectl() {
        let called = |path: &str| called_as(Some(OsStr::new(path)));
        assert_eq!(called("/usr/bin/kubectl-tenon"), "kubectl tenon");
        assert_eq!(called("kubectl-tenon"), "kubectl tenon");
        assert_eq!(called("/usr/bin/tenon"), "tenon");
        assert_eq!(called("/kubectl-tenon/renamed"), "tenon");
        assert_eq!(called_as(None), "tenon");
    }

    #[test]
    fn every_command_that_help_lists_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        let args = ManArgs { directory: directory.path().to_owned() };
        write_pages(&args, crate::Args::command()).unwrap();

        let page = |name: &str| fs::read_to_string(directory.path().join(name));
        let listed = crate::Args::command();
        for command in listed.get_subcommands() {
            let name = format!("tenon-{}.1", command.get_name());
            assert_eq!(page(&name).is_ok(), !command.is_hide_set(), "{name}");
        }
        assert!(page("tenon.1").unwrap().contains("tenon\\-deploy(1)"));
        assert!(page("tenon-secret-put.1").unwrap().contains(".SH SYNOPSIS"));
    }

    #[test]
    fn pages_are_not_written_to_a_directory_that_does_not_exist() {
        let directory = tempfile::tempdir().unwrap();
        let args = ManArgs { directory: directory.path().join("none") };
        let error = write_pages(&args, crate::Args::command()).unwrap_err();
        assert!(error.to_string().ends_with("none; name a directory that exists"), "{error}");
    }
}
