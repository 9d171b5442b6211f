//! Typed identifiers, so that one kind cannot be used in place of another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// The id of a Worker, `namespace/name`. It is cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(Arc<str>);

/// The error for text that is not a worker id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("worker id {0:?} is not of the form namespace/name")]
pub struct InvalidWorkerId(String);

impl WorkerId {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the Worker's namespace, which is its tenant.
    pub fn namespace(&self) -> &str {
        self.split().0
    }

    pub fn name(&self) -> &str {
        self.split().1
    }

    fn split(&self) -> (&str, &str) {
        self.0.split_once('/').expect("a WorkerId has one slash")
    }
}

impl FromStr for WorkerId {
    type Err = InvalidWorkerId;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self(s.into()))
            }
            _ => Err(InvalidWorkerId(s.to_owned())),
        }
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for bytes or text that are not a digest.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidDigest {
    /// A byte slice of this length.
    #[error("the digest has {0} bytes instead of 32")]
    Bytes(usize),
    /// Text that is not a digest in hexadecimal after this prefix.
    #[error("the digest is not 64 lower-case hexadecimal digits{}", after(.0))]
    Text(&'static str),
}

/// Returns the part of an error's message that names the prefix, if the prefix is not empty.
fn after(prefix: &str) -> String {
    if prefix.is_empty() { String::new() } else { format!(" after `{prefix}`") }
}

/// Implements the API of all ids of 32 bytes: conversions from and to bytes, and a text form, which
/// is a prefix and lower-case hexadecimal.
macro_rules! id_of_32_bytes {
    ($id:ident, $prefix:literal) => {
        impl $id {
            pub const fn new(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl TryFrom<&[u8]> for $id {
            type Error = InvalidDigest;

            fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
                bytes.try_into().map(Self).map_err(|_| InvalidDigest::Bytes(bytes.len()))
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        /// Parses the form that `Display` writes.
        impl FromStr for $id {
            type Err = InvalidDigest;

            fn from_str(text: &str) -> Result<Self, InvalidDigest> {
                let hex = text.strip_prefix($prefix).unwrap_or_default();
                Self::try_from(from_hex(hex).as_slice()).map_err(|_| InvalidDigest::Text($prefix))
            }
        }
    };
}

/// The SHA-256 digest of a revision's content (see [`crate::revision`]), displayed as lower-case
/// hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevisionDigest([u8; 32]);

id_of_32_bytes!(RevisionDigest, "");

impl RevisionDigest {
    /// Returns the first ten hexadecimal digits, which distinguish a Worker's revisions in a name.
    pub fn short(&self) -> String {
        self.to_string()[..10].to_owned()
    }
}

impl fmt::Debug for RevisionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// The digest of an OCI artifact's manifest, displayed as in an image reference: `sha256:` and
/// lower-case hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactDigest([u8; 32]);

id_of_32_bytes!(ArtifactDigest, "sha256:");

/// The id of a Worker's static files, displayed as lower-case hexadecimal.
///
/// The id of files in an artifact follows from their layer and the namespace. Therefore a tenant
/// that knows the digest of another tenant's layer does not get the files of that tenant. The id of
/// files outside of an artifact is a hash of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId([u8; 32]);

id_of_32_bytes!(SiteId, "");

impl SiteId {
    /// Returns the id of the files in a layer of an artifact, for the Workers of a namespace.
    pub fn of(namespace: &str, layer: &ArtifactDigest) -> Self {
        let hash = Sha256::new().chain_update(layer.as_bytes()).chain_update(namespace);
        Self(hash.finalize().into())
    }
}

/// Returns the bytes of lower-case hexadecimal, or an empty vector if the text is anything else.
fn from_hex(text: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    bytes.unwrap_or_default()
}

/// The id of a shard or of a lane of a node. A lane is a shard that the kernel schedules last.
///
/// `Display` and `FromStr` use the form of metrics, logs and arguments: `3` and `lane-0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The bit that is set in the ids of lanes. No node has this many shards.
    const LANE: u16 = 1 << 15;

    /// Returns the id of the lane at this position among the lanes of its node.
    pub const fn lane(position: u16) -> Self {
        Self(position | Self::LANE)
    }

    pub const fn is_lane(self) -> bool {
        self.0 & Self::LANE != 0
    }

    /// Returns the position among the shards of the node, or among its lanes.
    pub const fn position(self) -> u16 {
        self.0 & !Self::LANE
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_lane() { "lane-" } else { "" })?;
        self.position().fmt(f)
    }
}

/// The error for text that is not a shard id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a shard id; use a number such as 3, or lane-0 for a lane")]
pub struct InvalidShardId(String);

impl FromStr for ShardId {
    type Err = InvalidShardId;

    fn from_str(text: &str) -> Result<Self, InvalidShardId> {
        let (number, lane) =
            text.strip_prefix("lane-").map_or((text, 0), |number| (number, Self::LANE));
        let position = number.parse().ok().filter(|position: &u16| position & Self::LANE == 0);
        position
            .map(|position| Self(position | lane))
            .ok_or_else(|| InvalidShardId(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_id_is_a_namespace_and_a_name() {
        let id: WorkerId = "shop/cart".parse().unwrap();
        assert_eq!((id.namespace(), id.name()), ("shop", "cart"));
        assert_eq!(id, WorkerId::new("shop", "cart"));
    }

    #[test]
    fn other_text_is_not_a_worker_id() {
        for bad in ["", "cart", "/cart", "shop/", "a/b/c"] {
            assert!(bad.parse::<WorkerId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_shard_is_displayed_as_a_number_and_a_lane_with_a_prefix() {
        for (id, text) in [(ShardId(3), "3"), (ShardId::lane(0), "lane-0")] {
            assert_eq!((id.to_string().as_str(), text.parse()), (text, Ok(id)));
        }
        assert!(ShardId::lane(7).is_lane() && !ShardId(7).is_lane());
        for bad in ["", "lane-", "lane-x", "32768", "-1"] {
            assert!(bad.parse::<ShardId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_digest_is_displayed_as_hexadecimal() {
        let digest = RevisionDigest::new([0xab; 32]);
        assert_eq!(digest.to_string(), "ab".repeat(32));
        assert_eq!(digest.short(), "ababababab");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let (odd, signed, upper) = ("ab".repeat(31) + "a", "+a".repeat(32), "AB".repeat(32));
        for other in ["", "abc", &odd, &signed, &upper] {
            assert!(other.parse::<RevisionDigest>().is_err(), "{other}");
        }
        assert!(RevisionDigest::try_from(&[0u8; 31][..]).is_err());
    }

    #[test]
    fn the_error_for_a_digest_states_the_expected_form() {
        let bytes = SiteId::try_from(&[0_u8; 31][..]).unwrap_err();
        assert_eq!(bytes.to_string(), "the digest has 31 bytes instead of 32");

        let expected = "the digest is not 64 lower-case hexadecimal digits";
        for text in ["AB".repeat(32), "ab".repeat(31), String::new()] {
            let error = text.parse::<RevisionDigest>().unwrap_err();
            assert_eq!(error.to_string(), expected, "{text:?}");
        }

        let expected = "the digest is not 64 lower-case hexadecimal digits after `sha256:`";
        for text in ["ab".repeat(32), format!("sha256:{}", "AB".repeat(32)), String::new()] {
            let error = text.parse::<ArtifactDigest>().unwrap_err();
            assert_eq!(error.to_string(), expected, "{text:?}");
        }
    }
}
