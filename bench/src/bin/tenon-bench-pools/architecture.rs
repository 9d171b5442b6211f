//! The architectures that are compared, with their names in the table.

use std::fmt;

use clap::ValueEnum;

/// An architecture, by the threads that may run an isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Architecture {
    /// Each request gets a new isolate, on the thread at which it arrived.
    Legacy,
    /// Any thread may run the isolate, and holds it from the request to the response, including
    /// awaits.
    SharedHeld,
    /// Any thread may run the isolate, and holds it for one turn.
    SharedReleased,
    /// One thread runs the isolate, and the Worker's requests arrive at that thread.
    Pinned,
    /// One thread runs the isolate, and other threads hand it the Worker's requests.
    Handed,
    /// Like `Pinned`, but with Tenon's own engine.
    Tenon,
}

/// Formats the name for the table.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::SharedHeld => "shared, for a request",
            Self::SharedReleased => "shared, for a turn",
            Self::Pinned => "pinned",
            Self::Handed => "pinned, handed over",
            Self::Tenon => "pinned, Tenon's engine",
        })
    }
}
