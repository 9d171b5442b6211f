//! Tests sockets: TCP connections over which the Worker itself speaks any protocol.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::origin::{Authority, Origin};
use super::*;
use crate::error::Stage;
use crate::{Authorities, Endpoint, Socket};

fn endpoint(host: &str, origin: &Origin) -> Endpoint {
    Endpoint::new(host, origin.port).unwrap()
}

async fn connect(client: &Client, endpoint: Endpoint) -> Result<Socket, EgressError> {
    client.connect(&context("shop"), endpoint, false).await
}

async fn refusal(client: &Client, endpoint: Endpoint) -> EgressError {
    connect(client, endpoint).await.err().expect("the socket was opened")
}

/// Returns everything that the peer sends until it ends its direction.
async fn read_all(socket: &mut Socket) -> String {
    let mut all = String::new();
    socket.read_to_string(&mut all).await.unwrap();
    all
}

/// Answers, once the peer has ended its direction, with all that it has sent.
async fn echo(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let mut all = Vec::new();
    if stream.read_to_end(&mut all).await.is_ok() {
        let _ = stream.write_all(&all).await;
        let _ = stream.shutdown().await;
    }
}

/// Starts a server that exchanges a line in plain text and then runs [`echo`] over TLS.
async fn upgradable(authority: &Authority) -> Origin {
    let acceptor = TlsAcceptor::from(authority.server(&[]));
    Origin::serve_connections(move |mut stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut line = [0; 9];
            let _ = stream.read_exact(&mut line).await;
            let _ = stream.write_all(b"go ahead\n").await;
            if let Ok(stream) = acceptor.accept(stream).await {
                echo(stream).await;
            }
        }
    })
    .await
}

fn trusting(authority: &Authority) -> Client {
    let known = hosts("127.0.0.1 origin.test other.test");
    let settings = Settings::isolated(settings().policy, vec![authority.root.clone()], known);
    Client::new(&settings, EgressMetrics::default())
}

#[test]
fn an_endpoint_has_a_host_as_in_a_url_and_a_port() {
    for (host, same) in [
        ("DB.example.com", "db.example.com"),
        ("0x7f.1", "127.0.0.1"),
        ("::1", "[::1]"),
        ("\u{ff11}\u{ff12}\u{ff17}.0.0.1", "127.0.0.1"),
    ] {
        assert_eq!(Endpoint::new(host, 1), Endpoint::new(same, 1), "{host}");
    }
    for host in ["", "a b", "a/b", "a@b", "user:password", "[::1", "1.2.3.4.5", "a:80"] {
        assert_eq!(Endpoint::new(host, 80), None, "{host}");
    }
    assert_eq!(Endpoint::new("db.example.com", 0), None);
}

