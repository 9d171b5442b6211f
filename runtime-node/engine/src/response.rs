//! The response of a Worker.

use bytes::{Buf as _, Bytes, BytesMut};
use futures::StreamExt as _;
use tenon_proto::failure::Failure;
use tenon_proto::runtime::Header;

use super::piece::Piece;
use super::sending::Sending;

/// The response of a Worker.
#[derive(Debug)]
pub struct FetchResponse {
    pub status: u16,
    pub headers: Vec<Header>,
    pub body: ResponseBody,
}

/// The body of a Worker's response.
#[derive(Debug)]
pub enum ResponseBody {
    /// The complete body.
    Full(Piece),
    /// A body that the Worker writes over time, or passes on from another source.
    Stream(Sending),
}

impl ResponseBody {
    /// Reads the whole body.
    ///
    /// # Errors
    /// Fails if the stream breaks off.
    pub async fn collect(self) -> Result<Bytes, Failure> {
        match self {
            Self::Full(mut piece) => Ok(piece.copy_to_bytes(piece.remaining())),
            Self::Stream(mut sending) => {
                let mut all = BytesMut::new();
                while let Some(bytes) = sending.next().await.transpose()? {
                    all.extend_from_slice(&bytes);
                }
                Ok(all.freeze())
            }
        }
    }
}
