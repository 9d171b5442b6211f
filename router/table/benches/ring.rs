//! Measures the cost and the evenness of the ring, at sizes from one to a thousand nodes.
//!
//! The limits are: the largest share of the hash space is at most 1.10 times the mean share; at
//! 16,000 slots, a lookup takes at most 150 ns and a build at most 50 ms; and the loss of one of N
//! slots moves 1/N of the keys.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tenon_proto::id::{ShardId, WorkerId};
use tenon_table::ring::{Key, Ring, Seed};

const SHARDS: u16 = 16;
/// The number of keys per slot at which the largest share is overestimated by at most 2 %. The
/// share is also measured with a quarter of these keys, which doubles the error.
const KEYS_PER_SLOT: usize = 20_000;
const MAX_KEYS: usize = 1 << 21;
const LOOKUPS: usize = 2_000_000;

fn main() {
    let keys: Vec<Key> =
        (0..MAX_KEYS).map(|i| Key::of(&WorkerId::new("tenant", &format!("w{i}")))).collect();
    println!(
        "{:>6}  {:>10}  {:>8}  {:>10}  {:>10}  {:>12}",
        "slots", "build", "first", "first 3", "max/mean", "moved × N"
    );
    for nodes in [1, 4, 16, 100, 1_000] {
        measure(nodes, &keys);
    }
    println!("max/mean is \"-\" in the last rows, because counting would take too many keys.");
}

fn measure(nodes: usize, keys: &[Key]) {
    let shards_of = |node: usize| {
        (0..SHARDS).map(move |shard| Seed::of(&format!("node-{node}"), ShardId(shard)))
    };
    let seeds: Vec<Seed> = (0..nodes).flat_map(shards_of).collect();
    let slots = seeds.len();
    let (build, ring) = best_of(5, || Ring::new(seeds.iter().copied()));
    let cycle = || keys.iter().cycle().take(LOOKUPS);
    let (first, _) = best_of(3, || cycle().for_each(|key| _ = black_box(ring.first(*key))));
    let (three, _) =
        best_of(1, || cycle().for_each(|key| _ = black_box(ring.candidates(*key).take(3).count())));

    let balance = (slots * KEYS_PER_SLOT <= keys.len() * 4).then(|| {
        let mut counts = vec![0usize; slots];
        keys.iter()
            .for_each(|key| counts[ring.first(*key).expect("the ring has no slots").get()] += 1);
        let most = counts.iter().max().expect("the ring has no slots");
        *most as f64 * slots as f64 / keys.len() as f64
    });
    let without_last = Ring::new(seeds[..slots - 1].iter().copied());
    let moved = keys.iter().filter(|key| ring.first(**key) != without_last.first(**key)).count();
    println!(
        "{slots:>6}  {:>7.2} ms  {:>5.0} ns  {:>7.0} ns  {:>10}  {:>12.2}",
        build.as_secs_f64() * 1e3,
        first.as_secs_f64() * 1e9 / LOOKUPS as f64,
        three.as_secs_f64() * 1e9 / LOOKUPS as f64,
        balance.map_or("-".into(), |balance| format!("{balance:.3}")),
        moved as f64 * slots as f64 / keys.len() as f64,
    );
}

fn best_of<T>(times: usize, mut run: impl FnMut() -> T) -> (Duration, T) {
    (0..times)
        .map(|_| {
            let started = Instant::now();
            let result = run();
            (started.elapsed(), result)
        })
        .min_by_key(|(elapsed, _)| *elapsed)
        .expect("the number of runs is zero")
}
