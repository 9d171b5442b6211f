//! Resolves the path of a request to a file, a redirect or nothing, and handles HTML pages as
//! Cloudflare Workers does. This module is pure.
//!
//! Lookups use the decoded path. The location of a redirect to the URL of a page is encoded from
//! the decoded path, so this location is always on the same host.

use crate::pack::{File, Site};
use crate::path::{self, decode, encode};
use crate::pattern::{InvalidPattern, Pattern};
use crate::rules::headers::Change;
use crate::rules::redirects::Redirect;
use tenon_proto::catalog;
pub use tenon_proto::catalog::{HtmlHandling, NotFoundHandling};

const TEMPORARY_REDIRECT: u16 = 307;

/// The settings with which a Worker's assets are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub html: HtmlHandling,
    pub not_found: NotFoundHandling,
    /// The paths for which the Worker runs even if there is a file.
    pub worker_first: PathSet,
}

impl Settings {
    /// Returns whether the Worker runs for a path even if there is a file.
    ///
    /// # Arguments
    /// * `path` - percent-encoded. The path is decoded, as for the lookup of a file; otherwise a
    ///   client could reach a file by another spelling of its path.
    pub fn is_worker_first(&self, path: &str) -> bool {
        !self.worker_first.is_empty() && self.worker_first.contains(&decode(path))
    }

    /// Returns whether the page of a single-page application answers a request for a path without a
    /// file. If the settings list the paths for which the Worker runs, all other paths belong to
    /// the application.
    fn opens_application(&self, audience: Audience) -> bool {
        match audience {
            Audience::Worker => true,
            Audience::Client { navigates } => navigates || !self.worker_first.is_empty(),
        }
    }

    /// Reads the settings of a Worker.
    ///
    /// # Errors
    /// Fails if one of the paths is not a pattern.
    pub fn of(assets: &catalog::Assets) -> Result<Self, InvalidPattern> {
        Ok(Self {
            html: assets.html_handling(),
            not_found: assets.not_found_handling(),
            worker_first: PathSet::parse(assets.run_worker_first.iter().map(String::as_str))?,
        })
    }
}

/// The paths that match one of the patterns, and none of the patterns with `!`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathSet {
    included: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

impl PathSet {
    /// Parses patterns such as `/api/*` and `!/api/docs/*`.
    ///
    /// # Errors
    /// Fails if one of the strings is not a pattern.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidPattern> {
        let mut set = Self::default();
        for text in texts {
            match text.strip_prefix('!') {
                Some(text) => set.excluded.push(Pattern::parse(text)?),
                None => set.included.push(Pattern::parse(text)?),
            }
        }
        Ok(set)
    }

    fn is_empty(&self) -> bool {
        self.included.is_empty()
    }

    /// Returns whether a decoded path is in the set.
    pub fn contains(&self, path: &str) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path));
        any(&self.included) && !any(&self.excluded)
    }
}

/// The sender of a request for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A client. If there is no file, the Worker answers the client's request.
    Client {
        /// Whether a browser opens the path as a page.
        navigates: bool,
    },
    /// The Worker itself, which needs an answer even if there is no file.
    Worker,
}

/// The result of resolving a path.
#[derive(Debug, PartialEq)]
pub enum Resolved<'s> {
    File {
        file: File<'s>,
        status: u16,
    },
    Redirect {
        status: u16,
        /// A path on the same host or, from the site's own rules, a URL.
        location: String,
    },
    /// There is no file.
    Nothing,
}

