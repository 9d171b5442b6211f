//! Tests the objects and the status that are planned for a Worker.

use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::events::EventType;
use serde_json::json;
use tenon_catalog::{Deployment, Digest, Share};
use tenon_crds::{Affinity, Limits, PoolLimits, PoolRateLimits, Schedule, Worker};
use tenon_proto::catalog::Route;
use tenon_proto::id::{ArtifactDigest, RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;

use super::*;
use crate::acknowledgement::Acknowledgement;
use crate::claims::Holder;
use crate::index::Published;
use crate::limits;
use crate::namespaces::Access;

mod artifact;
mod boundaries;
mod progress;
mod rollout;
mod traffic;

const GOOD: &str = "export default { fetch() { return new Response('hi'); } };\n";
const BAD: &str = "export default {\n  fetch( { return 1; }\n};\n";

fn candidate(code: &str) -> Candidate {
    let worker: Worker = serde_json::from_value(json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "cart", "namespace": "shop", "uid": "u-1", "generation": 3},
        "spec": {"source": {"modules": {"worker.js": code}}, "revisionHistoryLimit": 1},
    }))
    .unwrap();
    let route = Route { host: "cart.shop.localhost".to_owned(), path: "/".to_owned() };
    Candidate {
        id: WorkerId::new("shop", "cart"),
        source: SourceState::Modules(revision::join_modules(
            worker.spec.source.modules.as_ref().unwrap(),
            [],
        )),
        worker: Arc::new(worker),
        secrets: BTreeMap::new(),
        revisions: Vec::new(),
        pool: Some(PoolLimits::default()),
        access: Access::Allowed,
        routes: vec![(route, Holder::Claimant)],
        previews: Vec::new(),
        missing_secrets: BTreeMap::new(),
        serving: Vec::new(),
        published: None,
    }
}

/// Returns the plan of a Worker once the routers have acknowledged what is accepted.
fn plan(candidate: &Candidate, now: Timestamp) -> Plan {
    let accepted = unacknowledged(candidate, now);
    match &accepted.status {
        Some(status) => unacknowledged(&announced(candidate, status, Acknowledgement::Given), now),
        None => accepted,
    }
}

/// Returns the plan of a Worker with no other acknowledgement than the candidate's.
fn unacknowledged(candidate: &Candidate, now: Timestamp) -> Plan {
    super::plan(candidate, &draft(candidate).compiled_here(), None, now)
}

/// Returns the candidate after the catalog has followed a status.
fn announced(
    candidate: &Candidate,
    status: &WorkerStatus,
    acknowledged: Acknowledgement,
) -> Candidate {
    let Some(accepted) = &status.accepted else { return candidate.clone() };
    let targets = status.targets();
    let shares = targets.iter().map(|target| {
        let known = candidate.serving.iter().find(|(known, _)| known.name == target.revision);
        let (revision, digest) =
            known.cloned().unwrap_or_else(|| cataloged_revision(candidate, &target.revision));
        Share {
            revision,
            digest: Digest::Resolved(digest),
            percent: u32::try_from(target.percent).unwrap(),
            routes: target.host.iter().map(|host| revision::preview(host)).collect(),
        }
    });
    let deployment = Deployment {
        worker: candidate.id.clone(),
        pool: accepted.pool.clone(),
        routes: revision::accepted_routes(accepted).collect(),
        session_affinity: revision::session_affinity(accepted),
        strict_affinity: accepted.affinity == Affinity::Strict,
        rate_limits: limits::rates(accepted.rate_limits, PoolRateLimits::default()),
        measurement: crate::measurement::measurement(status),
        shares: shares.collect(),
    };
    let serving = deployment.shares.iter();
    let serving = serving.map(|share| (Arc::clone(&share.revision), share.digest.get()));
    Candidate {
        serving: serving.collect(),
        published: Some(Published { entry: deployment.entry().unwrap(), acknowledged }),
        ..candidate.clone()
    }
}

/// Returns a revision of this name, as the catalog has it.
fn cataloged_revision(candidate: &Candidate, name: &str) -> (Arc<Revision>, RevisionDigest) {
    let revision = Revision::from_source(candidate.id.clone(), format!("{GOOD}// {name}"));
    let revision = Revision { name: name.to_owned(), ..revision };
    let digest = revision.digest();
    (Arc::new(revision), digest)
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000).unwrap()
}

fn condition_of<'a>(plan: &'a Plan, type_: &str) -> &'a Condition {
    let status = plan.status.as_ref().expect("the status does not change");
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .expect("the condition is missing")
}

