//! Takes whole heads out of the filter, for a server that reads no bodies.
//!
//! ```text
//!            ┌─ a head that the server takes ──► the server
//!  filter ───┤
//!            └─ anything else: stays ──► hyper reads the same bytes with `poll_read`
//! ```
//!
//! A head that is not taken leaves no trace: hyper reads the bytes as if they had just arrived.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::filter::{HeadFilter, READ, Stage};
use crate::head::Ahead;

/// The next message of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// A head that was taken.
    Taken(T),
    /// A message that was not taken.
    Other,
    /// The end of the stream, possibly after part of a head.
    End,
}

impl HeadFilter {
    /// Waits for the next message, and offers its head to `take` once the head is whole. If `take`
    /// returns a value, the head leaves the filter. `take` may take only the head of a message
    /// without a body.
    ///
    /// # Errors
    /// Fails if the connection is broken, or if there is no memory for the head.
    pub fn poll_head<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Poll<io::Result<Next<T>>> {
        if self.stage != Stage::Following || self.ready > 0 {
            return Poll::Ready(Ok(Next::Other));
        }
        if self.held.is_empty() {
            // The bytes are examined where they arrive, because they are usually one whole head.
            let mut space = [MaybeUninit::uninit(); READ];
            let mut arrived = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut arrived))?;
            let arrived = arrived.filled();
            if arrived.is_empty() {
                return Poll::Ready(Ok(Next::End));
            }
            if let Ahead::Head(len) = self.messages.look_ahead(arrived) {
                let (head, rest) = arrived.split_at(len);
                let Some(taken) = take(head) else {
                    return Poll::Ready(self.hold(arrived).map(|()| Next::Other));
                };
                self.messages.skip_head();
                if !rest.is_empty() {
                    self.hold(rest)?;
                }
                return Poll::Ready(Ok(Next::Taken(taken)));
            }
            self.hold(arrived)?;
        }
        loop {
            match self.messages.look_ahead(&self.held) {
                Ahead::Head(len) => {
                    let Some(taken) = take(&self.held[..len]) else { break };
                    self.messages.skip_head();
                    self.release(len);
                    return Poll::Ready(Ok(Next::Taken(taken)));
                }
                Ahead::Other => break,
                Ahead::PartOfHead => {
                    if ready!(self.poll_more(cx))? == 0 {
                        return Poll::Ready(Ok(Next::End));
                    }
                }
            }
        }
        Poll::Ready(Ok(Next::Other))
    }

    /// Waits until the client disconnects, while its last request is served. Reads ahead only
    /// until a whole head is held: after that, the end of the stream goes unnoticed until the
    /// next request is served, as it does with hyper.
    ///
    /// # Errors
    /// Fails if the connection is broken, or if there is no memory for the head.
    pub fn poll_disconnect(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.held.is_empty() || self.messages.look_ahead(&self.held) == Ahead::PartOfHead {
            if ready!(self.poll_more(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Pending
    }

    /// Returns whether bytes have arrived that have not left the filter.
    pub fn holds_bytes(&self) -> bool {
        !self.held.is_empty()
    }
}
