//! Tests which modules compile, and the errors of the others.

use super::*;

mod typescript;

/// Compiles a Worker without flags.
fn compile(
    modules: &BTreeMap<String, Bytes>,
    entrypoint: &str,
) -> Result<BTreeMap<String, Bytes>, Vec<CompileError>> {
    super::compile(modules, entrypoint, &BTreeSet::new())
}

const MAP: &str = r#"{"version":3,"sources":["a.ts"],"mappings":"AAAA"}"#;

const HANDLER: &str = "export default { fetch() { return new Response() } }";

fn modules(sources: &[(&str, &str)]) -> BTreeMap<String, Bytes> {
    sources
        .iter()
        .map(|(name, source)| ((*name).to_owned(), Bytes::copy_from_slice(source.as_bytes())))
        .collect()
}

fn errors(sources: &[(&str, &str)]) -> Vec<String> {
    let result = compile(&modules(sources), sources[0].0);
    result.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn imports_between_modules_are_resolved() {
    let worker = format!(
        "import greet, {{ name }} from './lib/greet.js';\nimport * as all from './lib/greet.js';\n{HANDLER}"
    );
    let greet = "export * from '../names.mjs';\nexport default () => 'hello'";
    let names = "export const name = 'é'; import '../worker.js'";
    let errors = errors(&[
        ("worker.js", &worker),
        ("lib/greet.js", greet),
        ("names.mjs", names),
        ("a.txt", "<"),
    ]);
    assert_eq!(errors, ["names.mjs:1:33: no module \"../worker.js\" among the Worker's modules"]);
}

#[test]
fn modules_of_node_js_need_a_compatibility_flag() {
    let worker = format!(
        "import {{ AsyncLocalStorage }} from 'node:async_hooks';\nimport 'buffer';\n{HANDLER}"
    );
    let all = modules(&[("worker.js", &worker)]);
    let flags = BTreeSet::from([CompatibilityFlag::NodejsCompat]);
    assert!(super::compile(&all, "worker.js", &flags).is_ok());
    let found = compile(&all, "worker.js").unwrap_err();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|error| error.to_string().contains("nodejs_compat")), "{found:?}");
    let sqlite = modules(&[("worker.js", &format!("import 'node:sqlite';\n{HANDLER}"))]);
    assert!(
        super::compile(&sqlite, "worker.js", &flags).unwrap_err()[0]
            .to_string()
            .contains("\"node:sqlite\" is not supported")
    );
}

#[test]
fn every_export_of_a_node_module_may_be_re_exported() {
    let worker = format!("import {{ once }} from './events.js';\n{HANDLER}");
    let all = modules(&[("worker.js", &worker), ("events.js", "export * from 'node:events';")]);
    assert!(
        super::compile(&all, "worker.js", &BTreeSet::from([CompatibilityFlag::NodejsCompat]))
            .is_ok()
    );
}

#[test]
fn a_module_is_compiled_to_ascii_unless_its_code_contains_other_characters() {
    let worker = format!("// © Ada\nimport './b.js'; // é\n{HANDLER}\n//# sourceMappingURL=é.map");
    let compiled = compile(
        &modules(&[("worker.js", &worker), ("b.js", "const b = 'é'; // é"), ("é.map", MAP)]),
        "worker.js",
    );
    let compiled = compiled.unwrap();
    assert_eq!(compiled["worker.js"], worker.replace(['©', 'é'], "?"));
    assert_eq!(compiled["b.js"], "const b = 'é'; // é");
    assert!(compiled.contains_key("worker.js.map"), "{:?}", compiled.keys());
}

#[test]
fn cyclic_imports_are_allowed() {
    let worker = format!("import {{ b }} from './b.js'; export const a = 1;\n{HANDLER}");
    let b = "export * from './worker.js'; export * from './b.js'; export const b = 1;";
    assert_eq!(errors(&[("worker.js", &worker), ("b.js", b)]), [""; 0]);
}

