//! Tests that the pages of `docs` match the code.

use std::fs;
use std::path::Path;

use tenon_proto::module::BUILTINS;
use tenon_proto::revision::Limits;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(path).expect("cannot read the page")
}

#[test]
fn the_committed_tables_are_up_to_date() {
    for name in tenon_docs::PAGES {
        let page = page(name);
        let filled = tenon_docs::fill(&page, tenon_docs::table).unwrap();
        assert!(page == filled, "{name} is stale: run `make reference`");
    }
}

#[test]
fn the_page_of_nodejs_names_exactly_the_available_modules() {
    let page = page("reference/nodejs.md");
    // The sections after the list describe modules.
    let list = page.split("\n## ").next().unwrap();
    let rows = list.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut named = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect::<Vec<_>>();
    named.sort_unstable();
    assert_eq!(named, BUILTINS);
}

#[test]
fn the_description_of_each_limit_states_the_platforms_default() {
    let Limits {
        cpu_ms,
        wall_ms,
        memory_mib,
        startup_ms,
        concurrency,
        request_body_mib,
        subrequests,
    } = Limits::default();
    let defaults = [
        ("cpuMs", cpu_ms),
        ("wallMs", wall_ms),
        ("memoryMiB", memory_mib),
        ("startupMs", startup_ms),
        ("concurrency", concurrency),
        ("requestBodyMiB", request_body_mib),
        ("subrequests", subrequests),
    ];
    let table = tenon_docs::table("worker limits").unwrap();
    assert_eq!(table.lines().count(), defaults.len() + 2);
    for (name, default) in defaults {
        let row = table.lines().find(|row| row.starts_with(&format!("| `{name}` |"))).unwrap();
        assert!(
            row.contains(&format!(" {default} by default")),
            "the row does not state the default {default}: {row}",
        );
    }
}
