//! The router's side of a connection.
//!
//! ```text
//!  Sender::call ─► outbox ─► Connection ─► socket
//!  Call ◄───────── stream ◄─ Connection ◄─ socket
//! ```
//!
//! A request is written to the outbox when it is made. The connection's task then writes the
//! outbox, with the requests of one turn of the event loop, to the socket. The task keeps the data
//! that arrives for a stream in the slot of that stream, and wakes the request.
//!
//! A connection and its requests belong to one thread.

mod call;
mod connection;
mod keepalive;
mod state;
mod stream;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::ConnectionError;
use crate::frame::{self, HEADER, Head, INITIAL_WINDOW, Kind, MAX_31_BITS, MAX_PAYLOAD, PREFACE};
use crate::settings::{self, Settings};
pub use call::{Call, Writer};
pub use connection::Connection;
pub use keepalive::Pings;
use state::State;
pub use stream::CallError;

/// Sends requests on a connection, which ends after its last sender and its last call have been
/// dropped.
#[derive(Clone)]
pub struct Sender(Rc<RefCell<State>>);

/// The error for a request on a connection that accepts no more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection accepts no more requests")]
pub struct Closed;

/// The reason why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The shard allows no more concurrent requests, or does not read the requests that were sent.
    #[error("the connection has reached its maximum number of requests")]
    Full,
}

/// Performs the HTTP/2 handshake with a shard. Returns the sender and the connection, which must be
/// driven. Returns `None` if the shard does not know the hop protocol; the caller then needs a
/// new connection with a complete implementation of HTTP/2.
///
/// # Arguments
/// * `window` - the maximum number of bytes of one response that are buffered.
/// * `pings` - when to ping the shard, or `None` if its silence is not a failure.
///
/// # Errors
/// Fails if the stream breaks or the peer does not speak HTTP/2.
pub async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    window: u32,
    pings: Option<Pings>,
) -> io::Result<Option<(Sender, Connection<S>)>> {
    let mut hello = BytesMut::from(PREFACE);
    // The peer opens no streams.
    frame::put_settings(&mut hello, &settings::ours(window, 0));
    frame::put_window_update(&mut hello, 0, MAX_31_BITS - INITIAL_WINDOW);
    stream.write_all(&hello).await?;
    stream.flush().await?;
    let mut inbox = BytesMut::with_capacity(4096);
    let settings = loop {
        if let Some(settings) = first_settings(&inbox).map_err(io::Error::other)? {
            break settings;
        }
        if stream.read_buf(&mut inbox).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    if !settings.is_hop {
        return Ok(None);
    }
    let state = Rc::new(RefCell::new(State::new(window)));
    Ok(Some((Sender(state.clone()), Connection::new(stream, inbox, state, pings))))
}

/// Returns the peer's settings, which are its first frame, or `None` if they have not arrived yet.
fn first_settings(bytes: &[u8]) -> Result<Option<Settings>, ConnectionError> {
    let Some(head) = bytes.first_chunk().map(Head::parse) else { return Ok(None) };
    if head.kind != Kind::Settings || head.len > MAX_PAYLOAD {
        return Err(ConnectionError::protocol("a first frame that is not a valid SETTINGS frame"));
    }
    bytes.get(HEADER..HEADER + head.len).map(Settings::parse).transpose()
}

impl Sender {
    /// Returns whether the connection accepts no more requests.
    pub fn is_closed(&self) -> bool {
        self.0.borrow().is_closed()
    }

    /// Sends a request.
    ///
    /// # Arguments
    /// * `seconds` - the timeout that is sent to the shard, in seconds.
    /// * `data` - all data of the request if `ends` is true. Otherwise it is the first data, and
    ///   the [`Writer`] of the call sends the rest.
    ///
    /// # Errors
    /// Fails if the connection is closed or full.
    pub fn call(&self, seconds: u64, data: &Bytes, ends: bool) -> Result<Call, Refused> {
        let slot = self.0.borrow_mut().open(seconds, data, ends)?;
        Ok(Call::new(self.0.clone(), slot))
    }

    /// Sends a ping, and waits for an answer to this or an earlier ping, or for the end of the
    /// connection.
    pub async fn ping(&self) {
        let ponged = {
            let mut state = self.0.borrow_mut();
            if state.is_gone {
                return;
            }
            frame::put_ping(&mut state.outbox, [1; 8], false);
            state.wake();
            state.ponged.clone()
        };
        ponged.notified().await;
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The task ends the connection after the last sender and the last call have been dropped.
        // At most two references are left then: this one and the task's.
        if Rc::strong_count(&self.0) <= 2 {
            self.0.borrow().wake();
        }
    }
}

#[cfg(test)]
mod interop;
#[cfg(test)]
mod tests;
