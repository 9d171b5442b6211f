//! Measures the size and the cost of responses in each content coding.
//!
//! The router's order of preference follows from this table: the results are nearly equal in size,
//! so the router prefers the coding that takes the least time. The table also shows whether the
//! bound of a turn holds: a thread compresses at most 64 KiB in a turn of its event loop, and
//! compressing that much must take at most 1 ms.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use tenon_compression::Coding;
use tenon_compression::encoder::{Encoder, Then};

/// The amount of content that each measurement encodes, in bytes.
const AMOUNT: usize = 16 << 20;

fn main() {
    // The text must be longer than every window.
    let pages = concat!(
        include_str!("../../../ARCHITECTURE.md"),
        include_str!("../../../CONTRIBUTING.md"),
        include_str!("../../../docs/reference/worker.md"),
        include_str!("../../../charts/tenon/RUNBOOKS.md"),
    );
    let contents = [("JSON", json()), ("prose", pages.repeat(12))];
    println!("{:>6}  {:>9}  {:>5}  {:>7}  {:>10}", "kind", "length", "", "size", "time");
    for (kind, content) in &contents {
        for length in [2 << 10, 16 << 10, 64 << 10, 1 << 20] {
            for coding in Coding::ALL {
                measure(kind, &content.as_bytes()[..length], coding);
            }
        }
    }
}

/// Returns records as an API lists them.
fn json() -> String {
    let mut json = String::from("[");
    for i in 0..20_000_u32 {
        let (price, stock) = (i.wrapping_mul(7919) % 10_007, i % 7 > 2);
        write!(
            json,
            "{{\"id\":{i},\"name\":\"product {}\",\"cents\":{price},\"inStock\":{stock}}},",
            i.wrapping_mul(31) % 977
        )
        .expect("writing to a `String` cannot fail");
    }
    json
}

fn measure(kind: &str, content: &[u8], coding: Coding) {
    let mut kept = None;
    let mut encode = || {
        let new = || Encoder::new(coding).expect("there is no memory for an encoder");
        let mut encoder = kept.take().unwrap_or_else(new);
        let mut output = Vec::with_capacity(content.len() / 2);
        encoder.encode(content, Then::Finish, &mut output).expect("the content was not encoded");
        kept = encoder.reset();
        output.len()
    };
    let size = encode();
    let times = (AMOUNT / content.len()).max(1);
    let best = (0..3).map(|_| time(|| (0..times).for_each(|_| _ = black_box(encode())))).min();
    let took = best.unwrap_or_default().as_secs_f64() / times as f64;
    println!(
        "{kind:>6}  {:>5} KiB  {:>5}  {:>5.1} %  {:>7.0} µs",
        content.len() >> 10,
        coding.as_str(),
        size as f64 * 100.0 / content.len() as f64,
        took * 1e6,
    );
}

fn time(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}
