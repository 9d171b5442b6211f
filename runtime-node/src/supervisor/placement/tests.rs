//! Tests which revisions run on a shard and which in a lane.

use super::*;

const DIGEST: RevisionDigest = RevisionDigest::new([7; 32]);
const SHARD: ShardId = ShardId(3);
const LANE: ShardId = ShardId::lane(0);

fn worker() -> WorkerId {
    WorkerId::new("shop", "cart")
}

/// Returns the decisions for the shard and the lane.
fn places(placement: &mut Placement, now: Instant) -> [PlacementDecision; 2] {
    [SHARD, LANE].map(|by| placement.place(by, &worker(), &DIGEST, false, now))
}

const IN_LANES: [PlacementDecision; 2] = [PlacementDecision::Elsewhere, PlacementDecision::Here];
const ON_ITS_SHARD: [PlacementDecision; 2] =
    [PlacementDecision::Here, PlacementDecision::Elsewhere];

#[test]
fn an_unknown_revision_runs_in_a_lane_until_it_proves_light() {
    let (mut placement, now) = (Placement::new(true), Instant::now());
    assert_eq!(places(&mut placement, now), IN_LANES);
    assert_eq!(placement.record_light(&DIGEST, PROMOTION - 1, now), None);
    assert_eq!(places(&mut placement, now), IN_LANES);
    let promotion = placement.record_light(&DIGEST, 1, now);
    assert_eq!(promotion, Some(Promotion { worker: worker(), home: SHARD }));
    assert_eq!(
        places(&mut placement, now),
        [PlacementDecision::Here; 2],
        "during the start on the shard"
    );
    assert_eq!(placement.counts(), (1, 0));
    placement.end_promotion(&DIGEST);
    assert_eq!(placement.counts(), (0, 1));
    assert_eq!(places(&mut placement, now), ON_ITS_SHARD);
}

#[test]
fn a_revision_moves_only_once_its_shard_is_known() {
    let (mut placement, now) = (Placement::new(true), Instant::now());
    placement.place(LANE, &worker(), &DIGEST, false, now);
    assert_eq!(placement.record_light(&DIGEST, PROMOTION, now), None);
    assert_eq!(places(&mut placement, now), IN_LANES);
    assert!(placement.record_light(&DIGEST, 1, now).is_some());
}

#[test]
fn a_worker_that_is_profiled_runs_in_lanes_and_keeps_its_class() {
    let (mut placement, now) = (Placement::new(true), Instant::now());
    places(&mut placement, now);
    placement.record_light(&DIGEST, PROMOTION, now);
    placement.end_promotion(&DIGEST);
    assert_eq!(places(&mut placement, now), ON_ITS_SHARD);
    placement.profiled = Some(worker());
    assert_eq!(places(&mut placement, now), IN_LANES);
    assert_eq!(placement.counts(), (1, 0));
    let stays = placement.place(SHARD, &worker(), &DIGEST, true, now);
    assert_eq!(stays, PlacementDecision::Here, "a request that must stay");
    assert!(!placement.record_heavy(&DIGEST, now));
    placement.profiled = None;
    assert_eq!(places(&mut placement, now), ON_ITS_SHARD);

    let other = WorkerId::new("shop", "menu");
    placement.profiled = Some(other);
    assert!(placement.record_heavy(&DIGEST, now), "another Worker is profiled");
}

#[test]
fn a_heavy_revision_stays_in_lanes_for_longer_each_time() {
    let (mut placement, mut now) = (Placement::new(true), Instant::now());
    for demotion in 0..3 {
        places(&mut placement, now);
        let wanted = PROMOTION << demotion;
        assert_eq!(
            placement.record_light(&DIGEST, wanted - 1, now),
            None,
            "after {demotion} demotions"
        );
        assert!(placement.record_light(&DIGEST, 1, now).is_some(), "after {demotion} demotions");
        placement.end_promotion(&DIGEST);
        assert!(placement.record_heavy(&DIGEST, now), "after {demotion} demotions");
        assert_eq!(places(&mut placement, now), IN_LANES);
        assert_eq!(
            placement.record_light(&DIGEST, 1 << 20, now),
            None,
            "the revision was promoted during the hold"
        );
        now += HOLD * (1 << demotion);
        placement.record_light(&DIGEST, 0, now);
    }
    assert!(!placement.record_heavy(&DIGEST, now), "a revision in the lanes was demoted");
}

#[test]
fn a_request_stays_on_a_shard_if_it_must_or_if_there_are_no_lanes() {
    let (mut placement, now) = (Placement::new(true), Instant::now());
    assert_eq!(placement.place(SHARD, &worker(), &DIGEST, true, now), PlacementDecision::Here);
    let mut without = Placement::new(false);
    assert_eq!(without.place(SHARD, &worker(), &DIGEST, false, now), PlacementDecision::Here);
    assert!(!without.record_heavy(&DIGEST, now));
}

#[test]
fn a_light_revision_returns_to_a_lane_after_its_quarantine() {
    let (mut placement, now) = (Placement::new(true), Instant::now());
    assert_eq!(placement.judge(&DIGEST, false, now), None, "before any shard asked");
    places(&mut placement, now);
    placement.record_light(&DIGEST, PROMOTION, now);
    placement.end_promotion(&DIGEST);
    assert_eq!(places(&mut placement, now), ON_ITS_SHARD);
    let CrashReport { worker: judged, decision } = placement.judge(&DIGEST, false, now).unwrap();
    let CrashDecision::Quarantined(quarantine) = decision else {
        panic!("the revision was forgiven")
    };
    assert_eq!((judged, quarantine.times), (worker(), 1));
    assert_eq!(
        places(&mut placement, now),
        [PlacementDecision::Quarantined(quarantine.duration); 2]
    );
    assert_eq!(places(&mut placement, now + quarantine.duration), IN_LANES);
}
