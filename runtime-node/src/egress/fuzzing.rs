//! What fuzz targets reach of this room beyond what it shows to everybody.

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::HeaderMap;
use http::uri::Authority;
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::Ledger;
use super::proxy::Proxy;
use super::{EgressError, decode};

/// A body without its content codings.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    pub bytes: Vec<u8>,
    /// Why there are no more; `None` at the end, and where there were as many as were wanted.
    pub failure: Option<String>,
    /// The longest piece that it came in.
    pub longest: usize,
    /// What it took of the memory that there was.
    pub held: usize,
    /// How often it was undone.
    pub codings: usize,
}

struct Memory {
    limit: usize,
    held: Cell<usize>,
}

impl Ledger for Memory {
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
/// * `most` - bytes that are wanted of it.
/// * `memory` - what its decoders may take.
pub async fn decode(headers: &HeaderMap, body: Vec<Bytes>, most: usize, memory: usize) -> Decoded {
    let ledger = Rc::new(Memory { limit: memory, held: Cell::new(0) });
    let codings = decode::codings(headers);
    let body = stream::iter(body.into_iter().map(Ok)).boxed_local();
    let mut body = decode::decode(&codings, body, &(Rc::clone(&ledger) as Rc<dyn Ledger>));
    let mut decoded = Decoded { bytes: Vec::new(), failure: None, longest: 0, held: 0, codings: codings.len() };
    while decoded.bytes.len() < most
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
    decoded.bytes.truncate(most);
    decoded.held = ledger.held.get();
    decoded
}

/// Has a proxy that answers on `stream` lead to a target. Whether it does.
pub async fn tunnel<S>(proxy: &Proxy, stream: S, target: &Authority) -> bool
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    proxy.tunnel(stream, target).await.is_ok()
}