impl Site {
    /// Resolves a path.
    ///
    /// # Arguments
    /// * `path` - percent-encoded, as in the URL.
    /// * `query` - the query, which a redirect to the URL of a page keeps.
    pub fn resolve(
        &self,
        settings: &Settings,
        audience: Audience,
        path: &str,
        query: Option<&str>,
    ) -> Resolved<'_> {
        let mut decoded = decode(path);
        if let Some(Redirect { status, target }) = self.redirects.of(&decoded) {
            if status != 200 {
                return Resolved::Redirect { status, location: target };
            }
            // The client sees the content of another path, to which no rule applies again.
            let path = target.split(['?', '#']).next().unwrap_or_default();
            decoded = path::decode(path).into_owned().into();
        }
        match self.page(settings.html, &decoded) {
            Some(Page::File(file)) => Resolved::File { file, status: 200 },
            Some(Page::At(canonical)) => {
                let mut location = encode(&canonical);
                if let Some(query) = query {
                    location.push('?');
                    location.push_str(query);
                }
                Resolved::Redirect { status: TEMPORARY_REDIRECT, location }
            }
            None => self.missing(settings, audience, &decoded),
        }
    }

    fn missing(&self, settings: &Settings, audience: Audience, path: &str) -> Resolved<'_> {
        let found = match (settings.not_found, audience) {
            (NotFoundHandling::SinglePageApplication, audience)
                if settings.opens_application(audience) =>
            {
                self.file("index.html").map(|file| (file, 200))
            }
            (NotFoundHandling::NotFoundPage, Audience::Worker) => {
                let folders = path.rmatch_indices('/').map(|(at, _)| &path[1.min(at)..at]);
                let page = |folder: &str| match folder {
                    "" => self.file("404.html"),
                    folder => self.file(&format!("{folder}/404.html")),
                };
                folders
                    .map(|folder| folder.trim_start_matches('/'))
                    .find_map(page)
                    .map(|file| (file, 404))
            }
            _ => None,
        };
        found.map_or(Resolved::Nothing, |(file, status)| Resolved::File { file, status })
    }

    /// Finds the page or other file at a decoded path.
    fn page(&self, html: HtmlHandling, path: &str) -> Option<Page<'_>> {
        let name = path.strip_prefix('/')?;
        let exact = self.file(name);
        let stem = stem(name);
        // A page is served at its URL, unless another file has that path.
        if html == HtmlHandling::None || stem.is_none_or(|stem| self.file(stem).is_some()) {
            if let Some(exact) = exact {
                return Some(Page::File(exact));
            }
            if html == HtmlHandling::None {
                return None;
            }
        }
        let found = match exact {
            Some(page) => page,
            None => {
                let base = name.strip_suffix('/').unwrap_or(name);
                let page = if is_stem(base) { self.file(&format!("{base}.html")) } else { None };
                let index = match base {
                    "" if name.is_empty() => self.file("index.html"),
                    base => self.file(&format!("{base}/index.html")),
                };
                let is_folder = html == HtmlHandling::AutoTrailingSlash && name.ends_with('/');
                if is_folder { index.or(page)? } else { page.or(index)? }
            }
        };
        let url = url(html, found.path);
        Some(if url == path { Page::File(found) } else { Page::At(url) })
    }

    /// Returns the changes that the site's rules make to the headers of the response to a path.
    pub fn headers(&self, path: &str) -> Vec<Change> {
        self.headers.of(&decode(path))
    }
}

enum Page<'s> {
    File(File<'s>),
    /// The decoded path of the page's URL, which differs from the requested path.
    At(String),
}

/// Returns the path of a page without its extension, or `None` if the file is not a page.
fn stem(path: &str) -> Option<&str> {
    path.strip_suffix(".html").filter(|stem| is_stem(stem))
}

/// Returns whether this path, followed by `.html`, can be the path of a page.
fn is_stem(path: &str) -> bool {
    !path.is_empty() && !path.ends_with('/')
}

/// Returns the decoded path of the URL of a page.
fn url(html: HtmlHandling, file: &str) -> String {
    let stem = stem(file).unwrap_or(file);
    let folder = if stem == "index" { Some("") } else { stem.strip_suffix("/index") };
    match (html, folder) {
        (_, Some("")) => "/".to_owned(),
        (HtmlHandling::AutoTrailingSlash | HtmlHandling::ForceTrailingSlash, Some(folder)) => {
            format!("/{folder}/")
        }
        (_, Some(folder)) => format!("/{folder}"),
        (HtmlHandling::ForceTrailingSlash, None) => format!("/{stem}/"),
        (_, None) => format!("/{stem}"),
    }
}

#[cfg(test)]
mod tests;