/// Returns the candidate after the plan was performed.
fn perform(mut candidate: Candidate, plan: Plan) -> Candidate {
    candidate.revisions.extend(plan.apply.map(Arc::new));
    let mut worker = (*candidate.worker).clone();
    worker.status = plan.status.or(worker.status);
    candidate.worker = Arc::new(worker);
    candidate
}

fn with_code(mut candidate: Candidate, code: &str) -> Candidate {
    candidate.source = SourceState::Modules(
        [("worker.js".to_owned(), Bytes::copy_from_slice(code.as_bytes()))].into(),
    );
    candidate
}

#[test]
fn a_good_worker_gets_a_revision_and_is_ready() {
    let plan = plan(&candidate(GOOD), now());
    let revision = plan.apply.as_ref().unwrap();
    assert_eq!(revision.metadata.owner_references.as_ref().unwrap()[0].uid, "u-1");
    assert_eq!(condition_of(&plan, "Ready").status, ConditionStatus::True);
    let status = plan.status.unwrap();
    assert_eq!(status.latest_revision, Some(revision.name_any()));
    assert_eq!(status.url.as_deref(), Some("http://cart.shop.localhost/"));
    assert_eq!(status.observed_generation, Some(3));
    assert!(plan.events.is_empty(), "a deployment that succeeds has Events");
}

#[test]
fn a_second_plan_has_nothing_to_do() {
    let first = candidate(GOOD);
    let done = plan(&first, now());
    let again = plan(&perform(first, done), now());
    assert!(
        again.apply.is_none()
            && again.status.is_none()
            && again.delete.is_empty()
            && again.events.is_empty()
    );
}

#[test]
fn typescript_is_compiled_once_and_stored_in_the_revision() {
    let with_modules = |mut candidate: Candidate, code: &str| {
        let logo = [0xff, 0x00];
        let modules = [("worker.ts", code.as_bytes()), ("logo.png", &logo)];
        let modules =
            modules.map(|(name, content)| (name.to_owned(), Bytes::copy_from_slice(content)));
        candidate.source = SourceState::Modules(modules.into());
        candidate
    };
    let code = "export default { fetch(request: Request): Response { return new Response() } }";
    let first = with_modules(candidate(GOOD), code);
    let done = plan(&first, now());
    let spec = done.apply.as_ref().unwrap().spec.clone();
    assert!(!spec.modules["worker.ts"].contains(": Request"), "{spec:?}");
    assert_eq!(spec.modules.keys().collect::<Vec<_>>(), ["worker.ts", "worker.ts.map"]);
    assert_eq!(spec.binary_modules["logo.png"], ByteString(vec![0xff, 0x00]));
    assert_eq!(condition_of(&done, "Compiled").message, "2 modules, entrypoint worker.ts");

    let deployed = perform(first, done);
    let again = plan(&deployed, now());
    assert!(again.apply.is_none() && again.status.is_none() && again.events.is_empty());

    let broken = plan(&with_modules(deployed, "let a: string =\n  export"), now());
    let ready = condition_of(&broken, "Ready");
    assert_eq!(ready.reason, "SyntaxError");
    assert!(
        ready.message.starts_with("worker.ts:2:3: ")
            && ready.message.contains("\n  2 |   export\n"),
        "{ready:?}"
    );
}

#[test]
fn a_syntax_error_is_reported_with_its_position_and_the_last_good_revision_serves() {
    let first = candidate(GOOD);
    let done = plan(&first, now());
    let good = done.apply.as_ref().unwrap().name_any();
    let broken = plan(&with_code(perform(first, done), BAD), now());
    assert!(broken.apply.is_none());
    let ready = condition_of(&broken, "Ready");
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "SyntaxError"));
    assert!(ready.message.starts_with("worker.js:2:"), "{}", ready.message);
    assert!(ready.message.contains(&good), "{}", ready.message);
    assert_eq!(broken.status.unwrap().latest_revision, Some(good));
    assert_eq!(broken.events[0].type_, EventType::Warning);
}

