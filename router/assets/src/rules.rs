//! The rules that a site states in `_headers` and `_redirects`, in the format of Cloudflare Pages
//! and Netlify. This module is pure.
//!
//! - [`headers`]: headers of responses, by path.
//! - [`redirects`]: redirects and rewrites, by path.

pub mod headers;
pub mod redirects;

use crate::pattern::InvalidPattern;

/// The file with headers, which is not served.
pub const HEADERS_FILE: &str = "_headers";
/// The file with redirects, which is not served.
pub const REDIRECTS_FILE: &str = "_redirects";

/// The largest file of rules, in bytes.
pub const MAX_RULES_BYTES: usize = 128 * 1024;

/// A line that is not a valid rule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{file}:{line}: {fault}")]
pub struct InvalidRule {
    pub file: &'static str,
    /// Starts at 1.
    pub line: usize,
    pub fault: RuleFault,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RuleFault {
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
    #[error("a rule must be a path, a target and optionally a status, separated by spaces")]
    Words,
    #[error("{0:?} is not a redirect status; use 200, 301, 302, 303, 307 or 308")]
    Status(String),
    #[error(
        "a target must be a path, or begin with http:// or https://; only paths may have status 200"
    )]
    Target,
    #[error("there are more than {0} such rules; leave some out")]
    Count(usize),
    #[error("a header must be indented, and follow the path that it is for")]
    NoPath,
    #[error("a header must have the form NAME: VALUE, or ! NAME to remove one")]
    Header,
    #[error("the header {0} is set by the router; remove it")]
    Reserved(String),
}
