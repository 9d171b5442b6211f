//! What fuzz targets reach of this crate beyond what it shows to everybody.

pub use crate::egress::fuzzing::{Decoded, decode, tunnel};
pub use crate::engine::fuzzing::{Verdict, every_place, frame, look_at_module, place};
