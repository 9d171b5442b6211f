//! WebSockets: a Worker that answers with one, a Worker that opens one, and a Worker between the
//! two.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt as _, StreamExt as _};
use tenon_egress::handshake::Key;
use tenon_engine::{Body, Broken, FetchRequest, FetchResponse, ResponseBody};
use tenon_proto::failure::FailureCode;
use tenon_proto::revision::CompatibilityFlag;
use tenon_proto::runtime::Header;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::fetching;
use crate::harness::{Loaded, Shard, await_condition, request};
use crate::origin::Origin;
use crate::text;

fetching![
    a_worker_answers_with_a_socket_and_echoes,
    the_answer_agrees_to_what_was_asked,
    a_request_that_is_not_as_the_standard_has_it_is_refused,
    a_long_message_comes_whole_in_whatever_frames,
    pings_are_answered_and_a_close_is_returned,
    a_close_by_the_worker_reaches_the_client_after_all_it_has_said,
    a_client_that_goes_away_is_heard_of,
    what_the_protocol_forbids_ends_the_socket_with_its_code,
    a_message_that_is_too_long_ends_the_socket,
    each_message_has_cpu_time_of_its_own,
    a_socket_may_be_idle_for_as_long_as_the_wall_limit,
    an_invocation_that_is_stopped_says_so_to_its_client,
    a_socket_that_is_never_accepted_ends_with_its_invocation,
    a_node_that_leaves_says_so,
    nothing_is_read_while_the_worker_is_busy,
    a_client_that_does_not_read_fills_the_workers_memory_and_no_more,
    a_fetched_socket_talks_to_its_origin,
    a_web_socket_opens_and_says_what_the_origin_has_chosen,
    a_web_socket_that_cannot_be_opened_fails,
    a_web_socket_keeps_its_invocation,
    a_socket_is_handed_on_past_javascript,
    a_flood_of_frames_is_no_ones_trouble_but_its_own,
    listeners_find_what_their_storages_held_when_the_socket_was_accepted,
];

/// One end of a connection whose other end belongs to a Worker.
pub(crate) type Client = WebSocketStream<DuplexStream>;

/// Returns an opening handshake, and the sender of the client's bytes.
pub(crate) fn opening(
    headers: &[(&str, &str)],
) -> (FetchRequest, mpsc::UnboundedSender<Result<Bytes, Broken>>) {
    let (sent, body) = mpsc::unbounded();
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).to_owned(),
        value: (*value).to_owned().into(),
    };
    let headers = [("upgrade", "websocket"), ("connection", "upgrade")]
        .iter()
        .chain(headers)
        .map(header)
        .collect();
    (FetchRequest { headers, body: Body::Stream(Box::pin(body)), ..request("/chat") }, sent)
}

pub(crate) const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
pub(crate) const VERSION: (&str, &str) = ("sec-websocket-version", "13");

/// Opens a WebSocket to a Worker.
pub(crate) async fn connect(worker: &Loaded) -> Client {
    let (request, sent) = opening(&[KEY, VERSION]);
    join(worker.0.fetch(request).await.unwrap(), sent)
}

/// Joins both directions of a tunnel into one client.
fn join(
    response: FetchResponse,
    sent: mpsc::UnboundedSender<Result<Bytes, Broken>>,
) -> DuplexClient {
    assert_eq!(response.status, 101);
    let ResponseBody::Stream(mut received) = response.body else { panic!("a tunnel is a stream") };
    let (mine, theirs) = tokio::io::duplex(16 * 1024);
    let (mut reader, mut writer) = tokio::io::split(theirs);
    spawn_local(async move {
        while let Some(Ok(piece)) = received.next().await {
            if writer.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    });
    spawn_local(async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = reader.read(&mut buffer).await {
            if sent.unbounded_send(Ok(Bytes::copy_from_slice(&buffer[..read]))).is_err() {
                return;
            }
        }
    });
    client_of(mine)
}

type DuplexClient = Client;

fn client_of(stream: DuplexStream) -> Client {
    futures::executor::block_on(WebSocketStream::from_raw_socket(stream, Role::Client, None))
}

pub(crate) async fn say(client: &mut Client, text: &str) {
    client.send(Message::text(text)).await.unwrap();
}

