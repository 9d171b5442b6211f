//! Tests of the limits of WebSockets with which a Worker answers: their duration, and the resources
//! that they may use.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt as _;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::{ECHO, KEY, VERSION, connect, masked, opening, receive, receive_close, send, serving};
use crate::fetching;
use crate::harness::{Shard, await_condition};

fetching![
    a_message_that_is_too_long_ends_the_socket,
    each_message_has_its_own_cpu_time,
    a_socket_may_be_idle_for_as_long_as_the_wall_limit,
    a_stopped_invocation_closes_its_socket_with_1011,
    a_socket_that_is_never_accepted_ends_with_its_invocation,
    nothing_is_read_while_the_worker_is_busy,
    messages_to_a_client_that_does_not_read_count_as_memory,
    a_flood_of_frames_does_not_affect_neighbors,
];

async fn a_message_that_is_too_long_ends_the_socket(shard: Rc<Shard>) {
    let worker = shard
        .handler(&serving(ECHO))
        .limits(|limits| limits.memory_mib = 16)
        .start()
        .await
        .unwrap();
    // The socket ends immediately if the frame's header announces too long a message.
    let (request, sent) = opening(&[KEY, VERSION]);
    let response = worker.0.fetch(request).await.unwrap();
    let header = [&[0x82, 0xFF][..], &u64::to_be_bytes(64 << 20), &[0; 4]].concat();
    sent.unbounded_send(Ok(header.into())).unwrap();
    assert_eq!(response.body.collect().await.unwrap()[..], [0x88, 2, 0x03, 0xF1]);
    // The socket ends when memory runs out if the message comes in fragments.
    let mut client = connect(&worker).await;
    let part = |data, is_final| {
        Message::Frame(Frame::message(vec![0; 1 << 20], OpCode::Data(data), is_final))
    };
    client.feed(part(Data::Binary, false)).await.unwrap();
    let mut sent = 1;
    while client.send(part(Data::Continue, false)).await.is_ok() {
        sent += 1;
        assert!(sent < 64, "{sent} MiB were accepted");
        tokio::task::yield_now().await;
        if worker.0.in_flight() == 0 {
            break;
        }
    }
    assert_eq!(receive_close(&mut client).await.map(|(code, _)| code), Some(1009));
    worker.0.idle().await;
}

async fn each_message_has_its_own_cpu_time(shard: Rc<Shard>) {
    let body = "on('message', ({ data }) => {
          if (data === 'loop') for (;;);
          let x = 0;
          for (let i = 0; i < 2e6; i++) x += i;
          server.send(data);
        });";
    let worker =
        shard.handler(&serving(body)).limits(|limits| limits.cpu_ms = 200).start().await.unwrap();
    let mut client = connect(&worker).await;
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(600) {
        send(&mut client, "work").await;
        assert_eq!(receive(&mut client).await, "work");
    }
    send(&mut client, "loop").await;
    assert_eq!(receive_close(&mut client).await.map(|(code, _)| code), Some(1011));
    assert!(shard.logged("cpu_limit_exceeded"));
    shard.expect_a_neighbor_to_answer().await;
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
        send(&mut client, "still here").await;
        receive(&mut client).await;
    }
    assert_eq!(receive_close(&mut client).await.map(|(code, _)| code), Some(1011));
    assert!(shard.logged("wall_limit_exceeded"));
    worker.0.idle().await;
}

async fn a_stopped_invocation_closes_its_socket_with_1011(shard: Rc<Shard>) {
    let body =
        "on('message', () => { const all = []; for (;;) all.push(new Array(1e4).fill(all)) });";
    let worker = shard
        .handler(&serving(body))
        .limits(|limits| limits.memory_mib = 16)
        .start()
        .await
        .unwrap();
    let mut client = connect(&worker).await;
    send(&mut client, "go").await;
    drop(worker);
    assert_eq!(receive_close(&mut client).await.map(|(code, _)| code), Some(1011));
}

async fn a_socket_that_is_never_accepted_ends_with_its_invocation(shard: Rc<Shard>) {
    let body = "return new Response(null, { status: 101, webSocket: new WebSocketPair()[0] })";
    let worker = shard.handler(body).start().await.unwrap();
    let mut client = connect(&worker).await;
    assert_eq!(receive_close(&mut client).await.map(|(code, _)| code), Some(1011));
    worker.0.idle().await;
}

async fn nothing_is_read_while_the_worker_is_busy(shard: Rc<Shard>) {
    // Each message is handled before the next message is read, regardless of how far ahead the
    // client sends.
    let body = "let count = 0;
        on('message', async ({ data }) => { count++; server.send(`${count}:${data.length}`) });";
    let worker = shard.handler(&serving(body)).start().await.unwrap();
    let mut client = connect(&worker).await;
    for n in 0..500 {
        client.feed(Message::text("x".repeat(n))).await.unwrap();
    }
    client.flush().await.unwrap();
    for n in 0..500 {
        assert_eq!(receive(&mut client).await, format!("{}:{n}", n + 1));
    }
}

async fn messages_to_a_client_that_does_not_read_count_as_memory(shard: Rc<Shard>) {
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
    send(&mut client, "go").await;
    await_condition("the end of the socket", || shard.logged("closed 1006 false")).await;
    assert!(shard.logged("buffered true true") && shard.logged("full"));
    worker.0.idle().await;
    assert!(worker.0.memory_bytes() < 48 << 20);
}

async fn a_flood_of_frames_does_not_affect_neighbors(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
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
        shard.expect_a_neighbor_to_answer().await;
        drop(response.body.collect().await);
    }
    worker.0.idle().await;
    assert!(worker.0.memory_bytes() < 16 << 20);
}
