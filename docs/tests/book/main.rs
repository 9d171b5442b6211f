//! Tests of the pages: their links, their snippets, and what they must not leave out.
//!
//! - [`links`]: every page is in the book, and every link has a target.
//! - [`snippets`]: every snippet is valid.
//! - [`coverage`]: the pages about wrangler and limits name everything that the code has.

mod coverage;
mod links;
mod snippets;

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("docs has a parent").to_owned()
}

/// Returns the content of a file of the repository.
fn content(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the paths of the pages, relative to the root of the repository: those of the book, and
/// the README.
fn pages() -> Vec<String> {
    let entries = tenon_docs::book::entries(&content("docs/SUMMARY.md"));
    let pages = entries.into_iter().map(|entry| format!("docs/{}", entry.path));
    pages.chain(["README.md".to_owned()]).collect()
}
