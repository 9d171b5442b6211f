//! Tests requests through a proxy: the data that reaches the proxy, and the errors if the proxy
//! does not open a tunnel.

use std::cell::RefCell;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use super::origin::{Authority, Origin, redirect, text};
use super::*;
use crate::error::Stage;
use crate::{Endpoint, Proxy, Resolver};

/// A proxy that connects each tunnel to 127.0.0.1, for any target host except [`NOWHERE`].
struct TunnelProxy {
    origin: Origin,
    /// The heads of the received requests.
    heads: Rc<RefCell<Vec<String>>>,
}

/// An address to which the proxy refuses tunnels.
const NOWHERE: &str = "127.0.0.9";

impl TunnelProxy {
    async fn plain() -> Self {
        Self::serve(None).await
    }

    async fn serve(tls: Option<std::sync::Arc<rustls::ServerConfig>>) -> Self {
        let heads = Rc::<RefCell<Vec<String>>>::default();
        let log = Rc::clone(&heads);
        let origin = Origin::serve_connections(move |stream| {
            let (log, tls) = (Rc::clone(&log), tls.clone());
            async move {
                match tls {
                    None => serve_tunnel(stream, &log).await,
                    Some(tls) => {
                        if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                            serve_tunnel(stream, &log).await;
                        }
                    }
                }
            }
        })
        .await;
        Self { origin, heads }
    }

    fn url(&self, userinfo: &str) -> Proxy {
        format!("http://{userinfo}127.0.0.1:{}", self.origin.port).parse().unwrap()
    }

    /// Returns the first lines of the received requests.
    fn requests(&self) -> Vec<String> {
        self.heads.borrow().iter().map(|head| head.lines().next().unwrap().to_owned()).collect()
    }
}

async fn serve_tunnel(mut stream: impl AsyncRead + AsyncWrite + Unpin, log: &RefCell<Vec<String>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let target =
        head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    log.borrow_mut().push(head);
    let Some(target) = target.filter(|target| !target.starts_with(NOWHERE)) else {
        let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\n\r\nno").await;
        return;
    };
    let port = target.rsplit_once(':').unwrap().1;
    let mut origin = TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
    stream
        .write_all(b"HTTP/1.1 200 Connection established\r\nvia: 1.1 proxy\r\n\r\n")
        .await
        .unwrap();
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut origin).await;
}

fn client_via(settings: Settings, proxy: Proxy) -> Client {
    Client::new(&settings.with_proxy(Some(proxy)), EgressMetrics::default())
}

fn trusting(authority: &Authority) -> Settings {
    Settings::isolated(
        settings().policy,
        vec![authority.root.clone()],
        hosts("127.0.0.1 origin.test"),
    )
}

/// Returns the settings of a node that reaches no private address, and on which the name
/// `inside.test` resolves to one.
fn closed() -> Settings {
    Settings::isolated(Policy::default(), Vec::new(), hosts("127.0.0.1 inside.test"))
}

#[tokio::test]
async fn both_schemes_go_through_a_tunnel_to_an_address_and_origins_see_their_names() {
    on_a_shard(async {
        let authority = Authority::new();
        let proxy = TunnelProxy::plain().await;
        let client = client_via(trusting(&authority), proxy.url(""));
        let plain =
            Origin::plain(|request| text(request.headers()["host"].to_str().unwrap())).await;
        let url = Url::parse(&format!("http://origin.test:{}/", plain.port)).unwrap();
        assert_eq!(fetch_text(&client, get(url)).await, format!("origin.test:{}", plain.port));
        let secure = Origin::serve(Some(authority.server(&["h2"])), |request| {
            Box::pin(async move { text(request.uri().host().unwrap()) })
        })
        .await;
        let url = Url::parse(&format!("https://origin.test:{}/", secure.port)).unwrap();
        assert_eq!(fetch_text(&client, get(url)).await, "origin.test");
        let connect = |port| format!("CONNECT 127.0.0.1:{port} HTTP/1.1");
        assert_eq!(proxy.requests(), [connect(plain.port), connect(secure.port)]);
    })
    .await;
}

