//! Tests of modules of every kind, and of the values that they export.

use std::rc::Rc;
use std::sync::Arc;

use crate::harness::{Shard, Text, Worker, trials};

trials![
    a_data_module_exports_its_value,
    an_import_attribute_selects_another_form_of_a_module,
    data_modules_can_be_imported_while_a_request_is_served,
    a_refused_import_states_the_reason,
    malformed_json_is_a_failed_start,
    a_javascript_specifier_finds_its_typescript_module,
    import_meta_has_the_url_of_a_module_and_whether_it_is_the_entrypoint,
    a_byte_order_mark_is_removed_from_text_and_json_modules,
    bytes_are_counted_against_the_workers_memory,
    bytecode_is_made_for_workers_with_data_modules,
];

const DATA: [(&str, &[u8]); 6] = [
    ("a.json", br#"{"name": "a", "list": [1, {"__proto__": 2}]}"#),
    ("a.txt", "né\n".as_bytes()),
    ("page.html", b"<p>ascii</p>"),
    ("a.bin", &[0, 255, 128]),
    ("empty.bin", b""),
    ("code.js", b"export default 1"),
];

fn with_data(worker: Worker) -> Worker {
    DATA.into_iter().fold(worker, |worker, (name, content)| worker.module(name, content))
}

async fn a_data_module_exports_its_value(shard: Rc<Shard>) {
    let worker = shard.worker(
        "import json from './a.json'; import * as all from './a.json'; import text from './a.txt';
         import page from './page.html'; import bin from './a.bin'; import empty from './empty.bin';
         const kind = (v) => Object.prototype.toString.call(v);
         export default { fetch: () => Response.json([
           json.name, Object.keys(json.list[1]), Object.keys(all), all.default === json, text, page, kind(bin),
           [...new Uint8Array(bin)], empty.byteLength,
         ]) }",
    );
    let expected = r#"["a",["__proto__"],["default"],true,"né\n","<p>ascii</p>","[object ArrayBuffer]",[0,255,128],0]"#;
    assert_eq!(with_data(worker).get().await.unwrap().text(), expected);
}

async fn an_import_attribute_selects_another_form_of_a_module(shard: Rc<Shard>) {
    let worker = shard.worker(
        "import json from './a.json' with { type: 'json' }; import plain from './a.json';
         import text from './a.json' with { type: 'text' }; import bytes from './a.json' with { 'type': 'bytes' };
         import code from './code.js' with { type: 'text' }; import one from './code.js';
         export { default as again } from './a.bin' with { type: 'bytes' };
         export default { fetch: () => Response.json([
           json === plain, JSON.parse(text).name, bytes instanceof Uint8Array, bytes.length === text.length, code, one,
         ]) }",
    );
    let expected = r#"[true,"a",true,true,"export default 1",1]"#;
    assert_eq!(with_data(worker).get().await.unwrap().text(), expected);
}

async fn data_modules_can_be_imported_while_a_request_is_served(shard: Rc<Shard>) {
    let handler = "const json = await import('./a.json', { with: { type: 'json' } });
                   const again = await import('a.json');
                   const text = await import('./a.json', { with: { type: 'text' } });
                   const bytes = await import('./a.bin');
                   return Response.json([json === again, json.default.name, text.default.length, bytes.default.byteLength])";
    assert_eq!(with_data(shard.handler(handler)).get().await.unwrap().text(), r#"[true,"a",44,3]"#);
}

async fn a_refused_import_states_the_reason(shard: Rc<Shard>) {
    let handler = "const tried = [];
                   for (const [name, attributes] of [['old.cjs'], ['code.js.map'], ['a.ts', { type: 'text' }],
                       ['a.txt', { type: 'json' }], ['a.json', { type: 'css' }], ['a.json', { integrity: 'x' }],
                       ['a.json', { type: 1 }]]) {
                     try { await import(name, { with: attributes ?? {} }); tried.push('imported'); }
                     catch (error) { tried.push(`${error.name}: ${error.message}`) }
                   }
                   return new Response(tried.join('\\n'))";
    let files = ["old.cjs", "code.js.map", "a.ts"];
    let worker = files
        .into_iter()
        .fold(with_data(shard.handler(handler)), |worker, name| worker.module(name, b"{}"));
    let answer = worker.get().await.unwrap();
    let expected = [
        "CommonJS modules cannot be used",
        "a source map cannot be imported",
        "cannot be imported with type \"text\"",
        "only a .json module can be imported with type \"json\"",
        "import type \"css\" is not supported",
        "import attribute \"integrity\" is not supported",
        "TypeError: ",
    ];
    let lines: Vec<_> = answer.text().lines().collect();
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, expected) in lines.into_iter().zip(expected) {
        assert!(line.starts_with("TypeError: ") && line.contains(expected), "{line}: {expected}");
    }
}

async fn malformed_json_is_a_failed_start(shard: Rc<Shard>) {
    let worker = shard.modules(&[
        ("worker.js", "import './a.json'; export default { fetch() {} }"),
        ("a.json", "{"),
    ]);
    worker.failure().await;
    assert!(shard.logged("SyntaxError: "), "{:?}", shard.log());
}

async fn a_javascript_specifier_finds_its_typescript_module(shard: Rc<Shard>) {
    let worker = shard.modules(&[
        (
            "worker.ts",
            "import one from './lib/one.js'; export default { fetch: () => new Response(one) }",
        ),
        ("lib/one.ts", "export { default } from './two.mjs'"),
        ("lib/two.mts", "export default 'two in ' + import.meta.url"),
    ]);
    assert_eq!(worker.get().await.unwrap().text(), "two in file:///lib/two.mts");
}

async fn import_meta_has_the_url_of_a_module_and_whether_it_is_the_entrypoint(shard: Rc<Shard>) {
    let worker = shard.modules(&[
        (
            "src/worker.js",
            "import other from './other.js';
             export default { async fetch() {
               const { url } = await import(new URL('./other.js', import.meta.url).href);
               return Response.json([import.meta.url, import.meta.main, other, url]);
             } }",
        ),
        ("src/other.js", "export default import.meta.main; export const url = import.meta.url"),
    ]);
    let expected = r#"["file:///src/worker.js",true,false,"file:///src/other.js"]"#;
    assert_eq!(worker.get().await.unwrap().text(), expected);
}

async fn a_byte_order_mark_is_removed_from_text_and_json_modules(shard: Rc<Shard>) {
    let worker = shard.worker(
        "import json from './bom.json'; import text from './bom.txt';
         export default { fetch: () => Response.json([json, text]) }",
    );
    let worker = worker
        .module("bom.json", b"\xef\xbb\xbf[1]")
        .module("bom.txt", b"\xef\xbb\xbf\xef\xbb\xbfx");
    assert_eq!(worker.get().await.unwrap().text(), "[[1],\"\u{feff}x\"]");
}

async fn bytes_are_counted_against_the_workers_memory(shard: Rc<Shard>) {
    let handler = "const held = [];
                   for (let i = 0; i < 16; i++) held.push(await import(`./${i}.bin`));
                   return new Response('held')";
    let content: &'static [u8] = vec![1; 1 << 20].leak();
    let worker = (0..16)
        .fold(shard.handler(handler), |worker, i| worker.module(&format!("{i}.bin"), content));
    let worker = worker.limits(|limits| (limits.memory_mib, limits.cpu_ms) = (8, 1_000));
    let (code, _) = worker.failure().await;
    assert_eq!(code.as_str(), "memory_limit_exceeded");
}

async fn bytecode_is_made_for_workers_with_data_modules(shard: Rc<Shard>) {
    let code = format!(
        "import json from './a.json'; import text from './code.js' with {{ type: 'text' }}; import './code.js';
         export default {{ fetch: () => new Response(json.name + text.length) }}; // {}",
        "x".repeat(10_000)
    );
    let make = || with_data(shard.worker(&code));
    let first = make().start().await.unwrap();
    assert_eq!(first.get("/").await.unwrap().text(), "a16");
    let bytecode = first.0.bytecode().unwrap();
    let again = make().start_with(Some(Arc::new(bytecode))).await.unwrap();
    assert_eq!(again.get("/").await.unwrap().text(), "a16");
    assert_eq!(again.0.bytecode_lookup().map(|lookup| lookup.as_str()), Some("hit"));
}
