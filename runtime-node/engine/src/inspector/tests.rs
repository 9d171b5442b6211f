//! Tests which Worker a client of the inspector is attached to.

use futures::FutureExt as _;
use tenon_proto::id::WorkerId;

use super::*;

/// Returns a revision that differs from the revisions of other versions.
fn revision(version: &str) -> Revision {
    let revision = Revision::with_modules(WorkerId::new("default", "hello"), []);
    Revision { name: version.to_owned(), entrypoint: version.to_owned(), ..revision }
}

fn announce(inspector: &Inspector, revision: &Revision) {
    inspector.announce(revision, revision.digest(), BTreeMap::new());
}

fn inspector() -> Arc<Inspector> {
    let inspector = Inspector::new(false);
    announce(&inspector, &revision("1"));
    inspector
}

/// Returns whether the client has been detached.
fn is_detached(client: &Client) -> bool {
    client.receive().now_or_never() == Some(None)
}

#[test]
fn a_client_connects_to_a_worker_by_its_id() {
    let inspector = inspector();
    assert!(inspector.connect("default/hello").is_some());
    assert!(inspector.connect("default/other").is_none());
    assert!(inspector.connect("").is_none());
}

#[test]
fn a_worker_is_wanted_when_a_client_connects_before_it_has_an_isolate() {
    let inspector = inspector();
    assert!(inspector.wanted().now_or_never().is_none());
    let client = inspector.connect("default/hello");
    let wanted = inspector.wanted().now_or_never().unwrap();
    assert_eq!(wanted.digest(), revision("1").digest());
    assert!(inspector.wanted().now_or_never().is_none());
    wanted.give_up();
    assert!(is_detached(&client.unwrap()));
}

#[test]
fn a_new_revision_detaches_the_clients_of_the_old_one() {
    let inspector = inspector();
    let client = inspector.connect("default/hello").unwrap();
    announce(&inspector, &revision("1"));
    assert!(!is_detached(&client));
    let worker = WorkerId::new("default", "hello");
    announce(&inspector, &revision("2"));
    assert!(is_detached(&client));
    assert!(inspector.target(&worker, revision("1").digest()).is_none());
    assert!(inspector.target(&worker, revision("2").digest()).is_some());
}

#[test]
fn clients_are_detached_when_their_worker_is_removed() {
    let inspector = inspector();
    let client = inspector.connect("default/hello").unwrap();
    inspector.remove(&WorkerId::new("default", "hello"));
    assert!(is_detached(&client) && inspector.targets().is_empty());
    announce(&inspector, &revision("1"));
    let client = inspector.connect("default/hello").unwrap();
    inspector.close();
    assert!(is_detached(&client) && inspector.connect("default/hello").is_none());
}
