//! Tests of handlers that are not functions of a default-exported object, and of other ways to
//! obtain the arguments of handlers.

use std::rc::Rc;

use tenon_proto::failure::FailureCode;
use tenon_proto::revision::StatePolicy;

use crate::harness::{Shard, Text as _, trials};

trials![
    bindings_can_be_imported_and_are_those_of_the_handler,
    wait_until_can_be_called_from_anywhere_in_a_request,
    each_event_gets_its_own_instance_of_an_entrypoint_class,
    a_class_without_handlers_is_refused_as_entrypoint,
];

async fn bindings_can_be_imported_and_are_those_of_the_handler(shard: Rc<Shard>) {
    for state in [StatePolicy::Persist, StatePolicy::Reset] {
        let worker = shard.worker(
            "import { env } from 'cloudflare:workers';
             const early = env.GREETING, keys = Object.keys(env);
             export default { fetch: (_, given) => Response.json([early, keys, env === given, Object.isFrozen(env)]) }",
        );
        let worker = worker.var("GREETING", "hello").service("OTHER", "other").state(state);
        assert_eq!(
            worker.get().await.unwrap().text(),
            r#"["hello",["GREETING","OTHER"],true,true]"#
        );
    }
}

async fn wait_until_can_be_called_from_anywhere_in_a_request(shard: Rc<Shard>) {
    let worker = shard.worker(
        "import { waitUntil } from 'cloudflare:workers';
         const later = async () => {
           await null;
           waitUntil(new Promise((resolve) => setTimeout(resolve, 5)).then(() => console.log('kept')));
         };
         export default { async fetch() { await later(); return new Response('at once') } }",
    );
    let worker = worker.start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "at once");
    worker.0.idle().await;
    assert!(shard.logged("kept"));
}

async fn each_event_gets_its_own_instance_of_an_entrypoint_class(shard: Rc<Shard>) {
    let worker = shard.worker(
        "import { WorkerEntrypoint } from 'cloudflare:workers';
         export default class Greeter extends WorkerEntrypoint {
           count = 0;
           async fetch(request) {
             this.ctx.waitUntil(Promise.resolve());
             return new Response(`${this.env.GREETING} ${++this.count} ${new URL(request.url).pathname}`);
           }
         }",
    );
    let worker = worker.var("GREETING", "hello").start().await.unwrap();
    for path in ["/a", "/b"] {
        assert_eq!(worker.get(path).await.unwrap().text(), format!("hello 1 {path}"));
    }
}

async fn a_class_without_handlers_is_refused_as_entrypoint(shard: Rc<Shard>) {
    let failure = shard.worker("export default class {}").failure().await;
    assert_eq!(failure.0, FailureCode::WorkerStartFailed);
    assert!(shard.logged("has no handler"));
}