pub(crate) async fn hear(client: &mut Client) -> String {
    match client.next().await {
        Some(Ok(Message::Text(text))) => text.as_str().to_owned(),
        other => panic!("a text was due, {other:?} came"),
    }
}

/// Returns the code and reason of the next Close frame.
async fn hear_close(client: &mut Client) -> Option<(u16, String)> {
    loop {
        match client.next().await {
            Some(Ok(Message::Close(frame))) => {
                return frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned()));
            }
            Some(Ok(Message::Text(_) | Message::Binary(_))) => {}
            other => panic!("a Close was due, {other:?} came"),
        }
    }
}

/// Returns a handler body that accepts one end of a pair, runs `body` with it as `server`, and
/// answers with the other end.
pub(crate) fn serving(body: &str) -> String {
    format!(
        "const [client, server] = Object.values(new WebSocketPair());
         const on = (type, listener) => server.addEventListener(type, listener);
         server.accept();
         {body}
         return new Response(null, {{ status: 101, webSocket: client }});"
    )
}

pub(crate) const ECHO: &str = "on('message', ({ data }) => server.send(data));
    on('error', (e) => console.log('error', e.message));
    on('close', (e) => console.log('closed', e.code, e.reason, e.wasClean));";

async fn a_worker_answers_with_a_socket_and_echoes(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let mut client = connect(&worker).await;
    for text in ["one", "", "zwölf", "𝄞"] {
        say(&mut client, text).await;
        assert_eq!(hear(&mut client).await, text);
    }
    client.send(Message::binary(vec![0, 1, 255])).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::binary(vec![0, 1, 255]));
    assert_eq!(worker.0.in_flight(), 1);
    let reason = CloseFrame { code: CloseCode::Library(4001), reason: "bye".into() };
    client.close(Some(reason)).await.unwrap();
    assert_eq!(hear_close(&mut client).await, Some((4001, "bye".to_owned())));
    worker.0.idle().await;
    assert!(shard.logged("closed 4001 bye true"));
}

async fn the_answer_agrees_to_what_was_asked(shard: Rc<Shard>) {
    let body = "const { 0: client, 1: server } = new WebSocketPair();
        server.accept();
        console.log('body', request.body, request.headers.get('upgrade'));
        const headers = { 'Sec-WebSocket-Protocol': 'chat', 'X-Mine': 'yes', connection: 'close', 'sec-websocket-accept': 'no' };
        return new Response(null, { status: 101, webSocket: client, headers })";
    let worker = shard.handler(body).start().await.unwrap();
    let (request, _sent) = opening(&[KEY, VERSION, ("sec-websocket-protocol", "talk, chat")]);
    let response = worker.0.fetch(request).await.unwrap();
    let headers: Vec<_> =
        response.headers.iter().map(|h| (h.name.as_str(), &h.value[..])).collect();
    assert_eq!(
        headers,
        [
            ("sec-websocket-protocol", &b"chat"[..]),
            ("x-mine", b"yes"),
            ("upgrade", b"websocket"),
            ("sec-websocket-accept", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ]
    );
    assert!(shard.logged("body null websocket"));
}

async fn a_request_that_is_not_as_the_standard_has_it_is_refused(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    for (headers, code) in [
        (vec![VERSION], FailureCode::BadRequest),
        (vec![VERSION, ("sec-websocket-key", "short")], FailureCode::BadRequest),
        (vec![KEY], FailureCode::UpgradeRequired),
        (vec![KEY, ("sec-websocket-version", "8")], FailureCode::UpgradeRequired),
    ] {
        let (request, _sent) = opening(&headers);
        assert_eq!(worker.0.fetch(request).await.unwrap_err().code, code, "{headers:?}");
    }
    worker.0.idle().await;
    let failure = worker.get("/").await.unwrap_err();
    assert_eq!(failure.code, FailureCode::WorkerException);
    assert!(shard.logged("the request does not ask for a WebSocket"));
}

async fn a_long_message_comes_whole_in_whatever_frames(shard: Rc<Shard>) {
    let body = "on('message', ({ data }) => server.send(typeof data === 'string' ? data : new Uint8Array(data).reverse()));";
    let worker =
        shard.handler(&serving(body)).limits(|limits| limits.cpu_ms = 5_000).start().await.unwrap();
    let mut client = connect(&worker).await;
    for length in [125, 126, 65_535, 65_536, 3_000_001] {
        let bytes: Vec<u8> = (0..length).map(|n| n as u8).collect();
        client.send(Message::binary(bytes.clone())).await.unwrap();
        let answer = client.next().await.unwrap().unwrap().into_data();
        assert!(answer.iter().eq(bytes.iter().rev()), "{length}");
    }
    // The frames split a character, with a ping between them.
    let [first, rest] = [&"𝄞".as_bytes()[..2], &"𝄞".as_bytes()[2..]].map(Bytes::copy_from_slice);
    client
        .send(Message::Frame(Frame::message(first, OpCode::Data(Data::Text), false)))
        .await
        .unwrap();
    client.send(Message::Ping("between".into())).await.unwrap();
    client
        .send(Message::Frame(Frame::message(rest, OpCode::Data(Data::Continue), true)))
        .await
        .unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Pong("between".into()));
    assert_eq!(hear(&mut client).await, "𝄞");
}

