//! Turns the pages of `docs` into the source of the site. This module is pure.
//!
//! ```text
//!  SUMMARY.md ─► pages ─┬─► links that leave the book lead to the repository ─► mdBook's source
//!                       ├─► llms.txt: the list of the pages, each with its first paragraph
//!                       └─► llms-full.txt: all pages in one file
//! ```
//!
//! A page is the same file on GitHub, where its links may lead to any file of the repository.

use std::collections::BTreeMap;

use crate::markdown;

/// The folder of the pages, relative to the root of the repository.
const FOLDER: &str = "docs";

/// The file that lists the pages.
pub const SUMMARY: &str = "SUMMARY.md";

/// A page of the book.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The title in the list of pages.
    pub title: String,
    /// The path of the page, relative to the folder of the pages.
    pub path: String,
}

/// Returns the pages that the summary lists, in its order.
pub fn entries(summary: &str) -> Vec<Entry> {
    let links = markdown::read(summary).links;
    let title = |text: &str| text.trim_start_matches('[').split("](").next().map(str::to_owned);
    let entry = |link: markdown::Link| Entry {
        title: title(&summary[link.range]).unwrap_or_default(),
        path: link.destination,
    };
    links.into_iter().map(entry).collect()
}

/// Returns the files of the book's source by their paths.
///
/// # Arguments
/// * `summary` - the content of [`SUMMARY`].
/// * `pages` - the content of each page that the summary lists, by its path.
/// * `repository` - the URL of the repository.
pub fn source(
    summary: &str,
    pages: &BTreeMap<String, String>,
    repository: &str,
) -> BTreeMap<String, String> {
    let entries = entries(summary);
    let mut files = BTreeMap::new();
    files.insert(SUMMARY.to_owned(), markdown::with_destinations(summary, |to| Some(staged(to))));
    for (path, text) in pages {
        let replace = |to: &str| in_book(path, to, pages, repository);
        files.insert(staged(path), markdown::with_destinations(text, replace));
    }
    files.insert("llms.txt".to_owned(), llms_index(&entries, pages));
    files.insert("llms-full.txt".to_owned(), llms_full(&entries, pages));
    files
}

/// Returns the path of a file to which a link leads, relative to the root of the repository, or
/// `None` if the destination is a URL with a scheme.
///
/// # Arguments
/// * `from` - the path of the page with the link, relative to the root of the repository.
/// * `destination` - the destination, which may have an anchor.
pub fn resolve(from: &str, destination: &str) -> Option<String> {
    if destination.contains("://") || destination.starts_with("mailto:") {
        return None;
    }
    let path = destination.split('#').next().unwrap_or_default();
    if path.is_empty() {
        return Some(from.to_owned());
    }
    let mut segments: Vec<_> = from.split('/').collect();
    segments.pop();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    Some(segments.join("/"))
}

/// Returns the destination that a link has in the book, or `None` if the destination does not
/// change.
fn in_book(
    page: &str,
    destination: &str,
    pages: &BTreeMap<String, String>,
    repository: &str,
) -> Option<String> {
    let path = resolve(&format!("{FOLDER}/{page}"), destination)?;
    let own = path.strip_prefix(FOLDER).and_then(|path| path.strip_prefix('/'));
    if own.is_some_and(|path| pages.contains_key(path)) {
        return Some(staged(destination));
    }
    let anchor = destination.split_once('#').map(|(_, anchor)| format!("#{anchor}"));
    Some(format!("{repository}/blob/main/{path}{}", anchor.unwrap_or_default()))
}

/// Returns the path of a page in the book's source. mdBook writes `README.md` as `index.html`, but
/// does not change the links to it.
fn staged(path: &str) -> String {
    path.replace("README.md", "index.md")
}

fn llms_index(entries: &[Entry], pages: &BTreeMap<String, String>) -> String {
    let mut text = "# Tenon\n\n> Serverless JavaScript on Kubernetes, without a Pod per function. \
                    All pages in one file: [llms-full.txt](llms-full.txt)\n\n## Pages\n\n"
        .to_owned();
    for Entry { title, path } in entries {
        let summary = pages.get(path).map(|page| markdown::read(page).summary).unwrap_or_default();
        let html = staged(path).replace(".md", ".html");
        text.push_str(&format!("- [{title}]({html}): {summary}\n"));
    }
    text
}

fn llms_full(entries: &[Entry], pages: &BTreeMap<String, String>) -> String {
    let found = entries.iter().filter_map(|entry| Some((&entry.path, pages.get(&entry.path)?)));
    found.map(|(path, page)| format!("<!-- page: {path} -->\n\n{page}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY_TEXT: &str = "# Summary\n\n[Home](README.md)\n\n- [One](a/one.md)\n";

    fn pages() -> BTreeMap<String, String> {
        let home = "# Home\n\nAll of it.\n\n[one](a/one.md#x), [map](../ARCHITECTURE.md#map)\n";
        let one = "# One\n\nThe first.\n\n[home](../README.md), [Web](https://example.com/)\n";
        let pages = [("README.md", home), ("a/one.md", one)];
        pages.map(|(path, page)| (path.to_owned(), page.to_owned())).into()
    }

    #[test]
    fn a_link_to_a_page_stays_in_the_book_and_any_other_leads_to_the_repository() {
        let files = source(SUMMARY_TEXT, &pages(), "https://host/repository");
        let home = &files["index.md"];
        assert!(home.contains("[one](a/one.md#x)"), "{home}");
        let map = "[map](https://host/repository/blob/main/ARCHITECTURE.md#map)";
        assert!(home.contains(map), "{home}");
        let one = &files["a/one.md"];
        assert!(one.contains("[home](../index.md), [Web](https://example.com/)"), "{one}");
        assert!(files[SUMMARY].contains("[Home](index.md)"));
    }

    #[test]
    fn the_lists_for_language_models_have_every_page() {
        let files = source(SUMMARY_TEXT, &pages(), "https://host/repository");
        let list = &files["llms.txt"];
        assert!(
            list.ends_with("- [Home](index.html): All of it.\n- [One](a/one.html): The first.\n")
        );
        let all = &files["llms-full.txt"];
        assert!(all.contains("<!-- page: a/one.md -->\n\n# One\n\nThe first.\n"), "{all}");
    }

    #[test]
    fn a_link_is_resolved_from_its_page() {
        let resolved = |to| resolve("docs/a/one.md", to);
        assert_eq!(resolved("#x").as_deref(), Some("docs/a/one.md"));
        assert_eq!(resolved("../../SECURITY.md#x").as_deref(), Some("SECURITY.md"));
        assert_eq!(resolved("https://example.com/"), None);
    }
}