#[test]
fn a_limit_above_the_pools_maximum_is_refused_and_the_last_good_revision_keeps_serving() {
    let first = candidate(GOOD);
    let done = plan(&first, now());
    let good = done.apply.as_ref().unwrap().name_any();
    let mut greedy = perform(first, done);
    let mut worker = (*greedy.worker).clone();
    worker.spec.limits.cpu_ms = Some(30_000);
    greedy.worker = Arc::new(worker);
    let max = Limits { cpu_ms: Some(100), ..Limits::default() };
    greedy.pool = Some(PoolLimits { max, ..PoolLimits::default() });

    let held = plan(&greedy, now());
    assert!(held.apply.is_none());
    let programmed = condition_of(&held, "Programmed");
    assert_eq!(
        (programmed.status, programmed.reason.as_str()),
        (ConditionStatus::False, "LimitOverMaximum")
    );
    assert!(
        programmed
            .message
            .starts_with("spec.limits.cpuMs: 30000 is more than RuntimePool \"default\"")
    );
    assert!(
        condition_of(&held, "Ready").message.contains(&format!("revision {good} keeps serving"))
    );
    assert_eq!(held.status.unwrap().latest_revision, Some(good));

    greedy.pool = Some(PoolLimits::default());
    assert!(plan(&greedy, now()).apply.is_some());
}

#[test]
fn an_invalid_schedule_is_reported_while_the_code_serves() {
    let mut candidate = candidate(GOOD);
    let mut worker = (*candidate.worker).clone();
    let schedule = |cron: &str| Schedule { cron: cron.to_owned(), time_zone: "UTC".to_owned() };
    worker.spec.schedules = vec![schedule("* * * * *"), schedule("0 0 31 2 *")];
    candidate.worker = Arc::new(worker);
    let plan = plan(&candidate, now());
    let programmed = condition_of(&plan, "Programmed");
    assert_eq!(
        (programmed.status, programmed.reason.as_str()),
        (ConditionStatus::False, "InvalidSchedule")
    );
    assert!(programmed.message.starts_with("spec.schedules.cron: \"0 0 31 2 *\" never matches"));
    let made = plan.apply.as_ref().unwrap().name_any();
    assert!(
        condition_of(&plan, "Ready").message.ends_with(&format!("\nrevision {made} keeps serving"))
    );
    assert_eq!(plan.status.unwrap().latest_revision, Some(made));
}

#[test]
fn a_missing_config_map_is_reported_with_its_name() {
    let mut candidate = candidate(GOOD);
    candidate.source = SourceState::MissingConfigMap("code".to_owned());
    let plan = plan(&candidate, now());
    assert_eq!(condition_of(&plan, "Compiled").reason, "ConfigMapMissing");
    assert!(condition_of(&plan, "Ready").message.contains("\"code\""));
}

#[test]
fn a_missing_secret_holds_a_revision_back_until_it_exists() {
    let mut candidate = candidate(GOOD);
    let mut worker = (*candidate.worker).clone();
    worker.spec.secrets =
        serde_json::from_value(json!([{"name": "K", "secretKeyRef": {"name": "s", "key": "k"}}]))
            .unwrap();
    candidate.worker = Arc::new(worker);
    let held = plan(&candidate, now());
    assert!(held.apply.is_none());
    assert_eq!(condition_of(&held, "BindingsResolved").reason, "SecretMissing");
    assert_eq!(condition_of(&held, "Compiled").status, ConditionStatus::True);

    let data = BTreeMap::from([("k".to_owned(), ByteString(b"v".to_vec()))]);
    candidate
        .secrets
        .insert("s".to_owned(), Arc::new(Secret { data: Some(data), ..Secret::default() }));
    assert!(plan(&candidate, now()).apply.is_some());
}

#[test]
fn the_digest_of_a_revision_with_secrets_is_recorded_once_it_is_in_the_catalog() {
    let first = candidate(GOOD);
    let done = plan(&first, now());
    let name = done.apply.as_ref().unwrap().name_any();
    let mut deployed = perform(first, done);
    let revision = Revision { name, ..Revision::from_source(deployed.id.clone(), GOOD) };
    let serve = |revision: &Revision| vec![(Arc::new(revision.clone()), revision.digest())];
    deployed.serving = serve(&revision);
    assert!(
        plan(&deployed, now()).status.is_none(),
        "a digest is recorded for a revision without secrets"
    );

    let salted = Revision { salt: Bytes::from_static(b"uid"), ..revision };
    deployed.serving = serve(&salted);
    let recorded = plan(&deployed, now()).status.unwrap();
    let digest = recorded.accepted.clone().unwrap().digest;
    assert_eq!(digest, Some(salted.digest().to_string()));
    let mut worker = (*deployed.worker).clone();
    worker.status = Some(recorded);
    (deployed.worker, deployed.serving) = (Arc::new(worker), Vec::new());
    assert!(
        plan(&deployed, now()).status.is_none(),
        "the digest is lost while the Secret is missing"
    );
    let changed = with_code(deployed, "export default {}");
    assert_eq!(plan(&changed, now()).status.unwrap().accepted.unwrap().digest, None);
}