async fn pings_are_answered_and_a_close_is_returned(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let mut client = connect(&worker).await;
    client.send(Message::Ping("are you there".into())).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Pong("are you there".into()));
    client.close(None).await.unwrap();
    assert_eq!(hear_close(&mut client).await, None);
    assert!(client.next().await.is_none());
    worker.0.idle().await;
    assert!(shard.logged("closed 1005  true"));
}

async fn a_close_by_the_worker_reaches_the_client_after_all_it_has_said(shard: Rc<Shard>) {
    let body = "on('message', () => {
          for (let i = 0; i < 100; i++) server.send(`${i}`);
          server.close(1001, 'enough');
          server.send('never');
          console.log('state', server.readyState, server.bufferedAmount);
        });
        on('close', (e) => console.log('closed', e.code, e.reason, e.wasClean, server.readyState));";
    let worker = shard.handler(&serving(body)).start().await.unwrap();
    let mut client = connect(&worker).await;
    say(&mut client, "go").await;
    for i in 0..100 {
        assert_eq!(hear(&mut client).await, i.to_string());
    }
    assert_eq!(hear_close(&mut client).await, Some((1001, "enough".to_owned())));
    assert!(client.next().await.is_none());
    worker.0.idle().await;
    assert!(shard.logged("state 2 195"), "190 bytes that are being sent, and 5 that never will be");
    assert!(shard.logged("closed 1001 enough true 3"));
}

async fn a_client_that_goes_away_is_heard_of(shard: Rc<Shard>) {
    let body = "on('error', (e) => console.log('failed', e.type));
        on('close', (e) => console.log('closed', e.code, e.wasClean));
        request.signal.addEventListener('abort', () => console.log('aborted'));";
    let worker = shard.handler(&serving(body)).start().await.unwrap();
    drop(connect(&worker).await);
    worker.0.idle().await;
    assert!(shard.logged("failed error") && shard.logged("closed 1006 false"));
}

