//! Tests clients that use TLS.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Method, StatusCode};
use prometheus::Registry;
use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tenon_proto::catalog::{GatewayCertificate, WatchResponse};
use tenon_router::{Https, HttpsSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{
    Behavior, Client, DEADLINE, Node, Options, Scenario, Secured, eventually, full, issue,
};

/// A client that trusts one certificate.
struct Browser(Arc<ClientConfig>);

impl Browser {
    fn trusting(issued: &CertifiedKey<KeyPair>, alpn: &[&str]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(issued.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self(Arc::new(config))
    }

    async fn connect(&self, addr: SocketAddr, host: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(addr).await?;
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let connector = TlsConnector::from(Arc::clone(&self.0));
        tokio::time::timeout(DEADLINE, connector.connect(name, stream)).await.unwrap()
    }
}

/// Connects a client with this protocol.
pub(crate) async fn client(
    issued: &CertifiedKey<KeyPair>,
    addr: SocketAddr,
    protocol: &str,
) -> Client {
    let stream = Browser::trusting(issued, &[protocol]).connect(addr, "shop").await.unwrap();
    match protocol {
        "h2" => Client::http2_on(stream).await,
        _ => Client::http1_on(stream).await,
    }
}

#[tokio::test]
async fn a_worker_sees_the_scheme_that_its_client_used() {
    let (secured, issued) = Secured::with(&["shop"], HttpsSettings::default()).await;
    let browser = Browser::trusting(&issued[0], &["http/1.1"]);
    let mut client = Client::http1_on(browser.connect(secured.addr(), "shop").await.unwrap()).await;
    let answer = client.get("/a?b").await;
    assert_eq!(answer.header("observed-url"), "https://shop/a?b");
    assert_eq!(answer.header("echo-x-forwarded-proto"), "https");

    let browser = Browser::trusting(&issued[0], &["h2"]);
    let stream = browser.connect(secured.addr(), "shop").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = Client::http2_on(stream).await;
    assert_eq!(client.get("/").await.header("observed-url"), "https://shop/");

    let mut plain = secured.scenario.client().await;
    assert_eq!(plain.get("/").await.header("observed-url"), "http://shop/");
}

#[tokio::test]
async fn a_large_body_passes_in_both_directions() {
    let (secured, issued) = Secured::with(&["shop"], HttpsSettings::default()).await;
    let browser = Browser::trusting(&issued[0], &[]);
    let mut client = Client::http1_on(browser.connect(secured.addr(), "shop").await.unwrap()).await;
    let body = vec![b'x'; 8 << 20];
    secured.node.behave(Behavior::EchoStream);
    assert_eq!(client.post("/", body.clone()).await.body, body);
    assert_eq!(client.post("/", "next").await.body, "next");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (secured, issued) = Secured::with(&["shop"], HttpsSettings::default()).await;
    let browser = Browser::trusting(&issued[0], &["http/1.1"]);
    let mut stream = browser.connect(secured.addr(), "shop").await.unwrap();
    let plain = |i| format!("GET /{i} HTTP/1.1\r\nhost: shop\r\nx: {}\r\n\r\n", "y".repeat(900));
    let sent: String = (0..50).map(plain).collect();
    let last = "GET /50 HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n";
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let mut answer = String::new();
    let both = async {
        tokio::join!(async { writer.write_all((sent + last).as_bytes()).await.unwrap() }, async {
            reader.read_to_string(&mut answer).await.unwrap()
        },)
    };
    tokio::time::timeout(DEADLINE, both).await.expect("the connection did not close");
    let urls = answer.lines().filter_map(|line| line.strip_prefix("observed-url: https://shop/"));
    assert!(urls.eq((0..=50).map(|i| i.to_string())), "{answer}");
}

#[tokio::test]
async fn a_client_gets_the_certificate_of_the_host_that_it_requests() {
    let (secured, issued) = Secured::with(&["bank", "shop"], HttpsSettings::default()).await;
    for (host, certificate) in ["bank", "shop"].into_iter().zip(&issued) {
        let browser = Browser::trusting(certificate, &[]);
        browser.connect(secured.addr(), host).await.unwrap();
    }
    let other = Browser::trusting(&issued[0], &[]);
    assert!(
        other.connect(secured.addr(), "shop").await.is_err(),
        "the shop has the certificate of the bank"
    );
}

#[tokio::test]
async fn a_client_resumes_its_session_on_every_thread() {
    let (secured, issued) = Secured::with(&["shop"], HttpsSettings::default()).await;
    let browser = Browser::trusting(&issued[0], &["http/1.1"]);
    let mut kinds = Vec::new();
    for _ in 0..8 {
        let stream = browser.connect(secured.addr(), "shop").await.unwrap();
        kinds.push(stream.get_ref().1.handshake_kind().unwrap());
        // The tickets arrive with the first response.
        Client::http1_on(stream).await.get("/").await;
    }
    assert_eq!(kinds[0], HandshakeKind::Full);
    assert!(kinds[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{kinds:?}");
}

#[tokio::test]
async fn a_renewed_certificate_is_presented_and_a_broken_one_is_not() {
    let (secured, issued) = Secured::with(&["shop"], HttpsSettings::default()).await;
    let folder = secured.folders.path().join("shop");
    fs::write(folder.join("tls.key"), "no key").unwrap();
    let added = issue(&secured.folders.path().join("new"), "new");
    // The router reads all folders together. When it presents the added certificate, it has also
    // read the broken one.
    let (browser, addr) = (Browser::trusting(&added, &[]), secured.addr());
    let started = std::time::Instant::now();
    while browser.connect(addr, "new").await.is_err() {
        assert!(started.elapsed() < DEADLINE, "the added certificate is not presented");
    }
    Browser::trusting(&issued[0], &[]).connect(addr, "shop").await.unwrap();

    let renewed = Browser::trusting(&issue(&folder, "shop"), &[]);
    let started = std::time::Instant::now();
    while renewed.connect(addr, "shop").await.is_err() {
        assert!(started.elapsed() < DEADLINE, "the renewed certificate is not presented");
    }
}

#[tokio::test]
async fn requests_without_tls_are_redirected() {
    let settings = HttpsSettings { redirect: Some(8443), ..HttpsSettings::default() };
    let (secured, issued) = Secured::with(&["shop"], settings).await;
    let mut plain = secured.scenario.client().await;
    let request = plain.request(Method::POST, "/a?b").body(full("x")).unwrap();
    let answer = plain.send(request).await.unwrap();
    assert_eq!(answer.status, StatusCode::PERMANENT_REDIRECT);
    assert_eq!(answer.header("location"), "https://shop:8443/a?b");
    assert_eq!(plain.get("/.well-known/acme-challenge/x").await.status, StatusCode::OK);

    let browser = Browser::trusting(&issued[0], &[]);
    let mut secure = Client::http1_on(browser.connect(secured.addr(), "shop").await.unwrap()).await;
    assert_eq!(secure.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn responses_over_tls_tell_clients_to_keep_using_tls() {
    let settings =
        HttpsSettings { hsts: Some("max-age=60".parse().unwrap()), ..HttpsSettings::default() };
    let (secured, issued) = Secured::with(&["shop"], settings).await;
    let browser = Browser::trusting(&issued[0], &[]);
    let mut secure = Client::http1_on(browser.connect(secured.addr(), "shop").await.unwrap()).await;
    assert_eq!(secure.get("/").await.header("strict-transport-security"), "max-age=60");
    let plain = secured.scenario.client().await.get("/").await;
    assert!(!plain.headers.contains_key("strict-transport-security"));
}

#[tokio::test]
async fn a_client_that_speaks_no_tls_is_disconnected() {
    let (secured, _) = Secured::with(&["shop"], HttpsSettings::default()).await;
    let mut stream = TcpStream::connect(secured.addr()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The connection may also end with a reset.
    _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer))
        .await
        .expect("the connection did not close before the deadline");
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[tokio::test]
async fn an_idle_connection_is_served_again() {
    let (secured, issued) = Secured::with(&["shop"], HttpsSettings::default()).await;
    let browser = Browser::trusting(&issued[0], &[]);
    let mut client = Client::http1_on(browser.connect(secured.addr(), "shop").await.unwrap()).await;
    client.get("/").await;
    let memory = || secured.scenario.metric("tenon_router_client_memory_bytes", None);
    // The memory of an idle connection: its state and its socket, without buffers.
    let resting = 20.0 * 1024.0;
    eventually("the connection to rest", || (1.0..resting).contains(&memory())).await;
    assert_eq!(client.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_client_gets_the_certificate_of_a_gateways_listener() {
    let folder = tempfile::tempdir().unwrap();
    let (exact, other) = (issue(folder.path(), "gate"), issue(folder.path(), "other"));
    let https = Https::of_gateways(HttpsSettings::default(), &Registry::new()).unwrap();
    let node = Node::start("n", Behavior::Echo);
    let options = Options { https: Some(https), ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let certificate = |host: &str, issued: &CertifiedKey<KeyPair>| GatewayCertificate {
        host: host.into(),
        certificate: issued.cert.pem().into_bytes(),
        key: issued.signing_key.serialize_pem().into_bytes(),
    };
    let addr = scenario.router().https_addr().unwrap();
    let browser = Browser::trusting(&exact, &[]);
    assert!(browser.connect(addr, "gate").await.is_err(), "there is a certificate already");

    let certificates = vec![certificate("gate", &exact), certificate("*", &other)];
    scenario.catalog.change(WatchResponse { certificates, ..Default::default() });
    let deadline = std::time::Instant::now() + DEADLINE;
    while browser.connect(addr, "gate").await.is_err() {
        assert!(std::time::Instant::now() < deadline, "the certificate is not in use");
    }
    Browser::trusting(&other, &[]).connect(addr, "other").await.unwrap();

    let removed_certificates = vec!["gate".to_owned()];
    scenario.catalog.change(WatchResponse { removed_certificates, ..Default::default() });
    while browser.connect(addr, "gate").await.is_ok() {
        assert!(std::time::Instant::now() < deadline, "the certificate is still in use");
    }
}
