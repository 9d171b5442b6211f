//! Tests of WebSockets that a Worker opens to an origin in this process.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures::{SinkExt as _, StreamExt as _};
use tenon_egress::handshake::Key;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{KEY, VERSION, join, opening, receive_close};
use crate::fetching;
use crate::harness::{Shard, await_condition};
use crate::origin::Origin;
use crate::text;

fetching![
    a_fetched_socket_exchanges_messages_with_its_origin,
    a_web_socket_opens_with_the_protocol_that_the_origin_chose,
    a_web_socket_that_cannot_be_opened_fails,
    a_web_socket_keeps_its_invocation,
    a_socket_is_passed_on_in_native_code,
];

/// The requests that an origin has received, the Close frames that it has read, and the number of
/// its open WebSockets.
#[derive(Default)]
struct EchoLog {
    heads: RefCell<Vec<String>>,
    closes: RefCell<VecDeque<Option<(u16, String)>>>,
    open: Cell<usize>,
}

/// Starts an origin that echoes messages and adds `headers` to its handshake. It closes the socket
/// on the message `close`.
async fn echo(headers: &'static str) -> (Origin, Rc<EchoLog>) {
    let log = Rc::<EchoLog>::default();
    let shared = Rc::clone(&log);
    let origin = Origin::serve_connections(move |stream| {
        let log = Rc::clone(&shared);
        async move { serve_echo(stream, headers, &log).await }
    })
    .await;
    (origin, log)
}

/// Accepts an opening handshake, without a subprotocol or an extension. Returns whether there was a
/// handshake.
pub(crate) async fn accept_handshake(stream: &mut TcpStream) -> bool {
    let Some(head) = read_head(stream).await else { return false };
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: "));
    let Some(key) = key.and_then(|key| Key::read(key.as_bytes())) else { return false };
    stream.write_all(handshake_response(&key, "").as_bytes()).await.is_ok()
}

pub(super) async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

pub(super) fn handshake_response(key: &Key, headers: &str) -> String {
    let accept = key.accept();
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nsec-websocket-accept: {accept}\r\n{headers}\r\n"
    )
}

async fn serve_echo(mut stream: TcpStream, headers: &str, log: &EchoLog) {
    let Some(head) = read_head(&mut stream).await else { return };
    let key = head
        .lines()
        .find_map(|line| line.strip_prefix("sec-websocket-key: "))
        .unwrap_or_default()
        .to_owned();
    log.heads.borrow_mut().push(head);
    let Some(key) = Key::read(key.as_bytes()) else {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain").await;
        return;
    };
    stream.write_all(handshake_response(&key, headers).as_bytes()).await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    log.open.set(log.open.get() + 1);
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(text) if text.as_str() == "close" => {
                let reason = CloseFrame { code: CloseCode::Library(3001), reason: "asked".into() };
                let _ = socket.close(Some(reason)).await;
            }
            Message::Text(_) | Message::Binary(_) => match socket.send(message).await {
                Ok(()) | Err(Error::ConnectionClosed) => {}
                Err(_) => break,
            },
            Message::Close(frame) => log.closes.borrow_mut().push_back(
                frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned())),
            ),
            _ => {}
        }
    }
    log.open.set(log.open.get() - 1);
}

async fn fetch_text(shard: &Shard, origin: &Origin, body: &str) -> String {
    let body = format!(
        "const origin = '{}';
         const next = (socket, type) => new Promise((resolve) => socket.addEventListener(type, resolve, {{ once: true }}));
         {body}",
        origin.url("/").as_str().trim_start_matches("http")
    );
    text(shard.handler(&body).get().await.unwrap()).await
}

async fn a_fetched_socket_exchanges_messages_with_its_origin(shard: Rc<Shard>) {
    let (origin, log) = echo("Sec-WebSocket-Protocol: chat\r\n").await;
    let body = "const response = await fetch(`http${origin}`, {
          headers: { Upgrade: 'websocket', 'Sec-WebSocket-Protocol': 'talk, chat', 'X-Mine': 'yes' },
        });
        const { status, webSocket: socket, body, headers } = response;
        const before = (() => { try { socket.send('x') } catch (e) { return e.name } })();
        const state = socket.readyState;
        socket.accept();
        const again = (() => { try { socket.accept() } catch (e) { return e.name } })();
        socket.send('text');
        const text = (await next(socket, 'message')).data;
        socket.send(new Uint16Array([1, 2]).subarray(1));
        const bytes = (await next(socket, 'message')).data;
        socket.close(4000, 'done');
        const { code, reason, wasClean } = await next(socket, 'close');
        const plain = await fetch(`http${origin}`);
        return Response.json([
          status, body, headers.get('sec-websocket-protocol'), state, before, again, text, [...new Uint8Array(bytes)],
          code, reason, wasClean, await plain.text(), plain.webSocket,
        ])";
    let expected =
        r#"[101,null,"chat",1,"TypeError","TypeError","text",[2,0],4000,"done",true,"plain",null]"#;
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
    assert_eq!(log.closes.borrow()[0], Some((4000, "done".to_owned())));
    let head = log.heads.borrow()[0].to_ascii_lowercase();
    for line in [
        "get / http/1.1",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "x-mine: yes",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    await_condition("the end of the connection", || log.open.get() == 0).await;
}

