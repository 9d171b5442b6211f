//! Tests of responses as Workers see them, and of requests as origins see them.

use std::rc::Rc;

use tokio::sync::Barrier;

use crate::fetching;
use crate::harness::{Shard, Worker};
use crate::origin::{self, Origin, redirect};
use crate::text;

fetching![
    a_worker_sees_the_response_of_the_origin,
    every_kind_of_body_is_sent_with_its_type,
    a_request_and_its_response_can_be_passed_on,
    response_headers_are_immutable_and_include_cookies,
    redirects_are_followed_returned_or_refused,
    the_url_after_a_redirect_is_serialized_like_any_other_url,
    the_body_of_a_response_without_content_is_null,
    fetches_run_concurrently,
    a_module_can_fetch_while_it_is_evaluated,
    a_cache_adds_all_fetched_responses_or_none,
    a_data_url_is_decoded_into_a_response,
    fetch_has_the_interface_of_the_web_platform,
];

/// Returns a Worker with this handler body, in which `origin` is the origin's URL.
fn worker(shard: &Shard, origin: &Origin, body: &str) -> Worker {
    shard
        .handler(&format!("const origin = env.ORIGIN; {body}"))
        .var("ORIGIN", origin.url("").as_str().trim_end_matches('/'))
}

async fn fetch_text(shard: &Shard, origin: &Origin, body: &str) -> String {
    text(worker(shard, origin, body).get().await.unwrap()).await
}

async fn a_worker_sees_the_response_of_the_origin(shard: Rc<Shard>) {
    let origin = Origin::plain(|request| {
        let mut answer = origin::text("tea");
        *answer.status_mut() = 418.try_into().unwrap();
        answer.headers_mut().insert("x-path", request.uri().to_string().parse().unwrap());
        answer
    })
    .await;
    let body = "const r = await fetch(`${origin}/a?b#c`);
        return Response.json([r.status, r.statusText, r.ok, r.type, r.url.endsWith('/a?b'), r.redirected,
          r.headers.get('X-Path'), r.bodyUsed, await r.text(), r.bodyUsed])";
    let expected = r#"[418,"I'm a teapot",false,"basic",true,false,"/a?b",false,"tea",true]"#;
    // Fetch serializes a response's URL without its fragment.
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
}

async fn every_kind_of_body_is_sent_with_its_type(shard: Rc<Shard>) {
    let origin = Origin::plain(|request| {
        let header = |name: &str| {
            request.headers().get(name).map_or("-", |value| value.to_str().unwrap()).to_owned()
        };
        let body = String::from_utf8_lossy(request.body());
        origin::text(&format!(
            "{} {} {} {body}",
            request.method(),
            header("content-type"),
            header("content-length")
        ))
    })
    .await;
    let body = "const bodies = ['caf\\u00e9', new Uint8Array([104, 105]), new URLSearchParams({ a: '1 2' }), null,
          new ReadableStream({ start(c) { c.enqueue(new TextEncoder().encode('str')); c.enqueue(new TextEncoder().encode('eam')); c.close() } })];
        const answers = [];
        for (const body of bodies) {
          const r = await fetch(origin, { method: 'post', body, duplex: 'half' });
          answers.push(await r.text());
        }
        return new Response(answers.join('\\n'))";
    let expected = [
        "POST text/plain;charset=UTF-8 5 caf\u{e9}",
        "POST - 2 hi",
        "POST application/x-www-form-urlencoded;charset=UTF-8 5 a=1+2",
        "POST - 0 ",
        "POST - - stream",
    ];
    assert_eq!(fetch_text(&shard, &origin, body).await.lines().collect::<Vec<_>>(), expected);
}

async fn a_request_and_its_response_can_be_passed_on(shard: Rc<Shard>) {
    let origin = Origin::plain(|request| {
        let greeting =
            request.headers().get("x-greeting").map_or("", |value| value.to_str().unwrap());
        origin::text(&format!("{} {greeting} {:?}", request.uri(), request.body()))
    })
    .await;
    let proxy = worker(
        &shard,
        &origin,
        "return fetch(new Request(origin + new URL(request.url).pathname, request))",
    );
    let proxy = proxy.start().await.unwrap();
    assert_eq!(text(proxy.get("/x").await.unwrap()).await, "/x hello b\"\"");
    let body = tenon_engine::Body::Full("given".into());
    assert_eq!(text(proxy.post(body).await.unwrap()).await, "/ hello b\"given\"");
    let pieces = futures::stream::iter([Ok("in ".into()), Ok("pieces".into())]);
    let body = tenon_engine::Body::Stream(Box::pin(pieces));
    assert_eq!(text(proxy.post(body).await.unwrap()).await, "/ hello b\"in pieces\"");
}

