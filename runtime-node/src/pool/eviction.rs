//! Why isolates are let go, as metrics tell it.

/// Why the pool let go of an isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Another one needed its slot.
    Room,
    /// It went over a limit and could not be trusted any more.
    Condemned,
    /// It went over a limit that is not enforced at once.
    Retired,
    /// A newer revision of its Worker has come, and nobody asks for this one.
    Superseded,
    /// Nobody has asked for it for a long time.
    Idle,
    /// The node's memory was short.
    Memory,
    /// The revision runs elsewhere on the node from now on, or nowhere.
    Moved,
}

impl Eviction {
    pub const ALL: [Self; 7] =
        [Self::Room, Self::Condemned, Self::Retired, Self::Superseded, Self::Idle, Self::Memory, Self::Moved];

    /// As metrics see it.
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
