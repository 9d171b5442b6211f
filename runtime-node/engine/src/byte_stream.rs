//! A stream of bytes, whatever its source, and the reasons why one breaks off.

use std::borrow::Cow;

use bytes::Bytes;
use futures::stream::LocalBoxStream;
use tenon_proto::failure::Failure;

/// A stream of pieces, read only when the consumer asks for them.
pub type ByteStream = LocalBoxStream<'static, Result<Bytes, StreamError>>;

/// The reason why a stream broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The caller gets this failure, however the Worker handles it, because its own request is at
    /// fault.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The source of the bytes was lost.
    #[error("{0}")]
    Lost(Cow<'static, str>),
}
