//! Tests the plans of Workers whose code is in OCI artifacts.

use tenon_crds::{OciSource, PullSecretRef, Source};

use super::*;
use crate::artifacts::{ArtifactError, Compiled};

const IMAGE: &str = "ghcr.io/acme/cart:v1";

fn digest(byte: u8) -> ArtifactDigest {
    ArtifactDigest::new([byte; 32])
}

fn with_image(mut candidate: Candidate, image: &str) -> Candidate {
    let oci = OciSource { image: image.to_owned(), pull_secret_ref: None };
    let mut worker = (*candidate.worker).clone();
    worker.spec.source = Source { oci: Some(oci.clone()), ..Source::default() };
    candidate.worker = Arc::new(worker);
    candidate.source = SourceState::Artifact { oci, pull_secret: None };
    candidate
}

/// Returns the plan of a Worker whose artifact is pulled if that is necessary.
fn plan_pulled(candidate: &Candidate, outcome: Result<ArtifactDigest, &ArtifactError>) -> Plan {
    let compiled =
        outcome.map(|digest| Compiled { digest, entrypoint: "worker.js".to_owned(), assets: None });
    let draft = draft(candidate).pulled(&candidate.worker, compiled);
    super::super::plan(candidate, &draft, None, now())
}

fn deploy(image: &str, digest: ArtifactDigest) -> Candidate {
    let candidate = with_image(candidate(GOOD), image);
    let plan = plan_pulled(&candidate, Ok(digest));
    perform(candidate, plan)
}

#[test]
fn a_revision_of_an_artifact_has_its_digest_and_no_code() {
    let candidate = with_image(candidate(GOOD), IMAGE);
    let source = draft(&candidate).artifact().cloned().unwrap();
    assert_eq!((source.image.as_str(), source.digest), (IMAGE, None));
    let revision = plan_pulled(&candidate, Ok(digest(1))).apply.unwrap();
    let artifact = revision.spec.artifact.unwrap();
    assert_eq!((artifact.image.as_str(), artifact.digest), (IMAGE, digest(1).to_string()));
    assert!(revision.spec.modules.is_empty());
    assert_eq!(revision.spec.entrypoint, "worker.js");
}

#[test]
fn a_tag_is_resolved_once() {
    let deployed = deploy(IMAGE, digest(1));
    assert!(draft(&deployed).artifact().is_none(), "the artifact is pulled again");

    // Another field changes: the same code is deployed.
    let mut changed = deployed.clone();
    let mut worker = (*changed.worker).clone();
    worker.spec.vars.insert("A".to_owned(), "1".to_owned());
    changed.worker = Arc::new(worker);
    assert_eq!(draft(&changed).artifact().unwrap().digest, Some(digest(1)));

    let other = with_image(deployed, "ghcr.io/acme/cart:v2");
    assert_eq!(draft(&other).artifact().unwrap().digest, None);
}

#[test]
fn a_digest_in_the_reference_needs_no_registry_to_resolve_it() {
    let image = format!("ghcr.io/acme/cart@{}", digest(2));
    let source = draft(&with_image(candidate(GOOD), &image)).artifact().cloned().unwrap();
    assert_eq!(source.digest, Some(digest(2)));
}

#[test]
fn another_entrypoint_is_another_revision() {
    let mut deployed = deploy(IMAGE, digest(1));
    let mut worker = (*deployed.worker).clone();
    worker.spec.entrypoint = Some("other.js".to_owned());
    deployed.worker = Arc::new(worker);
    assert!(draft(&deployed).artifact().is_some());
}

#[test]
fn the_layer_of_static_files_is_part_of_the_revision_of_a_worker_that_serves_them() {
    let candidate = with_image(candidate(GOOD), IMAGE);
    assert!(!draft(&candidate).artifact().unwrap().assets);
    let mut with = candidate.clone();
    let mut worker = (*with.worker).clone();
    worker.spec.assets = Some(tenon_crds::Assets::default());
    with.worker = Arc::new(worker);
    let made = draft(&with);
    assert!(made.artifact().unwrap().assets);
    let compiled =
        Compiled { digest: digest(1), entrypoint: "worker.js".to_owned(), assets: Some(digest(2)) };
    let made = made.pulled(&with.worker, Ok(compiled));
    let plan = super::super::plan(&with, &made, None, now());
    let artifact = plan.apply.as_ref().and_then(|revision| revision.spec.artifact.clone());
    assert_eq!(artifact.unwrap().assets, Some(digest(2).to_string()));
    let deployed = perform(with, plan);
    assert!(draft(&deployed).artifact().is_none(), "the artifact is pulled again");

    let error = ArtifactError::NoAssets { image: IMAGE.to_owned() };
    let mut without = candidate;
    without.worker = deployed.worker;
    let plan = plan_pulled(&without, Err(&error));
    assert_eq!(condition_of(&plan, "Ready").reason, "InvalidAssets");
}

#[test]
fn an_artifact_that_cannot_be_pulled_is_reported_while_its_predecessor_serves() {
    let deployed = deploy(IMAGE, digest(1));
    let latest = deployed.worker.status.as_ref().unwrap().latest_revision.clone();
    let next = with_image(deployed, "ghcr.io/acme/cart:v2");
    let error = ArtifactError::NotAllowed("ghcr.io".to_owned());
    let plan = plan_pulled(&next, Err(&error));
    assert!(plan.apply.is_none());
    let ready = condition_of(&plan, "Ready");
    assert_eq!(ready.reason, "RegistryNotAllowed");
    assert!(ready.message.contains("ghcr.io"), "{}", ready.message);
    assert_eq!(plan.status.unwrap().latest_revision, latest);
}

#[test]
fn a_worker_waits_for_its_pull_secret() {
    let mut candidate = with_image(candidate(GOOD), IMAGE);
    if let SourceState::Artifact { oci, .. } = &mut candidate.source {
        oci.pull_secret_ref = Some(PullSecretRef { name: "registry".to_owned() });
    }
    let plan = plan_pulled(&candidate, Ok(digest(1)));
    let ready = condition_of(&plan, "Ready");
    assert_eq!(ready.reason, "SecretMissing");
    assert!(ready.message.contains("\"registry\""), "{}", ready.message);
}
