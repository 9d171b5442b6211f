//! Tests of scheduled events, as Workers handle them.

use std::rc::Rc;

use tenon_engine::{CallContext, ScheduledEvent};
use tenon_proto::failure::{Failure, FailureCode};

use crate::harness::{Loaded, Shard, Text as _, trials};

trials! {
    a_module_handles_its_schedules,
    a_listener_handles_scheduled_events,
    a_scheduled_event_ends_after_all_its_wait_until_promises,
    a_scheduled_handler_that_throws_fails_its_event,
    a_rejected_wait_until_promise_fails_its_event,
    a_missing_scheduled_handler_is_logged,
    a_worker_may_have_only_a_scheduled_handler,
    a_scheduled_handler_has_the_same_limits_as_a_fetch_handler,
    each_event_of_a_worker_that_resets_has_its_own_globals,
    tampered_built_ins_do_not_change_the_outcome_of_an_event,
}

impl Loaded {
    async fn schedule(&self, cron: &str) -> Result<(), Failure> {
        let event = ScheduledEvent {
            request_id: "tick".to_owned(),
            cron: cron.to_owned(),
            time_ms: 1_763_750_400_000,
            call_context: CallContext::default(),
        };
        self.0.deliver_scheduled(self.0.queue().await, event).await
    }

    async fn recorded(&self) -> String {
        self.get("/").await.expect("the Worker did not respond").text().to_owned()
    }
}

const FETCH_HANDLER: &str = "async fetch() { return new Response(globalThis.recorded); }";

async fn a_module_handles_its_schedules(shard: Rc<Shard>) {
    let source = format!(
        "const worker = {{ {FETCH_HANDLER},
            async scheduled(controller, env, ctx) {{
                const {{ cron, scheduledTime, type }} = controller;
                controller.noRetry();
                globalThis.recorded = JSON.stringify([
                    cron, scheduledTime, type, env.NAME, typeof ctx.waitUntil, this === worker,
                    controller instanceof ScheduledController,
                ]);
            }} }};
        export default worker;"
    );
    let worker = shard.worker(&source).var("NAME", "value").start().await.unwrap();
    worker.schedule("*/5 * * * *").await.unwrap();
    let expected = r#"["*/5 * * * *",1763750400000,"scheduled","value","function",true,true]"#;
    assert_eq!(worker.recorded().await, expected);
}

async fn a_listener_handles_scheduled_events(shard: Rc<Shard>) {
    let source = "
        addEventListener('fetch', (event) => event.respondWith(new Response(globalThis.recorded)));
        addEventListener('scheduled', (event) => {
            event.waitUntil((async () => {
                await new Promise((resolve) => setTimeout(resolve, 1));
                globalThis.recorded = JSON.stringify([event.type, event.cron, event.scheduledTime, event instanceof ScheduledEvent]);
            })());
        });";
    let worker = shard.worker(source).start().await.unwrap();
    worker.schedule("0 0 * * *").await.unwrap();
    assert_eq!(worker.recorded().await, r#"["scheduled","0 0 * * *",1763750400000,true]"#);
}

async fn a_scheduled_event_ends_after_all_its_wait_until_promises(shard: Rc<Shard>) {
    let source = format!(
        "const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        export default {{ {FETCH_HANDLER},
            scheduled(controller, env, ctx) {{
                globalThis.recorded = 'handler';
                ctx.waitUntil(sleep(5).then(() => {{
                    globalThis.recorded += ' first';
                    ctx.waitUntil(sleep(5).then(() => {{ globalThis.recorded += ' second'; }}));
                }}));
            }} }}"
    );
    let worker = shard.worker(&source).start().await.unwrap();
    worker.schedule("* * * * *").await.unwrap();
    assert_eq!(worker.recorded().await, "handler first second");
}

async fn a_scheduled_handler_that_throws_fails_its_event(shard: Rc<Shard>) {
    let worker = shard
        .worker("export default { async scheduled() { throw new Error('no stock'); } }")
        .start()
        .await
        .unwrap();
    assert_eq!(worker.schedule("* * * * *").await.unwrap_err().code, FailureCode::WorkerException);
    assert!(shard.logged("no stock"));
    let worker = shard
        .worker("export default { scheduled() { throw new Error('at once'); } }")
        .start()
        .await
        .unwrap();
    assert_eq!(worker.schedule("* * * * *").await.unwrap_err().code, FailureCode::WorkerException);
    assert!(shard.logged("at once"));
}

