//! The messages of `Runtime.Invoke` as the request path writes and reads them, without copies of
//! headers and bodies.
//!
//! ```text
//!  router ── InvokeRequest: head, body, body … ──► node
//!         ◄─ InvokeResponse: head, body, … ──────
//! ```
//!
//! - [`HeadWriter`], [`with_stay`]: the head of a request, written from its parts; [`encode_head`]:
//!   the same from a value.
//! - [`HeadSink`]: a destination of these parts, which is a message or a value.
//! - [`Prologue`]: all of a message except the body at its end.
//! - [`Reader`]: the messages of a stream.
//!
//! The generated types would copy each header into a string of its own, and each body into its
//! message. The submodules write the same bytes, which tests decode with the generated types.

mod field;
mod reader;
mod request;
mod response;
mod sink;

pub use reader::{Next, ReadError, Reader};
pub use request::{HeadWriter, encode_head, with_stay};
pub use response::Prologue;
pub use sink::HeadSink;
