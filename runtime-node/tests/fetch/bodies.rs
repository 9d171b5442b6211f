//! Tests of streaming bodies in both directions.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tenon_engine::{Body, ResponseBody};
use tokio::io::AsyncReadExt as _;

use crate::fetching;
use crate::harness::Shard;
use crate::origin::{self, Origin, streamed};
use crate::text;

fetching![
    a_response_body_is_read_as_it_arrives,
    a_large_body_passes_through_in_constant_memory,
    a_body_passes_through_a_workers_own_stream,
    a_large_document_is_rewritten_in_constant_memory,
    an_unread_body_is_not_sent,
    a_stream_is_sent_as_it_is_produced,
    a_stream_that_fails_fails_its_request,
    a_decoded_body_is_passed_on_without_its_content_headers,
    a_response_can_be_cloned,
    a_fixed_length_stream_is_sent_with_its_content_length,
];

const MEBIBYTE: usize = 1 << 20;

/// Returns a stream of `left` bytes. `made` counts the bytes that have been requested.
fn bytes(mut left: usize, made: Rc<Cell<usize>>) -> impl futures::Stream<Item = Bytes> {
    stream::poll_fn(move |_| {
        let piece = left.min(16 * 1024);
        left -= piece;
        made.set(made.get() + piece);
        std::task::Poll::Ready((piece > 0).then(|| Bytes::from(vec![7; piece])))
    })
}

async fn a_response_body_is_read_as_it_arrives(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| {
        let pieces = stream::iter(["one", "two", "three"]).then(|piece| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Bytes::from(piece)
        });
        streamed(pieces)
    })
    .await;
    let body = format!(
        "const pieces = [];
         for await (const piece of (await fetch('{}')).body) pieces.push(new TextDecoder().decode(piece));
         return Response.json(pieces)",
        origin.url("/")
    );
    assert_eq!(text(shard.handler(&body).get().await.unwrap()).await, r#"["one","two","three"]"#);
}

async fn a_large_body_passes_through_in_constant_memory(shard: Rc<Shard>) {
    let made = Rc::<Cell<usize>>::default();
    let count = Rc::clone(&made);
    let origin = Origin::plain(move |_| streamed(bytes(64 * MEBIBYTE, Rc::clone(&count)))).await;
    let worker = shard
        .handler(&format!("return fetch('{}')", origin.url("/")))
        .limits(|limits| limits.memory_mib = 16);
    let worker = worker.start().await.unwrap();
    let ResponseBody::Stream(mut body) = worker.get("/").await.unwrap().body else {
        panic!("the body is not a stream")
    };
    let mut read = 0;
    while let Some(piece) = body.next().await {
        read += piece.unwrap().len();
        // Between the origin and the Worker, there are only the socket's buffers and hyper's read
        // buffer.
        assert!(made.get() - read < 16 * MEBIBYTE, "{} bytes were sent ahead", made.get() - read);
    }
    assert_eq!(read, 64 * MEBIBYTE);
}

async fn a_body_passes_through_a_workers_own_stream(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| streamed(bytes(8 * MEBIBYTE, Rc::default()))).await;
    let body = format!(
        "const {{ readable, writable }} = new TransformStream({{ transform(piece, c) {{ c.enqueue(piece.subarray(0, piece.length / 2)) }} }});
         (await fetch('{}')).body.pipeTo(writable);
         return new Response(readable)",
        origin.url("/")
    );
    let worker =
        shard.handler(&body).limits(|limits| (limits.memory_mib, limits.cpu_ms) = (16, 2_000));
    let response = worker.get().await.unwrap();
    assert_eq!(response.body.collect().await.unwrap().len(), 4 * MEBIBYTE);
}

async fn a_large_document_is_rewritten_in_constant_memory(shard: Rc<Shard>) {
    const ROWS: usize = 32;
    let row = |class: &str| format!("<tr{class}><td>{}<td>end</tr>\n", "text ".repeat(200));
    let piece = Bytes::from(row(" class=\"row\"").repeat(ROWS));
    let origin = Origin::plain(move |_| {
        let piece = piece.clone();
        let mut answer = streamed(stream::iter((0..1000).map(move |_| piece.clone())));
        answer.headers_mut().insert("content-type", "text/html".parse().unwrap());
        answer
    })
    .await;
    let body = format!(
        "let rows = 0;
         const rewriter = new HTMLRewriter()
           .on('.row', {{ element: (row) => void (rows++, row.removeAttribute('class')) }})
           .onDocument({{ end: async (end) => void end.append(`${{rows}} rows`) }});
         return rewriter.transform(await fetch('{}'))",
        origin.url("/")
    );
    let worker =
        shard.handler(&body).limits(|limits| (limits.memory_mib, limits.cpu_ms) = (16, 10_000));
    let ResponseBody::Stream(mut body) = worker.get().await.unwrap().body else {
        panic!("the body is not a stream")
    };
    let (mut read, mut last) = (0, Bytes::new());
    while let Some(piece) = body.next().await {
        last = piece.unwrap();
        read += last.len();
    }
    assert!(last.ends_with(b"32000 rows"), "{last:?}");
    assert_eq!(read, 1000 * ROWS * row("").len() + "32000 rows".len());
}

