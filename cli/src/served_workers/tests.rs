//! Tests which Workers are replaced, kept or removed after a change of the files.

use std::sync::Arc;

use tenon_proto::revision::Revision;

use super::*;
use crate::manifest::Location;

fn id(name: &str) -> WorkerId {
    WorkerId::new("default", name)
}

fn location(file: &str) -> Location {
    Location { file: file.into(), line: 1 }
}

fn loaded(name: &str, version: &str, file: &str) -> Loaded {
    let revision = Revision { name: version.to_owned(), ..Revision::with_modules(id(name), []) };
    Loaded {
        assets: None,
        location: location(file),
        digest: revision.digest(),
        revision: Arc::new(revision),
        routes: Vec::new(),
        schedules: Vec::new(),
        scripts: BTreeMap::new(),
        sources: Arc::default(),
    }
}

fn load(
    workers: impl IntoIterator<Item = Loaded>,
    problems: impl IntoIterator<Item = Problem>,
) -> Load {
    Load {
        workers: workers
            .into_iter()
            .map(|loaded| (loaded.revision.worker.clone(), loaded))
            .collect(),
        problems: problems.into_iter().collect(),
        ..Load::default()
    }
}

fn problem(worker: Option<&str>, file: &str) -> Problem {
    Problem { location: location(file), worker: worker.map(id), message: "broken".to_owned() }
}

fn names(changes: &Changes) -> Vec<&str> {
    changes.served.iter().map(|loaded| loaded.revision.worker.name()).collect()
}

#[test]
fn only_changed_workers_are_replaced() {
    let mut workers = ServedWorkers::default();
    workers.update(load([loaded("a", "1", "x"), loaded("b", "1", "x")], []));
    let changes = workers.update(load([loaded("a", "2", "x"), loaded("b", "1", "x")], []));
    assert_eq!((names(&changes), changes.removed.len()), (vec!["a"], 0));
}

#[test]
fn a_deleted_worker_is_removed() {
    let mut workers = ServedWorkers::default();
    workers.update(load([loaded("a", "1", "x")], []));
    assert_eq!(workers.update(load([], [])).removed, [id("a")]);
    assert!(!workers.serves(&id("a")));
}

#[test]
fn a_broken_worker_keeps_its_last_good_revision() {
    let mut workers = ServedWorkers::default();
    let first = loaded("a", "1", "x");
    workers.update(load([first.clone()], []));
    let changes = workers.update(load([], [problem(Some("a"), "x")]));
    assert_eq!((changes.removed.len(), changes.problems.len()), (0, 1));
    assert_eq!(
        workers.served(&id("a")).revision.map(|revision| revision.digest()),
        Some(first.digest)
    );
}

#[test]
fn the_workers_of_an_unreadable_file_are_kept() {
    let mut workers = ServedWorkers::default();
    workers.update(load([loaded("a", "1", "x"), loaded("b", "1", "y")], []));
    assert_eq!(workers.update(load([], [problem(None, "x")])).removed, [id("b")]);
}

#[test]
fn the_workers_below_an_unreadable_directory_are_kept() {
    let mut workers = ServedWorkers::default();
    workers
        .update(load([loaded("a", "1", "all/below/x.yaml"), loaded("b", "1", "else/y.yaml")], []));
    let changes = workers.update(load([], [problem(None, "all")]));
    assert_eq!((changes.removed, changes.problems.len()), (vec![id("b")], 1));
    assert!(workers.serves(&id("a")));
}

#[test]
fn a_problem_and_its_resolution_are_reported_once() {
    let mut workers = ServedWorkers::default();
    assert_eq!(workers.update(load([], [problem(None, "x")])).problems.len(), 1);
    assert_eq!(workers.update(load([], [problem(None, "x")])).problems.len(), 0);
    assert!(workers.update(load([], [])).all_resolved);
    assert!(!workers.update(load([], [])).all_resolved);
}