#[tokio::test]
async fn tls_with_the_origin_is_tunneled_in_tls_with_the_proxy() {
    on_a_shard(async {
        let authority = Authority::new();
        let proxy = TunnelProxy::serve(Some(authority.server(&[]))).await;
        let url: Proxy = format!("https://origin.test:{}", proxy.origin.port).parse().unwrap();
        let client = client_via(trusting(&authority), url.clone());
        let large = "large ".repeat(100_000);
        let answer = large.clone();
        let origin = Origin::serve(Some(authority.server(&["http/1.1"])), move |_| {
            let answer = text(&answer);
            Box::pin(async move { answer })
        })
        .await;
        let target = Url::parse(&format!("https://origin.test:{}/", origin.port)).unwrap();
        assert_eq!(fetch_text(&client, get(target.clone())).await, large);
        // A proxy whose certificate is not trusted receives no request.
        let error = failure(&client_via(settings(), url), get(target)).await;
        assert_eq!(error.stage(), Stage::Proxy);
        assert!(error.to_string().contains("cannot establish TLS with the proxy"), "{error}");
        assert_eq!(proxy.requests().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_proxy_is_not_asked_for_refused_destinations() {
    on_a_shard(async {
        let (proxy, origin) =
            (TunnelProxy::plain().await, Origin::plain(|_| text("reached")).await);
        for resolver in [Resolver::Node, Resolver::Proxy] {
            // The proxy is at an address that no Worker may reach.
            let client = client_via(closed(), proxy.url("").with_resolver(resolver));
            for host in [
                "127.0.0.1",
                "[::1]",
                "0x7f.1",
                "localhost",
                "a.localhost",
                "inside.test",
                "INSIDE.test.",
            ] {
                let url = Url::parse(&format!("http://{host}:{}/", origin.port)).unwrap();
                let error = failure(&client, get(url)).await;
                assert_eq!(error.stage(), Stage::Policy, "{host}: {error}");
            }
        }
        assert_eq!((proxy.requests().len(), origin.connections.get()), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_redirect_is_judged_before_the_proxy_is_asked() {
    on_a_shard(async {
        let (proxy, inside) = (TunnelProxy::plain().await, Origin::plain(|_| text("inside")).await);
        let to = format!("http://127.0.0.2:{}/", inside.port);
        let origin = Origin::plain(move |_| redirect(302, &to)).await;
        let policy = Policy::new(vec!["127.0.0.1/32".parse().unwrap()], vec![]);
        let client =
            client_via(Settings::isolated(policy, Vec::new(), Hosts::default()), proxy.url(""));
        let error = failure(&client, get(origin.url("/"))).await;
        assert_eq!(error.stage(), Stage::Policy, "{error}");
        assert_eq!(proxy.requests().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_resolving_proxy_gets_the_name() {
    on_a_shard(async {
        let (proxy, origin) =
            (TunnelProxy::plain().await, Origin::plain(|_| text("reached")).await);
        let url = |host: &str| Url::parse(&format!("http://{host}:{}/", origin.port)).unwrap();
        let client = client_via(closed(), proxy.url("").with_resolver(Resolver::Proxy));
        for host in ["unknown.test", "UNKNOWN.test."] {
            assert_eq!(fetch_text(&client, get(url(host))).await, "reached");
        }
        let expected = format!("CONNECT unknown.test:{} HTTP/1.1", origin.port);
        assert_eq!(proxy.requests(), [expected.clone(), expected]);
        // By default, the proxy does not get names that the node cannot resolve.
        let error = failure(&client_via(closed(), proxy.url("")), get(url("unknown.test"))).await;
        assert_eq!(error.stage(), Stage::Resolve, "{error}");
    })
    .await;
}

#[tokio::test]
async fn credentials_go_to_the_proxy_alone() {
    on_a_shard(async {
        let proxy = TunnelProxy::plain().await;
        let origin = Origin::plain(|request| text(&format!("{:?}", request.headers()))).await;
        let client = client_via(settings(), proxy.url("alice:hunter2@"));
        let own = with(get(origin.url("/")), &[("proxy-authorization", "Basic b3du")]);
        let seen = fetch_text(&client, own).await;
        let head = proxy.heads.borrow()[0].to_lowercase();
        assert!(head.contains("proxy-authorization: basic ywxpy2u6ahvudgvymg=="), "{head}");
        assert!(!seen.contains("YWxpY2U6aHVudGVyMg==") && !head.contains("b3du"), "{seen} {head}");
    })
    .await;
}

#[tokio::test]
async fn tunnels_are_kept_for_the_same_origin_of_the_same_tenant() {
    on_a_shard(async {
        let (proxy, origin) = (TunnelProxy::plain().await, Origin::plain(|_| text("hi")).await);
        let other = Origin::plain(|_| text("hi")).await;
        let client = client_via(settings(), proxy.url(""));
        for tenant in ["a", "b", "a", "b"] {
            for origin in [&origin, &other] {
                let response = client.fetch(&context(tenant), get(origin.url("/"))).await.unwrap();
                body(response).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(proxy.requests().len(), 4);
    })
    .await;
}

#[tokio::test]
async fn the_next_address_is_tried_if_the_proxy_cannot_reach_the_first() {
    on_a_shard(async {
        let (proxy, origin) =
            (TunnelProxy::plain().await, Origin::plain(|_| text("reached")).await);
        let known = hosts(&format!("{NOWHERE} two.test\n127.0.0.1 two.test\n{NOWHERE} one.test"));
        let client =
            client_via(Settings::isolated(settings().policy, Vec::new(), known), proxy.url(""));
        let url = |host: &str| Url::parse(&format!("http://{host}:{}/", origin.port)).unwrap();
        assert_eq!(fetch_text(&client, get(url("two.test"))).await, "reached");
        let error = failure(&client, get(url("one.test"))).await;
        assert_eq!(error.stage(), Stage::Proxy);
        let message = error.to_string();
        assert!(
            message.contains("one.test")
                && message.contains("502 Bad Gateway")
                && !message.contains(NOWHERE),
            "{message}"
        );
    })
    .await;
}

#[tokio::test]
async fn an_error_names_the_proxy_that_refused_a_tunnel_and_the_reason() {
    on_a_shard(async {
        for (answer, why) in [
            (
                "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
                "credentials",
            ),
            ("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", "403 Forbidden"),
            ("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\n\r\n", "302 Found"),
            ("HTTP/1.1 200 OK\r\n\r\nahead", "before the node did"),
            ("SSH-2.0-Server\r\n", "the response is not that of a proxy"),
            ("", "the response is not that of a proxy"),
        ] {
            let proxy = Origin::raw(answer.as_bytes()).await;
            let url: Proxy =
                format!("http://alice:hunter2@127.0.0.1:{}", proxy.port).parse().unwrap();
            let error = failure(
                &client_via(settings(), url),
                get(Url::parse("http://origin.test/").unwrap()),
            )
            .await;
            assert_eq!(error.stage(), Stage::Proxy, "{answer:?}: {error}");
            let message = error.to_string();
            let named = format!(
                "to origin.test:80 through the platform's proxy http://127.0.0.1:{}:",
                proxy.port
            );
            assert!(
                message.contains(&named) && message.contains(why) && !message.contains("hunter2"),
                "{answer:?}: {message}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn an_error_names_an_unreachable_proxy() {
    on_a_shard(async {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let client = client_via(settings(), format!("http://127.0.0.1:{port}").parse().unwrap());
        let error =
            failure(&client, get(Url::parse("http://origin.test/").unwrap())).await.to_string();
        assert!(
            error.contains("cannot connect to the proxy") && error.contains(&port.to_string()),
            "{error}"
        );
        let client = client_via(settings(), "http://nowhere.test:3128".parse().unwrap());
        let error =
            failure(&client, get(Url::parse("http://origin.test/").unwrap())).await.to_string();
        assert!(
            error.contains("http://nowhere.test:3128") && error.contains("cannot be resolved"),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_request_through_a_proxy_that_does_not_answer_times_out() {
    on_a_shard(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = spawn_local(async move {
            let mut all = Vec::new();
            listener.accept().await.unwrap().0.read_to_end(&mut all).await.unwrap();
            String::from_utf8(all).unwrap()
        });
        let mut settings = settings();
        settings.bounds.connect_timeout = Duration::from_secs(1);
        let client = client_via(settings, format!("http://127.0.0.1:{port}").parse().unwrap());
        let error = failure(&client, get(Url::parse("http://origin.test/").unwrap())).await;
        assert!(error.to_string().contains("longer than 1s"), "{error}");
        // The connection to the proxy is closed with the request.
        assert!(received.await.unwrap().starts_with("CONNECT "));
    })
    .await;
}

#[tokio::test]
async fn a_socket_goes_through_a_tunnel_to_its_port() {
    on_a_shard(async {
        let proxy = TunnelProxy::plain().await;
        let server = Origin::serve_connections(|mut stream| async move {
            let (mut reader, mut writer) = stream.split();
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        })
        .await;
        for (resolver, target) in
            [(Resolver::Node, "127.0.0.1"), (Resolver::Proxy, "elsewhere.test")]
        {
            let client = client_via(settings(), proxy.url("").with_resolver(resolver));
            let host = if resolver == Resolver::Node { "origin.test" } else { target };
            let endpoint = Endpoint::new(host, server.port).unwrap();
            let mut socket = client.connect(&context("shop"), endpoint, false).await.unwrap();
            socket.write_all(b"echo").await.unwrap();
            let mut answer = [0; 4];
            socket.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"echo");
            let connect = format!("CONNECT {target}:{} HTTP/1.1", server.port);
            assert_eq!(proxy.requests().last(), Some(&connect));
        }
        let resolving = proxy.url("").with_resolver(Resolver::Proxy);
        let host = url::Host::parse("elsewhere.test").unwrap();
        let error = client_via(settings(), resolving).resolve(&context("shop"), host).await;
        assert_eq!(error.unwrap_err().stage(), Stage::Resolve);
        let client = client_via(closed(), proxy.url(""));
        let endpoint = Endpoint::new("inside.test", server.port).unwrap();
        let error = client.connect(&context("shop"), endpoint, false).await.err().unwrap();
        assert_eq!(error.stage(), Stage::Policy, "{error}");
    })
    .await;
}