async fn what_the_protocol_forbids_ends_the_socket_with_its_code(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let masked = |first: u8, payload: &[u8]| {
        [&[first, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat()
    };
    for (what, bytes, code) in [
        ("no mask", vec![0x81, 1, b'a'], 1002),
        ("reserved bits", masked(0xC1, b"a"), 1002),
        ("an opcode that nobody knows", masked(0x83, b"a"), 1002),
        ("a continuation of nothing", masked(0x80, b"a"), 1002),
        ("a ping in parts", masked(0x09, b"a"), 1002),
        ("a text that is not UTF-8", masked(0x81, &[0xC3, 0x28]), 1007),
        ("half a character at the end", masked(0x81, &[0xC3]), 1007),
    ] {
        let (request, sent) = opening(&[KEY, VERSION]);
        let response = worker.0.fetch(request).await.unwrap();
        sent.unbounded_send(Ok(bytes.into())).unwrap();
        let all = response.body.collect().await.unwrap();
        let close = [&[0x88, 2][..], &u16::to_be_bytes(code)].concat();
        assert_eq!(all[..], close[..], "{what}");
    }
    worker.0.idle().await;
    assert!(shard.logged("closed 1006  false"));
}

async fn a_message_that_is_too_long_ends_the_socket(shard: Rc<Shard>) {
    let worker = shard
        .handler(&serving(ECHO))
        .limits(|limits| limits.memory_mib = 16)
        .start()
        .await
        .unwrap();
    // At once, if the frame's header announces the length.
    let (request, sent) = opening(&[KEY, VERSION]);
    let response = worker.0.fetch(request).await.unwrap();
    let header = [&[0x82, 0xFF][..], &u64::to_be_bytes(64 << 20), &[0; 4]].concat();
    sent.unbounded_send(Ok(header.into())).unwrap();
    assert_eq!(response.body.collect().await.unwrap()[..], [0x88, 2, 0x03, 0xF1]);
    // When memory runs out, if the message comes in fragments.
    let mut client = connect(&worker).await;
    let part = |data, is_final| {
        Message::Frame(Frame::message(vec![0; 1 << 20], OpCode::Data(data), is_final))
    };
    client.feed(part(Data::Binary, false)).await.unwrap();
    let mut sent = 1;
    while client.send(part(Data::Continue, false)).await.is_ok() {
        sent += 1;
        assert!(sent < 64, "{sent} MiB and no end");
        tokio::task::yield_now().await;
        if worker.0.in_flight() == 0 {
            break;
        }
    }
    assert_eq!(hear_close(&mut client).await.map(|(code, _)| code), Some(1009));
    worker.0.idle().await;
}

async fn each_message_has_cpu_time_of_its_own(shard: Rc<Shard>) {
    let body = "on('message', ({ data }) => {
          if (data === 'loop') for (;;);
          const end = performance.now();
          let x = 0;
          for (let i = 0; i < 2e6; i++) x += i;
          server.send(data);
        });";
    let worker =
        shard.handler(&serving(body)).limits(|limits| limits.cpu_ms = 200).start().await.unwrap();
    let mut client = connect(&worker).await;
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(600) {
        say(&mut client, "work").await;
        assert_eq!(hear(&mut client).await, "work");
    }
    say(&mut client, "loop").await;
    assert_eq!(hear_close(&mut client).await.map(|(code, _)| code), Some(1011));
    assert!(shard.logged("cpu_limit_exceeded"));
    shard.expect_a_neighbour_to_answer().await;
}

async fn a_socket_may_be_idle_for_as_long_as_the_wall_limit(shard: Rc<Shard>) {
    let worker = shard
        .handler(&serving(ECHO))
        .limits(|limits| limits.wall_ms = 1_000)
        .start()
        .await
        .unwrap();
    let mut client = connect(&worker).await;
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(1_500) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        say(&mut client, "still here").await;
        hear(&mut client).await;
    }
    assert_eq!(hear_close(&mut client).await.map(|(code, _)| code), Some(1011));
    assert!(shard.logged("wall_limit_exceeded"));
    worker.0.idle().await;
}

async fn an_invocation_that_is_stopped_says_so_to_its_client(shard: Rc<Shard>) {
    let body =
        "on('message', () => { const all = []; for (;;) all.push(new Array(1e4).fill(all)) });";
    let worker = shard
        .handler(&serving(body))
        .limits(|limits| limits.memory_mib = 16)
        .start()
        .await
        .unwrap();
    let mut client = connect(&worker).await;
    say(&mut client, "go").await;
    drop(worker);
    assert_eq!(hear_close(&mut client).await.map(|(code, _)| code), Some(1011));
}

async fn a_socket_that_is_never_accepted_ends_with_its_invocation(shard: Rc<Shard>) {
    let body = "return new Response(null, { status: 101, webSocket: new WebSocketPair()[0] })";
    let worker = shard.handler(body).start().await.unwrap();
    let mut client = connect(&worker).await;
    assert_eq!(hear_close(&mut client).await.map(|(code, _)| code), Some(1011));
    worker.0.idle().await;
}

async fn a_node_that_leaves_says_so(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let mut client = connect(&worker).await;
    say(&mut client, "before").await;
    assert_eq!(hear(&mut client).await, "before");
    shard.engine.leave();
    assert_eq!(hear_close(&mut client).await.map(|(code, _)| code), Some(1001));
    assert!(client.next().await.is_none());
    worker.0.idle().await;
    assert!(shard.logged("closed 1001  true"));
}

