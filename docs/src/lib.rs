//! Generates the tables in the pages of `docs` from the code that they describe, and the source of
//! the site from the pages.
//!
//! ```text
//!  CRDs' schemas ───────► fields ┐
//!  codes of failures ───► errors ┴─► tables by name ─► between the marks of each page
//!                                                                  │
//!                     mdBook's source, llms.txt ◄── book ◄─────────┘
//! ```
//!
//! A page is written by hand, except for the lines between `<!-- generated: NAME -->` and
//! `<!-- end -->`. The test `tests/committed.rs` fails if a page is stale, and `tests/book` if a
//! link is dead or a snippet is wrong.

pub mod book;
mod errors;
mod fields;
pub mod markdown;
mod page;

pub use page::{PageError, fill};

/// The pages with generated tables, in `docs`.
pub const PAGES: [&str; 5] = [
    "limits.md",
    "reference/errors.md",
    "reference/hostgrant.md",
    "reference/runtimepool.md",
    "reference/worker.md",
];

/// Returns the table with this name, or `None` if there is no such table.
pub fn table(name: &str) -> Option<String> {
    Some(match name {
        "errors" => errors::table(),
        "hostgrant" => fields::table("HostGrant", "", &[]),
        "worker" => fields::table("Worker", "", &["limits"]),
        "worker limits" => fields::table("Worker", "limits", &[]),
        "runtimepool" => {
            fields::table("RuntimePool", "", &["egress", "limits.default", "limits.max"])
        }
        "runtimepool egress" => fields::table("RuntimePool", "egress", &[]),
        _ => return None,
    })
}
