//! Reasons for evictions, as metrics show them.

/// The reason for an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Another revision needed its slot.
    Room,
    /// It went over a limit and could no longer be trusted.
    Condemned,
    /// It went over a limit that is not enforced at once.
    Retired,
    /// A newer revision of its Worker started, and this one had no requests.
    Superseded,
    /// It had no request for a long time.
    Idle,
    /// The node's memory was short.
    Memory,
    /// The revision runs elsewhere on the node from now on, or is refused.
    Moved,
}

impl Eviction {
    pub const ALL: [Self; 7] =
        [Self::Room, Self::Condemned, Self::Retired, Self::Superseded, Self::Idle, Self::Memory, Self::Moved];

    /// Returns the reason as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Condemned => "condemned",
            Self::Retired => "retired",
            Self::Superseded => "superseded",
            Self::Idle => "idle",
            Self::Memory => "memory",
            Self::Moved => "moved",
        }
    }
}
