//! Tests the order of candidates, and how evenly keys are distributed.

use proptest::prelude::*;

use super::*;

fn seeds(nodes: usize, shards: u16) -> Vec<Seed> {
    let shards_of = |node: usize| {
        (0..shards).map(move |shard| Seed::of(&format!("node-{node}"), ShardId(shard)))
    };
    (0..nodes).flat_map(shards_of).collect()
}

fn key(i: usize) -> Key {
    Key::of(&WorkerId::new("tenant", &format!("worker-{i}")))
}

/// Returns the ratio of the largest share to the mean share, measured with `keys` keys.
fn imbalance(slots: usize, keys: usize) -> f64 {
    let ring = Ring::new(seeds(slots, 1));
    let mut counts = vec![0u32; slots];
    (0..keys).for_each(|i| counts[ring.first(key(i)).unwrap().get()] += 1);
    f64::from(*counts.iter().max().unwrap()) * slots as f64 / keys as f64
}

#[test]
fn the_order_of_candidates_matches_the_golden_orders() {
    let ring = Ring::new(seeds(4, 2));
    let orders: Vec<Vec<usize>> =
        (0..4).map(|i| ring.candidates(key(i)).take(4).map(SlotIndex::get).collect()).collect();
    assert_eq!(orders, GOLDEN_ORDERS);
}

/// If these change, every Worker moves while routers are upgraded one by one.
const GOLDEN_ORDERS: [[usize; 4]; 4] = [[5, 3, 1, 7], [5, 7, 0, 2], [5, 7, 0, 6], [2, 0, 6, 4]];

#[test]
fn no_slot_exceeds_its_share_by_more_than_a_tenth() {
    // The slack is for counting: 20,000 keys per slot have a standard deviation of 0.7 %.
    for slots in [16, 64, 100] {
        let imbalance = imbalance(slots, slots * 20_000);
        assert!(imbalance <= 1.10 + 0.02, "{slots} slots: {imbalance:.3}");
    }
}

#[test]
fn the_reported_shares_match_the_measured_shares_of_keys() {
    for slots in [1, 2, 3, 16, 100] {
        let (ring, keys) = (Ring::new(seeds(slots, 1)), slots * 10_000);
        let mut counts = vec![0u32; slots];
        (0..keys).for_each(|i| counts[ring.first(key(i)).unwrap().get()] += 1);
        let shares = ring.shares();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{slots} slots: {shares:?}");
        for (share, count) in shares.iter().zip(counts) {
            let (expected, measured) =
                (share * slots as f64, f64::from(count) * slots as f64 / keys as f64);
            // The tolerance is five standard deviations of counting.
            assert!(
                (expected - measured).abs() < 0.05,
                "{slots} slots: {expected:.3} of the mean expected, {measured:.3} measured"
            );
        }
    }
    assert!(Ring::default().shares().is_empty());
}

#[test]
fn an_empty_ring_has_no_candidates() {
    assert_eq!(Ring::new([]).first(key(0)), None);
    assert_eq!(Ring::new([]).candidates(key(0)).count(), 0);
}

#[test]
fn the_only_slot_is_first_for_every_key() {
    let ring = Ring::new(seeds(1, 1));
    assert!((0..100).all(|i| ring.candidates(key(i)).eq([SlotIndex(0)])));
}

proptest! {
    #[test]
    fn every_slot_is_a_candidate_once(
        nodes in 1usize..12,
        shards in 1u16..5,
        i in 0usize..1_000_000,
    ) {
        let ring = Ring::new(seeds(nodes, shards));
        let mut order: Vec<usize> = ring.candidates(key(i)).map(SlotIndex::get).collect();
        prop_assert_eq!(order[0], ring.first(key(i)).unwrap().get());
        order.sort_unstable();
        prop_assert!(order.into_iter().eq(0..ring.len()));
    }

    #[test]
    fn a_removed_slot_does_not_change_the_order_of_the_others(
        slots in 2usize..40,
        lost in any::<prop::sample::Index>(),
        i in 0usize..1_000_000,
    ) {
        let all = seeds(slots, 1);
        let lost = lost.index(slots);
        let rest: Vec<usize> = (0..slots).filter(|slot| *slot != lost).collect();
        let before = Ring::new(all.iter().copied());
        let after = Ring::new(rest.iter().map(|slot| all[*slot]));
        let others = before.candidates(key(i)).map(SlotIndex::get).filter(|slot| *slot != lost);
        let expected: Vec<usize> = others.collect();
        let actual: Vec<usize> = after.candidates(key(i)).map(|slot| rest[slot.get()]).collect();
        prop_assert_eq!(actual, expected);
    }

    #[test]
    fn the_order_in_which_nodes_are_listed_does_not_matter(
        slots in 1usize..40,
        i in 0usize..1_000_000,
    ) {
        let all = seeds(slots, 1);
        let forth = Ring::new(all.iter().copied()).first(key(i)).unwrap().get();
        let back = Ring::new(all.iter().rev().copied()).first(key(i)).unwrap().get();
        prop_assert_eq!(forth, slots - 1 - back);
    }
}
