//! Tests of WebSockets with which a Worker answers: the handshake, messages and the end of a
//! connection.

use std::rc::Rc;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tenon_proto::failure::FailureCode;
use tenon_proto::revision::CompatibilityFlag;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};

use super::{ECHO, KEY, VERSION, connect, masked, opening, receive, receive_close, send, serving};
use crate::fetching;
use crate::harness::Shard;

fetching![
    a_worker_answers_with_a_socket_and_echoes,
    the_handshake_response_matches_the_request,
    a_malformed_handshake_is_refused,
    a_long_message_is_reassembled_from_any_frames,
    pings_are_answered_and_a_close_is_returned,
    a_close_by_the_worker_follows_all_its_messages,
    a_client_that_disconnects_fires_error_and_close_events,
    a_draining_node_closes_its_sockets,
    a_protocol_violation_closes_the_socket_with_its_code,
    listeners_run_in_the_async_context_of_the_accept,
];

async fn a_worker_answers_with_a_socket_and_echoes(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let mut client = connect(&worker).await;
    for text in ["one", "", "zwölf", "𝄞"] {
        send(&mut client, text).await;
        assert_eq!(receive(&mut client).await, text);
    }
    client.send(Message::binary(vec![0, 1, 255])).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::binary(vec![0, 1, 255]));
    assert_eq!(worker.0.in_flight(), 1);
    let reason = CloseFrame { code: CloseCode::Library(4001), reason: "bye".into() };
    client.close(Some(reason)).await.unwrap();
    assert_eq!(receive_close(&mut client).await, Some((4001, "bye".to_owned())));
    worker.0.idle().await;
    assert!(shard.logged("closed 4001 bye true"));
}

async fn the_handshake_response_matches_the_request(shard: Rc<Shard>) {
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

async fn a_malformed_handshake_is_refused(shard: Rc<Shard>) {
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

async fn a_long_message_is_reassembled_from_any_frames(shard: Rc<Shard>) {
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
    assert_eq!(receive(&mut client).await, "𝄞");
}

async fn pings_are_answered_and_a_close_is_returned(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let mut client = connect(&worker).await;
    client.send(Message::Ping("are you there".into())).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Pong("are you there".into()));
    client.close(None).await.unwrap();
    assert_eq!(receive_close(&mut client).await, None);
    assert!(client.next().await.is_none());
    worker.0.idle().await;
    assert!(shard.logged("closed 1005  true"));
}

async fn a_close_by_the_worker_follows_all_its_messages(shard: Rc<Shard>) {
    let body = "on('message', () => {
          for (let i = 0; i < 100; i++) server.send(`${i}`);
          server.close(1001, 'enough');
          server.send('never');
          console.log('state', server.readyState, server.bufferedAmount);
        });
        on('close', (e) => console.log('closed', e.code, e.reason, e.wasClean, server.readyState));";
    let worker = shard.handler(&serving(body)).start().await.unwrap();
    let mut client = connect(&worker).await;
    send(&mut client, "go").await;
    for i in 0..100 {
        assert_eq!(receive(&mut client).await, i.to_string());
    }
    assert_eq!(receive_close(&mut client).await, Some((1001, "enough".to_owned())));
    assert!(client.next().await.is_none());
    worker.0.idle().await;
    assert!(
        shard.logged("state 2 195"),
        "bufferedAmount is not 195: 190 bytes that are being sent, and 5 bytes that will never be sent"
    );
    assert!(shard.logged("closed 1001 enough true 3"));
}

async fn a_client_that_disconnects_fires_error_and_close_events(shard: Rc<Shard>) {
    let body = "on('error', (e) => console.log('failed', e.type));
        on('close', (e) => console.log('closed', e.code, e.wasClean));
        request.signal.addEventListener('abort', () => console.log('aborted'));";
    let worker = shard.handler(&serving(body)).start().await.unwrap();
    drop(connect(&worker).await);
    worker.0.idle().await;
    assert!(shard.logged("failed error") && shard.logged("closed 1006 false"));
}

async fn a_draining_node_closes_its_sockets(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let mut client = connect(&worker).await;
    send(&mut client, "before").await;
    assert_eq!(receive(&mut client).await, "before");
    shard.engine.leave();
    assert_eq!(receive_close(&mut client).await.map(|(code, _)| code), Some(1001));
    assert!(client.next().await.is_none());
    worker.0.idle().await;
    assert!(shard.logged("closed 1001  true"));
}

async fn a_protocol_violation_closes_the_socket_with_its_code(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    for (what, bytes, code) in [
        ("no mask", vec![0x81, 1, b'a'], 1002),
        ("reserved bits", masked(0xC1, b"a"), 1002),
        ("a reserved opcode", masked(0x83, b"a"), 1002),
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

async fn listeners_run_in_the_async_context_of_the_accept(shard: Rc<Shard>) {
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
        send(&mut client, "who").await;
        assert_eq!(receive(&mut client).await, "accepted");
    }
}
