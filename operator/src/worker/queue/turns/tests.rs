//! Tests of the order of the work queue.

use super::super::{FIRST_RETRY, LONGEST_RETRY};
use super::*;

/// A queue of keys `tenant/name`, for which no time passes.
struct Turns(Queue<String>, Instant);

impl Tenanted for String {
    fn tenant(&self) -> &str {
        self.split('/').next().unwrap_or_default()
    }
}

impl Turns {
    fn of(order: Order) -> Self {
        Self(Queue::new(order), Instant::now())
    }

    fn touch(&mut self, author: &str, key: &str) {
        self.0.touch(key.to_owned(), author.into(), self.1);
    }

    fn next(&mut self) -> Option<String> {
        self.0.next(self.1).map(|(key, _)| key)
    }

    fn end(&mut self, key: &str, succeeded: bool) -> Option<Duration> {
        self.0.end(&key.to_owned(), succeeded, self.1)
    }

    /// Serves the next key, and returns it.
    fn serve(&mut self) -> Option<String> {
        let key = self.next()?;
        self.end(&key, true);
        Some(key)
    }

    fn serve_all(&mut self, count: usize) -> Vec<String> {
        (0..count).map_while(|_| self.serve()).collect()
    }
}

#[test]
fn tenants_take_turns_and_none_exceeds_its_share() {
    let mut queue = Turns::of(Order::OldestFirst);
    (0..100).for_each(|n| queue.touch("", &format!("a/{n}")));
    queue.touch("", "b/1");
    queue.touch("", "b/2");
    let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
    assert_eq!(order[..5], ["a/0", "b/1", "a/1", "b/2", "a/2"]);
    assert_eq!(order.len(), PER_TENANT + 2);
    queue.touch("", "c/1");
    assert_eq!([queue.next(), queue.next()], [Some("c/1".to_owned()), None]);
    queue.end("a/0", true);
    assert_eq!([queue.next(), queue.next()], [Some("a/16".to_owned()), None]);
}

#[test]
fn a_tenant_without_work_is_forgotten() {
    let mut queue = Turns::of(Order::NewestFirst);
    for key in ["a/1", "b/1", "b/2"] {
        queue.touch("", key);
    }
    assert_eq!([queue.next().unwrap(), queue.next().unwrap()], ["a/1", "b/2"]);
    queue.0.forget_waiting();
    assert_eq!((queue.next(), queue.0.len()), (None, 0));
    queue.end("a/1", true);
    queue.end("b/2", true);
    assert!(queue.0.tenants.is_empty() && queue.0.tenants.order.is_empty());
    assert!(queue.0.shares.is_empty() && queue.0.running.is_empty());
}

#[test]
fn a_key_touched_repeatedly_is_queued_once() {
    let mut queue = Turns::of(Order::OldestFirst);
    ["a", "b", "a"].iter().for_each(|key| queue.touch("", key));
    assert_eq!([queue.next().unwrap(), queue.next().unwrap()], ["a", "b"]);
    assert_eq!(queue.next(), None);
}

#[test]
fn a_key_touched_while_it_runs_runs_again_afterwards() {
    let mut queue = Turns::of(Order::NewestFirst);
    queue.touch("", "a");
    queue.next();
    queue.touch("", "a");
    queue.touch("", "a");
    assert_eq!(queue.next(), None);
    assert_eq!(queue.end("a", true), None);
    assert_eq!([queue.next(), queue.next()], [Some("a".to_owned()), None]);
}

#[test]
fn a_change_is_served_before_a_backlog_that_is_older() {
    let mut queue = Turns::of(Order::NewestFirst);
    (0..1_000).for_each(|n| queue.touch("import", &format!("a/{n}")));
    queue.touch("import", "a/new");
    assert_eq!(queue.serve().unwrap(), "a/new");
    // A key of the backlog, too, becomes the newest when it is changed.
    queue.touch("import", "a/7");
    assert_eq!(queue.serve().unwrap(), "a/7");
}

#[test]
fn another_author_waits_for_one_turn_while_one_writes_constantly() {
    let mut queue = Turns::of(Order::NewestFirst);
    (0..1_000).for_each(|n| queue.touch("import", &format!("a/{n}")));
    queue.touch("person", "a/new");
    for turn in 0..2 {
        (0..100).for_each(|n| queue.touch("import", &format!("a/more-{turn}-{n}")));
        if queue.serve().unwrap() == "a/new" {
            return;
        }
    }
    panic!("the other author waited for more than one turn");
}

