//! Tests the metrics of Workers, and the bound on their number.

use tenon_lifecycle::metrics::LabelValue as _;
use tenon_proto::failure::FailureCode;
use tenon_proto::id::WorkerId;

use super::*;

fn revision(name: &str) -> Revision {
    Revision::with_modules(WorkerId::new("shop", name), [])
}

fn digest(n: usize) -> RevisionDigest {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    RevisionDigest::new(bytes)
}

/// Returns the scraped samples whose line contains `part`.
fn samples(families: &WorkerFamilies, part: &str) -> Vec<String> {
    let text =
        prometheus::TextEncoder::new().encode_to_string(&families_with_metrics(families)).unwrap();
    text.lines()
        .filter(|line| !line.starts_with('#') && line.contains(part))
        .map(str::to_owned)
        .collect()
}

/// Returns the families that have a metric, as a registry does.
fn families_with_metrics(families: &WorkerFamilies) -> Vec<MetricFamily> {
    families.collect().into_iter().filter(|family| !family.get_metric().is_empty()).collect()
}

#[test]
fn every_end_has_its_own_index() {
    let indices: Vec<usize> = End::ALL.iter().map(|end| end.index()).collect();
    assert_eq!(indices, (0..End::COUNT).collect::<Vec<_>>());
}

#[test]
fn the_metrics_of_a_worker_carry_its_names_and_its_shard() {
    let families = WorkerFamilies::new().unwrap();
    let shard = families.shard(ShardId(3));
    shard.open(digest(0), &revision("cart"));
    shard.record_start(&digest(0), &[1, 2, 4].map(Duration::from_millis));
    shard.record_end(&digest(0), End::Answered, Duration::from_millis(4));
    shard.record_end(
        &digest(0),
        End::Failed(FailureCode::CpuLimitExceeded),
        Duration::from_secs(30),
    );
    shard.add_cpu(&digest(0), Duration::from_millis(1500));
    shard.add_cpu(&digest(0), Duration::from_millis(500));
    shard.set_memory(&digest(0), 4096);
    shard.set_memory(&digest(0), 8192);

    let labels = r#"namespace="shop",revision="cart-1",shard="3",worker="cart""#;
    let line = |name: &str, more: &str, value: &str| {
        format!("tenon_worker_{name}{{{more}{labels}}} {value}")
    };
    assert_eq!(
        samples(&families, "_invocations_total"),
        [
            line("invocations_total", r#"code="ok","#, "1"),
            line("invocations_total", r#"code="cpu_limit_exceeded","#, "1"),
            line("invocations_total", r#"code="wall_limit_exceeded","#, "0"),
            line("invocations_total", r#"code="memory_limit_exceeded","#, "0"),
        ]
    );
    assert_eq!(samples(&families, "cpu_seconds_total"), [line("cpu_seconds_total", "", "2")]);
    assert_eq!(samples(&families, "memory_bytes"), [line("memory_bytes", "", "8192")]);
    assert_eq!(samples(&families, "cold_starts_total"), [line("cold_starts_total", "", "1")]);
    assert_eq!(
        samples(&families, r#"phase="evaluate""#),
        [line("cold_start_seconds", r#"phase="evaluate","#, "0.004")]
    );
    assert_eq!(
        samples(&families, "duration_seconds_count"),
        [line("invocation_duration_seconds_count", "", "2")]
    );
    assert_eq!(
        samples(&families, "duration_seconds_sum"),
        [line("invocation_duration_seconds_sum", "", "30.004")]
    );
    let bucket = |bound: &str| {
        samples(&families, &format!(r#"le="{bound}""#))[0].rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(["0.001", "0.005", "5", "+Inf"].map(bucket), ["0", "1", "1", "2"]);
}

#[test]
fn metrics_of_a_worker_without_an_isolate_linger_and_resume() {
    let families = WorkerFamilies::new().unwrap();
    let (shard, now) = (families.shard(ShardId(0)), Instant::now());
    let cart = digest(0);
    shard.open(cart, &revision("cart"));
    shard.record_start(&cart, &Phases::default());
    shard.review(|_| true, now);
    assert_eq!(samples(&families, "memory_bytes").len(), 1);
    shard.review(|_| false, now);
    assert!(samples(&families, "memory_bytes").is_empty(), "the memory of no isolate is exported");
    assert_eq!(samples(&families, "cold_starts_total").len(), 1);

    shard.open(cart, &revision("cart"));
    shard.review(|_| true, now + LINGER * 2);
    shard.record_start(&cart, &Phases::default());
    assert!(samples(&families, "cold_starts_total")[0].ends_with(" 2"));

    shard.review(|_| false, now + LINGER * 3);
    shard.review(|_| false, now + LINGER * 4);
    assert!(families_with_metrics(&families).is_empty());
    shard.record_end(&cart, End::Answered, Duration::ZERO);
    assert!(
        families_with_metrics(&families).is_empty(),
        "an invocation of a revision without counts was counted"
    );
}

#[test]
fn the_number_of_workers_with_metrics_is_bounded() {
    let families = WorkerFamilies::new().unwrap();
    let (shard, now) = (families.shard(ShardId(0)), Instant::now());
    (0..MAX_REVISIONS + 10).for_each(|n| shard.open(digest(n), &revision(&format!("w{n}"))));
    let workers = || samples(&families, "cold_starts_total");
    assert_eq!(workers().len(), MAX_REVISIONS);
    assert!(!workers().iter().any(|line| line.contains(&format!(r#"worker="w{MAX_REVISIONS}""#))));

    // A revision without an isolate makes room.
    shard.review(|other| *other != digest(7), now);
    shard.open(digest(MAX_REVISIONS), &revision("late"));
    assert_eq!(workers().len(), MAX_REVISIONS);
    let has =
        |name: &str| workers().iter().any(|line| line.contains(&format!(r#"worker="{name}""#)));
    assert!(has("late") && !has("w7"));
}
