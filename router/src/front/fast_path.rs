//! The fast path of HTTP/1.1: serves plain requests without hyper, whose general machinery costs
//! more than most requests themselves.
//!
//! ```text
//!  HeadFilter ─► request: plain? ─┬─► the path of a request ─► response ─► outbox ─► client
//!                                 └─► hyper, which reads the same bytes and keeps the connection
//!                                     until it is idle
//! ```
//!
//! A plain request is a GET or HEAD without a body ([`request`]). The fast path and hyper call the
//! same function with each request, and charge, time out and end connections by the same rules;
//! they differ only in how they parse heads and write responses. The fast path accepts a subset of
//! what hyper accepts, and gives everything else to hyper unchanged, so that it never has to refuse
//! a request.
//!
//! Responses are written in the order of the requests, one at a time. Once 64 KiB of a response
//! wait for a client that reads slowly ([`outbox`]), no more is added. One head is read ahead.

mod outbox;
#[cfg(any(test, fuzzing))]
pub(crate) mod reference;
pub(crate) mod request;
mod response;

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use http::{Method, Request, Response};
use http_body::Body as _;
use tenon_clients::filter::HeadFilter;
use tenon_clients::filter::heads::Next;
use tenon_clients::order::Order;
use tokio::io::AsyncWrite as _;

use crate::date::Date;
use crate::front::connection::respond;
use crate::front::fast_path::outbox::{Outbox, SLICES};
use crate::front::fast_path::response::{Framing, FramingError, write_head};
use crate::front::path::Caller;
use crate::front::response::WrittenResponse;
use crate::front::streaming::TruncatedBody;
use crate::thread::RouterThread;

/// The number of requests of one connection that are served, and of writes of one response, before
/// the other tasks of the thread run.
const BURST: usize = 16;

/// The reason why the fast path stops serving a connection.
pub(super) enum Exit {
    /// The connection has ended.
    Ended,
    /// The connection is idle, and gives up its buffers.
    Resting(HeadFilter),
    /// The next message is not a plain request.
    ToHyper(HeadFilter),
}

