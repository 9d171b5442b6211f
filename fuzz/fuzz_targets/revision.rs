//! Fuzzes revisions in messages. A revision that is assembled from messages serializes to messages
//! that assemble to the same revision, and its digest is the one that it claims.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tenon_proto::catalog::{GetRevisionResponse, get_revision_response::Part};
use tenon_proto::frame::Decoder;
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::{Assembler, MalformedRevision, Revision};

fn assemble(
    messages: impl IntoIterator<Item = GetRevisionResponse>,
) -> Result<(RevisionDigest, Revision), MalformedRevision> {
    let mut assembler = Assembler::default();
    messages.into_iter().try_for_each(|message| assembler.push(message))?;
    assembler.finish()
}

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::default();
    decoder.push(Bytes::copy_from_slice(data));
    let mut messages: Vec<GetRevisionResponse> =
        std::iter::from_fn(|| decoder.next().ok().flatten()).collect();

    let digest = match assemble(messages.clone()) {
        Ok((digest, _)) => digest,
        // Random input cannot contain its own digest, so the target uses the actual one.
        Err(MalformedRevision::WrongDigest { actual, .. }) => actual,
        Err(_) => return,
    };
    for message in &mut messages {
        if let Some(Part::Head(head)) = &mut message.part {
            head.digest = digest.as_bytes().to_vec();
        }
    }
    let (named, revision) =
        assemble(messages).expect("cannot assemble the revision with the right digest");
    assert_eq!(named, digest);
    assert_eq!(assemble(revision.to_messages(&digest)), Ok((digest, revision)));
});
