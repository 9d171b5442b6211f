//! The end of a connection that its peer does not end.
//!
//! ```text
//!  announced ── the peer has answered a ping ─► final ── all requests are answered ─► shut down
//! ```
//!
//! The peer learns first that it should send no more requests, and then, once the ping's answer
//! shows that it knows, which request was the last (RFC 9113, section 6.8). Thus no request is lost
//! in transit.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::{Connection, Service};
use crate::error::Code;
use crate::frame::{self, MAX};

/// The payload of the ping whose answer marks the end of the peer's last requests.
pub(super) const LAST: [u8; 8] = *b"leaving!";

/// The maximum time between the last byte that is written and the peer's end of the connection.
const LINGER: Duration = Duration::from_secs(1);

/// The progress of the end of a connection that its peer does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// The peer has been told; requests that it sent before it knew are served.
    Announced,
    /// Later requests are not served.
    Final,
    /// Everything has been written and the socket's sending side is shut down.
    ShutDown,
}

impl<S, V> Connection<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Service,
{
    /// Tells the peer to send no more requests. The connection ends after those that it has sent.
    pub fn graceful_shutdown(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            frame::put_go_away(&mut self.outbox, MAX, Code::NO_ERROR);
            frame::put_ping(&mut self.outbox, LAST, false);
        }
    }

    /// Waits until the peer ends the connection or [`LINGER`] has passed. If unread data were left
    /// in the socket, closing it would reset the connection, and the peer might lose the last
    /// responses.
    pub(super) fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.wire.poll_discard(cx).is_ready() {
            return Poll::Ready(());
        }
        self.linger.get_or_insert_with(|| Box::pin(sleep(LINGER))).as_mut().poll(cx)
    }
}
