//! Writes the generated tables into the pages of `docs/reference`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;

#[derive(Parser)]
struct Args {
    /// Directory of the pages.
    directory: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Args { directory } = Args::parse();
    for name in tenon_docs::PAGES {
        let path = directory.join(name);
        let page =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let filled = tenon_docs::fill(&page, tenon_docs::table)
            .with_context(|| format!("cannot fill {}", path.display()))?;
        fs::write(&path, filled).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
