//! Tests of `EventSource` with an origin that streams events.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};

use crate::fetching;
use crate::harness::{Shard, await_condition};
use crate::origin::{self, Origin, OriginResponse, ReceivedRequest, streamed};
use crate::text;

fetching![
    events_have_their_fields,
    events_are_parsed_with_any_line_ending_and_chunking,
    an_event_source_reconnects_with_the_last_event_id,
    an_event_source_fails_if_the_response_is_not_an_event_stream,
    an_event_source_fails_for_a_url_with_credentials,
    a_closed_event_source_stays_closed,
    an_event_source_has_the_interface_of_the_web_platform,
];

fn events(pieces: Vec<&'static str>) -> OriginResponse {
    let mut answer = streamed(stream::iter(pieces).map(Bytes::from));
    answer
        .headers_mut()
        .insert("content-type", "text/event-stream; charset=utf-8".parse().unwrap());
    answer
}

async fn fetch_text(shard: &Shard, origin: &Origin, body: &str) -> String {
    let body =
        format!("const origin = '{}'; {body}", origin.url("").as_str().trim_end_matches('/'));
    text(shard.handler(&body).get().await.unwrap()).await
}

/// A JavaScript function that collects `n` events and then closes the source.
const COLLECT: &str =
    "const collect = (source, n, types = ['message']) => new Promise((resolve) => {
    const seen = [];
    for (const type of types) source.addEventListener(type, (e) => {
      seen.push([e.type, e.data, e.lastEventId, e.origin === origin, e.isTrusted]);
      if (seen.length === n) { source.close(); resolve(seen) }
    });
  });";

async fn events_have_their_fields(shard: Rc<Shard>) {
    let stream = "\u{feff}: a comment\n\ndata: one\ndata:two\nid: 7\n\nevent: own\ndata\n\nid\ndata:  x\nignored: y\n\nid: 8\n\ndata: last\n\ndata: unfinished";
    let origin = Origin::plain(move |_| events(vec![stream])).await;
    let body = format!(
        "{COLLECT} return Response.json(await collect(new EventSource(origin), 4, ['message', 'own']))"
    );
    let expected = r#"[["message","one\ntwo","7",true,true],["own","","7",true,true],["message"," x","",true,true],["message","last","8",true,true]]"#;
    assert_eq!(fetch_text(&shard, &origin, &body).await, expected);
    let request = &origin.requests.borrow()[0];
    assert_eq!(request.headers()["accept"], "text/event-stream");
    assert!(!request.headers().contains_key("last-event-id"));
}

async fn events_are_parsed_with_any_line_ending_and_chunking(shard: Rc<Shard>) {
    for pieces in [
        vec!["data: a\r\n\r\ndata: b\r\rdata: c\n\n"],
        vec!["data: a\r", "\n\r", "\ndata: b\r", "\rdata", ": c\n", "\n"],
        vec!["d", "a", "ta: ", "a", "\r\n", "\r\n", "data: b", "\r", "\r", "data: c\n\n"],
    ] {
        let origin = Origin::plain(move |_| events(pieces.clone())).await;
        let body = format!(
            "{COLLECT} const all = await collect(new EventSource(origin), 3); return Response.json(all.map((e) => e[1]))"
        );
        assert_eq!(fetch_text(&shard, &origin, &body).await, r#"["a","b","c"]"#);
    }
}

async fn an_event_source_reconnects_with_the_last_event_id(shard: Rc<Shard>) {
    let times = Rc::<Cell<usize>>::default();
    let origin = Origin::plain(move |_: &ReceivedRequest| {
        times.set(times.get() + 1);
        match times.get() {
            1 => events(vec!["retry: 1\nid: \u{fc}\ndata: first\n\n"]),
            _ => events(vec!["data: second\n\n"]),
        }
    })
    .await;
    let body = format!(
        "{COLLECT} const source = new EventSource(origin);
         const log = [];
         source.onopen = () => log.push(['open', source.readyState]);
         source.onerror = () => log.push(['error', source.readyState]);
         const all = await collect(source, 2);
         return Response.json([all.map((e) => [e[1], e[2]]), log])"
    );
    let expected = r#"[[["first","ü"],["second","ü"]],[["open",1],["error",0],["open",1]]]"#;
    assert_eq!(fetch_text(&shard, &origin, &body).await, expected);
    assert_eq!(
        origin.requests.borrow()[1].headers()["last-event-id"].as_bytes(),
        "\u{fc}".as_bytes()
    );
}

async fn an_event_source_fails_if_the_response_is_not_an_event_stream(shard: Rc<Shard>) {
    let origin = Origin::plain(|request| match request.uri().path() {
        "/none" => {
            let mut answer = events(vec![]);
            *answer.status_mut() = 204.try_into().unwrap();
            answer
        }
        _ => origin::text("data: x\n\n"),
    })
    .await;
    let body = "const end = (url) => new Promise((resolve) => {
          const source = new EventSource(url);
          source.onerror = () => resolve(source.readyState);
        });
        return Response.json([await end(origin), await end(origin + '/none'), await end('http://inside.test/')])";
    assert_eq!(fetch_text(&shard, &origin, body).await, "[2,2,2]");
}

async fn an_event_source_fails_for_a_url_with_credentials(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| events(vec!["data: x\n\n"])).await;
    let body = "const source = new EventSource(origin.replace('//', '//u:p@'));
        await new Promise((resolve) => { source.onerror = resolve });
        return Response.json(source.readyState)";
    assert_eq!(fetch_text(&shard, &origin, body).await, "2");
}

async fn a_closed_event_source_stays_closed(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| {
        let mut answer =
            streamed(stream::iter([Bytes::from("data: x\n\n")]).chain(stream::pending()));
        answer.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        answer
    })
    .await;
    let body = "const source = new EventSource(origin);
        let errors = 0;
        source.onerror = () => errors++;
        await new Promise((resolve) => (source.onmessage = resolve));
        source.close();
        await scheduler.wait(1_000);
        return Response.json([source.readyState, errors])";
    let mut answered = std::pin::pin!(fetch_text(&shard, &origin, body));
    // The connection must end while the invocation still runs, because the end of the invocation
    // would also close it.
    tokio::select! {
        biased;
        () = await_condition("the end of the connection", || (origin.connections.get(), origin.open.get()) == (1, 0)) => {}
        _ = &mut answered => panic!("the invocation ended before the connection"),
    }
    assert_eq!(answered.await, "[2,0]");
}

async fn an_event_source_has_the_interface_of_the_web_platform(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| events(vec![])).await;
    let body = "const source = new EventSource(origin + '/x', { withCredentials: 1 });
        const { url, withCredentials, readyState } = source;
        source.close();
        let error;
        try { new EventSource('no url') } catch (e) { error = [e.name, e instanceof DOMException] }
        return Response.json([url === origin + '/x', withCredentials, readyState, EventSource.OPEN, source.CLOSED, error,
          source instanceof EventTarget, Object.prototype.toString.call(source)])";
    let expected = r#"[true,true,0,1,2,["SyntaxError",true],true,"[object EventSource]"]"#;
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
}
