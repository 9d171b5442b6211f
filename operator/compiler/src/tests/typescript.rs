//! Tests how TypeScript and JSX are compiled.

use super::*;

/// Compiles a Worker whose entrypoint is the first module, and returns the text of each module.
fn compile_to_text(sources: &[(&str, &str)]) -> BTreeMap<String, String> {
    let outcome = compile(&modules(sources), sources[0].0);
    outcome
        .unwrap_or_else(|errors| panic!("{}", errors[0].with_source()))
        .into_iter()
        .map(|(name, content)| (name, String::from_utf8(content.to_vec()).unwrap()))
        .collect()
}

/// Returns the JavaScript that is generated from one module, with single spaces.
fn javascript(source: &str) -> String {
    let source = format!("{source}\nexport default {{ fetch() {{}} }};");
    let module = compile_to_text(&[("worker.ts", &source)])["worker.ts"].clone();
    module.split("export default").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn types_are_removed_and_other_code_is_kept() {
    let source = "interface A { a: string } type B = A | null; declare const c: B;
                  export let d: B = <B>{ a: 'x' }; let e = d!.a satisfies string as any;
                  function f<T>(this: A, g?: T): asserts g {} abstract class H { abstract i(): void; private j = 1; k?: A }";
    let expected =
        "export let d = { a: \"x\" }; let e = d.a; function f(g) {} class H { j = 1; k; }";
    assert_eq!(javascript(source), expected);
}

#[test]
fn enums_namespaces_and_parameter_properties_are_compiled() {
    let source = "enum A { X, Y = 'y' } const enum B { Z = 4 } console.log(B.Z);
                  namespace C { export const d = 1 } class E { constructor(private f: number, readonly g = 2) {} }";
    let found = javascript(source);
    for part in [
        "A[A[\"X\"] = 0] = \"X\"",
        "A[\"Y\"] = \"y\"",
        "Z\"] = 4",
        "C.d = 1",
        "this.f = f",
        "this.g = g",
    ] {
        assert!(found.contains(part), "{part}: {found}");
    }
}

#[test]
fn imports_of_types_are_removed_and_those_of_values_are_checked() {
    let worker =
        "import { A, make } from './types.js'; import type { B } from './none.js'; import json from './a.json';
                  let a: A = make(json); export type { A }; export default { fetch(b: B) { return a } }";
    let types = "export interface A {} export const make = (x: unknown): A => ({});";
    let compiled = compile_to_text(&[("worker.ts", worker), ("types.ts", types), ("a.json", "{}")]);
    assert!(
        compiled["worker.ts"].starts_with("import { make } from \"./types.js\""),
        "{compiled:?}"
    );
    let worker = "export { A } from './types.ts'; export default {}";
    let found = errors(&[("worker.ts", worker), ("types.ts", types)]);
    let expected = "worker.ts:1:10: module \"types.ts\" does not export \"A\"; if it is a type, use import type or export type";
    assert_eq!(found, [expected]);
}

#[test]
fn a_declaration_file_is_an_empty_module() {
    let compiled = compile_to_text(&[
        ("worker.ts", HANDLER),
        ("env.d.ts", "declare global { interface Env { A: string } } export {}"),
    ]);
    assert_eq!(compiled["env.d.ts"], "");
}

#[test]
fn errors_name_the_original_line() {
    let source = "interface A {\n  a: string\n}\nconst b: A = ;\n";
    let found = compile(&modules(&[("worker.ts", source)]), "worker.ts").unwrap_err();
    let expected = "worker.ts:4:14: Unexpected token\n  4 | const b: A = ;\n    |              ^";
    assert_eq!(found[0].with_source().to_string(), expected);
    for (source, place) in [
        ("type A = string;\nlet a = 1; let a = 2", "worker.ts:2:5: "),
        ("type A = string;\nexport = 1", "worker.ts:2:1: "),
        ("type A = string;\nimport a = require('a'); a()", "worker.ts:2:1: "),
        ("type A = string;\nclass B { @c d() {} }", "worker.ts:2:11: decorators"),
        ("type A = string;\nimport './none.js'", "worker.ts:2:8: no module"),
        ("let a = <div/>", "worker.ts:1:"),
    ] {
        let found = errors(&[("worker.ts", &format!("{source}\n{HANDLER}"))]);
        assert!(found.first().is_some_and(|error| error.starts_with(place)), "{source}: {found:?}");
    }
}

#[test]
fn jsx_calls_the_functions_of_the_configured_runtime() {
    let view = "export default { fetch: () => <a b={1}>{<></>}</a> }";
    let classic = compile_to_text(&[("view.tsx", view)]);
    assert!(classic["view.tsx"].contains("React.createElement(\"a\", { b: 1 }, "), "{classic:?}");
    let automatic = compile_to_text(&[
        ("view.jsx", view),
        ("react/jsx-runtime", "export const jsx = 1, jsxs = 2, Fragment = 3"),
    ]);
    assert!(automatic["view.jsx"].contains("from \"react/jsx-runtime\""), "{automatic:?}");
    let pragma = format!("/** @jsx h @jsxFrag F */\nimport {{ h, F }} from './h.js';\n{view}");
    let own = compile_to_text(&[("view.tsx", &pragma), ("h.js", "export const h = 1, F = 2")]);
    assert!(
        own["view.tsx"].contains("h(\"a\", { b: 1 }, ")
            && own["view.tsx"].contains("import { h, F }"),
        "{own:?}"
    );
    let preact = format!("/** @jsxRuntime automatic @jsxImportSource preact */\n{view}");
    let found = errors(&[("view.tsx", &preact)]);
    assert!(found[0].contains("no module \"preact/jsx-runtime\""), "{found:?}");
}

#[test]
fn a_source_map_names_the_position_in_the_typescript() {
    let source = "interface A {\n  a: string\n}\nexport default {\n  fetch(a: A) { throw new Error(a.a) },\n};\n";
    let compiled = compile_to_text(&[("src/worker.ts", source)]);
    let map = oxc_sourcemap::SourceMap::from_json_string(&compiled["src/worker.ts.map"]).unwrap();
    let before = compiled["src/worker.ts"].split("new Error").next().unwrap();
    let (line, column) =
        (before.matches('\n').count(), before.len() - before.rfind('\n').unwrap() - 1);
    let token = map.lookup_token(&map.generate_lookup_table(), line as u32, column as u32).unwrap();
    assert_eq!((token.get_src_line(), token.get_src_col()), (4, 22));
    assert_eq!(
        (map.get_sources().collect::<Vec<_>>(), map.get_source_contents().count()),
        (vec!["src/worker.ts"], 0)
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
        "<a>",
        "a as ",
        "let a:",
        "a|",
        "type A=",
        "a<",
        "namespace A{",
        "enum A{",
        "A extends B?",
        "keyof ",
        "()=>",
        "a!",
        "<T,>(a:",
        "{a:",
        "typeof ",
        "a satisfies ",
        "A[",
        "<div>{",
    ] {
        let source = level.repeat(30_000 / level.len());
        for start in ["", "let a=", "let a:", "type A="] {
            for name in ["worker.ts", "worker.tsx"] {
                let _ = compile(&modules(&[(name, &format!("{start}{source}"))]), name);
            }
        }
        let whole = format!(
            "let a={}1{}",
            level.repeat(5_000),
            match level {
                "[" => "]",
                "(" => ")",
                _ => "",
            }
            .repeat(5_000)
        );
        let _ = compile(&modules(&[("worker.ts", &whole)]), "worker.ts");
    }
}

#[test]
fn deeply_nested_types_are_refused() {
    for open in ["a<", "(a=", "a<{b:1;c:", "a<{}|", "a<[];b<"] {
        let found = errors(&[("worker.ts", &open.repeat(MAX_NESTING + 1))]);
        assert_eq!(found.len(), 1, "{open}: {found:?}");
    }
}
