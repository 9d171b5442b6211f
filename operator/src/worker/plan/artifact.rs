//! The draft of a Worker whose code is in an OCI artifact. This module is pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tenon_crds::{Artifact, OciSource, PullSecretRef, Worker, WorkerRevision, WorkerRevisionSpec};
use tenon_proto::id::ArtifactDigest;

use super::Stage;
use super::fault::Fault;
use crate::artifacts::Source;
use crate::index::Candidate;
use crate::revision;

/// Returns the first stage of a Worker whose code is in an artifact. An artifact that is already in
/// a revision is not pulled again.
pub(super) fn draft(
    candidate: &Candidate,
    oci: &OciSource,
    pull_secret: Option<&Arc<Secret>>,
) -> Stage {
    if let (Some(PullSecretRef { name }), None) = (&oci.pull_secret_ref, pull_secret) {
        let message =
            format!("spec.source.oci.pullSecretRef: Secret {name:?} does not exist; create it");
        return Stage::Settled(Err(Fault::waiting("SecretMissing", message)));
    }
    let worker = &candidate.worker;
    let digest = pinned(candidate, &oci.image);
    let existing = digest.and_then(|digest| {
        let of_revision = |revision: &Arc<WorkerRevision>| {
            let entrypoint = revision.spec.entrypoint.clone();
            let is_requested =
                worker.spec.entrypoint.as_ref().is_none_or(|requested| *requested == entrypoint);
            let assets = revision.spec.artifact.as_ref()?.assets.clone();
            let spec = snapshot(worker, &oci.image, digest, entrypoint, assets);
            (is_requested && spec.digest == revision.spec.digest).then_some(spec)
        };
        candidate.revisions.iter().find_map(of_revision)
    });
    match existing {
        Some(spec) => Stage::Settled(Ok(spec)),
        None => Stage::Artifact(Source {
            namespace: candidate.id.namespace().to_owned(),
            image: oci.image.clone(),
            digest,
            pull_secret: pull_secret.cloned(),
            flags: revision::flags(&worker.spec.compatibility_flags),
            assets: worker.spec.assets.is_some(),
        }),
    }
}

/// Returns the digest of an image: the digest in its reference, or the digest to which the latest
/// revision has resolved the same reference.
fn pinned(candidate: &Candidate, image: &str) -> Option<ArtifactDigest> {
    if let Some((_, digest)) = image.split_once('@') {
        return digest.parse().ok();
    }
    let latest = candidate.worker.status.as_ref()?.latest_revision.as_ref()?;
    let latest = candidate.revisions.iter().find(|revision| revision.name_any() == *latest)?;
    let artifact = latest.spec.artifact.as_ref().filter(|artifact| artifact.image == image)?;
    artifact.digest.parse().ok()
}

/// Returns the spec of the revision of a Worker whose code is in an artifact.
///
/// # Arguments
/// * `assets` - digest of the layer with the static files that the Worker serves.
pub(super) fn snapshot(
    worker: &Worker,
    image: &str,
    digest: ArtifactDigest,
    entrypoint: String,
    assets: Option<String>,
) -> WorkerRevisionSpec {
    let oci = worker.spec.source.oci.as_ref();
    let artifact = Artifact {
        image: image.to_owned(),
        digest: digest.to_string(),
        assets,
        pull_secret_ref: oci.and_then(|oci| oci.pull_secret_ref.clone()),
    };
    revision::snapshot_of_artifact(worker, artifact, entrypoint)
}
