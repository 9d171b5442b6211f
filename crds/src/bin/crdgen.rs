//! Generates the CRDs' YAML. The test `tests/generated.rs` fails if the committed files are stale.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;

#[derive(Parser)]
struct Args {
    /// Directory to write to, with one file for each kind.
    directory: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Args { directory } = Args::parse();
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    for (name, text) in tenon_crds::files()? {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
