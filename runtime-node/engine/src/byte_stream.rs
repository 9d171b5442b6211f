//! A stream of bytes from any source, and the reasons why a stream breaks off.

use std::borrow::Cow;

use bytes::Bytes;
use futures::stream::LocalBoxStream;
use tenon_proto::failure::Failure;
use tenon_proto::runtime::Header;

/// A stream of pieces, read only when the consumer asks for them.
pub type ByteStream = LocalBoxStream<'static, Result<Bytes, StreamError>>;

/// Returns the trailer fields that follow a stream, once the stream has ended.
pub type Trailers = Box<dyn FnOnce() -> Vec<Header>>;

/// The reason why a stream broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The caller's own request is at fault, or its body does not fit into the Worker's memory. The
    /// caller gets this failure, however the Worker handles the error.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The source of the bytes was lost.
    #[error("{0}")]
    Lost(Cow<'static, str>),
}
