use super::*;

const HANDLER: &str = "export default { fetch() { return new Response() } }";

fn modules(sources: &[(&str, &str)]) -> BTreeMap<String, Bytes> {
    sources.iter().map(|(name, source)| ((*name).to_owned(), Bytes::copy_from_slice(source.as_bytes()))).collect()
}

fn errors(sources: &[(&str, &str)]) -> Vec<String> {
    let result = check(&modules(sources), "worker.js");
    result.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn a_worker_of_several_modules_compiles() {
    let worker =
        format!("import greet, {{ name }} from './lib/greet.js';\nimport * as all from './lib/greet.js';\n{HANDLER}");
    let greet = "export * from '../names.mjs';\nexport default () => 'hello'";
    let names = "export const name = 'é'; import '../worker.js'";
    let errors = errors(&[("worker.js", &worker), ("lib/greet.js", greet), ("names.mjs", names), ("a.txt", "<")]);
    assert_eq!(errors, ["names.mjs:1:33: no module \"../worker.js\" among the Worker's modules"]);
}

#[test]
fn cyclic_imports_are_legal() {
    let worker = format!("import {{ b }} from './b.js'; export const a = 1;\n{HANDLER}");
    let b = "export * from './worker.js'; export * from './b.js'; export const b = 1;";
    assert_eq!(errors(&[("worker.js", &worker), ("b.js", b)]), [""; 0]);
}

#[test]
fn a_syntax_error_has_a_place() {
    let source = "export default {\n  fetch() {\n    const é = ;\n  }\n}";
    let found = check(&modules(&[("worker.js", source)]), "worker.js").unwrap_err();
    assert_eq!(found[0].to_string(), "worker.js:3:15: Unexpected token");
    let expected = "worker.js:3:15: Unexpected token\n  3 |     const é = ;\n    |               ^";
    assert_eq!(found[0].with_source().to_string(), expected);
}

#[test]
fn early_errors_are_found() {
    for (source, place) in [
        ("let a = 1;\nlet a = 2;", "worker.js:1:5"),
        ("return 1", "worker.js:1:1"),
        ("x = /(/", "worker.js:1:6"),
        ("with (a) {}", "worker.js:1:1"),
        ("export { missing }", "worker.js:1:10"),
        ("class A { constructor() { super() } }", "worker.js:1:27"),
        ("await 1; function f() { await 1 }", "worker.js:1:25"),
    ] {
        let found = errors(&[("worker.js", source)]);
        assert!(found.first().is_some_and(|error| error.starts_with(place)), "{source}: {found:?}");
    }
}

#[test]
fn an_import_that_is_not_there_names_the_remedy() {
    let worker = format!("import './greet';\nimport 'greet';\nimport 'lodash';\nimport './none.js';\n{HANDLER}");
    let found = errors(&[("worker.js", &worker), ("greet.js", "")]);
    assert_eq!(found[0], "worker.js:1:8: no module \"./greet\"; did you mean \"./greet.js\"?");
    assert_eq!(found[1], "worker.js:2:8: no module \"greet\"; did you mean \"greet.js\"?");
    assert!(found[2].contains("packages are not installed"), "{found:?}");
    assert_eq!(found[3], "worker.js:4:8: no module \"./none.js\" among the Worker's modules");
}

#[test]
fn an_export_that_is_not_there_is_named() {
    let worker = format!("import greet, {{ name }} from './greet.js';\n{HANDLER}");
    let found = errors(&[("worker.js", &worker), ("greet.js", "export const nam = 1")]);
    let expected = [
        "worker.js:1:8: module \"greet.js\" does not export \"default\"",
        "worker.js:1:17: module \"greet.js\" does not export \"name\"",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_worker_that_handles_nothing_is_told_so() {
    assert!(errors(&[("worker.js", "let a = 1")])[0].contains("nothing handles requests"));
    assert!(errors(&[("other.js", HANDLER)])[0].contains("not among"));
    assert_eq!(errors(&[("worker.js", "addEventListener('fetch', () => {})")]), [""; 0]);
}

#[test]
fn bytes_that_are_no_text_have_a_place() {
    let source = Bytes::from_static(b"let a;\nlet \xff");
    let found = check(&[("worker.js".to_owned(), source)].into(), "worker.js").unwrap_err();
    assert_eq!(found[0].to_string(), "worker.js:2:5: the module is not valid UTF-8");
}

#[test]
fn no_source_can_overflow_the_stack() {
    for level in [
        "[",
        "(",
        "{",
        "`${",
        "~",
        "a=>",
        "1+",
        "a.b",
        "(()=>{",
        "if(1)",
        "if(1);else ",
        "a?b:",
        "new ",
        "class{[",
        "/(",
    ] {
        let source = level.repeat(100_000 / level.len());
        let _ = check_source("worker.js", &source);
    }
}

#[test]
fn bounds_are_checked_before_anything_is_parsed() {
    let large = " ".repeat(MAX_MODULE_BYTES + 1);
    assert!(errors(&[("worker.js", &large)])[0].contains("a module has at most"));
    let names: Vec<String> = (0..=MAX_SOURCE_BYTES / MAX_MODULE_BYTES).map(|n| format!("{n}.js")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), &large[1..])).collect();
    assert!(errors(&all)[0].contains("together"));
    assert!(errors(&[("worker.js", &"[".repeat(MAX_NESTING + 1))])[0].contains("nest"));
}

#[test]
fn specifiers_resolve_as_in_a_url() {
    assert_eq!(resolve("worker.js", "./a.js").as_deref(), Some("a.js"));
    assert_eq!(resolve("lib/x/b.js", "../../a.js").as_deref(), Some("a.js"));
    assert_eq!(resolve("lib/b.js", "./c/../a.js").as_deref(), Some("lib/a.js"));
    assert_eq!(resolve("worker.js", "../a.js"), None);
    assert_eq!(resolve("lib/b.js", "a.js").as_deref(), Some("a.js"));
}
