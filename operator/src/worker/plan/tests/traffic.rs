//! Tests of how a Worker's requests are divided among its revisions.

use super::*;

/// Returns a Worker with two revisions, of which the second serves, and their names.
fn with_two_revisions() -> (Candidate, [String; 2]) {
    let first = candidate(GOOD);
    let done = plan(&first, now());
    let one = done.apply.as_ref().unwrap().name_any();
    let changed = with_code(perform(first, done), "export default {}");
    let done = plan(&changed, now());
    let two = done.apply.as_ref().unwrap().name_any();
    (perform(changed, done), [one, two])
}

fn with_traffic(mut candidate: Candidate, traffic: serde_json::Value) -> Candidate {
    let mut worker = (*candidate.worker).clone();
    worker.spec.traffic = serde_json::from_value(traffic).unwrap();
    let previews = revision::previews(&worker, "localhost").into_iter();
    candidate.previews = previews.map(|route| (route, Holder::Claimant)).collect();
    candidate.worker = Arc::new(worker);
    candidate
}

fn shares(plan: &Plan) -> Vec<(String, i32)> {
    let accepted = plan.status.as_ref().unwrap().accepted.as_ref().unwrap();
    accepted.traffic.iter().map(|target| (target.revision.clone(), target.percent)).collect()
}

#[test]
fn requests_are_divided_between_a_named_and_the_latest_revision() {
    let (candidate, [one, two]) = with_two_revisions();
    let traffic = json!([{"revision": one, "percent": 90}, {"percent": 10, "tag": "next"}]);
    let divided = plan(&with_traffic(candidate, traffic), now());
    assert_eq!(shares(&divided), [(one.clone(), 90), (two.clone(), 10)]);
    let ready = condition_of(&divided, "Ready");
    assert_eq!((ready.status, &*ready.reason), (ConditionStatus::True, "Serving"));
    assert_eq!(ready.message, format!("{one} (90 %), {two} (10 %)"));
    let status = divided.status.unwrap();
    assert_eq!(status.latest_revision, Some(two));
    let host = &status.accepted.unwrap().traffic[1].host;
    assert_eq!(host.as_deref(), Some("next--cart.shop.localhost"));
}

#[test]
fn routers_acknowledge_a_division_before_it_is_ready() {
    let (candidate, [one, _]) = with_two_revisions();
    let divided = with_traffic(candidate, json!([{"revision": one, "percent": 100}]));
    let accepted = unacknowledged(&divided, now());
    assert_eq!(condition_of(&accepted, "Ready").reason, "Propagating");
    let status = accepted.status.clone().unwrap();
    let before = divided.worker.status.clone().unwrap();
    let divided = perform(divided, accepted);
    let with_old_entry = announced(&divided, &before, Acknowledgement::Given);
    assert!(unacknowledged(&with_old_entry, now()).status.is_none(), "the old entry counts");
    let with_new_entry = announced(&divided, &status, Acknowledgement::Given);
    let done = unacknowledged(&with_new_entry, now());
    assert_eq!(condition_of(&done, "Ready").message, one);
}

#[test]
fn a_rollback_does_not_depend_on_the_code_that_it_replaces() {
    let (candidate, [one, two]) = with_two_revisions();
    let broken = with_code(candidate, BAD);
    let rolled_back = with_traffic(broken.clone(), json!([{"revision": one, "percent": 100}]));
    let done = plan(&rolled_back, now());
    assert_eq!(shares(&done), [(one, 100)]);
    assert_eq!(condition_of(&done, "Ready").status, ConditionStatus::False);
    assert_eq!(done.status.unwrap().latest_revision, Some(two));
    let unpinned = with_traffic(broken, json!([{"percent": 100}]));
    assert_eq!(shares(&plan(&unpinned, now())), []);
}

#[test]
fn a_revision_that_does_not_exist_is_reported_and_the_division_stays() {
    let (candidate, [one, two]) = with_two_revisions();
    let first = with_traffic(candidate, json!([{"revision": one, "percent": 50}, {"percent": 50}]));
    let done = plan(&first, now());
    let divided = perform(first, done);
    let absent = json!([{"revision": "cart-absent", "percent": 100}]);
    let refused = plan(&with_traffic(divided, absent), now());
    let programmed = condition_of(&refused, "Programmed");
    assert_eq!(programmed.reason, "RevisionMissing");
    assert!(programmed.message.contains("cart-absent"), "{}", programmed.message);
    assert_eq!(shares(&refused), [(one, 50), (two, 50)]);
}

#[test]
fn a_preview_whose_host_is_taken_is_refused() {
    let (candidate, _) = with_two_revisions();
    let mut tagged = with_traffic(candidate, json!([{"percent": 100, "tag": "next"}]));
    tagged.previews[0].1 = Holder::Worker(WorkerId::new("shop", "next--cart"));
    let refused = plan(&tagged, now());
    let programmed = condition_of(&refused, "Programmed");
    assert_eq!(programmed.reason, "RouteConflict");
    assert!(programmed.message.starts_with("spec.traffic.tag: "), "{}", programmed.message);
}

