//! The rules that a site states in `_headers` and `_redirects`, in the format of Cloudflare Pages
//! and Netlify. This module is pure.
//!
//! - [`headers`]: headers of responses, by path.
//! - [`redirects`]: redirects and rewrites, by path.

pub mod headers;
pub mod redirects;

use crate::pattern::InvalidPattern;

/// The name of the file with headers, which is not served.
pub const HEADERS_FILE: &str = "_headers";
/// The name of the file with redirects, which is not served.
pub const REDIRECTS_FILE: &str = "_redirects";

/// The maximum size of a file of rules, in bytes.
pub const MAX_RULES_BYTES: usize = 128 * 1024;

/// A line that is not a valid rule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{file}:{line}: {fault}")]
pub struct InvalidRule {
    pub file: &'static str,
    /// The number of the line, from 1.
    pub line: usize,
    pub fault: RuleFault,
}

/// The reason why a line is not a valid rule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RuleFault {
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
    #[error("the line is not a path, a target and optionally a status, separated by spaces")]
    Words,
    #[error("{0:?} is not a redirect status; use 200, 301, 302, 303, 307 or 308")]
    Status(String),
    #[error(
        "the target is neither a path nor an http:// or https:// URL in ASCII, or it is a URL with status 200; use a path for status 200"
    )]
    Target,
    #[error("the file has more than {0} entries of this kind; remove some")]
    Count(usize),
    #[error("the header follows no path; put it below the path to which it applies")]
    NoPath,
    #[error("the line is not a header; use NAME: VALUE, or ! NAME to remove a header")]
    Header,
    #[error("the header {0} is set by the router; remove it")]
    Reserved(String),
}
