//! Tests of a node with a front: the threads of its shards serve clients, run the Workers of their
//! own shard inline, and forward other requests.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use prometheus::Registry;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::Readiness;
use tenon_runtime_node::config::{Config, ListenConfig};
use tenon_runtime_node::node::Node;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::harness::catalog::Catalog;
use crate::harness::front::{HttpResponse, exchange, front_config, read};
use crate::harness::supervised::SupervisedNode;
use crate::harness::{TestNode, await_condition, trials};

trials! {
    a_worker_of_the_threads_own_shard_runs_without_a_connection,
    the_worker_gets_the_same_request_as_through_a_router,
    a_connection_moves_to_the_thread_that_runs_its_first_worker,
    later_requests_for_other_shards_are_forwarded,
    bodies_stream_in_both_directions,
    a_body_above_the_limit_is_refused,
    a_client_of_a_front_that_disconnects_cancels_the_invocation,
    a_client_of_a_front_that_disconnects_cancels_its_response,
    limits_end_an_inline_invocation_and_not_its_neighbors,
    a_shard_without_permits_sheds_inline_requests,
    a_web_socket_exchanges_messages,
    calls_between_workers_pass_through_the_front,
    a_drain_answers_clients_first_and_ends_their_connections,
    a_node_with_a_front_is_ready_only_with_the_catalog,
    a_process_of_a_shard_serves_clients_and_forwards_to_its_lane,
    clients_wait_while_the_process_of_a_shard_restarts,
    connections_are_handed_between_the_processes_of_shards,
}

/// The arguments of a node of several processes with a front.
const FRONT: &[&str] = &["--front", "127.0.0.1:0", "--debug-headers", "--drain-linger", "0"];

async fn a_worker_of_the_threads_own_shard_runs_without_a_connection(name: &'static str) {
    let node = TestNode::with_front(name, 1, |_| {}).await;
    let worker = node.handler("hello", "return new Response('hello')");
    node.publish(&worker, "hello").await;
    for _ in 0..3 {
        let answer = node.ask("hello").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "hello"), "{answer:?}");
        assert!(answer.head.contains("tenon-shard: 0"), "{answer:?}");
    }
    assert_eq!(node.metric("tenon_router_shard_connections", &[]), 0);
    assert_eq!(node.metric("tenon_shard_inflight", &[]), 0);
    assert_eq!(node.ask("nowhere").await.status, 404);
}

async fn the_worker_gets_the_same_request_as_through_a_router(name: &'static str) {
    let node = TestNode::with_front(name, 1, |_| {}).await;
    let worker = node.handler(
        "mirror",
        "const of = (name) => request.headers.get(name);
         return new Response([request.method, request.url, of('x-request-id'), of('x-forwarded-for'),
           of('x-forwarded-proto'), of('x-own'), of('tenon-forged'), await request.text()].join())",
    );
    node.publish(&worker, "mirror").await;
    let request = "POST /a?b=c HTTP/1.1\r\nhost: mirror\r\nx-request-id: 7\r\nx-own: yes\r\n\
        tenon-forged: yes\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbody";
    let answer = exchange(node.front(), request).await;
    assert_eq!(answer.body, "POST,http://mirror/a?b=c,7,127.0.0.1,http,yes,,body");
}

/// Deploys Workers until there is one on each of two shards. Returns their hosts, by shard.
async fn one_on_each_shard(node: &TestNode) -> [String; 2] {
    let mut hosts = [const { None }; 2];
    for i in 0.. {
        let (worker, host) = (format!("worker-{i}"), format!("host-{i}"));
        let deployed = node.handler(&worker, "return new Response(new URL(request.url).hostname)");
        node.publish(&deployed, &host).await;
        let pin = node.node().front().unwrap().pinned(&deployed.worker).unwrap();
        hosts[usize::from(pin.shard.position())] = Some(host);
        if let [Some(first), Some(second)] = &hosts {
            return [first.clone(), second.clone()];
        }
    }
    unreachable!()
}

async fn a_connection_moves_to_the_thread_that_runs_its_first_worker(name: &'static str) {
    let node = TestNode::with_front(name, 2, |_| {}).await;
    let hosts = one_on_each_shard(&node).await;
    // The kernel chooses the thread of each connection.
    for _ in 0..16 {
        for (shard, host) in hosts.iter().enumerate() {
            let HttpResponse { status, head, body } = node.ask(host).await;
            assert_eq!((status, &body), (200, host), "{head}");
            assert!(head.contains(&format!("tenon-shard: {shard}")), "{head}");
        }
    }
    assert_eq!(node.metric("tenon_router_shard_connections", &[]), 0);
}