#[test]
fn revisions_that_the_spec_names_are_kept() {
    let (mut candidate, [one, _]) = with_two_revisions();
    candidate = with_traffic(candidate, json!([{"revision": one, "percent": 0}, {"percent": 100}]));
    for version in 0..4 {
        candidate = with_code(candidate, &format!("{GOOD}// {version}\n"));
        let done = plan(&candidate, now());
        candidate = perform(candidate, done);
    }
    let settled = plan(&candidate, now());
    assert!(!settled.delete.is_empty() && !settled.delete.contains(&one));
}

#[test]
fn the_digest_of_each_revision_with_secrets_is_recorded() {
    let (candidate, [one, _]) = with_two_revisions();
    let divided =
        with_traffic(candidate, json!([{"revision": one, "percent": 50}, {"percent": 50}]));
    let accepted = plan(&divided, now());
    let (revision, _) = cataloged_revision(&divided, &one);
    let salted = Revision { salt: Bytes::from_static(b"uid"), ..(*revision).clone() };
    let mut deployed = perform(divided, accepted);
    deployed.serving = vec![(Arc::new(salted.clone()), salted.digest())];
    let recorded = plan(&deployed, now()).status.unwrap();
    let target = recorded.accepted.clone().unwrap().traffic.remove(0);
    assert_eq!(target.digest, Some(salted.digest().to_string()));
    let mut worker = (*deployed.worker).clone();
    worker.status = Some(recorded);
    (deployed.worker, deployed.serving) = (Arc::new(worker), Vec::new());
    assert!(plan(&deployed, now()).status.is_none(), "a missing Secret erased the digest");
}

#[test]
fn a_rollback_keeps_the_accepted_placement_if_that_of_the_spec_is_refused() {
    let (candidate, [one, _]) = with_two_revisions();
    let accepted = candidate.worker.status.as_ref().unwrap().accepted.clone().unwrap();
    let mut refused = with_traffic(candidate, json!([{"revision": one, "percent": 100}]));
    refused.routes[0].1 = Holder::Platform;
    let done = plan(&refused, now());
    assert_eq!(shares(&done), [(one.clone(), 100)]);
    assert_eq!(condition_of(&done, "Programmed").reason, "RouteConflict");
    assert_eq!(done.status.unwrap().accepted.unwrap().routes, accepted.routes);
    refused.pool = None;
    assert_eq!(shares(&plan(&refused, now())), [(one, 100)]);
}

#[test]
fn a_rollback_does_not_depend_on_the_revision_that_the_api_server_refuses() {
    let (candidate, [one, _]) = with_two_revisions();
    let changed = with_code(candidate, "export default { fetch() {} }");
    let pinned = with_traffic(changed, json!([{"revision": one, "percent": 100}]));
    let progress = crate::kstatus::Progress::Reconciling;
    let message = "no more".to_owned();
    let refusal = Refusal { reason: "QuotaExceeded", message, progress };
    let draft = draft(&pinned).compiled_here();
    let done = super::super::plan(&pinned, &draft, Some(refusal), now());
    assert!(done.apply.is_none());
    assert_eq!(shares(&done), [(one, 100)]);
}

#[test]
fn routers_acknowledge_a_rollback_although_the_code_is_broken() {
    let (candidate, [one, _]) = with_two_revisions();
    let broken = with_code(candidate, BAD);
    let rolled_back = with_traffic(broken, json!([{"revision": one, "percent": 100}]));
    let accepted = unacknowledged(&rolled_back, now());
    assert_eq!(condition_of(&accepted, "Programmed").reason, "Propagating");
    let status = accepted.status.clone().unwrap();
    let rolled_back = perform(rolled_back, accepted);
    let known = announced(&rolled_back, &status, Acknowledgement::Given);
    let done = unacknowledged(&known, now());
    assert_eq!(condition_of(&done, "Programmed").reason, "Outdated");
    let done = perform(known, done);
    let again = unacknowledged(&Candidate { published: None, ..done }, now());
    assert!(again.status.is_none() && !again.asks_routers, "it was acknowledged before");
}

#[test]
fn a_revision_whose_secret_is_missing_is_not_served_unless_nodes_may_hold_it() {
    let (candidate, [one, two]) = with_two_revisions();
    let mut divided = with_traffic(candidate, json!([{"revision": one, "percent": 100}]));
    let reference = tenon_crds::SecretKeyRef { name: "s".to_owned(), key: "k".to_owned() };
    let missing = revision::MissingSecret { name: "KEY".to_owned(), reference };
    divided.missing_secrets.insert(one.clone(), missing);
    let refused = plan(&divided, now());
    let programmed = condition_of(&refused, "Programmed");
    assert_eq!(programmed.reason, "SecretMissing");
    assert!(programmed.message.contains(&one), "{}", programmed.message);
    let mut worker = (*divided.worker).clone();
    let status = worker.status.as_mut().unwrap();
    let target = tenon_crds::AcceptedTarget {
        revision: one.clone(),
        percent: 100,
        tag: None,
        host: None,
        digest: Some("0".repeat(64)),
    };
    status.accepted.as_mut().unwrap().traffic = vec![target];
    status.latest_revision = Some(two);
    divided.worker = Arc::new(worker);
    assert_eq!(shares(&plan(&divided, now())), [(one, 100)]);
}
