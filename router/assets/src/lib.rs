//! Static files of Workers, which are called assets.
//!
//! ```text
//!  files ─► Packer ─► a pack: one file ─► Site::open ─► resolve(path) ─► a file or a redirect
//! ```
//!
//! A site is the set of a Worker's assets. The operator packs a site into one file. Routers keep
//! this file on disk and serve the assets from it.
//!
//! - [`pack`]: writes and opens the file that contains a site.
//! - [`resolve`](mod@resolve): resolves the path of a request to a file or a redirect. Pure.
//! - [`rules`]: the rules in the site's own `_headers` and `_redirects`. Pure.
//! - [`path`]: paths of files, and of URLs. Pure.
//! - [`pattern`]: patterns of paths. Pure.
//! - [`content_type`]: the content type of a file, by its name. Pure.
//!
//! The content comes from tenants, so [`pack`] limits its size, [`rules`] limits the number of
//! rules, and no rule costs a lookup more than one pass over the path.

pub mod content_type;
pub mod pack;
pub mod path;
pub mod pattern;
pub mod resolve;
pub mod rules;

pub use pack::{File, PackError, Packer, Site};
pub use resolve::{Audience, HtmlHandling, NotFoundHandling, Resolved, Settings};
