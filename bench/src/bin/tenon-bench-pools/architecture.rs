//! The names of the contenders.

use std::fmt;

use clap::ValueEnum;

/// Who may run an isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Architecture {
    /// Nobody twice: each request has an isolate made for it.
    Legacy,
    /// Any thread, which has the isolate from the request to the response, awaits included.
    SharedHeld,
    /// Any thread, for one turn.
    SharedReleased,
    /// One thread, at which the Worker's requests arrive.
    Pinned,
    /// One thread, to which the Worker's requests are handed by those at which they arrive.
    Handed,
    /// As pinned, in the product's own engine.
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