async fn response_headers_are_immutable_and_include_cookies(shard: Rc<Shard>) {
    let origin = Origin::raw(
        b"HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let body = "const r = await fetch(origin);
        let thrown;
        try { r.headers.set('x', 'y') } catch (error) { thrown = error.name }
        const copy = new Response(r.body, r);
        copy.headers.set('x', 'y');
        return Response.json([r.headers.getSetCookie(), thrown, copy.headers.get('x')])";
    assert_eq!(fetch_text(&shard, &origin, body).await, r#"[["a=1","b=2"],"TypeError","y"]"#);
}

async fn redirects_are_followed_returned_or_refused(shard: Rc<Shard>) {
    let origin = Origin::plain(|request| match request.uri().path() {
        "/" => redirect(302, "/end"),
        _ => origin::text(request.method().as_str()),
    })
    .await;
    let body = "const followed = await fetch(origin, { method: 'POST', body: 'x' });
        const manual = await fetch(origin, { redirect: 'manual' });
        let error;
        try { await fetch(origin, { redirect: 'error' }) } catch (e) { error = e }
        return Response.json([followed.redirected, followed.url.endsWith('/end'), await followed.text(),
          manual.status, manual.headers.get('location'), manual.redirected, error.name, error.cause.stage])";
    let expected = r#"[true,true,"GET",302,"/end",false,"TypeError","redirect"]"#;
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
}

async fn the_url_after_a_redirect_is_serialized_like_any_other_url(shard: Rc<Shard>) {
    let origin = Origin::plain(|request| match request.uri().path() {
        "/" => redirect(302, "/a^b"),
        _ => origin::text("end"),
    })
    .await;
    let body = "const { url } = await fetch(origin);
        return Response.json([url === new URL('/a^b', origin).href, url.endsWith('/a%5Eb')])";
    assert_eq!(fetch_text(&shard, &origin, body).await, "[true,true]");
}

async fn the_body_of_a_response_without_content_is_null(shard: Rc<Shard>) {
    let origin = Origin::raw(b"HTTP/1.1 204 No Content\r\n\r\n").await;
    let body = "const none = await fetch(origin);
        return Response.json([none.body, await none.text()])";
    assert_eq!(fetch_text(&shard, &origin, body).await, r#"[null,""]"#);
}

async fn fetches_run_concurrently(shard: Rc<Shard>) {
    // The origin answers no request before all requests have arrived.
    let all_have_arrived = Rc::new(Barrier::new(40));
    let origin = Origin::serve(None, move |request| {
        let all_have_arrived = Rc::clone(&all_have_arrived);
        Box::pin(async move {
            all_have_arrived.wait().await;
            origin::text(request.uri().path())
        })
    })
    .await;
    let body = "const all = await Promise.all(Array.from({ length: 40 }, async (_, i) => (await fetch(`${origin}/${i}`)).text()));
        return Response.json(all.every((path, i) => path === `/${i}`))";
    assert_eq!(fetch_text(&shard, &origin, body).await, "true");
}

async fn a_cache_adds_all_fetched_responses_or_none(shard: Rc<Shard>) {
    let origin = Origin::plain(|request| {
        let language = request
            .headers()
            .get("accept-language")
            .map_or("", |language| language.to_str().unwrap());
        let mut answer = origin::text(language);
        answer.headers_mut().insert("cache-control", "max-age=60".parse().unwrap());
        answer.headers_mut().insert("vary", "accept-language".parse().unwrap());
        if request.uri().path() == "/gone" {
            *answer.status_mut() = http::StatusCode::NOT_FOUND;
        }
        answer
    })
    .await;
    let body = "const cache = caches.default;
        const speaking = (language, path) => new Request(`${origin}/${path}`, { headers: { 'accept-language': language } });
        const text = async (request) => (await cache.match(request))?.text();
        const some = await cache.addAll([speaking('de', 'a'), speaking('de', 'gone')]).catch((e) => e.name);
        const none = await text(speaking('de', 'a'));
        const posts = await cache.add(new Request(origin, { method: 'POST', body: 'x' })).catch((e) => e.name);
        await cache.addAll([speaking('de', 'a'), speaking('fr', 'a'), speaking('de', 'b')]);
        return Response.json([some, none, posts, await text(speaking('de', 'a')), await text(speaking('fr', 'a')),
          await text(speaking('de', 'b')), await text(speaking('fr', 'b'))])";
    let expected = r#"["TypeError",null,"TypeError","de","fr","de",null]"#;
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
    assert!(origin.requests.borrow().iter().all(|request| request.method() == http::Method::GET));
}

async fn a_module_can_fetch_while_it_is_evaluated(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| origin::text("early")).await;
    let source = format!(
        "const early = await (await fetch('{}')).text(); export default {{ fetch: () => new Response(early) }}",
        origin.url("/")
    );
    assert_eq!(text(shard.worker(&source).get().await.unwrap()).await, "early");
}

async fn a_data_url_is_decoded_into_a_response(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| origin::text("")).await;
    let body = "const show = async (url) => { const r = await fetch(url); return [r.status, r.headers.get('content-type'), await r.text()] };
        let malformed;
        try { await fetch('data:no-comma') } catch (e) { malformed = e.name }
        return Response.json([await show('data:,a%20b'), await show('DATA:text/html;base64,PGI+'), (await fetch('data:,x#y')).url, malformed])";
    let expected = r#"[[200,"text/plain;charset=US-ASCII","a b"],[200,"text/html","<b>"],"data:,x","TypeError"]"#;
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
}

async fn fetch_has_the_interface_of_the_web_platform(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| origin::text("")).await;
    let body = "const none = await fetch().catch((e) => e.name);
        const bad = await fetch('no url').catch((e) => e.name);
        const user = await fetch('http://a:b@c/').catch((e) => e.name);
        const get = await fetch(origin, { body: 'x' }).catch((e) => e.name);
        return Response.json([typeof fetch, fetch.name, fetch.length, none, bad, user, get, fetch('data:,') instanceof Promise])";
    let expected = r#"["function","fetch",1,"TypeError","TypeError","TypeError","TypeError",true]"#;
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
}
