//! Entry points for fuzz targets. They call functions that this crate does not make public.

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::HeaderMap;
use http::uri::Authority;
use tokio::io::{AsyncRead, AsyncWrite};

use super::budget::InvocationBudget;
use super::proxy::Proxy;
use super::{EgressError, decode};

/// A body after its content codings were undone.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    pub bytes: Vec<u8>,
    /// The error that ended the body; `None` if the body ended, or if decoding stopped at the
    /// requested size.
    pub failure: Option<String>,
    /// Length of the longest piece, in bytes.
    pub longest: usize,
    /// Memory that was charged for the decoders, in bytes.
    pub held: usize,
    /// Number of codings.
    pub codings: usize,
}

struct Memory {
    limit: usize,
    held: Cell<usize>,
}

impl InvocationBudget for Memory {
    fn subrequest(&self) -> Result<(), u32> {
        Ok(())
    }

    fn hold(&self, bytes: usize) -> Option<Box<dyn Any>> {
        let held = self.held.get() + bytes;
        (held <= self.limit).then(|| {
            self.held.set(held);
            Box::new(()) as Box<dyn Any>
        })
    }
}

/// Undoes the codings that a response's headers name.
///
/// # Arguments
/// * `max` - number of bytes after which decoding stops.
/// * `memory` - maximum memory of all decoders together, in bytes.
pub async fn decode(headers: &HeaderMap, body: Vec<Bytes>, max: usize, memory: usize) -> Decoded {
    let budget = Rc::new(Memory { limit: memory, held: Cell::new(0) });
    let codings = decode::codings(headers);
    let body = stream::iter(body.into_iter().map(Ok)).boxed_local();
    let mut body =
        decode::decode(&codings, body, &(Rc::clone(&budget) as Rc<dyn InvocationBudget>));
    let mut decoded =
        Decoded { bytes: Vec::new(), failure: None, longest: 0, held: 0, codings: codings.len() };
    while decoded.bytes.len() < max
        && let Some(piece) = body.next().await
    {
        match piece {
            Ok(piece) => {
                decoded.longest = decoded.longest.max(piece.len());
                decoded.bytes.extend_from_slice(&piece);
            }
            Err(error) => {
                decoded.failure = Some(EgressError::to_string(&error));
                break;
            }
        }
    }
    decoded.bytes.truncate(max);
    decoded.held = budget.held.get();
    decoded
}

/// Asks a proxy that answers on `stream` for a tunnel to a target. Returns whether the proxy
/// agreed.
pub async fn tunnel<S>(proxy: &Proxy, stream: S, target: &Authority) -> bool
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    proxy.tunnel(stream, target).await.is_ok()
}
