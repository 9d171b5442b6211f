//! Receives a response's body: counts its bytes, and releases its resources at its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http_body::Body as _;
use hyper::body::Incoming;
use prometheus::IntCounter;

use super::cause::root_cause;
use super::{BodyStream, EgressError};

struct Receiving<T> {
    body: Incoming,
    bytes: IntCounter,
    /// Resources that are held until the body's end.
    held: Option<T>,
}

/// Returns the body as a stream.
///
/// # Arguments
/// * `bytes` - counter of the received bytes.
/// * `held` - resources that are dropped when the body has ended or been dropped.
pub(super) fn receive<T: Unpin + 'static>(
    body: Incoming,
    bytes: IntCounter,
    held: T,
) -> BodyStream {
    Receiving { body, bytes, held: Some(held) }.boxed_local()
}

impl<T: Unpin> Stream for Receiving<T> {
    type Item = Result<Bytes, EgressError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.held.is_none() {
            return Poll::Ready(None);
        }
        loop {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers and empty frames are skipped.
                    let Ok(piece) = frame.into_data() else { continue };
                    if !piece.is_empty() {
                        self.bytes.inc_by(piece.len() as u64);
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
                Some(Err(error)) => {
                    self.held = None;
                    return Poll::Ready(Some(Err(EgressError::Body(describe(&error)))));
                }
                None => {
                    self.held = None;
                    return Poll::Ready(None);
                }
            }
        }
    }
}

fn describe(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() {
        "the connection was closed before the end of the body".to_owned()
    } else {
        root_cause(error)
    }
}