async fn later_requests_for_other_shards_are_forwarded(name: &'static str) {
    let node = TestNode::with_front(name, 2, |_| {}).await;
    let [first, second] = one_on_each_shard(&node).await;
    for hosts in [[&first, &second], [&second, &first]] {
        let requests = hosts.map(|host| format!("GET / HTTP/1.1\r\nhost: {host}\r\n"));
        let requests = format!("{0}\r\n{1}connection: close\r\n\r\n", requests[0], requests[1]);
        let answers = exchange(node.front(), requests).await;
        assert_eq!(answers.status, 200, "{answers:?}");
        // The body of the first response precedes the second response.
        let (one, other) = answers.body.split_once("HTTP/1.1 200").unwrap();
        assert!(one == hosts[0] && other.ends_with(hosts[1].as_str()), "{answers:?}");
    }
    assert_eq!(node.metric("tenon_router_shard_connections", &[]), 2);
}

async fn bodies_stream_in_both_directions(name: &'static str) {
    let node = TestNode::with_front(name, 1, |_| {}).await;
    let worker = node
        .handler("echo", "return new Response(request.body.pipeThrough(new TransformStream()))");
    node.publish(&worker, "echo").await;
    let mut stream = TcpStream::connect(node.front()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: echo\r\ntransfer-encoding: chunked\r\n\
        connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = String::new();
    // Each piece comes back before the next one is sent.
    for piece in ["first", "second"] {
        stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await.unwrap();
        while !received.contains(piece) {
            let mut space = [0; 1024];
            let len = stream.read(&mut space).await.unwrap();
            assert!(len > 0, "the response ended early: {received}");
            received.push_str(std::str::from_utf8(&space[..len]).unwrap());
        }
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert!(received.starts_with("HTTP/1.1 200"), "{received}");

    let large = "x".repeat(900_000);
    let head = format!(
        "POST / HTTP/1.1\r\nhost: echo\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        large.len()
    );
    let answer = exchange(node.front(), head + &large).await;
    let received = answer.body.bytes().filter(|byte| *byte == b'x').count();
    assert_eq!((answer.status, received), (200, large.len()), "{}", answer.head);
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_body_above_the_limit_is_refused(name: &'static str) {
    let node = TestNode::with_front(name, 1, |_| {}).await;
    let worker = node.handler_with(
        "reads",
        "return new Response(String((await request.text()).length))",
        |limits| limits.request_body_mib = 1,
    );
    node.publish(&worker, "reads").await;
    let announced =
        "POST / HTTP/1.1\r\nhost: reads\r\ncontent-length: 2000000\r\nconnection: close\r\n\r\n";
    let answer = exchange(node.front(), announced).await;
    assert!(answer.status == 413 && answer.body.contains("request_too_large"), "{answer:?}");
}

async fn a_client_of_a_front_that_disconnects_cancels_the_invocation(name: &'static str) {
    let node = TestNode::with_front(name, 1, |_| {}).await;
    let worker = node.handler(
        "waits",
        "request.signal.addEventListener('abort', () => console.log('the client has left'));
         await new Promise((resolve) => setTimeout(resolve, 20_000));
         return new Response()",
    );
    node.publish(&worker, "waits").await;
    let mut stream = TcpStream::connect(node.front()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: waits\r\n\r\n").await.unwrap();
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    drop(stream);
    await_condition("the abort", || node.logged("the client has left")).await;
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_client_of_a_front_that_disconnects_cancels_its_response(name: &'static str) {
    let node = TestNode::with_front(name, 1, |_| {}).await;
    let worker = node.handler(
        "endless",
        "let ticks;
         return new Response(new ReadableStream({
           start(controller) { ticks = setInterval(() => controller.enqueue(new Uint8Array(1)), 5) },
           cancel() { clearInterval(ticks); console.log('the reader has left') } }))",
    );
    node.publish(&worker, "endless").await;
    let mut stream = TcpStream::connect(node.front()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: endless\r\n\r\n").await.unwrap();
    stream.read_u8().await.unwrap();
    assert_eq!(node.metric("tenon_shard_inflight", &[]), 1);
    drop(stream);
    await_condition("the cancellation", || node.logged("the reader has left")).await;
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn limits_end_an_inline_invocation_and_not_its_neighbors(name: &'static str) {
    let node = TestNode::with_front(name, 1, |_| {}).await;
    let hello = node.handler("hello", "return new Response('hello')");
    let spins = node.handler_with("spins", "for (;;);", |limits| limits.cpu_ms = 20);
    let sleeps = node.handler_with(
        "sleeps",
        "await new Promise(() => setTimeout(() => {}, 60_000)); return new Response()",
        |limits| limits.wall_ms = 50,
    );
    node.publish(&hello, "hello").await;
    node.publish(&spins, "spins").await;
    node.publish(&sleeps, "sleeps").await;
    for (host, code) in [("spins", "cpu_limit_exceeded"), ("sleeps", "wall_limit_exceeded")] {
        let answer = node.ask(host).await;
        assert!(answer.status >= 500 && answer.body.contains(code), "{answer:?}");
        assert_eq!(node.ask("hello").await.body, "hello");
    }
}

async fn a_shard_without_permits_sheds_inline_requests(name: &'static str) {
    let node = TestNode::with_front(name, 1, |config| config.admission.max_waiting = 0).await;
    let worker = node.handler_with(
        "one",
        "return new Response(new ReadableStream({ start() { setTimeout(() => {}, 20_000) } }))",
        |limits| limits.concurrency = 1,
    );
    node.publish(&worker, "one").await;
    let mut first = TcpStream::connect(node.front()).await.unwrap();
    first.write_all(b"GET / HTTP/1.1\r\nhost: one\r\n\r\n").await.unwrap();
    first.read_u8().await.unwrap();
    let shed = node.ask("one").await;
    assert!(shed.status == 503 && shed.body.contains("overloaded"), "{shed:?}");
    assert!(shed.head.contains("retry-after"), "{shed:?}");
    drop(first);
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_web_socket_exchanges_messages(name: &'static str) {
    let node = TestNode::with_front(name, 1, |_| {}).await;
    let worker = node.handler(
        "echo",
        "const { 0: client, 1: server } = new WebSocketPair();
         server.accept();
         server.addEventListener('message', ({ data }) => server.send(data + '!'));
         server.addEventListener('close', ({ code }) => console.log(`closed: ${code}`));
         return new Response(null, { status: 101, webSocket: client })",
    );
    node.publish(&worker, "echo").await;
    let mut stream = TcpStream::connect(node.front()).await.unwrap();
    let handshake = "GET / HTTP/1.1\r\nhost: echo\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(handshake.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", head.escape_ascii());
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    for text in ["one", "two"] {
        socket.send(Message::text(text)).await.unwrap();
        let echo = socket.next().await.unwrap().unwrap();
        assert_eq!(echo.into_text().unwrap().as_str(), format!("{text}!"));
    }
    assert_eq!(node.metric("tenon_shard_inflight", &[]), 0, "a tunnel holds a request's permit");
    socket.close(None).await.unwrap();
    while socket.next().await.is_some_and(|message| message.is_ok()) {}
    await_condition("the close", || node.logged("closed: ")).await;
}

async fn calls_between_workers_pass_through_the_front(name: &'static str) {
    let node = TestNode::with_front(name, 2, |_| {}).await;
    let callee = node.handler("callee", "return new Response('called')");
    let caller = node.caller("caller", "return env.OTHER.fetch(request)", "callee");
    node.publish(&callee, "callee").await;
    node.publish(&caller, "caller").await;
    for _ in 0..8 {
        let answer = node.ask("caller").await;
        assert!(answer.status == 200 && answer.body.contains("called"), "{answer:?}");
    }
}

async fn a_drain_answers_clients_first_and_ends_their_connections(name: &'static str) {
    let mut node = TestNode::with_front(name, 1, |config| {
        config.front.as_mut().unwrap().router.drain_linger = Duration::from_secs(3);
    })
    .await;
    let worker = node.handler(
        "waits",
        "const text = await request.text(); return new Response(text || 'served')",
    );
    node.publish(&worker, "waits").await;
    let (front, mut waiting) = (node.front(), TcpStream::connect(node.front()).await.unwrap());
    let head = "POST / HTTP/1.1\r\nhost: waits\r\ntransfer-encoding: chunked\r\n\r\n";
    waiting.write_all(head.as_bytes()).await.unwrap();
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    node.begin_drain();
    await_condition("the drain", || node.readiness.waiting().contains(&"drain".to_owned())).await;

    // Clients that do not know of the drain yet are served, and told to connect elsewhere.
    let request = "GET / HTTP/1.1\r\nhost: waits\r\n\r\n";
    let answer = exchange(front, request).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "served"), "{answer:?}");
    assert!(answer.head.contains("connection: close"), "{answer:?}");
    // The request in flight is answered too.
    waiting.write_all(b"4\r\nbody\r\n0\r\n\r\n").await.unwrap();
    let answer = read(waiting).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "body"), "{answer:?}");
    assert_eq!(node.metric("tenon_shed_total", &[("reason", "draining")]), 0);
}

async fn a_node_with_a_front_is_ready_only_with_the_catalog(name: &'static str) {
    let mut catalog = Catalog::start();
    catalog.stop();
    let config = Config::new(name.to_owned(), catalog.url().parse().unwrap());
    let front = front_config(&config);
    let config = Config {
        listen: ListenConfig {
            ip: [127, 0, 0, 1].into(),
            shard_port: 0,
            shards: 1,
            ..ListenConfig::default()
        },
        front: Some(front),
        ..config
    };
    let (readiness, (signal, drain)) = (Readiness::new(), drain::channel());
    let node = Node::spawn(config, drain, &Registry::new(), &readiness).unwrap();
    await_condition("the shard", || readiness.waiting() == ["catalog"]).await;
    catalog.restart();
    readiness.ready().await;
    drop(signal);
    tokio::task::spawn_blocking(|| node.join()).await.unwrap();
}

async fn a_process_of_a_shard_serves_clients_and_forwards_to_its_lane(name: &'static str) {
    let node = SupervisedNode::with(name, FRONT).await;
    let known = node.known("light", "return new Response('light')").await;
    let unknown = node.handler_within("heavy", "return new Response('heavy')", 30_000);
    node.announce(&known, "light").await;
    node.announce(&unknown, "heavy").await;
    loop {
        let HttpResponse { status, head, body } = node.ask("light").await;
        assert_eq!((status, body.as_str()), (200, "light"), "{head}");
        // A revision whose start was slow may return to the lane for a while.
        if head.contains("tenon-shard: 0") {
            break;
        }
    }
    let HttpResponse { status, head, body } = node.ask("heavy").await;
    assert_eq!((status, body.as_str()), (200, "heavy"), "{head}");
    assert!(head.contains("tenon-shard: lane-0"), "{head}");
    node.await_line("tenon_router_shard_connections{shard=\"0\",thread=\"0\"} 1").await;
}

async fn clients_wait_while_the_process_of_a_shard_restarts(name: &'static str) {
    let node = SupervisedNode::with(name, FRONT).await;
    let worker = node.handler("light", "return new Response('light')");
    node.announce(&worker, "light").await;
    node.signal("0", "-KILL");
    node.await_line("tenon_node_process_exits_total{cause=\"killed\",process=\"shard-0\"} 1").await;
    let answer = node.ask("light").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "light"), "{answer:?}");
}

async fn connections_are_handed_between_the_processes_of_shards(name: &'static str) {
    let more: Vec<_> = FRONT.iter().copied().chain(["--shards", "2"]).collect();
    let node = SupervisedNode::with(name, &more).await;
    let worker = node.handler("light", "return new Response('light')");
    node.announce(&worker, "light").await;
    // Each process learns of the Worker by itself, and a revision whose start was slow stays in the
    // lane for a while. Until then, connections stay where they arrive.
    let (mut served, mut before) = (1, [0; 2]);
    loop {
        let enough = served + 24;
        while served < enough {
            let answer = node.ask("light").await;
            if answer.status != 404 {
                assert_eq!((answer.status, answer.body.as_str()), (200, "light"), "{answer:?}");
                served += 1;
            }
        }
        let after = loop {
            let by_shard = served_by_shards(&node).await;
            // Threads publish their counts with a delay.
            if by_shard.iter().sum::<u64>() == served {
                break by_shard;
            }
            tokio::task::yield_now().await;
        };
        if after.iter().zip(before).any(|(after, before)| *after == before) {
            break;
        }
        before = after;
    }
}

/// Returns the number of successful requests that the front of each of two shards has served.
async fn served_by_shards(node: &SupervisedNode) -> [u64; 2] {
    let page = node.metrics().await;
    ["0", "1"].map(|shard| {
        let labels = format!("{{shard=\"{shard}\",code=\"2xx\"}} ");
        let count = page.lines().find_map(|line| {
            line.strip_prefix("tenon_router_requests_total")?.strip_prefix(&labels)
        });
        count.map_or(0, |count| count.parse().unwrap())
    })
}