#[test]
fn a_route_of_another_worker_is_reported_with_its_holder() {
    let mut candidate = candidate(GOOD);
    candidate.routes[0].1 = Holder::Worker(WorkerId::new("shop", "older"));
    let plan = plan(&candidate, now());
    let ready = condition_of(&plan, "Ready");
    assert_eq!(ready.reason, "RouteConflict");
    assert!(ready.message.contains("shop/older"));
}

#[test]
fn a_pool_that_does_not_exist_is_reported_and_what_was_accepted_keeps_serving() {
    let mut fresh = candidate(GOOD);
    fresh.pool = None;
    let refused = plan(&fresh, now());
    let ready = condition_of(&refused, "Ready");
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "PoolMissing"));
    assert!(ready.message.starts_with("spec.pool: RuntimePool \"default\" does not exist; choose"));
    assert!(refused.apply.is_none());
    let status = refused.status.unwrap();
    assert_eq!((status.latest_revision, status.accepted, status.url), (None, None, None));

    let first = candidate(GOOD);
    let done = plan(&first, now());
    let serves = done.status.clone().unwrap();
    assert_eq!(serves.accepted.as_ref().unwrap().pool, "default");
    let mut misspelled = with_code(perform(first, done), "export default {}");
    let mut worker = (*misspelled.worker).clone();
    worker.spec.pool = "defualt".to_owned();
    (misspelled.worker, misspelled.pool) = (Arc::new(worker), None);
    let held = plan(&misspelled, now());
    assert!(held.apply.is_none());
    let message = &condition_of(&held, "Ready").message;
    assert!(message.starts_with("spec.pool: RuntimePool \"defualt\" does not exist"), "{message}");
    let status = held.status.unwrap();
    assert_eq!(
        (status.latest_revision, status.accepted, status.url),
        (serves.latest_revision, serves.accepted, serves.url)
    );
}

#[test]
fn new_code_with_a_taken_route_is_held_back_and_what_was_accepted_keeps_serving() {
    let first = candidate(GOOD);
    let done = plan(&first, now());
    let accepted = done.status.as_ref().unwrap().accepted.clone();
    let mut changed = with_code(perform(first, done), "export default {}");
    let route = Route { host: "shop.example.com".to_owned(), path: "/".to_owned() };
    changed.routes = vec![(route, Holder::Worker(WorkerId::new("other", "first")))];
    let held = plan(&changed, now());
    assert!(held.apply.is_none());
    assert_eq!(condition_of(&held, "Programmed").reason, "RouteConflict");
    assert_eq!(held.status.as_ref().unwrap().accepted, accepted);
    changed.routes[0].1 = Holder::Claimant;
    let status = plan(&changed, now()).status.unwrap();
    assert_eq!(status.url.as_deref(), Some("http://shop.example.com/"));
    assert_eq!(status.accepted.unwrap().routes[0].host, "shop.example.com");
}

#[test]
fn a_host_of_another_namespace_is_reported_with_its_owner() {
    let mut candidate = candidate(GOOD);
    candidate.routes[0].1 = Holder::Worker(WorkerId::new("other", "older"));
    let taken = plan(&candidate, now());
    assert!(condition_of(&taken, "Ready").message.contains("belongs to namespace other"));
    candidate.routes[0].1 = Holder::Platform;
    let reserved = plan(&candidate, now());
    assert!(condition_of(&reserved, "Ready").message.contains("<name>.shop.<domain>"));
}

#[test]
fn old_revisions_are_deleted_and_the_latest_one_is_kept() {
    let mut candidate = candidate(GOOD);
    for version in 0..4 {
        candidate = with_code(candidate, &format!("{GOOD}// {version}\n"));
        let done = plan(&candidate, now());
        candidate = perform(candidate, done);
    }
    let latest = candidate.worker.status.as_ref().unwrap().latest_revision.clone().unwrap();
    let settled = plan(&candidate, now());
    assert_eq!(settled.delete.len(), 2);
    assert!(!settled.delete.contains(&latest));
}

#[test]
fn the_health_condition_is_left_to_its_own_field_manager() {
    let first = candidate(GOOD);
    let settled = plan(&first, now());
    let mut candidate = perform(first, settled);
    let mut worker = (*candidate.worker).clone();
    let status = worker.status.as_mut().unwrap();
    status
        .conditions
        .insert(0, condition(&[], "Healthy", false, "CrashLoopBackOff", "it fails", None, now()));
    candidate.worker = Arc::new(worker);
    assert!(plan(&candidate, now()).status.is_none());
    let changed = plan(&with_code(candidate, BAD), now());
    assert!(
        changed.status.unwrap().conditions.iter().all(|condition| condition.type_ != "Healthy")
    );
}
