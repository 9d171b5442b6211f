//! Tests of pools that do not allow a namespace, and of hosts that are not granted to it.

use super::*;

#[test]
fn a_pool_that_does_not_allow_the_namespace_is_reported_and_what_was_accepted_keeps_serving() {
    let first = candidate(GOOD);
    let done = plan(&first, now());
    let accepted = done.status.as_ref().unwrap().accepted.clone();
    let mut refused = with_code(perform(first, done), "export default {}");
    refused.access = Access::Refused;
    let held = plan(&refused, now());
    let ready = condition_of(&held, "Ready");
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "PoolNotAllowed"));
    assert!(
        ready.message.starts_with(
            "spec.pool: RuntimePool \"default\" does not allow Workers of namespace shop; choose"
        ) && ready.message.ends_with("keeps serving"),
        "{}",
        ready.message
    );
    assert!(held.apply.is_none());
    assert_eq!(held.status.unwrap().accepted, accepted);
    refused.access = Access::Allowed;
    assert!(plan(&refused, now()).apply.is_some());
}

#[test]
fn a_withdrawn_host_is_reported_and_acknowledged_again_once_it_is_granted() {
    let first = candidate(GOOD);
    let done = plan(&first, now());
    let mut withdrawn = perform(first, done);
    withdrawn.routes[0].1 = Holder::NotGranted;
    let refused = unacknowledged(&withdrawn, now());
    let ready = condition_of(&refused, "Ready");
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "HostNotGranted"));
    assert!(ready.message.starts_with("spec.routes: no HostGrant gives cart.shop.localhost to"));
    assert!(!refused.asks_routers);

    let mut granted = perform(withdrawn, refused);
    granted.routes[0].1 = Holder::Claimant;
    let waiting = unacknowledged(&granted, now());
    assert_eq!(condition_of(&waiting, "Ready").status, ConditionStatus::Unknown);
    let ready = plan(&granted, now());
    assert_eq!(condition_of(&ready, "Ready").status, ConditionStatus::True);
}

/// A router that never acknowledged the host must not hide the reason.
#[test]
fn a_host_withdrawn_before_a_router_has_acknowledged_it_is_reported() {
    let first = candidate(GOOD);
    let accepted = unacknowledged(&first, now());
    let mut withdrawn = perform(first, accepted);
    withdrawn.routes[0].1 = Holder::NotGranted;
    let refused = unacknowledged(&withdrawn, now());
    assert_eq!(condition_of(&refused, "Ready").reason, "HostNotGranted");
}

#[test]
fn a_wildcard_below_a_public_suffix_is_refused() {
    let mut candidate = candidate(GOOD);
    for (host, expected) in [
        ("*.com", "PublicSuffix"),
        ("*.co.uk", "PublicSuffix"),
        ("*.example.co.uk", "Serving"),
        ("example.com", "Serving"),
    ] {
        let route = Route { host: host.to_owned(), path: "/".to_owned() };
        candidate.routes = vec![(route, Holder::Claimant)];
        let plan = plan(&candidate, now());
        assert_eq!(condition_of(&plan, "Ready").reason, expected, "{host}");
    }
}
