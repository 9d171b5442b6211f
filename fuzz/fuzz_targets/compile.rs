//! Fuzzes the compiler. Modules either compile or yield errors at positions that exist. TypeScript
//! is compiled to JavaScript without syntax errors, with a source map that leads into the
//! original. In JavaScript, only characters that are not ASCII change.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::Arbitrary;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tenon_compiler::compile;
use tenon_proto::module::{ModuleKind, source_map_of};

const NAMES: [&str; 8] = [
    "worker.js",
    "worker.ts",
    "lib/a.tsx",
    "lib/b.jsx",
    "worker.js.map",
    "data.json",
    "a.d.ts",
    "react/jsx-runtime",
];

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    entrypoint: u8,
    first: (u8, u16),
    second: (u8, u16),
    text: &'a [u8],
}

fn name(number: u8) -> &'static str {
    NAMES[usize::from(number) % NAMES.len()]
}

fuzz_target!(|input: Input<'_>| {
    let mut rest = Bytes::copy_from_slice(input.text);
    let mut modules = BTreeMap::new();
    for (number, length) in [input.first, input.second] {
        let content = rest.split_to(rest.len().min(length.into()));
        modules.insert(name(number).to_owned(), content);
    }
    modules.insert(name(input.entrypoint).to_owned(), rest);

    let entrypoint = name(input.entrypoint);
    let compiled = match compile(&modules, entrypoint, &BTreeSet::new()) {
        Ok(compiled) => compiled,
        Err(errors) => {
            assert!((1..=20).contains(&errors.len()));
            for error in errors {
                let text = modules.get(&error.file).map_or(&b""[..], |content| content);
                let lines = 1 + text.iter().filter(|byte| **byte == b'\n').count();
                assert!(
                    error.line >= 1 && error.line as usize <= lines && error.column >= 1,
                    "{error:?}"
                );
                assert!(error.to_string().len() < 4096);
            }
            return;
        }
    };
    for (name, content) in &modules {
        match ModuleKind::of(name) {
            ModuleKind::SourceMap => {}
            ModuleKind::JavaScript => {
                let units = |text: &[u8]| -> Vec<u16> {
                    String::from_utf8_lossy(text).encode_utf16().collect()
                };
                let (written, compiled) = (units(content), units(&compiled[name]));
                let is_same = |(old, new): (&u16, &u16)| {
                    old == new || (*old > 0x7f && *new == u16::from(b'?'))
                };
                // A source map at the end is a module of its own.
                assert!(compiled.len() <= written.len());
                assert!(written.iter().zip(&compiled).all(is_same), "{compiled:?}");
            }
            ModuleKind::TypeScript => {
                let script = BTreeMap::from([("worker.js".to_owned(), compiled[name].clone())]);
                // Alone, the module may lack its imports and a handler, but it has no other errors.
                for error in
                    compile(&script, "worker.js", &BTreeSet::new()).err().unwrap_or_default()
                {
                    let concerns_links = [
                        "no module",
                        "no handler",
                        "is a Node.js module",
                        "import",
                        "not supported",
                        "export",
                    ]
                    .iter()
                    .any(|part| error.message.contains(part));
                    assert!(
                        concerns_links,
                        "{error:?} in {:?}",
                        String::from_utf8_lossy(&compiled[name])
                    );
                }
                if let Some(map) = compiled.get(&source_map_of(name)) {
                    let lines =
                        1 + String::from_utf8_lossy(content).matches(is_line_terminator).count();
                    tenon_engine::fuzzing::every_place(map, |line, _| {
                        assert!((line as usize) < lines)
                    });
                }
            }
            _ => assert_eq!(&compiled[name], content),
        }
    }
});

/// Returns whether a character is a JavaScript line terminator.
fn is_line_terminator(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}
