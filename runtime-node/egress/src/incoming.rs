//! Receives a response's body: counts its bytes, keeps its trailers, and releases its resources at
//! its end.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::HeaderMap;
use http_body::Body as _;
use hyper::body::Incoming;
use prometheus::IntCounter;

use super::cause::root_cause;
use super::message::Trailers;
use super::{BodyStream, EgressError};

struct Receiving<T> {
    body: Incoming,
    bytes: IntCounter,
    trailers: Rc<Cell<HeaderMap>>,
    /// Resources that are held until the body's end.
    held: Option<T>,
}

/// Returns the body as a stream, and a function that takes the trailers once the stream has ended.
///
/// # Arguments
/// * `bytes` - counter of the received bytes.
/// * `held` - resources that are dropped when the body has ended or been dropped.
pub(super) fn receive<T: Unpin + 'static>(
    body: Incoming,
    bytes: IntCounter,
    held: T,
) -> (BodyStream, Trailers) {
    let trailers = Rc::<Cell<HeaderMap>>::default();
    let receiving = Receiving { body, bytes, trailers: Rc::clone(&trailers), held: Some(held) };
    (receiving.boxed_local(), Box::new(move || trailers.take()))
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
                    let piece = match frame.into_data() {
                        Ok(piece) => piece,
                        Err(frame) => {
                            self.trailers.set(frame.into_trailers().unwrap_or_default());
                            continue;
                        }
                    };
                    // An empty frame is skipped.
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
