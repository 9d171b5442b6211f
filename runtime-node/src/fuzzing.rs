//! Items of this crate that fuzz targets need beyond its public API.

pub use crate::egress::fuzzing::{Decoded, decode, tunnel};
pub use crate::engine::fuzzing::{Verdict, every_place, frame, look_at_module, place};