async fn a_web_socket_opens_with_the_protocol_that_the_origin_chose(shard: Rc<Shard>) {
    let (origin, _log) = echo("sec-websocket-protocol: b\r\n").await;
    let body = "const socket = new WebSocket(`ws${origin}`, ['a', 'b']);
        const states = [socket.readyState, socket.protocol, socket.binaryType, socket.bufferedAmount];
        const early = (() => { try { socket.send('x') } catch (e) { return e.name } })();
        const opened = await next(socket, 'open');
        states.push(socket.readyState, socket.protocol, socket.extensions, opened.isTrusted);
        socket.send(new Blob(['a', 'blob']));
        states.push(socket.bufferedAmount);
        const blob = await next(socket, 'message');
        socket.binaryType = 'arraybuffer';
        socket.send(new ArrayBuffer(3));
        const buffer = await next(socket, 'message');
        socket.send('close');
        const close = await next(socket, 'close');
        return Response.json([
          states, early, blob.data instanceof Blob, await blob.data.text(), blob.origin === `ws${origin.slice(0, -1)}`,
          buffer.data.byteLength, close.code, close.reason, close.wasClean, socket.readyState, close.isTrusted,
        ])";
    let expected = r#"[[0,"","blob",0,1,"b","",true,5],"InvalidStateError",true,"ablob",true,3,3001,"asked",true,3,true]"#;
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
}

async fn a_web_socket_that_cannot_be_opened_fails(shard: Rc<Shard>) {
    let events = "const events = (socket) => new Promise((resolve) => {
          const seen = [];
          socket.onopen = socket.onerror = (e) => seen.push([e.type, socket.readyState]);
          socket.onclose = (e) => resolve([...seen, ['close', e.code, e.reason, e.wasClean, socket.readyState]]);
        });";
    let failed = r#"[["error",3],["close",1006,"",false,3]]"#;
    let each = |url: &str, more: &str| {
        format!("{events} return Response.json(await events(new WebSocket({url}{more})))")
    };
    let (origin, _log) = echo("").await;
    // The origin selects none of the offered subprotocols.
    assert_eq!(fetch_text(&shard, &origin, &each("`ws${origin}`", ", 'chat'")).await, failed);
    for headers in
        ["sec-websocket-protocol: other\r\n", "sec-websocket-extensions: permessage-deflate\r\n"]
    {
        let (origin, _log) = echo(headers).await;
        assert_eq!(
            fetch_text(&shard, &origin, &each("`ws${origin}`", ", 'chat'")).await,
            failed,
            "{headers}"
        );
    }
    for raw in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..],
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: wrong\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
        b"",
    ] {
        let origin = Origin::raw(raw).await;
        assert_eq!(fetch_text(&shard, &origin, &each("`ws${origin}`", "")).await, failed, "{raw:?}");
    }
    // The node's policy forbids this address.
    assert_eq!(fetch_text(&shard, &origin, &each("'ws://10.0.0.1/'", "")).await, failed);
    // The following socket is closed before it opens.
    let body = format!(
        "{events} const socket = new WebSocket(`ws${{origin}}`);
         const seen = events(socket);
         socket.close();
         return Response.json([socket.readyState, await seen])"
    );
    assert_eq!(fetch_text(&shard, &origin, &body).await, format!("[2,{failed}]"));
}

async fn a_web_socket_keeps_its_invocation(shard: Rc<Shard>) {
    let (origin, log) = echo("").await;
    let body = format!(
        "const socket = new WebSocket('ws{}');
         socket.onopen = () => socket.send('after the response');
         socket.onmessage = ({{ data }}) => {{ console.log('heard', data); socket.close() }};
         return new Response('answered')",
        origin.url("/").as_str().trim_start_matches("http")
    );
    let worker = shard.handler(&body).start().await.unwrap();
    assert_eq!(text(worker.get("/").await.unwrap()).await, "answered");
    assert_eq!(worker.0.in_flight(), 1);
    worker.0.idle().await;
    assert!(shard.logged("heard after the response"));
    assert_eq!(log.closes.borrow()[0], None);
}

async fn a_socket_is_passed_on_in_native_code(shard: Rc<Shard>) {
    let (origin, log) = echo("sec-websocket-protocol: chat\r\n").await;
    let body = format!("return await fetch('{}', request)", origin.url("/"));
    let worker = shard.handler(&body).start().await.unwrap();
    let (request, sent) = opening(&[KEY, VERSION, ("sec-websocket-protocol", "chat")]);
    let response = worker.0.fetch(request).await.unwrap();
    let accept = response.headers.iter().filter(|header| header.name == "sec-websocket-accept");
    assert_eq!(
        accept.map(|header| &header.value[..]).collect::<Vec<_>>(),
        [b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]
    );
    let mut client = join(response, sent);
    for length in [0, 1, 70_000, 2_000_000] {
        let message = Message::binary(vec![7; length]);
        client.send(message.clone()).await.unwrap();
        assert_eq!(client.next().await.unwrap().unwrap(), message);
    }
    client
        .close(Some(CloseFrame { code: CloseCode::Normal, reason: "enough".into() }))
        .await
        .unwrap();
    assert_eq!(receive_close(&mut client).await, Some((1000, "enough".to_owned())));
    worker.0.idle().await;
    assert_eq!(log.closes.borrow()[0], Some((1000, "enough".to_owned())));
}
