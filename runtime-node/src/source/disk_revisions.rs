//! The revisions that this node has run, on disk, so that they start while no operator answers.
//!
//! A file contains the catalog's messages, which are assembled and verified by their digest again
//! when they are read; a damaged file counts as absent. Revisions with values of Secrets are not
//! kept: these values are never written to a disk.

use std::io;
use std::path::Path;

use bytes::{Buf as _, Bytes, BytesMut};
use prost::Message as _;
use tenon_lifecycle::disk_cache::DiskCache;
use tenon_proto::catalog::GetRevisionResponse;
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::{Assembler, ByKind, Revision};

/// Capacity in bytes. Together with the bytecode, which has 1 GiB, it fits into the volume that the
/// operator gives a node.
const CAPACITY: usize = 512 << 20;

/// The folder within the directory of the bytecode.
const FOLDER: &str = "revisions";

/// The revisions on disk.
pub(super) struct DiskRevisions(DiskCache<RevisionDigest>);

impl DiskRevisions {
    /// Opens the folder below `directory`, which is created if necessary.
    ///
    /// # Errors
    /// Fails if the folder cannot be created or read.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        Ok(Self(DiskCache::open(directory.join(FOLDER), CAPACITY)?))
    }

    /// Returns a future that reads and verifies a revision, or `None` if there is no file for it.
    pub(super) fn read(
        &mut self,
        digest: RevisionDigest,
    ) -> Option<impl Future<Output = Option<Revision>> + use<>> {
        let read = self.0.read(digest)?;
        Some(async move {
            let revision = decode(read.await?, digest);
            if revision.is_none() {
                tracing::info!(revision = %digest, "a revision on disk is damaged; fetching it again");
            }
            revision
        })
    }

    /// Writes a revision in the background, unless it has values of Secrets.
    pub(super) fn write(&mut self, digest: RevisionDigest, revision: &Revision) {
        if ByKind::of(&revision.bindings).secrets.is_empty() {
            self.0.write(digest, encode(revision, digest));
        }
    }
}

fn encode(revision: &Revision, digest: RevisionDigest) -> Bytes {
    let mut file = BytesMut::new();
    for message in revision.to_messages(&digest) {
        message.encode_length_delimited(&mut file).expect("the buffer grows as needed");
    }
    file.freeze()
}

/// Returns the revision in a file, or `None` if the file is damaged or contains another revision.
fn decode(mut file: Bytes, digest: RevisionDigest) -> Option<Revision> {
    let mut assembler = Assembler::default();
    while file.has_remaining() {
        assembler.push(GetRevisionResponse::decode_length_delimited(&mut file).ok()?).ok()?;
    }
    let (actual, revision) = assembler.finish().ok()?;
    (actual == digest).then_some(revision)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenon_proto::id::WorkerId;
    use tenon_proto::revision::Binding;

    use super::*;

    fn revision() -> Revision {
        Revision::from_source(WorkerId::new("shop", "cart"), "export default {}")
    }

    #[test]
    fn a_revision_is_read_as_it_was_written() {
        let revision = revision();
        let digest = revision.digest();
        assert_eq!(decode(encode(&revision, digest), digest), Some(revision));
    }

    #[test]
    fn damaged_files_and_files_of_other_revisions_count_as_absent() {
        let revision = revision();
        let digest = revision.digest();
        let file = encode(&revision, digest);
        for at in 0..file.len() {
            assert_eq!(decode(file.slice(..at), digest), None, "cut at {at}");
            let mut damaged = file.to_vec();
            damaged[at] ^= 1;
            let read = decode(damaged.into(), digest);
            // A bit of a field that is not part of the digest, such as a name for logs, may differ.
            assert!(read.is_none_or(|read| read.digest() == digest), "damaged at {at}");
        }
        assert_eq!(decode(file, RevisionDigest::new([7; 32])), None);
    }

    #[tokio::test]
    async fn a_revision_with_secrets_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut revisions = DiskRevisions::open(directory.path()).unwrap();
        let mut secret = revision();
        secret.bindings.insert("TOKEN".to_owned(), Binding::Secret("hunter2".to_owned()));
        revisions.write(secret.digest(), &secret);
        assert!(revisions.read(secret.digest()).is_none());
        let plain = revision();
        revisions.write(plain.digest(), &plain);
        let reopened = || DiskRevisions::open(directory.path()).unwrap().read(plain.digest());
        let read = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                match reopened() {
                    Some(read) => return read.await,
                    None => tokio::task::yield_now().await,
                }
            }
        });
        assert_eq!(read.await.unwrap(), Some(plain));
        let files = std::fs::read_dir(directory.path().join(FOLDER)).unwrap().count();
        assert_eq!(files, 1, "values of Secrets are on the disk");
    }
}