/// The reason why a connection breaks.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the connection is broken: {0}")]
    Connection(#[from] io::Error),
    #[error("the client disconnected before it had its response")]
    Disconnected,
    #[error("the router ended the connection before the client had its response")]
    Ended,
    #[error(transparent)]
    Framing(#[from] FramingError),
    #[error(transparent)]
    Truncated(#[from] TruncatedBody),
}

/// The reason why no plain request follows.
enum NoRequest {
    /// The next message is not a plain request.
    NotPlain,
    /// The connection is idle, and gives up its buffers.
    Rest,
    /// No more requests are accepted.
    Finish,
    /// The connection must end immediately.
    End,
    Broken(io::Error),
}

/// Serves plain requests, one after the other.
///
/// # Arguments
/// * `closing` - resolves when no more requests are accepted.
/// * `has_request` - set to true with the first request.
///
/// # Errors
/// Fails if the connection breaks, or if a response cannot be sent completely.
pub(super) async fn serve(
    thread: &Rc<RouterThread>,
    filter: HeadFilter,
    caller: &Rc<Caller>,
    closing: impl Future<Output = ()>,
    has_request: &Cell<bool>,
) -> Result<Exit, Broken> {
    let mut connection = Connection { filter, caller, outbox: Outbox::default() };
    let mut closing = pin!(closing);
    for served in 1_usize.. {
        let next = poll_fn(|cx| connection.poll_request(cx, closing.as_mut()));
        let request = match next.await {
            Ok(request) => request,
            Err(NoRequest::NotPlain) => return Ok(Exit::ToHyper(connection.filter)),
            Err(NoRequest::Rest) => return Ok(Exit::Resting(connection.filter)),
            Err(NoRequest::Finish) => break,
            Err(NoRequest::End) => return Ok(Exit::Ended),
            Err(NoRequest::Broken(error)) => return Err(error.into()),
        };
        has_request.set(true);
        let is_head = request.method() == Method::HEAD;
        let response = {
            let mut response = pin!(respond(thread, caller, request.map(|()| None)));
            poll_fn(|cx| match response.as_mut().poll(cx) {
                Poll::Ready(Ok(response)) => Poll::Ready(Ok(response)),
                Poll::Pending => connection.poll_lost(cx).map(Err),
            })
            .await?
        };
        let date = thread.date.borrow_mut().at(SystemTime::now());
        let (mut sending, closes) =
            Sending::begin(response, is_head, &date, &mut connection.outbox)?;
        poll_fn(|cx| match sending.poll(cx, &mut connection) {
            Poll::Pending => connection.poll_lost(cx).map(Err),
            sent => sent,
        })
        .await?;
        if closes {
            break;
        }
        if served.is_multiple_of(BURST) && connection.filter.holds_bytes() {
            tokio::task::yield_now().await;
        }
    }
    poll_fn(|cx| connection.poll_shutdown(cx)).await?;
    Ok(Exit::Ended)
}

struct Connection<'a> {
    filter: HeadFilter,
    caller: &'a Caller,
    outbox: Outbox,
}

impl Connection<'_> {
    /// Waits for the next request.
    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        closing: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<Result<Request<()>, NoRequest>> {
        if let Poll::Ready(next) = self.filter.poll_head(cx, request::parse) {
            return Poll::Ready(match next {
                Ok(Next::Taken(request)) => Ok(request),
                Ok(Next::Other) => Err(NoRequest::NotPlain),
                Ok(Next::End) => Err(NoRequest::Finish),
                Err(error) => Err(NoRequest::Broken(error)),
            });
        }
        let client = &self.caller.client;
        while let Poll::Ready(order) = client.orders.poll_next(cx) {
            match order {
                Order::End => return Poll::Ready(Err(NoRequest::End)),
                Order::Rest if client.activity.may_rest() => {
                    return Poll::Ready(Err(NoRequest::Rest));
                }
                Order::Rest => {}
            }
        }
        closing.poll(cx).map(|()| Err(NoRequest::Finish))
    }

    /// Waits until the client of a request is lost, or the connection must end.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        match self.filter.poll_disconnect(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Broken::Disconnected),
            Poll::Ready(Err(error)) => Poll::Ready(error.into()),
            Poll::Pending => self.poll_end(cx).map(|()| Broken::Ended),
        }
    }

    /// Waits until the connection must end.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<()> {
        while ready!(self.caller.client.orders.poll_next(cx)) != Order::End {}
        Poll::Ready(())
    }

    /// Writes everything that waits.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.outbox.slices(&mut slices);
            let filter = Pin::new(&mut self.filter);
            let written = match &slices[..count] {
                [slice] => filter.poll_write(cx, slice),
                slices => filter.poll_write_vectored(cx, slices),
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.outbox.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.filter).poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.filter).poll_shutdown(cx) {
            Poll::Pending => self.poll_end(cx).map(Ok),
            shut_down => shut_down,
        }
    }
}

/// A response that is being sent.
struct Sending {
    /// The part of the body that has not been polled. Dropping it ends the request.
    body: Option<WrittenResponse>,
    framing: Framing,
}

impl Sending {
    /// Writes the head to the outbox. Also returns whether the connection ends with the response.
    fn begin(
        response: Response<WrittenResponse>,
        is_head: bool,
        date: &Date,
        outbox: &mut Outbox,
    ) -> Result<(Self, bool), FramingError> {
        let (parts, body) = response.into_parts();
        let length = body.size_hint().exact();
        let head = write_head(outbox.text(), &parts, is_head, length, date)?;
        let body = (!head.framing.is_complete()).then_some(body);
        Ok((Self { body, framing: head.framing }, head.closes))
    }

    /// Sends the rest of the response.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection<'_>,
    ) -> Poll<Result<(), Broken>> {
        for _ in 0..BURST {
            let filled = self.poll_fill(cx, &mut connection.outbox)?;
            ready!(connection.poll_write(cx))?;
            // The pieces that are ready are written together, and flushed before the next wait.
            if self.body.is_none() || filled.is_pending() {
                ready!(connection.poll_flush(cx))?;
                return if self.body.is_none() { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Moves pieces of the body to the outbox, until it is full. Waits if the body is not complete
    /// and the next piece has not arrived.
    fn poll_fill(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<Result<(), Broken>> {
        while let Some(body) = &mut self.body
            && outbox.has_room()
        {
            let piece = ready!(Pin::new(&mut *body).poll_frame(cx)).transpose()?;
            let is_last = piece.is_none() || body.is_end_stream();
            if let Some(piece) = piece.and_then(|frame| frame.into_data().ok()) {
                self.framing.add(piece, outbox);
            }
            if is_last {
                self.framing.end(outbox)?;
            }
            if is_last || self.framing.is_complete() {
                self.body = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}
