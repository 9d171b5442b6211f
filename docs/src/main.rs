//! Writes the generated parts of the documentation: the tables of its pages, and the source of its
//! site.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser;
use tenon_docs::book;

#[derive(Parser)]
enum Command {
    /// Write the tables into the pages.
    Reference {
        /// Directory of the pages.
        directory: PathBuf,
    },
    /// Write the source of the site, for mdBook.
    Book {
        /// Directory of the pages.
        directory: PathBuf,
        /// Directory to write.
        target: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Reference { directory } => reference(&directory),
        Command::Book { directory, target } => write_book(&directory, &target),
    }
}

fn reference(directory: &Path) -> anyhow::Result<()> {
    for name in tenon_docs::PAGES {
        let path = directory.join(name);
        let filled = tenon_docs::fill(&read(&path)?, tenon_docs::table)
            .with_context(|| format!("cannot fill {}", path.display()))?;
        write(&path, &filled)?;
    }
    Ok(())
}

fn write_book(directory: &Path, target: &Path) -> anyhow::Result<()> {
    let summary = read(&directory.join(book::SUMMARY))?;
    let entries = book::entries(&summary);
    let pages = entries.into_iter().map(|entry| {
        let page = read(&directory.join(&entry.path))?;
        Ok((entry.path, page))
    });
    let pages = pages.collect::<anyhow::Result<BTreeMap<_, _>>>()?;
    for (path, text) in book::source(&summary, &pages, env!("CARGO_PKG_REPOSITORY")) {
        write(&target.join(path), &text)?;
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
