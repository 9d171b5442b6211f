//! The events that a socket reports to JavaScript.

use bytes::Bytes;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The close code that reports a connection that ended without a Close (RFC 6455 §7.1.5).
pub(super) const ABNORMAL: u16 = 1006;

/// An event for JavaScript, except [`Event::Shortage`], which the reader handles.
#[derive(Debug)]
pub(crate) enum Event {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// The peer has begun to close.
    Closing,
    /// The incoming message needs this many more bytes of the isolate's memory.
    Shortage(usize),
    /// The last event.
    Closed(Closed),
}

/// The end of a socket, with the fields of a `CloseEvent`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) was_clean: bool,
    /// Set if an `error` event precedes the `close` event.
    pub(crate) has_failed: bool,
}

impl Closed {
    pub(super) fn failed() -> Self {
        Self { code: ABNORMAL, reason: String::new(), was_clean: false, has_failed: true }
    }
}
