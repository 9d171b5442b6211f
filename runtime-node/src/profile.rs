//! The bounds of profiles, on which the supervisor, its lanes and clients agree. This module is
//! pure.

use std::time::Duration;

/// Longest time for which the copy of a Worker serves requests before its profile ends.
pub const MAX_PROFILE_DURATION: Duration = Duration::from_secs(60);

/// Time for which a profile waits for a request of its Worker.
pub const WAIT: Duration = Duration::from_secs(30);

/// Maximum size of a profile, in bytes, before its compression. A heap snapshot takes one to three
/// times the size of its heap.
pub const MAX_SIZE: usize = 512 << 20;

/// Maximum size of a compressed profile, in bytes. A lane holds that much while a client reads it.
/// Profiles compress to a tenth of their size or less.
pub(crate) const MAX_COMPRESSED: usize = 64 << 20;

/// Maximum size of a piece of a compressed profile, in bytes.
pub(crate) const PIECE: usize = 256 << 10;

/// Time within which a client must take a piece.
pub(crate) const TAKE: Duration = Duration::from_secs(30);
