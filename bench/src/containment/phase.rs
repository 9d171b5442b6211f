//! The phases of a Worker in which a script is run.

use std::fmt;

/// The state of a Worker when its hostile requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first hostile request is the Worker's first request.
    Unknown,
    /// The Worker has proved to be light, and runs on a shard.
    Promoted,
}

impl Phase {
    pub(super) const ALL: [Self; 2] = [Self::Unknown, Self::Promoted];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Promoted => "promoted",
        })
    }
}