async fn nothing_is_read_while_the_worker_is_busy(shard: Rc<Shard>) {
    // Each message is read whole before the next one, however far ahead the client sends.
    let body = "let count = 0;
        on('message', async ({ data }) => { count++; server.send(`${count}:${data.length}`) });";
    let worker = shard.handler(&serving(body)).start().await.unwrap();
    let mut client = connect(&worker).await;
    for n in 0..500 {
        client.feed(Message::text("x".repeat(n))).await.unwrap();
    }
    client.flush().await.unwrap();
    for n in 0..500 {
        assert_eq!(hear(&mut client).await, format!("{}:{n}", n + 1));
    }
}

async fn a_client_that_does_not_read_fills_the_workers_memory_and_no_more(shard: Rc<Shard>) {
    let body = "on('message', () => {
          const piece = new Uint8Array(1 << 20);
          let n = 0;
          while (server.readyState === 1 && n < 100) { server.send(piece); n++; }
          console.log('buffered', server.bufferedAmount >= 10 << 20, server.bufferedAmount <= 100 << 20);
        });
        on('error', () => console.log('full'));
        on('close', (e) => console.log('closed', e.code, e.wasClean));";
    let worker = shard
        .handler(&serving(body))
        .limits(|limits| (limits.memory_mib, limits.cpu_ms) = (32, 5_000));
    let worker = worker.start().await.unwrap();
    let mut client = connect(&worker).await;
    say(&mut client, "go").await;
    await_condition("the end of the socket", || shard.logged("closed 1006 false")).await;
    assert!(shard.logged("buffered true true") && shard.logged("full"));
    worker.0.idle().await;
    assert!(worker.0.memory_bytes() < 48 << 20);
}

// ---- As a client

/// The requests that an origin received, and the Close frames it has read.
#[derive(Default)]
struct Heard {
    heads: RefCell<Vec<String>>,
    closes: RefCell<VecDeque<Option<(u16, String)>>>,
    open: Cell<usize>,
}

/// Starts an origin that echoes messages and adds `headers` to its handshake; the text `close`
/// makes it close.
async fn echo(headers: &'static str) -> (Origin, Rc<Heard>) {
    let heard = Rc::<Heard>::default();
    let log = Rc::clone(&heard);
    let origin = Origin::by_hand(move |stream| {
        let heard = Rc::clone(&log);
        async move { serve_echo(stream, headers, &heard).await }
    })
    .await;
    (origin, heard)
}

/// Accepts the opening handshake without a subprotocol or extension. Returns whether there was one.
pub(crate) async fn agree(stream: &mut TcpStream) -> bool {
    let Some(head) = read_head(stream).await else { return false };
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: "));
    let Some(key) = key.and_then(|key| Key::read(key.as_bytes())) else { return false };
    stream.write_all(agreement(&key, "").as_bytes()).await.is_ok()
}

async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

fn agreement(key: &Key, headers: &str) -> String {
    let accept = key.accept();
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nsec-websocket-accept: {accept}\r\n{headers}\r\n"
    )
}

async fn serve_echo(mut stream: TcpStream, headers: &str, heard: &Heard) {
    let Some(head) = read_head(&mut stream).await else { return };
    let key = head
        .lines()
        .find_map(|line| line.strip_prefix("sec-websocket-key: "))
        .unwrap_or_default()
        .to_owned();
    heard.heads.borrow_mut().push(head);
    let Some(key) = Key::read(key.as_bytes()) else {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain").await;
        return;
    };
    stream.write_all(agreement(&key, headers).as_bytes()).await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    heard.open.set(heard.open.get() + 1);
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
            Message::Close(frame) => heard.closes.borrow_mut().push_back(
                frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned())),
            ),
            _ => {}
        }
    }
    heard.open.set(heard.open.get() - 1);
}

async fn answer(shard: &Shard, origin: &Origin, body: &str) -> String {
    let body = format!(
        "const origin = '{}';
         const next = (socket, type) => new Promise((resolve) => socket.addEventListener(type, resolve, {{ once: true }}));
         {body}",
        origin.url("/").as_str().trim_start_matches("http")
    );
    text(shard.handler(&body).get().await.unwrap()).await
}

