//! Settings (RFC 9113, section 6.5), and the setting by which hop peers recognize each other.
//! This module is pure.

use crate::error::ConnectionError;
use crate::frame::MAX_31_BITS;

// The ids of settings (section 6.5.2).
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

/// The id of the setting with which a peer states that it keeps to the hop protocol. It is in
/// the range for experiments; other peers ignore it (section 6.5.2).
const HOP: u16 = 0xf7e0;

/// The version of the hop protocol.
const VERSION: u32 = 1;

/// The settings of a peer that affect the other peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The peer keeps to the same version of the hop protocol.
    pub(crate) is_hop: bool,
    /// The maximum number of concurrent streams, if the peer states one.
    pub(crate) max_streams: Option<u32>,
    /// The initial window of streams, in bytes, if the peer states one.
    pub(crate) window: Option<u32>,
}

impl Settings {
    /// Parses the payload of a SETTINGS frame.
    ///
    /// # Errors
    /// Fails if a setting is malformed or has an invalid value.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, ConnectionError> {
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(ConnectionError::size("settings of the wrong length"));
        };
        let mut parsed = Self::default();
        for &[a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(value);
            match u16::from_be_bytes([a, b]) {
                HOP => parsed.is_hop = value == VERSION,
                MAX_CONCURRENT_STREAMS => parsed.max_streams = Some(value),
                INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                    return Err(ConnectionError::flow("an initial window that is too large"));
                }
                INITIAL_WINDOW_SIZE => parsed.window = Some(value),
                MAX_FRAME_SIZE if !(16_384..=16_777_215).contains(&value) => {
                    return Err(ConnectionError::protocol("an invalid frame size"));
                }
                // The other settings do not matter: no frame is larger than the size that every
                // peer must accept, and no header block refers to a dynamic table.
                _ => {}
            }
        }
        Ok(parsed)
    }
}

/// Returns our settings.
///
/// # Arguments
/// * `window` - the initial window of streams, in bytes.
/// * `max_streams` - the maximum number of streams that the peer may open.
pub(crate) fn ours(window: u32, max_streams: u32) -> [(u16, u32); 3] {
    [(INITIAL_WINDOW_SIZE, window), (MAX_CONCURRENT_STREAMS, max_streams), (HOP, VERSION)]
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::frame::{HEADER, put_settings};

    #[test]
    fn our_settings_are_read_by_the_peer() {
        let mut out = BytesMut::new();
        put_settings(&mut out, &ours(7, 9));
        let settings = Settings::parse(&out[HEADER..]).unwrap();
        assert_eq!(settings, Settings { is_hop: true, max_streams: Some(9), window: Some(7) });
    }

    #[test]
    fn another_version_is_not_recognized() {
        let payload = [0xf7, 0xe0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0];
        assert_eq!(Settings::parse(&payload).unwrap(), Settings::default());
    }

    #[test]
    fn invalid_settings_are_refused() {
        for payload in
            [&[0, 4, 0, 0][..], &[0, 4, 0x80, 0, 0, 0], &[0, 5, 0, 0, 0, 1], &[0, 5, 1, 0, 0, 0]]
        {
            assert!(Settings::parse(payload).is_err(), "{payload:?}");
        }
    }
}
