//! Generates the tables in `docs/reference` from the code that they describe.
//!
//! ```text
//!  CRDs' schemas ───────► fields ┐
//!  codes of failures ───► errors ┴─► tables by name ─► between the marks of each page
//! ```
//!
//! A page is written by hand, except for the lines between `<!-- generated: NAME -->` and
//! `<!-- end -->`. The test `tests/committed.rs` fails if a page is stale.

mod errors;
mod fields;
mod page;

pub use page::{PageError, fill};

/// The pages with generated tables, in `docs/reference`.
pub const PAGES: [&str; 4] = ["errors.md", "hostgrant.md", "runtimepool.md", "worker.md"];

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