async fn a_fetched_socket_talks_to_its_origin(shard: Rc<Shard>) {
    let (origin, heard) = echo("Sec-WebSocket-Protocol: chat\r\n").await;
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
    assert_eq!(answer(&shard, &origin, body).await, expected);
    assert_eq!(heard.closes.borrow()[0], Some((4000, "done".to_owned())));
    let head = heard.heads.borrow()[0].to_ascii_lowercase();
    for line in [
        "get / http/1.1",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "x-mine: yes",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    await_condition("the end of the connection", || heard.open.get() == 0).await;
}

async fn a_web_socket_opens_and_says_what_the_origin_has_chosen(shard: Rc<Shard>) {
    let (origin, _heard) = echo("sec-websocket-protocol: b\r\n").await;
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
    assert_eq!(answer(&shard, &origin, body).await, expected);
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
    let (origin, _heard) = echo("").await;
    // The origin selects none of the offered subprotocols.
    assert_eq!(answer(&shard, &origin, &each("`ws${origin}`", ", 'chat'")).await, failed);
    for headers in
        ["sec-websocket-protocol: other\r\n", "sec-websocket-extensions: permessage-deflate\r\n"]
    {
        let (origin, _heard) = echo(headers).await;
        assert_eq!(
            answer(&shard, &origin, &each("`ws${origin}`", ", 'chat'")).await,
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
        assert_eq!(answer(&shard, &origin, &each("`ws${origin}`", "")).await, failed, "{raw:?}");
    }
    // The node's policy forbids this address.
    assert_eq!(answer(&shard, &origin, &each("'ws://10.0.0.1/'", "")).await, failed);
    // A socket that is closed before it opens.
    let body = format!(
        "{events} const socket = new WebSocket(`ws${{origin}}`);
         const seen = events(socket);
         socket.close();
         return Response.json([socket.readyState, await seen])"
    );
    assert_eq!(answer(&shard, &origin, &body).await, format!("[2,{failed}]"));
}

async fn a_web_socket_keeps_its_invocation(shard: Rc<Shard>) {
    let (origin, heard) = echo("").await;
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
    assert_eq!(heard.closes.borrow()[0], None);
}

async fn a_socket_is_handed_on_past_javascript(shard: Rc<Shard>) {
    let (origin, heard) = echo("sec-websocket-protocol: chat\r\n").await;
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
    assert_eq!(hear_close(&mut client).await, Some((1000, "enough".to_owned())));
    worker.0.idle().await;
    assert_eq!(heard.closes.borrow()[0], Some((1000, "enough".to_owned())));
}

async fn a_flood_of_frames_is_no_ones_trouble_but_its_own(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let masked = |first: u8, payload: &[u8]| {
        [&[first, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat()
    };
    // A message of empty fragments that never ends, and a flood of pings.
    let floods = [masked(0x00, b"").repeat(200_000), masked(0x89, b"x").repeat(100_000)];
    for (begin, flood) in [masked(0x01, b""), Vec::new()].into_iter().zip(floods) {
        let (request, sent) = opening(&[KEY, VERSION]);
        let response = worker.0.fetch(request).await.unwrap();
        sent.unbounded_send(Ok(begin.into())).unwrap();
        flood
            .chunks(64 * 1024)
            .for_each(|piece| sent.unbounded_send(Ok(Bytes::copy_from_slice(piece))).unwrap());
        drop(sent);
        shard.expect_a_neighbour_to_answer().await;
        drop(response.body.collect().await);
    }
    worker.0.idle().await;
    assert!(worker.0.memory_bytes() < 16 << 20);
}

async fn listeners_find_what_their_storages_held_when_the_socket_was_accepted(shard: Rc<Shard>) {
    let source = "import { AsyncLocalStorage } from 'node:async_hooks';
        const storage = new AsyncLocalStorage();
        export default {
          async fetch(request) {
            const [client, server] = Object.values(new WebSocketPair());
            server.addEventListener('message', async () => {
              await undefined;
              server.send(`${storage.getStore()}`);
            });
            storage.run('accepted', () => server.accept());
            return storage.run('answered', () => new Response(null, { status: 101, webSocket: client }));
          },
        };";
    let flags = [CompatibilityFlag::NodejsCompat].into();
    let worker = shard.worker(source).flags(&flags).start().await.unwrap();
    let mut client = connect(&worker).await;
    for _ in 0..2 {
        say(&mut client, "who").await;
        assert_eq!(hear(&mut client).await, "accepted");
    }
}
