//! Annotations of a Worker's manifest that only the command `tenon` reads.

/// The annotation that names the module to bundle, by a path relative to the Worker's file.
pub(crate) const MAIN: &str = "tenon.dev/main";

/// The annotation with a shell command that builds the Worker's files. The command runs in the
/// directory of the Worker's file, before anything else is read.
pub(crate) const BUILD: &str = "tenon.dev/build";