#[test]
fn another_tenant_waits_for_one_turn_while_one_writes_constantly() {
    let mut queue = Turns::of(Order::NewestFirst);
    // The number of authors does not give a tenant more turns.
    (0..1_000).for_each(|n| queue.touch(&format!("author-{n}"), &format!("a/{n}")));
    queue.touch("person", "b/new");
    assert!(queue.serve_all(2).contains(&"b/new".to_owned()));
}

#[test]
fn a_tenant_that_touches_its_only_key_constantly_keeps_its_turn() {
    let mut queue = Turns::of(Order::NewestFirst);
    for tenant in ["a", "b", "c"] {
        (0..10).for_each(|n| queue.touch("", &format!("{tenant}/{n}")));
    }
    for n in 0..4 {
        // The author changes with each touch.
        queue.touch(&n.to_string(), "d/only");
        if queue.serve().unwrap() == "d/only" {
            return;
        }
    }
    panic!("the key lost its turn");
}

#[test]
fn the_oldest_keys_are_served_within_four_turns_each_while_their_author_writes_constantly() {
    const BACKLOG: usize = 50;
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut queue = Turns::of(Order::NewestFirst);
        let backlog: Vec<_> = (0..BACKLOG).map(|n| format!("a/{n}")).collect();
        backlog.iter().for_each(|key| queue.touch("import", key));
        let mut served = HashMap::new();
        for turn in 1..=4 * BACKLOG {
            for _ in 0..random.usize(1..5) {
                let new = format!("a/new-{turn}-{}", random.u8(..));
                queue.touch("import", &new);
            }
            // The keys of the backlog change too, which must not cost them their place.
            let again = &backlog[random.usize(..BACKLOG)];
            if !served.contains_key(again) {
                queue.touch("import", again);
            }
            let key = queue.serve().unwrap();
            served.entry(key).or_insert(turn);
        }
        for (place, key) in backlog.iter().enumerate() {
            let turn = served.get(key).copied().unwrap_or(usize::MAX);
            assert!(turn <= 4 * (place + 1), "seed {seed}: {key} is served in turn {turn}");
        }
    }
}

#[test]
fn every_key_that_was_touched_is_served_once() {
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let order = if seed % 2 == 0 { Order::NewestFirst } else { Order::OldestFirst };
        let mut queue = Turns::of(order);
        let mut expected = HashSet::new();
        for _ in 0..500 {
            if random.u8(..4) > 0 {
                let key = format!("{}/{}", random.u8(..3), random.u8(..40));
                queue.touch(&random.u8(..3).to_string(), &key);
                expected.insert(key);
            } else if let Some(key) = queue.serve() {
                assert!(expected.remove(&key), "seed {seed}: {key} is served twice");
            }
            assert_eq!(queue.0.len(), expected.len());
        }
        while let Some(key) = queue.serve() {
            assert!(expected.remove(&key), "seed {seed}: {key} is served twice");
        }
        assert!(expected.is_empty(), "seed {seed}: {expected:?} are not served");
        assert!(queue.0.tenants.is_empty(), "seed {seed}: an empty tenant is kept");
    }
}

#[test]
fn the_time_that_a_key_waits_begins_with_its_first_touch() {
    let (mut queue, start) = (Queue::new(Order::NewestFirst), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    queue.touch("a/1".to_owned(), "x".into(), start);
    queue.touch("a/1".to_owned(), "y".into(), after(5));
    let (key, waited) = queue.next(after(7)).unwrap();
    assert_eq!((key.as_str(), waited), ("a/1", Duration::from_secs(7)));
}

#[test]
fn failing_work_is_retried_after_longer_delays_of_up_to_a_minute() {
    let mut queue = Turns::of(Order::OldestFirst);
    let delays: Vec<_> = (0..20).map(|_| queue.end("a", false).unwrap()).collect();
    assert_eq!(delays[0], FIRST_RETRY);
    assert_eq!(delays[1], FIRST_RETRY * 2);
    assert_eq!(delays[19], LONGEST_RETRY);
    assert_eq!(queue.end("a", true), None);
    assert_eq!(queue.end("a", false), Some(FIRST_RETRY));
}
