//! The names of the contenders.

use std::fmt;

use clap::ValueEnum;

/// The threads that may run an isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Architecture {
    /// A new isolate for each request.
    Legacy,
    /// Any thread, which holds the isolate from the request to the response, including awaits.
    SharedHeld,
    /// Any thread, which holds the isolate for one turn.
    SharedReleased,
    /// One thread, at which the Worker's requests arrive.
    Pinned,
    /// One thread, to which other threads hand the Worker's requests.
    Handed,
    /// The same as pinned, in Tenon's own engine.
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
