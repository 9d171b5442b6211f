//! Tests the kinds of modules and the resolution of imports.

use proptest::prelude::*;

use super::*;

#[test]
fn the_kind_of_a_module_depends_on_its_extension() {
    for (name, kind) in [
        ("worker.js", ModuleKind::JavaScript),
        ("lib.d/lodash", ModuleKind::JavaScript),
        ("react/jsx-runtime", ModuleKind::JavaScript),
        ("a.min.mjs", ModuleKind::JavaScript),
        ("a.d.ts", ModuleKind::TypeScript),
        ("view.TSX", ModuleKind::TypeScript),
        ("package.json", ModuleKind::Json),
        ("README.md", ModuleKind::Text),
        ("add.wasm", ModuleKind::WebAssembly),
        ("worker.js.map", ModuleKind::SourceMap),
        ("worker.ts.map", ModuleKind::SourceMap),
        ("level.map", ModuleKind::Binary),
        ("style.css.map", ModuleKind::Binary),
        ("old.cjs", ModuleKind::CommonJs),
        (".hidden", ModuleKind::Binary),
        ("logo.png", ModuleKind::Binary),
    ] {
        assert_eq!(ModuleKind::of(name), kind, "{name}");
    }
}

#[test]
fn the_form_of_an_import_depends_on_the_kind_and_the_attribute() {
    for (name, type_, form) in [
        ("a.js", None, Ok(Form::Code)),
        ("a.ts", None, Ok(Form::Code)),
        ("a.json", None, Ok(Form::Json)),
        ("a.json", Some("json"), Ok(Form::Json)),
        ("a.json", Some("text"), Ok(Form::Text)),
        ("a.txt", Some("text"), Ok(Form::Text)),
        ("a.txt", Some("json"), Err(ImportRefused::NotJson)),
        ("a.js", Some("json"), Err(ImportRefused::NotJson)),
        ("a.js", Some("text"), Ok(Form::Text)),
        ("a.ts", Some("text"), Err(ImportRefused::NotStored("text"))),
        ("a.bin", None, Ok(Form::Buffer)),
        ("a.bin", Some("bytes"), Ok(Form::Bytes)),
        ("a.wasm", None, Ok(Form::WebAssembly)),
        ("a.wasm", Some("bytes"), Ok(Form::Bytes)),
        ("a.js.map", None, Err(ImportRefused::SourceMap)),
        ("a.cjs", None, Err(ImportRefused::CommonJs)),
        ("a.css", Some("css"), Err(ImportRefused::UnknownType("css".to_owned()))),
    ] {
        assert_eq!(ModuleKind::of(name).form(type_), form, "{name} as {type_:?}");
    }
}

#[test]
fn the_error_names_an_unknown_attribute() {
    assert_eq!(type_attribute([("type", "json")]), Ok(Some("json")));
    assert_eq!(type_attribute::<&str>([]), Ok(None));
    let refused = type_attribute([("type", "json"), ("integrity", "sha256-…")]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "import attribute \"integrity\" is not supported; use \"type\""
    );
}

fn resolve_from(importer: &str, specifier: &str) -> Option<String> {
    let modules = [
        "main.js",
        "lib/a.js",
        "lib/b.js",
        "lib/deep/c.js",
        "lib/t.ts",
        "view.tsx",
        "m.mts",
        "both.js",
        "both.ts",
    ];
    resolve(importer, specifier, |name| modules.contains(&name))
}

#[test]
fn a_relative_specifier_starts_from_the_importing_module() {
    assert_eq!(resolve_from("main.js", "./lib/a.js").as_deref(), Some("lib/a.js"));
    assert_eq!(resolve_from("lib/a.js", "./b.js").as_deref(), Some("lib/b.js"));
    assert_eq!(resolve_from("lib/deep/c.js", "../../main.js").as_deref(), Some("main.js"));
    assert_eq!(resolve_from("lib/a.js", "./deep/../b.js").as_deref(), Some("lib/b.js"));
}

#[test]
fn a_bare_specifier_is_a_full_module_name() {
    assert_eq!(resolve_from("lib/deep/c.js", "lib/a.js").as_deref(), Some("lib/a.js"));
    assert_eq!(resolve_from("lib/b.js", "a.js"), None);
    assert_eq!(resolve_from("lib/a.js", "/main.js").as_deref(), Some("main.js"));
    assert_eq!(resolve_from("lib/a.js", "file:///lib/b.js").as_deref(), Some("lib/b.js"));
}

#[test]
fn a_javascript_specifier_resolves_to_its_typescript_module() {
    assert_eq!(resolve_from("lib/a.js", "./t.js").as_deref(), Some("lib/t.ts"));
    assert_eq!(resolve_from("main.js", "./view.js").as_deref(), Some("view.tsx"));
    assert_eq!(resolve_from("main.js", "./view.jsx").as_deref(), Some("view.tsx"));
    assert_eq!(resolve_from("main.js", "./m.mjs").as_deref(), Some("m.mts"));
    assert_eq!(resolve_from("main.js", "./both.js").as_deref(), Some("both.js"));
    assert_eq!(resolve_from("main.js", "./m.js"), None);
    assert_eq!(resolve_from("main.js", "./lib/t"), None);
}

#[test]
fn no_specifier_leads_out_of_the_worker() {
    assert_eq!(resolve_from("main.js", "../main.js"), None);
    assert_eq!(resolve_from("lib/a.js", "../../../main.js"), None);
    assert_eq!(resolve_from("main.js", "https://example.com/main.js"), None);
}

proptest! {
    #[test]
    fn resolution_finds_only_modules_of_the_worker(importer in "[a-c./]{0,12}", specifier in "(file:///)?[a-c./]{0,12}(js|ts)?", names in prop::collection::btree_set("[a-c/.]{1,8}(js|ts)", 0..8)) {
        if let Some(found) = resolve(&importer, &specifier, |name| names.contains(name)) {
            prop_assert!(names.contains(&found));
        }
    }

    #[test]
    fn every_refused_import_has_a_message(name in ".{0,20}", type_ in prop::option::of(".{0,8}")) {
        if let Err(refused) = ModuleKind::of(&name).form(type_.as_deref()) {
            prop_assert!(!refused.to_string().is_empty());
        }
    }

    #[test]
    fn the_source_map_of_a_code_module_is_beside_it(stem in "[a-z/]{1,8}", extension in "(js|mjs|ts|mts|tsx|jsx)") {
        let map = source_map_of(&format!("{stem}.{extension}"));
        prop_assert_eq!(ModuleKind::of(&map), ModuleKind::SourceMap);
    }
}
