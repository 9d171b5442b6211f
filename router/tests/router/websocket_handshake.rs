//! Tests the handshake of WebSockets over HTTP/1.1 and HTTP/2, and how a handshake is refused.

use http::HeaderValue;
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::InvokeHead;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::websocket::{
    KEY, connect, handshake, http2, open_http2, read, read_head, read_to_end,
};
use crate::harness::{
    Behavior, InternalCaller, Node, Scenario, WELCOME, eventually, full, head, raw,
};

/// Returns the values of a header that reached the node.
fn header_values<'a>(head: &'a InvokeHead, name: &str) -> Vec<&'a [u8]> {
    head.headers
        .iter()
        .filter(|header| header.name == name)
        .map(|header| &header.value[..])
        .collect()
}

#[tokio::test]
async fn an_http1_handshake_reaches_the_node_as_a_get_and_the_101_reaches_the_client() {
    let node = Node::start("n1", Behavior::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
    // The client sends data before it has received the response.
    stream.write_all(format!("{}early", handshake("tenon-debug: 1\r\n")).as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 switching protocols\r\n"), "{head}");
    for line in [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-protocol: chat",
        "tenon-node: n1",
    ] {
        assert_eq!(head.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {head}");
    }
    assert!(
        head.contains(&format!("sec-websocket-accept: {}\r\n", KEY.to_ascii_lowercase())),
        "{head}"
    );
    for name in ["content-length", "transfer-encoding"] {
        assert!(!head.contains(name), "{head}");
    }
    assert_eq!(read(&mut stream, WELCOME.len() + 5).await, [WELCOME, b"early"].concat());

    let head_at_node = node.last_head();
    assert_eq!(
        (head_at_node.method.as_str(), head_at_node.url.as_str()),
        ("GET", "http://shop/chat?x=1")
    );
    assert!(head_at_node.more_body && head_at_node.body.is_empty());
    assert_eq!(header_values(&head_at_node, "upgrade"), [b"websocket"]);
    assert_eq!(header_values(&head_at_node, "sec-websocket-key"), [KEY.as_bytes()]);
    assert_eq!(header_values(&head_at_node, "sec-websocket-version"), [b"13"]);
    assert_eq!(header_values(&head_at_node, "sec-websocket-protocol"), [b"chat, talk"]);
    assert!(header_values(&head_at_node, "connection").is_empty());
}

#[tokio::test]
async fn an_http2_extended_connect_reaches_the_node_as_a_get() {
    let node = Node::start("n1", Behavior::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = http2(scenario.addr()).await;
    let (headers, mut socket) = open_http2(&mut client).await;
    for absent in ["connection", "upgrade", "sec-websocket-accept", "content-length"] {
        assert!(!headers.contains_key(absent), "{headers:?}");
    }
    assert_eq!(headers["sec-websocket-protocol"], "chat");
    assert_eq!(read(&mut socket, WELCOME.len()).await, WELCOME);
    let head_at_node = node.last_head();
    assert_eq!(
        (head_at_node.method.as_str(), head_at_node.url.as_str()),
        ("GET", "http://shop/chat?x=1")
    );
    assert_eq!(header_values(&head_at_node, "upgrade"), [b"websocket"]);
    let key = header_values(&head_at_node, "sec-websocket-key");
    assert!(key.len() == 1 && key[0].len() == KEY.len() && key[0] != KEY.as_bytes(), "{key:?}");
    // Other requests use the same connection meanwhile.
    node.behave(Behavior::Echo);
    assert_eq!(client.post("/", "beside").await.body, "beside");
    socket.write_all(b"on").await.unwrap();
    assert_eq!(read(&mut socket, 2).await, b"on");
}

#[tokio::test]
async fn a_worker_that_refuses_a_tunnel_gets_an_empty_body_and_its_response_is_sent() {
    // `EchoStream` answers before it has read the body, which is pending until the answer.
    let node = Node::start("n1", Behavior::EchoStream);
    let scenario = Scenario::with(&[&node]).await;
    let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
    stream.write_all(handshake("").as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("echo-upgrade: websocket\r\n"),
        "{head}"
    );
    let mut end = [0; 5];
    stream.read_exact(&mut end).await.unwrap();
    assert_eq!(&end, b"0\r\n\r\n", "the body is not empty");
    // The connection stays usable.
    stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(
        String::from_utf8(read_to_end(&mut stream).await).unwrap().starts_with("HTTP/1.1 200 ")
    );

    let mut client = http2(scenario.addr()).await;
    // In HTTP/2 a success would mean that the Worker has accepted.
    let answer = client.send(connect("websocket").body(full("")).unwrap()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (400, "bad_request".into()));
    node.behave(Behavior::Fail(FailureCode::WorkerException));
    let answer = client.send(connect("websocket").body(full("")).unwrap()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (500, "worker_exception".into()));
    eventually("every slot to be released", || {
        scenario.metric("tenon_router_tunnels", None) == 0.0
    })
    .await;
}

#[tokio::test]
async fn a_malformed_handshake_is_refused_before_any_node_receives_it() {
    let node = Node::start("n1", Behavior::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let well_formed = handshake("connection: close\r\n");
    for (from, to, expected) in [
        ("sec-websocket-version: 13", "sec-websocket-version: 8", "HTTP/1.1 426"),
        ("sec-websocket-version: 13", "x: y", "HTTP/1.1 426"),
        (KEY, "c2hvcnQ=", "HTTP/1.1 400"),
        ("sec-websocket-key", "x", "HTTP/1.1 400"),
        ("sec-websocket-protocol: chat, talk\r\n", "content-length: 1\r\n", "HTTP/1.1 400"),
    ] {
        let answer = raw(scenario.addr(), well_formed.replace(from, to).as_bytes()).await;
        assert!(answer.starts_with(expected), "{to}: {answer}");
        assert_eq!(
            answer.contains("sec-websocket-version: 13\r\n"),
            expected.ends_with("426"),
            "{answer}"
        );
    }
    assert_eq!(node.invocations(), 0);
    let mut client = http2(scenario.addr()).await;
    let mut old = connect("websocket").body(full("")).unwrap();
    old.headers_mut().insert("sec-websocket-version", HeaderValue::from_static("8"));
    let answer = client.send(old).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("sec-websocket-version")), (426, "13"));
    let answer = client.send(connect("connect-udp").body(full("")).unwrap()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (400, "bad_request".into()));
}

#[tokio::test]
async fn an_upgrade_to_anything_else_is_ignored() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let other = "GET / HTTP/1.1\r\nhost: shop\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
    let last = other.replace("connection: upgrade", "connection: close, upgrade");
    let answer = raw(scenario.addr(), format!("{other}{last}").as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answer}");
    assert!(!answer.contains("echo-upgrade"), "{answer}");
}

#[tokio::test]
async fn an_unrequested_101_is_a_failure() {
    let node = Node::start("n1", Behavior::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let answer = scenario.client().await.get("/").await;
    assert_eq!((answer.status.as_u16(), answer.code()), (500, "internal".into()));
    let caller = InternalCaller::of(scenario.internal_addr());
    let failure = caller.call(head("shop/cart"), futures::stream::empty()).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::Internal);
}
