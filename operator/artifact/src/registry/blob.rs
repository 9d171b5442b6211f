//! Pulls blobs, and refuses those that are longer than their descriptors say.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use oci_client::manifest::OciDescriptor;
use oci_client::{Client, Reference};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::RegistryError;

/// Returns a blob, and fails if it is longer than `limit` or than its descriptor says.
pub(super) async fn blob(
    client: &Client,
    image: &Reference,
    descriptor: &OciDescriptor,
    limit: usize,
) -> Result<Vec<u8>, RegistryError> {
    let mut bytes = Vec::new();
    blob_into(client, image, descriptor, limit, &mut bytes).await?;
    Ok(bytes)
}

/// Pulls a blob into a writer, and fails if the blob is longer than `limit` or than its descriptor
/// says.
pub(super) async fn blob_into(
    client: &Client,
    image: &Reference,
    descriptor: &OciDescriptor,
    limit: usize,
    output: impl AsyncWrite + Unpin,
) -> Result<(), RegistryError> {
    let size = usize::try_from(descriptor.size).ok().filter(|size| *size <= limit);
    let too_large = || RegistryError::TooLarge { image: image.to_string(), bytes: descriptor.size };
    let mut bounded = Bounded { output, room: size.ok_or_else(too_large)? };
    let failed = |error| RegistryError::of(image, error);
    client.pull_blob(image, descriptor, &mut bounded).await.map_err(failed)?;
    bounded.output.flush().await.map_err(|error| failed(error.into()))
}

/// A writer that passes a limited number of bytes on to another writer.
struct Bounded<W> {
    output: W,
    room: usize,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Bounded<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        if piece.len() > self.room {
            return Poll::Ready(Err(io::Error::other("a blob is longer than its descriptor says")));
        }
        let written = ready!(Pin::new(&mut self.output).poll_write(cx, piece))?;
        self.room -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_shutdown(cx)
    }
}
