//! HTML documents that are rewritten piece by piece, by handlers that may take any amount of time.
//!
//! ```text
//!  feed, end ─► Rewriter ─► next_step ─┬─► a handler to run ─► current: Editing, the token
//!                  ▲                   ├─► a stream to insert
//!                  └───────────────────┴─► output to take
//! ```
//!
//! - [`Rewriter`]: rewrites one document, and keeps all effects in order.
//! - [`Editing`]: the current token, whose handlers are running; `token` and `start_tag` are what
//!   the handlers change, `content` is what they insert.
//! - `parser`, `recorder`, `tape`, `selectors`: the parser, which runs ahead of the handlers.
//!
//! Each call does a bounded amount of work. [`Rewriter::memory`] is an upper bound on what a
//! rewriter holds, so that the caller can charge it.
//!
//! The crate knows neither V8 nor the Web interface, `HTMLRewriter`, whose handlers are called in
//! JavaScript.

mod content;
mod edit;
mod parser;
mod recorder;
mod rewriter;
mod selectors;
mod start_tag;
mod tape;
mod token;

pub use content::{Form, MAX_ENCODED_RATIO, NotUtf8};
pub use edit::Editing;
pub use parser::ParseError;
pub use recorder::Handlers;
pub use rewriter::{Rewriter, Step};
pub use selectors::{InvalidSelector, check as check_selector};
pub use start_tag::EditError;
pub use tape::{Doctype, ElementId, Registration};
pub use token::Place;