#[tokio::test]
async fn each_direction_ends_on_its_own_and_bytes_are_counted() {
    on_a_shard(async {
        let server = Origin::serve_connections(echo).await;
        let metrics = EgressMetrics::default();
        let client = Client::new(&settings(), metrics.clone());
        let mut socket = connect(&client, endpoint("origin.test", &server)).await.unwrap();
        assert_eq!(metrics.open.get(), 1);
        socket.write_all(b"hello").await.unwrap();
        socket.shutdown().await.unwrap();
        assert_eq!(read_all(&mut socket).await, "hello");
        assert_eq!((metrics.sent.get(), metrics.received.get()), (5, 5));
        drop(socket);
        assert_eq!(metrics.open.get(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_dropped_socket_closes_its_connection() {
    on_a_shard(async {
        let server = Origin::serve_connections(echo).await;
        let socket = connect(&client(), endpoint("127.0.0.1", &server)).await.unwrap();
        until(|| server.open.get() == 1).await;
        drop(socket);
        until(|| server.open.get() == 0).await;
    })
    .await;
}

#[tokio::test]
async fn tls_begins_at_once_or_later() {
    on_a_shard(async {
        let authority = Authority::new();
        let client = trusting(&authority);
        let acceptor = TlsAcceptor::from(authority.server(&["h2"]));
        let secure = Origin::serve_connections(move |stream: TcpStream| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    echo(stream).await;
                }
            }
        })
        .await;
        let opened = client.connect(&context("shop"), endpoint("origin.test", &secure), true).await;
        let mut socket = opened.unwrap();
        socket.write_all(b"in secret").await.unwrap();
        socket.shutdown().await.unwrap();
        assert_eq!(read_all(&mut socket).await, "in secret");

        let server = upgradable(&authority).await;
        let mut socket = connect(&client, endpoint("origin.test", &server)).await.unwrap();
        socket.write_all(b"starttls\n").await.unwrap();
        let mut line = [0; 9];
        socket.read_exact(&mut line).await.unwrap();
        assert!(!socket.is_secure());
        let mut socket = client.start_tls(socket, None, None).await.unwrap();
        assert!(socket.is_secure());
        socket.write_all(b"later").await.unwrap();
        socket.shutdown().await.unwrap();
        assert_eq!(read_all(&mut socket).await, "later");
    })
    .await;
}

#[tokio::test]
async fn a_certificate_must_name_the_endpoint_or_the_given_host() {
    on_a_shard(async {
        let authority = Authority::new();
        let client = trusting(&authority);
        let name = |name| Some(url::Host::parse(name).unwrap());
        for (host, expected, is_valid) in [
            ("origin.test", None, true),
            ("other.test", None, false),
            ("other.test", name("origin.test"), true),
            ("origin.test", name("other.test"), false),
        ] {
            let server = upgradable(&authority).await;
            let mut socket = connect(&client, endpoint(host, &server)).await.unwrap();
            socket.write_all(b"starttls\n").await.unwrap();
            socket.read_exact(&mut [0; 9]).await.unwrap();
            let secured = client.start_tls(socket, expected.clone(), None).await;
            assert_eq!(secured.is_ok(), is_valid, "{host} {expected:?}");
            if let Err(error) = secured {
                assert_eq!(error.stage(), Stage::Tls, "{error}");
            }
        }
        let stranger = trusting(&Authority::new());
        let server = upgradable(&authority).await;
        let secured =
            stranger.connect(&context("shop"), endpoint("origin.test", &server), true).await;
        assert_eq!(secured.err().unwrap().stage(), Stage::Tls);
    })
    .await;
}

#[tokio::test]
async fn given_authorities_replace_the_nodes() {
    on_a_shard(async {
        let (authority, stranger) = (Authority::new(), Authority::new());
        for (of_node, given, is_valid) in [
            (&stranger, &authority.root_pem, true),
            (&authority, &stranger.root_pem, false),
            (&stranger, &format!("{}\n{}", stranger.root_pem, authority.root_pem), true),
        ] {
            let client = trusting(of_node);
            let server = upgradable(&authority).await;
            let mut socket = connect(&client, endpoint("origin.test", &server)).await.unwrap();
            socket.write_all(b"starttls\n").await.unwrap();
            socket.read_exact(&mut [0; 9]).await.unwrap();
            let secured = client.start_tls(socket, None, Authorities::from_pem(given.as_bytes()));
            assert_eq!(secured.await.is_ok(), is_valid);
        }
        for malformed in
            ["", "text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
        {
            assert!(Authorities::from_pem(malformed.as_bytes()).is_none(), "{malformed}");
        }
    })
    .await;
}

#[tokio::test]
async fn internal_addresses_are_refused_unless_the_node_allows_them() {
    on_a_shard(async {
        let server = Origin::serve_connections(echo).await;
        let known = hosts("127.0.0.1 inside.test\n169.254.169.254 metadata.test");
        let settings = Settings::isolated(Policy::default(), Vec::new(), known);
        let closed = Client::new(&settings, EgressMetrics::default());
        for host in [
            "127.0.0.1",
            "0x7f.1",
            "2130706433",
            "::1",
            "::ffff:127.0.0.1",
            "[64:ff9b::127.0.0.1]",
            "localhost",
            "inside.test",
            "INSIDE.test.",
            "metadata.test",
            "169.254.169.254",
            "fd00:ec2::254",
            "10.1.2.3",
        ] {
            let error = refusal(&closed, endpoint(host, &server)).await;
            assert_eq!(error.stage(), Stage::Policy, "{host}: {error}");
            assert!(error.to_string().contains("--egress-allow"), "{error}");
        }
        let error = refusal(&client(), endpoint("169.254.169.254", &server)).await;
        assert!(error.to_string().contains("metadata service"), "{error}");
        assert_eq!(server.connections.get(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_workers_own_list_applies_to_sockets_with_their_ports() {
    on_a_shard(async {
        let server = Origin::serve_connections(echo).await;
        let client = client();
        for (pattern, is_allowed) in [
            ("origin.test".to_owned(), true),
            (format!("*.test:{}", server.port), true),
            ("origin.test:5432".to_owned(), false),
            ("other.test".to_owned(), false),
        ] {
            let egress = Rc::new(Egress::Only(vec![pattern.parse().unwrap()]));
            let context = EgressContext { egress, ..context("shop") };
            let opened = client.connect(&context, endpoint("origin.test", &server), false).await;
            assert_eq!(opened.is_ok(), is_allowed, "{pattern}");
            if let Err(error) = opened {
                assert!(error.to_string().contains("spec.egress.allow"), "{error}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn only_the_port_of_mail_delivery_is_refused() {
    on_a_shard(async {
        let error = refusal(&client(), Endpoint::new("127.0.0.1", 25).unwrap()).await;
        assert_eq!(error.stage(), Stage::Policy);
        assert!(error.to_string().contains("465 or 587"), "{error}");
        // A fetch to this port is refused, because a fetch speaks HTTP; a socket may use the port.
        let error = refusal(&client(), Endpoint::new("127.0.0.1", 1).unwrap()).await;
        assert_eq!(error.stage(), Stage::Connect, "{error}");
    })
    .await;
}

#[tokio::test]
async fn sockets_count_as_subrequests_and_as_open_responses() {
    on_a_shard(async {
        let server = Origin::serve_connections(echo).await;
        let client = client();
        let mut all = Vec::new();
        for _ in 0..256 {
            all.push(connect(&client, endpoint("127.0.0.1", &server)).await.unwrap());
        }
        let error = refusal(&client, endpoint("127.0.0.1", &server)).await;
        assert!(error.to_string().contains("socket.close()"), "{error}");
        all.pop();
        connect(&client, endpoint("127.0.0.1", &server)).await.unwrap();

        let budget = Rc::new(FixedBudget { subrequests: Cell::new(1), memory: 64 << 20 });
        let context = EgressContext { budget, ..context("other") };
        let mut stages = Vec::new();
        for _ in 0..2 {
            let opened = client.connect(&context, endpoint("127.0.0.1", &server), false).await;
            stages.push(opened.err().map(|error| error.stage()));
        }
        assert_eq!(stages, [None, Some(Stage::Limit)]);
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_sends_faster_than_the_socket_is_read_has_to_wait() {
    on_a_shard(async {
        let written = Rc::<Cell<usize>>::default();
        let count = Rc::clone(&written);
        let server = Origin::serve_connections(move |mut stream| {
            let count = Rc::clone(&count);
            async move {
                socket2::SockRef::from(&stream).set_send_buffer_size(64 * 1024).unwrap();
                let piece = [0; 16 * 1024];
                while let Ok(bytes @ 1..) = stream.write(&piece).await {
                    count.set(count.get() + bytes);
                }
            }
        })
        .await;
        let mut socket = connect(&client(), endpoint("127.0.0.1", &server)).await.unwrap();
        let mut buffer = vec![0; 64 * 1024];
        // Reading quickly does not make the buffers grow.
        for _ in 0..1000 {
            socket.read_exact(&mut buffer).await.unwrap();
        }
        let mut before = 0;
        while before < written.get() {
            before = written.get();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let ahead = written.get() - 1000 * buffer.len();
        assert!(ahead < 1 << 20, "{ahead} bytes were sent ahead");
    })
    .await;
}
