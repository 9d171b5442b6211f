//! Tests of the clients of `node:http`, which send their requests with `fetch`.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::rc::Rc;

use tenon_proto::revision::CompatibilityFlag;

use crate::fetching;
use crate::harness::Shard;
use crate::origin::{self, Origin, ReceivedRequest};
use crate::text;

fetching![
    a_client_receives_the_head_and_the_body_of_a_response,
    a_request_that_ends_at_once_declares_its_length,
    a_request_that_continues_is_a_stream,
    a_client_does_not_follow_redirects,
    an_unread_response_is_discarded,
    a_failed_request_has_the_code_of_its_stage,
];

/// Runs the body of a handler that imports `node:http`, and returns its response. The origin
/// describes each request.
async fn run(shard: Rc<Shard>, body: &str) -> String {
    let origin = Origin::plain(describe).await;
    let source = format!(
        "import http from 'node:http';
         import {{ once }} from 'node:events';
         import {{ text }} from 'node:stream/consumers';
         const origin = '{}';
         export default {{ async fetch() {{ {body} }} }};",
        origin.url("/")
    );
    let flags = BTreeSet::from([CompatibilityFlag::NodejsCompat]);
    text(shard.worker(&source).flags(&flags).get().await.unwrap()).await
}

fn describe(request: &ReceivedRequest) -> origin::OriginResponse {
    if request.uri().path() == "/redirect" {
        return origin::redirect(302, "/elsewhere");
    }
    let header = |name: &str| {
        request.headers().get(name).map_or("-", |value| value.to_str().unwrap()).to_owned()
    };
    let mut answer = origin::text(&format!(
        "{} {} {} {} {}",
        request.method(),
        request.uri(),
        header("x-mine"),
        header("content-length"),
        request.body().len()
    ));
    answer.headers_mut().append("set-cookie", "a=1".parse().unwrap());
    answer.headers_mut().append("set-cookie", "b=2".parse().unwrap());
    answer
}

async fn a_client_receives_the_head_and_the_body_of_a_response(shard: Rc<Shard>) {
    let body = "const sent = http.get(origin + 'path?q', { headers: { 'X-Mine': 'yes' } });
        const closed = once(sent, 'close');
        const [message] = await once(sent, 'response');
        const { statusCode, statusMessage, headers, httpVersion } = message;
        const body = await text(message);
        await closed;
        return Response.json([statusCode, statusMessage, headers['set-cookie'], httpVersion, body,
          message.complete, message.aborted, sent.res === message])";
    let expected = r#"[200,"OK",["a=1","b=2"],"1.1","GET /path?q yes - 0",true,false,true]"#;
    assert_eq!(run(shard, body).await, expected);
}

async fn a_request_that_ends_at_once_declares_its_length(shard: Rc<Shard>) {
    let body =
        "const sent = http.request(origin, { method: 'POST', headers: { 'content-length': 5 } });
        sent.write('he');
        sent.end('llo');
        const [message] = await once(sent, 'response');
        return new Response(await text(message))";
    assert_eq!(run(shard, body).await, "POST / - 5 5");
}

async fn a_request_that_continues_is_a_stream(shard: Rc<Shard>) {
    let body = "const sent = http.request(origin, { method: 'PUT' });
        const response = once(sent, 'response');
        for (let i = 0; i < 5; i++) {
          if (!sent.write(new Uint8Array(100_000))) await once(sent, 'drain');
        }
        sent.end('end');
        const [message] = await response;
        return new Response(await text(message))";
    assert_eq!(run(shard, body).await, "PUT / - - 500003");
}

async fn a_client_does_not_follow_redirects(shard: Rc<Shard>) {
    let body = "const [message] = await once(http.get(origin + 'redirect'), 'response');
        return Response.json([message.statusCode, message.headers.location, await text(message)])";
    assert_eq!(run(shard, body).await, r#"[302,"/elsewhere","elsewhere"]"#);
}

async fn an_unread_response_is_discarded(shard: Rc<Shard>) {
    let body = "const sent = http.get(origin);
        await once(sent, 'close');
        return new Response(String(sent.res.complete))";
    assert_eq!(run(shard, body).await, "true");
}

async fn a_failed_request_has_the_code_of_its_stage(shard: Rc<Shard>) {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let body = format!(
        "const fails = async (url) => {{
           const [{{ code, syscall, message }}] = await once(http.get(url), 'error');
           return message.startsWith(`${{syscall}} ${{code}}`) && code;
         }};
         return Response.json([await fails('http://{closed}/'), await fails('http://inside.test/'),
           await fails('http://127.0.0.1:1/')])"
    );
    assert_eq!(run(shard, &body).await, r#"["ECONNREFUSED","EACCES","EACCES"]"#);
}