async fn a_rejected_wait_until_promise_fails_its_event(shard: Rc<Shard>) {
    let source = "export default { scheduled(controller, env, ctx) {
        ctx.waitUntil(Promise.reject(new Error('the first')));
        ctx.waitUntil(Promise.reject(new Error('the second')));
    } }";
    let worker = shard.worker(source).start().await.unwrap();
    assert_eq!(worker.schedule("* * * * *").await.unwrap_err().code, FailureCode::WorkerException);
    assert!(shard.logged("the first") && shard.logged("the second"));
}

async fn a_missing_scheduled_handler_is_logged(shard: Rc<Shard>) {
    let worker = shard.handler("return new Response('well')").start().await.unwrap();
    assert_eq!(worker.schedule("* * * * *").await.unwrap_err().code, FailureCode::WorkerException);
    assert!(shard.logged(
        "The entrypoint has no scheduled handler: export default { async scheduled(controller"
    ));
    assert_eq!(worker.recorded().await, "well");
}

async fn a_worker_may_have_only_a_scheduled_handler(shard: Rc<Shard>) {
    let worker = shard.worker("export default { async scheduled() {} }").start().await.unwrap();
    worker.schedule("* * * * *").await.unwrap();
    assert_eq!(worker.get("/").await.unwrap_err().code, FailureCode::WorkerException);
    assert!(shard.logged("The entrypoint has no fetch handler"));
}

async fn a_scheduled_handler_has_the_same_limits_as_a_fetch_handler(shard: Rc<Shard>) {
    let worker =
        shard.worker("export default { scheduled() { for (;;); } }").start().await.unwrap();
    assert_eq!(worker.schedule("* * * * *").await.unwrap_err().code, FailureCode::CpuLimitExceeded);
    let never = "export default { scheduled(c, e, ctx) { ctx.waitUntil(new Promise(() => {})); } }";
    let worker = shard.worker(never).start().await.unwrap();
    assert_eq!(worker.schedule("* * * * *").await.unwrap_err().code, FailureCode::NoResponse);
    let slow = "export default { scheduled() { return new Promise((resolve) => setTimeout(resolve, 60_000)); } }";
    let worker = shard.worker(slow).limits(|limits| limits.wall_ms = 50).start().await.unwrap();
    assert_eq!(
        worker.schedule("* * * * *").await.unwrap_err().code,
        FailureCode::WallLimitExceeded
    );
}

async fn each_event_of_a_worker_that_resets_has_its_own_globals(shard: Rc<Shard>) {
    let source = "let times = 0; export default { scheduled() { if (++times > 1) throw new Error('again'); } }";
    let worker = shard
        .worker(source)
        .state(tenon_proto::revision::StatePolicy::Reset)
        .start()
        .await
        .unwrap();
    for _ in 0..3 {
        worker.schedule("* * * * *").await.unwrap();
    }
}

async fn tampered_built_ins_do_not_change_the_outcome_of_an_event(shard: Rc<Shard>) {
    let source = "
        const thrown = () => { throw new Error('tampered'); };
        const tampered = [
            Promise.prototype, 'then', Promise, 'resolve', Promise, 'withResolvers', Array.prototype, Symbol.iterator,
            Object.prototype, 'fetch', Object.prototype, 'scheduled', Object.prototype, 'cron',
            Function.prototype, 'call', Function.prototype, 'apply', ScheduledController.prototype, 'cron',
        ];
        for (let i = 0; i < tampered.length; i += 2) {
            Object.defineProperty(tampered[i], tampered[i + 1], { get: thrown, set: thrown, configurable: true });
        }
        let times = 0;
        export default {
            __proto__: null,
            fetch() { return new Response(globalThis.recorded); },
            scheduled(controller, env, ctx) {
                globalThis.recorded = `${++times} ${controller.scheduledTime}`;
                ctx.waitUntil(0);
                ctx.waitUntil({ get then() { throw new Error('thenable'); } });
            } }";
    let worker = shard.worker(source).start().await.unwrap();
    // The thenable passed to `waitUntil` fails the event; the tampered built-ins do not.
    assert_eq!(worker.schedule("* * * * *").await.unwrap_err().code, FailureCode::WorkerException);
    assert_eq!(worker.schedule("* * * * *").await.unwrap_err().code, FailureCode::WorkerException);
    assert!(shard.logged("thenable") && !shard.logged("tampered"));
    assert_eq!(worker.recorded().await, "2 1763750400000");
}
