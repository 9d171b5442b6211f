//! Tests which manifests are accepted, and the problems that are reported in the others.

use super::*;

const HELLO: &str = "\
apiVersion: tenon.dev/v1alpha1
kind: Worker
metadata:
  name: hello
spec:
  source:
    modules:
      worker.js: |
        export default {}
";

fn manifests(text: &str) -> Manifests {
    let mut manifests = Manifests::default();
    manifests.add_file(Path::new("a.yaml"), text);
    manifests
}

fn problems(text: &str) -> Vec<String> {
    manifests(text).problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_may_contain_several_objects() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: code\n  namespace: shop\ndata:\n  a.js: x\n";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: keys\nstringData:\n  key: x\n";
    let manifests =
        manifests(&format!("# all of it\n---\n# hello\n\n{HELLO}---\n{map}---\n{secret}"));
    assert_eq!(manifests.problems, []);
    let (location, _) = &manifests.workers[&WorkerId::new("default", "hello")];
    assert_eq!(location.to_string(), "a.yaml:5");
    assert!(manifests.config_maps.contains_key(&("shop".to_owned(), "code".to_owned())));
    assert!(manifests.secrets.contains_key(&("default".to_owned(), "keys".to_owned())));
}

#[test]
fn invalid_yaml_is_reported_with_its_line() {
    let found = problems(&format!("{HELLO}---\nkind: [\n"));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("a.yaml:12: invalid YAML"), "{found:?}");
}

#[test]
fn content_beside_the_start_of_a_document_is_read() {
    let secret = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}}"#;
    let manifests = manifests(&format!("--- # hello\n{HELLO}--- {secret}\n"));
    assert_eq!(manifests.problems, []);
    let (location, _) = &manifests.workers[&WorkerId::new("default", "hello")];
    assert_eq!(location.to_string(), "a.yaml:2");
    assert!(manifests.secrets.contains_key(&("default".to_owned(), "keys".to_owned())));
}

#[test]
fn an_invalid_document_does_not_hide_the_other_documents() {
    let manifests = manifests(&format!("kind: [\n---\n{HELLO}"));
    assert_eq!((manifests.problems.len(), manifests.workers.len()), (1, 1));
}

#[test]
fn an_unknown_or_invalid_field_is_named() {
    let text = HELLO.replace("spec:\n", "spec:\n  entrypont: worker.js\n  limits: {cpuMs: 0}\n");
    let mut found = problems(&text);
    found.sort();
    let expected = [
        "a.yaml:1: Worker default/hello: spec.entrypont: unknown field",
        "a.yaml:1: Worker default/hello: spec.limits.cpuMs: must be at least 1, is 0",
    ];
    assert_eq!(found, expected);
}

#[test]
fn objects_that_only_a_cluster_uses_are_skipped_with_a_note() {
    let manifests = manifests("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n");
    assert_eq!(manifests.problems, []);
    assert_eq!(
        manifests.notes,
        ["a.yaml:1: skipped Deployment (apps/v1), which only a cluster uses"]
    );
}

#[test]
fn a_worker_declared_twice_is_a_problem() {
    let found = problems(&format!("{HELLO}---\n{HELLO}"));
    assert_eq!(
        found,
        [
            "a.yaml:11: Worker default/hello: is already declared at a.yaml:1; remove one declaration"
        ]
    );
}

#[test]
fn a_worker_of_another_version_is_a_problem() {
    assert_eq!(problems("apiVersion: tenon.dev/v2\nkind: Worker\n").len(), 1);
    assert_eq!(problems("kind: Worker\n"), ["a.yaml:1: apiVersion or kind is missing; set both"]);
}

#[test]
fn the_rules_of_the_crd_are_enforced() {
    let found = problems(&HELLO.replace("spec:\n", "spec:\n  entrypoint: other.js\n"));
    let expected = "a.yaml:1: Worker default/hello: spec.entrypoint: not in spec.source.modules; set it to the name of \
                    one of them";
    assert_eq!(found, [expected]);
}
