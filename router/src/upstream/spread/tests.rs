//! Simulates the load of Workers, and checks over how many shards it is spread.

use proptest::prelude::*;
use tenon_proto::id::WorkerId;

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn key(name: &str) -> Key {
    Key::of(&WorkerId::new("shop", name))
}

/// Returns the number of candidates of a Worker.
fn candidates(spread: &Spread, key: Key) -> usize {
    spread.width(key).map_or(1, |width| width.candidates)
}

/// A pool in virtual time, whose shards each run one request after another. The requests of each
/// Worker arrive at a constant rate and go to the candidate with the fewest requests.
struct Pool {
    spread: Spread,
    /// The times at which the requests of each shard end.
    shards: Vec<Vec<Instant>>,
    busy: Vec<Duration>,
    now: Instant,
}

impl Pool {
    fn new(shards: usize) -> Self {
        Self {
            spread: Spread::default(),
            shards: vec![Vec::new(); shards],
            busy: vec![Duration::ZERO; shards],
            now: Instant::now(),
        }
    }

    /// Serves requests of a hot Worker for a time, and returns their latencies.
    ///
    /// # Arguments
    /// * `every` - the time from one arrival to the next.
    /// * `takes` - the time for which a request occupies a shard.
    /// * `lasts` - the time for which requests arrive.
    fn serve(
        &mut self,
        hot: Key,
        every: Duration,
        takes: Duration,
        lasts: Duration,
    ) -> Vec<Duration> {
        const WINDOW: Duration = Duration::from_millis(100);
        let (mut latencies, end) = (Vec::new(), self.now + lasts);
        let mut window_ends = self.now + WINDOW;
        let mut is_busy = vec![false; self.shards.len()];
        while self.now < end {
            self.now += every;
            if self.now >= window_ends {
                for (is_busy, busy) in is_busy.iter_mut().zip(&mut self.busy) {
                    *is_busy = std::mem::take(busy) * 10 >= WINDOW * 8;
                }
                window_ends += WINDOW;
            }
            let now = self.now;
            self.shards.iter_mut().for_each(|requests| requests.retain(|ends| *ends > now));
            let width = self.spread.width(hot).unwrap_or(Width { candidates: 1, warm: 1 });
            let eligible = |rank: &usize| *rank < width.warm || self.shards[*rank].is_empty();
            let rank = (0..width.candidates).filter(eligible);
            let rank = rank.min_by_key(|rank| self.shards[*rank].len()).unwrap();
            let begins = self.shards[rank].last().map_or(now, |ends| now.max(*ends));
            self.shards[rank].push(begins + takes);
            self.busy[rank] += takes;
            latencies.push(begins + takes - now);
            self.spread.record(hot, rank, is_busy[rank], self.shards.len(), now);
        }
        latencies
    }
}

/// Returns the latency that 99 % of the requests do not exceed.
fn p99(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

#[test]
fn a_worker_with_the_load_of_four_shards_gets_as_many_of_eight_as_it_needs() {
    let (mut pool, hot) = (Pool::new(8), key("hot"));
    let takes = MILLISECOND;
    // The load grows to four times the capacity of a shard.
    for eighths in 1..=32 {
        pool.serve(hot, takes * 8 / eighths, takes, 10 * SETTLE);
    }
    let latency = p99(pool.serve(hot, takes / 4, takes, 40 * SETTLE));
    assert!(latency <= 3 * takes, "p99 {latency:?}");
    let width = candidates(&pool.spread, hot);
    assert!((5..=8).contains(&width), "{width} shards");
}

#[test]
fn a_sudden_load_of_four_shards_is_spread_within_two_seconds() {
    let (mut pool, hot) = (Pool::new(8), key("hot"));
    pool.serve(hot, MILLISECOND / 4, MILLISECOND, Duration::from_secs(2));
    assert!(candidates(&pool.spread, hot) >= 5);
}

#[test]
fn a_worker_whose_shard_has_idle_time_stays_there() {
    let (mut pool, calm) = (Pool::new(8), key("calm"));
    pool.serve(calm, 2 * MILLISECOND, MILLISECOND, Duration::from_secs(5));
    assert_eq!(pool.spread.width(calm), None);
}

#[test]
fn a_worker_that_cools_down_returns_to_its_first_shard() {
    let (mut pool, hot) = (Pool::new(8), key("hot"));
    pool.serve(hot, MILLISECOND / 4, MILLISECOND, Duration::from_secs(5));
    pool.serve(hot, 100 * MILLISECOND, MILLISECOND, 8 * COOL + Duration::from_secs(1));
    assert_eq!(pool.spread.width(hot), None);
}

#[test]
fn only_the_hot_worker_is_spread() {
    let (mut spread, now) = (Spread::default(), Instant::now());
    spread.record(key("hot"), 0, true, 8, now);
    spread.record(key("other"), 0, false, 8, now);
    assert_eq!(spread.width(key("hot")), Some(Width { candidates: 2, warm: 1 }));
    assert_eq!(spread.width(key("other")), None);
}

#[test]
fn a_shard_is_warm_once_it_has_responded() {
    let (mut spread, now, hot) = (Spread::default(), Instant::now(), key("hot"));
    spread.record(hot, 0, true, 8, now);
    spread.record(hot, 0, false, 8, now);
    assert_eq!(spread.width(hot), Some(Width { candidates: 2, warm: 1 }));
    spread.record(hot, 1, false, 8, now);
    assert_eq!(spread.width(hot), Some(Width { candidates: 2, warm: 2 }));
}

#[test]
fn heat_within_a_moment_widens_only_once() {
    let (mut spread, now, hot) = (Spread::default(), Instant::now(), key("hot"));
    for millis in 0..SETTLE.as_millis() {
        spread.record(hot, 0, true, 8, now + MILLISECOND * millis as u32);
    }
    assert_eq!(candidates(&spread, hot), 2);
    spread.record(hot, 0, true, 8, now + SETTLE);
    assert_eq!(candidates(&spread, hot), 3);
}

#[test]
fn a_pool_of_one_shard_has_nothing_to_spread_over() {
    let (mut spread, hot) = (Spread::default(), key("hot"));
    spread.record(hot, 0, true, 1, Instant::now());
    assert_eq!(spread.width(hot), None);
}

#[test]
fn the_number_of_workers_is_bounded_and_cold_ones_make_room() {
    let (mut spread, now) = (Spread::default(), Instant::now());
    for number in 0..2 * MAX_WORKERS {
        spread.record(key(&number.to_string()), 0, true, 8, now);
    }
    assert_eq!(spread.widths.len(), MAX_WORKERS);
    spread.record(key("later"), 0, true, 8, now + 2 * COOL);
    assert_eq!(spread.widths.len(), 1);
}

proptest! {
    #[test]
    fn a_width_is_between_two_and_the_number_of_shards(
        responses in prop::collection::vec((0_usize..12, any::<bool>(), 0_u64..20_000), 0..200),
        shards in 1_usize..10,
    ) {
        let (mut spread, mut now, hot) = (Spread::default(), Instant::now(), key("hot"));
        for (rank, is_hot, millis) in responses {
            now += Duration::from_millis(millis);
            spread.record(hot, rank, is_hot, shards, now);
            if let Some(Width { candidates, warm }) = spread.width(hot) {
                prop_assert!((2..=shards).contains(&candidates));
                prop_assert!((1..=candidates).contains(&warm));
            }
        }
    }
}
