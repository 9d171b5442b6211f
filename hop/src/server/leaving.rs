//! The graceful shutdown of a connection by this side.
//!
//! ```text
//!  announced ── the peer has answered a ping ─► final ── all requests are answered ─► shut down
//! ```
//!
//! A first GOAWAY tells the peer to send no more requests. Once the answer to a ping shows that the
//! peer has received the first GOAWAY, a second one names the last request that is served (RFC
//! 9113, section 6.8). Thus no request is lost in transit.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::{Connection, Service};
use crate::error::Code;
use crate::frame::{self, MAX_31_BITS};

/// The payload of the ping whose answer follows the peer's last request.
pub(super) const LAST: [u8; 8] = *b"leaving!";

/// The maximum time for which a connection that has been shut down waits for the peer to end it.
const LINGER: Duration = Duration::from_secs(1);

/// The progress of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// The first GOAWAY has been sent. Requests that still arrive are served.
    Announced,
    /// The second GOAWAY has been sent. Requests that still arrive are not served.
    Final,
    /// Everything has been written and the socket's sending side is shut down.
    ShutDown,
}

impl<S, V> Connection<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Service,
{
    /// Tells the peer to send no more requests. The connection ends once it has answered the
    /// requests that the peer has already sent.
    pub fn graceful_shutdown(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            frame::put_go_away(&mut self.outbox, MAX_31_BITS, Code::NO_ERROR);
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
