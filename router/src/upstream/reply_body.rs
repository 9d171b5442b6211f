//! The stream of a response, and the task that sends the rest of its request, on either kind of
//! connection.
//!
//! A response belongs to one thread.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tenon_hop::client::{Call, CallError, Closed, Writer};

use crate::upstream::retry::AttemptError;
use crate::upstream::upload::{AttemptBody, Upload};

/// The data and the trailers of a response.
pub(crate) enum ReplyBody {
    /// A response in the HTTP/2 subset of [`tenon_hop`].
    Hop(Call),
    /// A response that hyper reads.
    Complete(Incoming),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = AttemptError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AttemptError>>> {
        match &mut *self {
            Self::Hop(call) => Pin::new(call).poll_frame(cx).map_err(AttemptError::from),
            Self::Complete(body) => Pin::new(body).poll_frame(cx).map_err(|error| broken(&error)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Hop(call) => call.is_end_stream(),
            Self::Complete(body) => body.is_end_stream(),
        }
    }
}

impl From<CallError> for AttemptError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotProcessed => Self::NotBegun,
            CallError::Broken => Self::Lost,
        }
    }
}

/// Returns the error for a broken stream or connection.
pub(crate) fn broken(error: &hyper::Error) -> AttemptError {
    if error.is_canceled() {
        return AttemptError::NotBegun;
    }
    let reason = std::iter::successors(error.source(), |error| (*error).source())
        .find_map(|error| error.downcast_ref::<h2::Error>());
    match reason {
        // RFC 9113, section 8.7: a refused stream has not been processed at all.
        Some(error) if error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM) => {
            AttemptError::NotBegun
        }
        // Section 6.8: streams above the last one that a GOAWAY names have not been processed
        // either.
        Some(error)
            if error.is_go_away()
                && error.is_remote()
                && error.reason() == Some(h2::Reason::NO_ERROR) =>
        {
            AttemptError::NotBegun
        }
        _ => AttemptError::Lost,
    }
}

/// Sends the rest of a request, until the request or its stream ends.
pub(crate) async fn send_rest(writer: Writer, upload: Rc<Upload>) {
    let mut body = AttemptBody::after_head(&upload);
    drop(upload);
    loop {
        let next = poll_fn(|cx| {
            ready!(writer.poll_ready(cx))?;
            let next = Pin::new(&mut body).poll_frame(cx);
            if next.is_pending() && writer.poll_closed(cx).is_ready() {
                return Poll::Ready(Err(Closed));
            }
            next.map(Ok)
        });
        let Ok(next) = next.await else { return };
        match next.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => writer.send(&data),
            // The trailers of a request are a message, so the body has no trailers of HTTP/2.
            Some(Ok(Err(_))) => {}
            // The upload has failed, and keeps its failure.
            Some(Err(_)) => return writer.abort(),
            None => return writer.end(),
        }
    }
}
