//! Checks the links of the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use tenon_docs::book::resolve;
use tenon_docs::markdown;

use crate::{content, pages, root};

#[test]
fn the_book_contains_every_page() {
    let mut found = Vec::new();
    markdown_files(&root().join("docs"), &mut found);
    let listed: BTreeSet<_> = pages().into_iter().collect();
    let missing: Vec<_> = found.iter().filter(|page| !listed.contains(*page)).collect();
    assert!(missing.is_empty(), "add these pages to docs/SUMMARY.md: {missing:?}");
}

#[test]
fn every_page_has_a_title_and_a_summary() {
    for path in pages() {
        let page = markdown::read(&content(&path));
        assert!(!page.title.is_empty(), "{path} has no heading");
        assert!(!page.summary.is_empty(), "{path} has no paragraph, which llms.txt needs");
    }
}

#[test]
fn every_link_within_the_repository_has_a_target() {
    let mut anchors = BTreeMap::new();
    let mut dead = Vec::new();
    for page in pages() {
        for link in markdown::read(&content(&page)).links {
            let Some(target) = resolve(&page, &link.destination) else { continue };
            let is_alive = match link.destination.split_once('#') {
                _ if !root().join(&target).exists() => false,
                Some((_, anchor)) if target.ends_with(".md") => anchors
                    .entry(target.clone())
                    .or_insert_with(|| markdown::read(&content(&target)).anchors)
                    .iter()
                    .any(|found| found == anchor),
                _ => true,
            };
            if !is_alive {
                dead.push(format!("{page}: {}", link.destination));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

/// `make test-links` runs this test, which needs the Internet.
#[test]
#[ignore = "needs the Internet"]
fn every_link_to_another_host_answers() {
    let links = pages().into_iter().flat_map(|page| markdown::read(&content(&page)).links);
    let external = links.map(|link| link.destination).filter(|to| to.starts_with("http"));
    let dead = external.collect::<BTreeSet<_>>().into_iter().filter(|url| !answers(url));
    let dead: Vec<_> = dead.collect();
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

fn answers(url: &str) -> bool {
    let flags = ["--silent", "--fail", "--location", "--output", "/dev/null", "--max-time", "30"];
    let status = Command::new("curl").args(flags).args(["--", url]).status();
    status.expect("cannot run curl; install curl").success()
}

/// Adds the Markdown files below a folder, by their paths relative to the root of the repository.
fn markdown_files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("cannot read the folder") {
        let path = entry.expect("cannot read an entry of the folder").path();
        if path.is_dir() {
            markdown_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md")
            && !path.ends_with("SUMMARY.md")
        {
            let relative = path.strip_prefix(root()).expect("the file is in the repository");
            found.push(relative.to_string_lossy().into_owned());
        }
    }
}
