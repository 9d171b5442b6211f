//! Tests how objects become revisions and routes.

use std::path::Path;

use tenon_proto::revision::Binding;

use super::*;

fn worker(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: tenon.dev/v1alpha1\nkind: Worker\nmetadata: {{name: {name}}}\nspec:\n{spec}\n"
    )
}

const INLINE: &str = "  source: {modules: {worker.js: 'export default {}'}}";

fn loaded(text: &str) -> Load {
    let mut manifests = Manifests::default();
    manifests.add_file(Path::new("a.yaml"), text);
    let env = [("LOCAL".to_owned(), "local value".to_owned())].into();
    load(
        manifests,
        &Settings {
            domain: "localhost".to_owned(),
            env,
            has_cluster: false,
            debug_directory: None,
        },
        |_| Served::default(),
    )
}

fn hosts(load: &Load, name: &str) -> Vec<String> {
    let routes = &load.workers[&WorkerId::new("default", name)].routes;
    routes.iter().map(|route| route.host.clone()).collect()
}

#[test]
fn a_lone_worker_answers_at_the_domain_itself() {
    assert_eq!(hosts(&loaded(&worker("a", INLINE)), "a"), ["localhost", "a.default.localhost"]);
    let two = loaded(&(worker("a", INLINE) + &worker("b", INLINE)));
    assert_eq!(
        (hosts(&two, "a"), hosts(&two, "b")),
        (vec!["a.default.localhost".into()], vec!["b.default.localhost".into()])
    );
}

#[test]
fn modules_may_be_in_a_config_map() {
    let text = worker("a", "  source: {configMapRef: {name: code}}");
    assert!(
        loaded(&text).problems[0].message.contains("ConfigMap default/code is not among the files")
    );
    let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\ndata: {worker.js: 'export default {}'}\n";
    assert_eq!(loaded(&(text + map)).problems, []);
}

#[test]
fn secrets_are_read_from_the_files_or_else_the_env_file() {
    let text = worker(
        "a",
        &format!(
            "{INLINE}\n  secrets:\n  - {{name: KEY, secretKeyRef: {{name: keys, key: k}}}}\n  - {{name: LOCAL, secretKeyRef: {{name: none, key: k}}}}"
        ),
    );
    assert!(loaded(&text).problems[0].message.contains("--env-file"));
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: keys}\ndata: {k: aGVsbG8=}\n";
    let load = loaded(&(text + secret));
    let bindings = &load.workers[&WorkerId::new("default", "a")].revision.bindings;
    let secret = |value: &str| Binding::Secret(value.to_owned());
    assert_eq!((&bindings["KEY"], &bindings["LOCAL"]), (&secret("hello"), &secret("local value")));
}

#[test]
fn a_compile_error_has_a_position_and_the_line() {
    let load = loaded(&worker("a", "  source: {modules: {worker.js: 'export default {'}}"));
    assert!(load.workers.is_empty());
    let message = load.problems[0].to_string();
    assert!(message.starts_with("a.yaml:2: Worker default/a: worker.js:1:17: "), "{message}");
    assert!(message.ends_with("\n  1 | export default {\n    |                 ^"), "{message}");
}

#[test]
fn a_route_belongs_to_the_first_declared_worker() {
    let routes = format!("{INLINE}\n  routes: [{{host: x.example}}]");
    let load = loaded(&(worker("b", &routes) + &worker("a", &routes)));
    assert_eq!((hosts(&load, "b"), hosts(&load, "a").len()), (vec!["x.example".into()], 0));
    assert!(load.problems[0].message.contains("belongs to Worker default/b"));
}