async fn an_unread_body_is_not_sent(shard: Rc<Shard>) {
    let made = Rc::<Cell<usize>>::default();
    let count = Rc::clone(&made);
    let origin = Origin::plain(move |_| streamed(bytes(256 * MEBIBYTE, Rc::clone(&count)))).await;
    let body = format!(
        "const r = await fetch('{}'); await scheduler.wait(200); return new Response(`${{r.status}}`)",
        origin.url("/")
    );
    assert_eq!(text(shard.handler(&body).get().await.unwrap()).await, "200");
    assert!(made.get() < 16 * MEBIBYTE, "{} bytes were sent", made.get());
}

async fn a_stream_is_sent_as_it_is_produced(shard: Rc<Shard>) {
    let origin = Origin::plain(|request| origin::text(&format!("{}", request.body().len()))).await;
    let body = format!(
        "let left = 200;
         const body = new ReadableStream({{ pull(c) {{ if (left-- === 0) c.close(); else c.enqueue(new Uint8Array(65536)) }} }});
         return fetch('{}', {{ method: 'PUT', body, duplex: 'half' }})",
        origin.url("/")
    );
    let worker =
        shard.handler(&body).limits(|limits| (limits.memory_mib, limits.cpu_ms) = (16, 2_000));
    assert_eq!(text(worker.get().await.unwrap()).await, (200 * 65536).to_string());
    // A body that comes from the client bypasses JavaScript.
    let worker = shard.handler(&format!(
        "return fetch('{}', {{ method: 'PUT', body: request.body, duplex: 'half' }})",
        origin.url("/")
    ));
    let worker = worker.limits(|limits| limits.memory_mib = 16).start().await.unwrap();
    let upload = bytes(32 * MEBIBYTE, Rc::default()).map(Ok).boxed_local();
    assert_eq!(
        text(worker.post(Body::Stream(upload)).await.unwrap()).await,
        (32 * MEBIBYTE).to_string()
    );
}

async fn a_stream_that_fails_fails_its_request(shard: Rc<Shard>) {
    let silent = Origin::serve_connections(|mut stream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await;
    let body = format!(
        "const mine = new Error('mine');
         const body = new ReadableStream({{ pull(c) {{ c.error(mine) }} }});
         const caught = await fetch('{0}', {{ method: 'POST', body, duplex: 'half' }}).catch((e) => e);
         const text = new ReadableStream({{ pull(c) {{ c.enqueue('not bytes') }} }});
         const other = await fetch('{0}', {{ method: 'POST', body: text, duplex: 'half' }}).catch((e) => e);
         return Response.json([caught.name, caught.message, caught.cause === mine, other.name, other.cause.name])",
        silent.url("/")
    );
    let expected = r#"["TypeError","fetch failed: the request's body was interrupted",true,"TypeError","TypeError"]"#;
    assert_eq!(text(shard.handler(&body).get().await.unwrap()).await, expected);
}

async fn a_decoded_body_is_passed_on_without_its_content_headers(shard: Rc<Shard>) {
    use async_compression::tokio::bufread::BrotliEncoder;
    let mut coded = Vec::new();
    BrotliEncoder::new(&b"squeezed squeezed squeezed"[..]).read_to_end(&mut coded).await.unwrap();
    let origin = Origin::plain(move |_| {
        let mut answer = origin::bytes(coded.clone());
        answer.headers_mut().insert("content-encoding", "br".parse().unwrap());
        answer.headers_mut().insert("content-length", coded.len().into());
        answer
    })
    .await;
    let response =
        shard.handler(&format!("return fetch('{}')", origin.url("/"))).get().await.unwrap();
    assert!(response.headers.iter().all(|header| !header.name.starts_with("content-")));
    assert_eq!(text(response).await, "squeezed squeezed squeezed");
}

async fn a_response_can_be_cloned(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| origin::text("twice")).await;
    let body = format!(
        "const r = await fetch('{}'); const copy = r.clone();
         return Response.json([copy.url === r.url, copy.type, await copy.text(), await r.text()])",
        origin.url("/")
    );
    assert_eq!(
        text(shard.handler(&body).get().await.unwrap()).await,
        r#"[true,"basic","twice","twice"]"#
    );
}

async fn a_fixed_length_stream_is_sent_with_its_content_length(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| origin::text("")).await;
    let body = format!(
        "const five = () => {{
           const {{ readable, writable }} = new FixedLengthStream(5);
           const writer = writable.getWriter();
           writer.write(new TextEncoder().encode('hello')).then(() => writer.close());
           return readable;
         }};
         await fetch('{}', {{ method: 'POST', body: five(), duplex: 'half' }});
         return new Response(five())",
        origin.url("/")
    );
    let answer = shard.handler(&body).get().await.unwrap();
    let length = answer
        .headers
        .iter()
        .find(|header| header.name == "content-length")
        .map(|header| &header.value[..]);
    assert_eq!(length, Some(&b"5"[..]));
    assert_eq!(text(answer).await, "hello");
    assert_eq!(origin.requests.borrow()[0].headers()["content-length"], "5");
}
