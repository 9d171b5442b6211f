//! Tests that stack traces and locations refer to lines of the author's source.

use std::rc::Rc;

use crate::harness::{Shard, Text, Worker, trials};

trials![
    a_stack_names_the_authors_lines,
    logged_errors_name_the_authors_lines,
    a_worker_without_source_maps_has_stacks_as_v8_writes_them,
    a_worker_may_format_stacks_itself,
    an_invalid_source_map_is_ignored,
    every_realm_of_a_worker_that_resets_has_mapped_stacks,
];

/// A source map that maps every position of the first line to `src/index.ts:11:6`.
const MAP: &str = r#"{"version":3,"sources":["src/index.ts"],"names":[],"mappings":"AAUK"}"#;

fn mapped(shard: &Shard, body: &str) -> Worker {
    let worker = format!(
        "export default {{ async fetch(request, env, ctx) {{ {body} }} }}; function fail() {{ throw new RangeError('no') }}"
    );
    shard.modules(&[("worker.js", &worker), ("worker.js.map", MAP)])
}

async fn a_stack_names_the_authors_lines(shard: Rc<Shard>) {
    let handler = "try { fail() } catch (error) { return new Response(error.stack) }";
    let expected =
        "RangeError: no\n    at fail (src/index.ts:11:6)\n    at Object.fetch (src/index.ts:11:6)";
    let answer = mapped(&shard, handler).get().await.unwrap();
    assert!(answer.text().starts_with(expected), "{}", answer.text());
}

async fn logged_errors_name_the_authors_lines(shard: Rc<Shard>) {
    mapped(&shard, "console.log(new Error('shown')); setTimeout(() => fail()); await null; fail()")
        .failure()
        .await;
    assert!(
        shard.logged("Error: shown\n    at Object.fetch (src/index.ts:11:6)"),
        "{:?}",
        shard.log()
    );
    let uncaught = "uncaught: src/index.ts:11:6: RangeError: no\n    at fail (src/index.ts:11:6)";
    assert!(shard.logged(uncaught), "{:?}", shard.log());
}

async fn a_worker_without_source_maps_has_stacks_as_v8_writes_them(shard: Rc<Shard>) {
    let handler = "return Response.json(['prepareStackTrace' in Error, new Error('x').stack.split('\\n').slice(0, 2)])";
    let answer = shard.handler(handler).get().await.unwrap();
    assert!(
        answer.text().starts_with(r#"[false,["Error: x","    at Object.fetch (worker.js:1:"#),
        "{}",
        answer.text()
    );
}

async fn a_worker_may_format_stacks_itself(shard: Rc<Shard>) {
    let handler = "Error.prepareStackTrace = (error, frames) => `${error.message} ${frames[0].getLineNumber()}`;
                   const own = new Error('x').stack;
                   delete Error.prepareStackTrace;
                   return Response.json([own, new Error('y').stack.split('\\n')[1].slice(0, 33)])";
    let answer = mapped(&shard, &handler.replace('\n', " ")).get().await.unwrap();
    assert_eq!(answer.text(), r#"["x 1","    at Object.fetch (worker.js:1:"]"#);
}

async fn an_invalid_source_map_is_ignored(shard: Rc<Shard>) {
    for map in ["", "{", "[]", r#"{"version":3,"sources":[],"names":[],"mappings":"AAAA"}"#] {
        let worker =
            "export default { fetch: () => new Response(new Error('x').stack.split('\\n')[1]) }";
        let answer =
            shard.modules(&[("worker.js", worker), ("worker.js.map", map)]).get().await.unwrap();
        assert!(answer.text().contains("worker.js:1:"), "{map}: {}", answer.text());
    }
}

async fn every_realm_of_a_worker_that_resets_has_mapped_stacks(shard: Rc<Shard>) {
    let worker = mapped(&shard, "return new Response(new Error('x').stack.split('\\n')[1])");
    let worker = worker.state(tenon_proto::revision::StatePolicy::Reset).start().await.unwrap();
    for _ in 0..3 {
        assert_eq!(
            worker.get("/").await.unwrap().text(),
            "    at Object.fetch (src/index.ts:11:6)"
        );
    }
}
