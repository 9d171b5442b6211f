//! The ways in which a connection fails.

use std::{fmt, io};

/// An error code of RFC 9113, section 7. The constants are the codes that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    pub const NO_ERROR: Self = Self(0);
    pub const PROTOCOL_ERROR: Self = Self(1);
    pub const INTERNAL_ERROR: Self = Self(2);
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    pub const REFUSED_STREAM: Self = Self(7);
    pub const CANCEL: Self = Self(8);
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The peer violates the protocol.
    #[error("the peer sent {what}")]
    Violation { code: Code, what: &'static str },
    /// The peer has ended the connection with an error code.
    #[error("the peer ended the connection with HTTP/2 error {0}")]
    GoAway(Code),
    #[error("the peer has not answered a ping")]
    Silent,
}

impl ConnectionError {
    pub(crate) const fn protocol(what: &'static str) -> Self {
        Self::Violation { code: Code::PROTOCOL_ERROR, what }
    }

    pub(crate) const fn flow(what: &'static str) -> Self {
        Self::Violation { code: Code::FLOW_CONTROL_ERROR, what }
    }

    pub(crate) const fn size(what: &'static str) -> Self {
        Self::Violation { code: Code::FRAME_SIZE_ERROR, what }
    }
}
