//! Tests that processes export every metric that queries use, and that queries use every metric
//! that processes export.

use std::collections::BTreeSet;
use std::path::Path;

use tenon_dashboards::boards;

/// Metrics that are needed only in an investigation.
const NOT_SHOWN: [&str; 2] = ["process_threads", "process_virtual_memory_bytes"];

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns whether a word is the name of one of our metrics.
fn is_metric(word: &str) -> bool {
    (word.starts_with("tenon_") || word.starts_with("process_"))
        && !word.ends_with('_')
        && word
            .bytes()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_')
}

/// Returns the metrics whose names are whole string literals in the sources of the processes.
fn registered() -> BTreeSet<String> {
    fn walk(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).expect("cannot read the directory") {
            let path = entry.expect("cannot read the directory entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(&path).expect("cannot read the file as text");
                // Metrics in unit tests are not exported.
                let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                found.extend(source.split('"').filter(|word| is_metric(word)).map(str::to_owned));
            }
        }
    }
    let mut found = BTreeSet::new();
    for process in [
        "lifecycle",
        "operator",
        "operator/catalog",
        "router",
        "router/clients",
        "router/compression",
        "router/http3",
        "router/https",
        "router/spans",
        "router/table",
        "runtime-node",
        "runtime-node/engine",
        "runtime-node/egress",
    ] {
        walk(&repository().join(process).join("src"), &mut found);
    }
    // The names of crates also begin with `tenon_`, but are not metrics.
    found.retain(|word| !word.starts_with("tenon_lifecycle"));
    found
}

/// Returns the metrics that the queries of dashboards and rules use, by their names in the sources.
fn queried(registered: &BTreeSet<String>) -> BTreeSet<String> {
    let mut texts = vec![
        std::fs::read_to_string(repository().join("charts/tenon/rules/tenon.yaml"))
            .expect("cannot read the file as text"),
    ];
    for dashboard in boards::all() {
        texts.extend(dashboard.templating.list.iter().map(|variable| variable.query.clone()));
        texts.extend(
            dashboard
                .queried()
                .flat_map(|panel| panel.targets.iter().map(|target| target.expr.clone())),
        );
    }
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = texts.iter().flat_map(|text| text.split(|letter| !is_letter(letter)));
    words.filter(|word| is_metric(word)).map(|word| base(word, registered)).collect()
}

/// Returns the name of the metric that a series belongs to. A histogram is exported as three
/// series.
fn base(word: &str, registered: &BTreeSet<String>) -> String {
    let parts =
        ["_bucket", "_sum", "_count"].into_iter().filter_map(|part| word.strip_suffix(part));
    parts.into_iter().find(|base| registered.contains(*base)).unwrap_or(word).to_owned()
}

#[test]
fn every_queried_metric_is_registered() {
    let registered = registered();
    let missing: Vec<_> =
        queried(&registered).into_iter().filter(|metric| !registered.contains(metric)).collect();
    assert!(missing.is_empty(), "no process registers {missing:?}");
}

#[test]
fn every_registered_metric_is_queried() {
    let registered = registered();
    let queried = queried(&registered);
    let unused: Vec<_> = registered
        .iter()
        .filter(|metric| !queried.contains(*metric) && !NOT_SHOWN.contains(&metric.as_str()))
        .collect();
    assert!(unused.is_empty(), "no dashboard and no rule uses {unused:?}");
}
