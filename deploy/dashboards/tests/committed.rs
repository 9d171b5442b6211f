//! Tests that the chart's dashboards are those that the boards generate, and that every panel can
//! be understood.

use std::collections::HashSet;
use std::path::Path;

use tenon_dashboards::boards;
use tenon_dashboards::model::{COLUMNS, Dashboard};

fn chart() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/tenon"))
}

#[test]
fn the_charts_dashboards_are_those_that_the_source_generates() {
    let directory = chart().join("dashboards");
    let mut files: HashSet<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    for dashboard in boards::all() {
        let name = dashboard.file_name();
        let committed = std::fs::read_to_string(directory.join(&name)).unwrap_or_default();
        assert!(committed == dashboard.to_json(), "{name} is stale; run `make dashboards`");
        files.remove(std::ffi::OsStr::new(&name));
    }
    assert!(files.is_empty(), "{files:?} belong to no dashboard; remove them");
    let read: Vec<_> =
        tenon_dashboards::read(&directory).unwrap().iter().map(Dashboard::to_json).collect();
    assert_eq!(read.len(), boards::all().len());
}

#[test]
fn every_panel_has_a_description_a_unit_and_legends() {
    for dashboard in boards::all() {
        assert!(
            !dashboard.description.is_empty() && dashboard.tags == ["tenon"],
            "{} has no description, or other tags than tenon",
            dashboard.title
        );
        for panel in dashboard.queried() {
            let named = format!("{} / {}", dashboard.title, panel.title);
            assert!(panel.description.ends_with('.'), "{named} has no description");
            assert!(panel.field_config.is_some(), "{named} has no unit");
            assert!(!panel.targets.is_empty(), "{named} has no query");
            for target in &panel.targets {
                assert!(!target.legend_format.is_empty(), "{named} has a query without a legend");
            }
            let place = panel.grid_pos;
            assert!(place.x + place.w <= COLUMNS, "{named} is too wide for its position");
        }
    }
}

#[test]
fn panels_do_not_overlap() {
    for dashboard in boards::all() {
        let mut taken = HashSet::new();
        for panel in &dashboard.panels {
            let place = panel.grid_pos;
            let cells = (place.x..place.x + place.w)
                .flat_map(|x| (place.y..place.y + place.h).map(move |y| (x, y)));
            for cell in cells {
                assert!(
                    taken.insert(cell),
                    "{} / {} overlaps another panel",
                    dashboard.title,
                    panel.title
                );
            }
        }
    }
}

/// If a query dropped a label, the legend would show nothing for it.
#[test]
fn every_label_in_a_legend_is_kept_by_its_query() {
    for dashboard in boards::all() {
        for panel in dashboard.queried() {
            for target in &panel.targets {
                let labels = target
                    .legend_format
                    .split("{{")
                    .skip(1)
                    .filter_map(|part| part.split("}}").next());
                let kept: Vec<_> = target
                    .expr
                    .split(" by (")
                    .skip(1)
                    .filter_map(|part| part.split(')').next())
                    .collect();
                for label in labels {
                    let keeps = |by: &&str| by.split(", ").any(|kept| kept == label);
                    let named = format!("{} / {}: {{{{{label}}}}}", dashboard.title, panel.title);
                    assert!(
                        kept.is_empty() || kept.iter().any(keeps),
                        "{named} is not kept by {}",
                        target.expr
                    );
                }
            }
        }
    }
}

#[test]
fn every_variable_of_a_query_is_declared() {
    for dashboard in boards::all() {
        let mut known: HashSet<&str> = HashSet::from(["__rate_interval", "datasource"]);
        let declared = dashboard.templating.list.iter();
        let queries = declared.clone().map(|variable| &variable.query);
        known.extend(declared.map(|variable| variable.name.as_str()));
        for query in queries.chain(
            dashboard.queried().flat_map(|panel| panel.targets.iter().map(|target| &target.expr)),
        ) {
            for used in query.split('$').skip(1) {
                let end = used
                    .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                    .unwrap_or(used.len());
                assert!(
                    known.contains(&used[..end]),
                    "{} does not declare the variable ${} of {query}",
                    dashboard.title,
                    &used[..end]
                );
            }
            assert!(!query.contains("{@"), "{} has no selector for {query}", dashboard.title);
        }
    }
}