#[test]
fn a_syntax_error_has_a_position() {
    let source = "export default {\n  fetch() {\n    const é = ;\n  }\n}";
    let found = compile(&modules(&[("worker.js", source)]), "worker.js").unwrap_err();
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
fn the_error_of_an_unresolved_import_names_a_remedy() {
    let worker = format!(
        "import './greet';\nimport 'greet';\nimport 'lodash';\nimport './none.js';\n{HANDLER}"
    );
    let found = errors(&[("worker.js", &worker), ("greet.js", "")]);
    assert_eq!(found[0], "worker.js:1:8: no module \"./greet\"; did you mean \"./greet.js\"?");
    assert_eq!(found[1], "worker.js:2:8: no module \"greet\"; did you mean \"greet.js\"?");
    assert!(found[2].contains("packages are not installed"), "{found:?}");
    assert_eq!(found[3], "worker.js:4:8: no module \"./none.js\" among the Worker's modules");
}

#[test]
fn the_error_of_an_import_names_the_missing_export() {
    let worker = format!("import greet, {{ name }} from './greet.js';\n{HANDLER}");
    let found = errors(&[("worker.js", &worker), ("greet.js", "export const nam = 1")]);
    let expected = [
        "worker.js:1:8: module \"greet.js\" does not export \"default\"",
        "worker.js:1:17: module \"greet.js\" does not export \"name\"",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_worker_without_a_handler_has_an_error() {
    assert!(errors(&[("worker.js", "let a = 1")])[0].contains("no handler for requests"));
    let other = compile(&modules(&[("other.js", HANDLER)]), "worker.js").unwrap_err();
    assert!(other[0].message.contains("not a code module"));
    assert_eq!(errors(&[("worker.js", "addEventListener('fetch', () => {})")]), [""; 0]);
    let called = "import { WorkerEntrypoint } from 'cloudflare:workers';
                  export class Admin extends WorkerEntrypoint {}";
    assert_eq!(errors(&[("worker.js", called)]), [""; 0]);
}

#[test]
fn invalid_utf_8_is_reported_with_its_position() {
    let source = Bytes::from_static(b"let a;\nlet \xff");
    let found = compile(&[("worker.js".to_owned(), source)].into(), "worker.js").unwrap_err();
    assert_eq!(
        found[0].to_string(),
        "worker.js:2:5: the module is not valid UTF-8; save it as UTF-8"
    );
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
        let _ = compile(&modules(&[("worker.js", &source)]), "worker.js");
    }
}

#[test]
fn bounds_are_checked_before_anything_is_parsed() {
    let large = " ".repeat(MAX_SOURCE_BYTES);
    assert!(errors(&[("worker.js", &large)])[0].contains("in total"));
    assert!(errors(&[("worker.js", &"[".repeat(MAX_NESTING + 1))])[0].contains("nest"));
}

#[test]
fn a_source_with_too_many_unicode_properties_is_refused() {
    let source = |times| format!("{}{HANDLER}", r"/\p{RGI_Emoji}/v;".repeat(times));
    assert_eq!(errors(&[("worker.js", &source(64))]), [""; 0]);
    assert!(errors(&[("worker.js", &source(65))])[0].contains("Unicode properties"));
    assert_eq!(errors(&[("worker.js", HANDLER), ("a.txt", &source(65))]), [""; 0]);
}

#[test]
fn the_content_of_a_data_module_must_match_its_extension() {
    let worker = format!(
        "import a from './a.json'; import './page.html'; import logo from './logo.png';\n{HANDLER}"
    );
    let with = |name: &str, content: &[u8]| {
        let mut all = modules(&[
            ("worker.js", &worker),
            ("a.json", "\u{feff}{\"a\": [1]}"),
            ("page.html", "<é>"),
        ]);
        all.insert("logo.png".to_owned(), Bytes::from_static(b"\xff"));
        all.insert(name.to_owned(), Bytes::copy_from_slice(content));
        compile(&all, "worker.js")
            .err()
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(with("b.json", b"1"), [""; 0]);
    assert_eq!(with("b.json", "[".repeat(100_000).as_bytes()).len(), 1);
    assert_eq!(with("b.json", (("[".repeat(100_000)) + &"]".repeat(100_000)).as_bytes()), [""; 0]);
    let malformed = with("b.json", "\u{feff}{\n  \"é\": tru\n}".as_bytes());
    assert!(
        malformed[0].starts_with("b.json:3:1: malformed JSON: expected ident"),
        "{malformed:?}"
    );
    assert!(with("b.txt", b"a\nb\xff")[0].starts_with("b.txt:2:2: the module is not valid UTF-8"));
}

#[test]
fn a_data_module_has_only_a_default_export() {
    let worker = "import { a } from './a.json'; export * from './a.txt'; export { default as b } from './a.txt';
                  import c from './b.js'; import { d } from './b.js'; export default {}";
    let found = errors(&[
        ("worker.js", worker),
        ("a.json", "{}"),
        ("a.txt", ""),
        ("b.js", "export * from './a.json'"),
    ]);
    let expected = [
        "worker.js:1:10: module \"a.json\" does not export \"a\"; a data module has only a default export",
        "worker.js:2:26: module \"b.js\" does not export \"default\"",
        "worker.js:2:52: module \"b.js\" does not export \"d\"",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_import_that_a_node_would_refuse_is_refused() {
    for (import, expected) in [
        ("import { add } from './add.wasm'", "module \"add.wasm\" does not export \"add\""),
        ("export * from './old.cjs'", "CommonJS modules cannot be used"),
        (
            "import './a.json' with { integrity: 'x' }",
            "worker.js:1:8: import attribute \"integrity\" is not supported",
        ),
        ("import a from './a.json' with { type: 'css' }", "import type \"css\" is not supported"),
        ("import a from './worker.js' with { type: 'json' }", "only a .json module"),
        ("import { a } from './a.json' with { type: 'text' }", "does not export \"a\""),
    ] {
        let worker = format!("{import};\n{HANDLER}");
        let found =
            errors(&[("worker.js", &worker), ("add.wasm", ""), ("old.cjs", ""), ("a.json", "{}")]);
        assert!(found.len() == 1 && found[0].contains(expected), "{import}: {found:?}");
    }
    let worker = format!(
        "import a from './a.json' with {{ type: 'json' }}; import b from './a.json' with {{ type: 'text' }};\n{HANDLER}"
    );
    assert_eq!(
        errors(&[("worker.js", &worker), ("a.json", "{}"), ("add.wasm", ""), ("old.cjs", "(")]),
        [""; 0]
    );
}

#[test]
fn javascript_and_data_modules_are_unchanged_and_keep_source_maps() {
    let map = r#"{"version":3,"sources":["../src/index.ts"],"sourcesContent":["x"],"names":[],"mappings":"AAAA"}"#;
    let all = modules(&[
        ("worker.js", HANDLER),
        ("worker.js.map", map),
        ("a.txt", "a"),
        ("lost.js.map", map),
    ]);
    let compiled = compile(&all, "worker.js").unwrap();
    assert_eq!(compiled.keys().collect::<Vec<_>>(), ["a.txt", "worker.js", "worker.js.map"]);
    assert_eq!((&compiled["worker.js"], &compiled["a.txt"]), (&all["worker.js"], &all["a.txt"]));
    assert!(
        !compiled["worker.js.map"].starts_with(b"x") && compiled["worker.js.map"].len() < map.len()
    );
}

#[test]
fn decorators_are_refused_with_a_remedy() {
    let found = errors(&[("worker.js", &format!("// @x\n@seal class A {{}}\n{HANDLER}"))]);
    assert!(
        found[0].starts_with("worker.js:2:1: decorators are not part of JavaScript yet"),
        "{found:?}"
    );
}

#[test]
fn all_errors_fit_into_one_condition() {
    let name = "é".repeat(4_000);
    let lines: Vec<_> =
        (0..100).map(|n| format!("import {{ {name}{n} }} from './none.js';")).collect();
    let found = compile(&modules(&[("worker.js", &(lines.join("\n") + HANDLER))]), "worker.js")
        .unwrap_err();
    let length: usize =
        found.iter().map(|error| error.with_source().to_string().chars().count() + 1).sum();
    assert!(found.len() == MAX_ERRORS && length < 32_000, "{length}");
}
