//! Tests of the errors that a Worker gets when there is no response.

use std::rc::Rc;

use tenon_proto::failure::{FailureCode, Phase};
use tokio::io::AsyncReadExt as _;

use crate::fetching;
use crate::harness::{Shard, await_condition};
use crate::origin::{self, Origin, redirect};
use crate::text;

fetching![
    a_failure_names_its_stage_and_the_remedy,
    an_internal_destination_is_refused_without_its_address,
    subrequests_of_an_invocation_are_bounded,
    a_truncated_body_rejects_its_reader,
    a_decompression_bomb_is_stopped_by_the_memory_limit,
    fetches_end_with_their_invocation,
    a_body_cannot_be_read_after_its_invocation,
];

/// Returns the name, message and stage of the error of a fetch of this URL, separated by `|`.
async fn caught(shard: &Shard, url: &str) -> String {
    let body = format!(
        "try {{ await fetch({url:?}); return new Response('no error') }}
         catch (e) {{ return new Response([e.name, e.message, e.cause.stage].join('|')) }}"
    );
    text(shard.handler(&body).get().await.unwrap()).await
}

async fn a_failure_names_its_stage_and_the_remedy(shard: Rc<Shard>) {
    let closed =
        { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() };
    for (url, name, part, stage) in [
        (
            format!("http://origin.test:{closed}/"),
            "fetch failed: cannot connect to origin.test",
            "refused",
            "connect",
        ),
        (
            "http://nowhere.test/".to_owned(),
            "fetch failed: the name nowhere.test",
            "cannot be resolved",
            "resolve",
        ),
        (
            "http://origin.test:25/".to_owned(),
            "fetch failed: port 25",
            "another protocol",
            "policy",
        ),
        (
            "ftp://origin.test/".to_owned(),
            "fetch failed: the URL scheme 'ftp:'",
            "data:",
            "request",
        ),
        (
            "blob:https://a.test/1".to_owned(),
            "fetch failed: the URL scheme 'blob:'",
            "data:",
            "request",
        ),
        ("about:blank".to_owned(), "fetch failed: the URL scheme 'about:'", "data:", "request"),
    ] {
        let caught = caught(&shard, &url).await;
        let whole = caught.starts_with(&format!("TypeError|{name}"))
            && caught.ends_with(&format!("|{stage}"));
        assert!(whole && caught.contains(part), "{url}: {caught}");
    }
}

async fn an_internal_destination_is_refused_without_its_address(shard: Rc<Shard>) {
    for url in [
        "http://169.254.169.254/latest/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://0xa000001/",
        "http://inside.test/",
    ] {
        let caught = caught(&shard, url).await;
        assert!(caught.ends_with("|policy") && caught.contains("--egress-allow"), "{caught}");
        assert!(!caught.contains("10.96"), "{caught}");
    }
    let origin =
        Origin::plain(|_| redirect(302, "http://169.254.169.254/latest/meta-data/iam/")).await;
    let caught = caught(&shard, origin.url("/").as_str()).await;
    assert!(caught.ends_with("|policy"), "{caught}");
}

async fn subrequests_of_an_invocation_are_bounded(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| origin::text("")).await;
    let body = format!(
        "const ends = await Promise.allSettled(Array.from({{ length: 7 }}, () => fetch('{}')));
         return Response.json(ends.map((end) => end.reason?.cause.stage ?? end.value.status))",
        origin.url("/")
    );
    let worker =
        shard.handler(&body).limits(|limits| limits.subrequests = 4).start().await.unwrap();
    for _ in 0..2 {
        assert_eq!(
            text(worker.get("/").await.unwrap()).await,
            r#"[200,200,200,200,"limit","limit","limit"]"#
        );
    }
}

async fn a_truncated_body_rejects_its_reader(shard: Rc<Shard>) {
    let origin = Origin::raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    let body = format!(
        "const url = '{}';
         const whole = await (await fetch(url)).text().catch((e) => e.name + ' ' + e.message);
         const reader = (await fetch(url)).body.getReader();
         const first = (await reader.read()).value.length;
         const second = await reader.read().catch((e) => e.name);
         return Response.json([whole, first, second])",
        origin.url("/")
    );
    let answer = text(shard.handler(&body).get().await.unwrap()).await;
    assert!(answer.starts_with(r#"["TypeError the response's body was interrupted"#), "{answer}");
    assert!(answer.ends_with(r#",4,"TypeError"]"#), "{answer}");
}

async fn a_decompression_bomb_is_stopped_by_the_memory_limit(shard: Rc<Shard>) {
    use async_compression::Level;
    use async_compression::tokio::bufread::GzipEncoder;
    let mut bomb = Vec::new();
    let zeros = vec![0; 64 << 20];
    GzipEncoder::with_quality(&zeros[..], Level::Fastest).read_to_end(&mut bomb).await.unwrap();
    let origin = Origin::plain(move |_| {
        let mut answer = origin::bytes(bomb.clone());
        answer.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        answer
    })
    .await;
    let body = format!(
        "return Response.json((await (await fetch('{}')).arrayBuffer()).byteLength)",
        origin.url("/")
    );
    let worker = shard.handler(&body).limits(|limits| limits.memory_mib = 32);
    assert_eq!(worker.failure().await, (FailureCode::MemoryLimitExceeded, Phase::Handler));
    shard.expect_a_neighbor_to_answer().await;
}

async fn fetches_end_with_their_invocation(shard: Rc<Shard>) {
    let silent = Origin::serve_connections(|mut stream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await;
    let body = format!(
        "fetch('{}'); await fetch('{}'); return new Response('never')",
        silent.url("/"),
        silent.url("/")
    );
    let worker = shard.handler(&body).limits(|limits| limits.wall_ms = 2_000);
    assert_eq!(worker.failure().await.0, FailureCode::WallLimitExceeded);
    await_condition("the end of both connections", || {
        (silent.connections.get(), silent.open.get()) == (2, 0)
    })
    .await;
    // A fetch that is not awaited ends with the invocation as well.
    let body = format!(
        "fetch('{}').catch(() => {{}}); await scheduler.wait(500); return new Response('done')",
        silent.url("/")
    );
    assert_eq!(text(shard.handler(&body).get().await.unwrap()).await, "done");
    await_condition("the end of the connection", || {
        (silent.connections.get(), silent.open.get()) == (3, 0)
    })
    .await;
}

async fn a_body_cannot_be_read_after_its_invocation(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| origin::text("mine")).await;
    let source = format!(
        "let kept; export default {{ async fetch() {{
           if (kept) return new Response(await kept.text().catch((e) => e.message));
           kept = await fetch('{}'); return new Response('kept') }} }}",
        origin.url("/")
    );
    let worker = shard.worker(&source).start().await.unwrap();
    assert_eq!(text(worker.get("/").await.unwrap()).await, "kept");
    assert!(text(worker.get("/").await.unwrap()).await.contains("has ended"));
}
