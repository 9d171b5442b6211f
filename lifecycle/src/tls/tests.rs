//! Tests handshakes between two processes, with certificates of every kind.

use std::net::Ipv4Addr;
use std::sync::Arc;

use rcgen::CertificateParams;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

use super::fixtures::{Authority, handshake, outcome, process};
use super::*;

#[tokio::test]
async fn two_processes_complete_a_handshake_and_know_each_others_role() {
    let authority = Authority::new("one");
    let router = process(Role::Router, &authority.bundle(Role::Router));
    let node = process(Role::RuntimeNode, &authority.bundle(Role::RuntimeNode));
    let (connected, accepted) = handshake(&router, &node, Role::RuntimeNode).await;
    let (mut connected, mut accepted) = (connected.unwrap(), accepted.unwrap());
    for role in Role::ALL {
        assert_eq!(connected.peer_is(role), Some(role == Role::RuntimeNode));
        assert_eq!(accepted.peer_is(role), Some(role == Role::Router));
    }
    connected.write_all(b"ping").await.unwrap();
    connected.flush().await.unwrap();
    let mut received = [0; 4];
    accepted.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"ping");
    // Data that arrived with the server's first message is not lost.
    accepted.write_all(b"pong").await.unwrap();
    accepted.flush().await.unwrap();
    connected.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"pong");
}

#[tokio::test]
async fn each_role_admits_the_roles_that_it_serves() {
    let authority = Authority::new("one");
    let processes = Role::ALL.map(|role| process(role, &authority.bundle(role)));
    for (server, server_role) in processes.iter().zip(Role::ALL) {
        for (client, role) in processes.iter().zip(Role::ALL) {
            let expected = if server_role.admits(role) {
                (None, None)
            } else {
                (Some(Reason::Refused), Some(Reason::WrongRole))
            };
            assert_eq!(
                outcome(client, server, server_role).await,
                expected,
                "{role} calls {server_role}"
            );
        }
    }
}

#[tokio::test]
async fn a_process_admits_its_own_role_only_if_it_is_told_to() {
    let authority = Authority::new("one");
    let [operator, _, node] = Role::ALL.map(|role| process(role, &authority.bundle(role)));
    let refused = (Some(Reason::Refused), Some(Reason::WrongRole));
    assert_eq!(outcome(&node, &node, Role::RuntimeNode).await, refused);
    node.admit_own_role();
    assert_eq!(outcome(&node, &node, Role::RuntimeNode).await, (None, None));
    assert_eq!(outcome(&operator, &node, Role::RuntimeNode).await, refused);
}

#[tokio::test]
async fn one_certificate_may_be_for_several_roles() {
    let authority = Authority::new("one");
    let all = authority.issue(Role::Operator, |params| {
        params.subject_alt_names =
            CertificateParams::new(Role::ALL.map(|role| role.dns_name().to_owned()))
                .unwrap()
                .subject_alt_names;
    });
    let processes = Role::ALL.map(|role| process(role, &all));
    for (server, role) in processes.iter().zip(Role::ALL) {
        let (connected, accepted) = handshake(&processes[0], server, role).await;
        assert!(connected.is_ok(), "{role}");
        assert!(
            Role::ALL
                .into_iter()
                .all(|role| accepted.as_ref().unwrap().peer_is(role) == Some(true))
        );
    }
}

#[tokio::test]
async fn a_server_of_another_role_is_refused() {
    let authority = Authority::new("one");
    let router = process(Role::Router, &authority.bundle(Role::Router));
    let node = process(Role::RuntimeNode, &authority.bundle(Role::RuntimeNode));
    assert_eq!(
        outcome(&router, &node, Role::Operator).await,
        (Some(Reason::WrongRole), Some(Reason::Refused))
    );
}

#[tokio::test]
async fn a_peer_of_another_authority_is_refused() {
    let node = process(Role::RuntimeNode, &Authority::new("one").bundle(Role::RuntimeNode));
    let untrusted = process(Role::Router, &Authority::new("another").bundle(Role::Router));
    assert_eq!(
        outcome(&untrusted, &node, Role::RuntimeNode).await,
        (Some(Reason::Untrusted), Some(Reason::Refused))
    );

    // A client that trusts the node is refused if the node does not trust the client.
    let (trusted, unrelated) = (Authority::new("one"), Authority::new("another"));
    let node = process(Role::RuntimeNode, &trusted.bundle(Role::RuntimeNode));
    let trusting = Bundle {
        authorities: (trusted.pem() + &unrelated.pem()).into(),
        ..unrelated.bundle(Role::Router)
    };
    let trusting = process(Role::Router, &trusting);
    assert_eq!(
        outcome(&trusting, &node, Role::RuntimeNode).await,
        (Some(Reason::Refused), Some(Reason::Untrusted))
    );
}

/// Returns the reason why a node refuses a client that behaves like `client`.
async fn refusal_reason<F: Future>(
    authority: &Authority,
    client: impl FnOnce(TcpStream) -> F,
) -> Reason {
    let node = process(Role::RuntimeNode, &authority.bundle(Role::RuntimeNode));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let accepted = async { node.accept(listener.accept().await.unwrap().0).await };
    let (_kept_open, accepted) = tokio::join!(client(stream), accepted);
    accepted.map(drop).unwrap_err().reason
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let authority = Authority::new("one");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(crypto::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let client = |stream| connector.connect(Role::RuntimeNode.server_name(), stream);
    assert_eq!(refusal_reason(&authority, client).await, Reason::NoCertificate);
}

#[tokio::test]
async fn a_client_without_tls_is_refused() {
    let plain = async |mut stream: TcpStream| {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream
    };
    assert_eq!(refusal_reason(&Authority::new("one"), plain).await, Reason::NotTls);
}

#[tokio::test]
async fn a_client_that_disconnects_is_reported_as_closed() {
    assert_eq!(
        refusal_reason(&Authority::new("one"), async |stream| drop(stream)).await,
        Reason::Closed
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_disconnected() {
    assert_eq!(
        refusal_reason(&Authority::new("one"), async |stream| stream).await,
        Reason::Timeout
    );
}

#[tokio::test]
async fn a_process_admits_no_client_until_it_has_a_certificate() {
    let authority = Authority::new("one");
    let router = process(Role::Router, &authority.bundle(Role::Router));
    let operator = Tls::without_certificate(Role::Operator, &Registry::new()).unwrap();
    let (connected, accepted) = outcome(&router, &operator, Role::Operator).await;
    assert_eq!((connected, accepted), (Some(Reason::Closed), Some(Reason::NoIdentity)));
    operator.install(&authority.bundle(Role::Operator)).unwrap();
    assert_eq!(outcome(&router, &operator, Role::Operator).await, (None, None));
}

#[tokio::test]
async fn a_client_resumes_its_session_until_a_certificate_changes() {
    let authority = Authority::new("one");
    let router = process(Role::Router, &authority.bundle(Role::Router));
    let node = process(Role::RuntimeNode, &authority.bundle(Role::RuntimeNode));
    let handshakes = || (node.0.metrics.full(), node.0.metrics.resumed());
    for expected in [(1, 0), (1, 1), (1, 2)] {
        let (connected, accepted) = handshake(&router, &node, Role::RuntimeNode).await;
        assert_eq!(handshakes(), expected);
        // The result is the same as after a full handshake.
        assert_eq!(accepted.unwrap().peer_is(Role::Router), Some(true));
        drop(connected);
    }
    node.install(&authority.bundle(Role::RuntimeNode)).unwrap();
    assert_eq!(outcome(&router, &node, Role::RuntimeNode).await, (None, None));
    assert_eq!(handshakes(), (2, 2));
}

#[tokio::test]
async fn a_session_of_a_distrusted_authority_cannot_be_resumed() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let both =
        Bundle { authorities: (old.pem() + &new.pem()).into(), ..new.bundle(Role::RuntimeNode) };
    let node = process(Role::RuntimeNode, &both);
    let router = process(
        Role::Router,
        &Bundle { authorities: both.authorities.clone(), ..old.bundle(Role::Router) },
    );
    assert_eq!(outcome(&router, &node, Role::RuntimeNode).await, (None, None));
    node.install(&Bundle { authorities: new.pem().into(), ..both }).unwrap();
    assert_eq!(
        outcome(&router, &node, Role::RuntimeNode).await,
        (Some(Reason::Refused), Some(Reason::Untrusted))
    );
}

#[test]
fn the_expiry_of_a_certificate_is_in_the_metrics() {
    let registry = Registry::new();
    let tls = Tls::without_certificate(Role::Router, &registry).unwrap();
    let bundle = Authority::new("one")
        .issue(Role::Router, |params| params.not_after = rcgen::date_time_ymd(3000, 1, 1));
    tls.install(&bundle).unwrap();
    let families = registry.gather();
    let name = "tenon_certificate_expiry_timestamp_seconds";
    let family = families.iter().find(|family| family.name() == name).unwrap();
    let values: Vec<_> =
        family.get_metric().iter().map(|metric| metric.get_gauge().get_value()).collect();
    // The expiry of rcgen's default authority, and that of the certificate.
    assert_eq!(values, [67_090_118_400.0, 32_503_680_000.0]);
}

#[test]
fn the_scheme_of_a_url_must_match_the_use_of_tls() {
    let check = |url: &str, tls| check_scheme(&url.parse().unwrap(), tls);
    assert_eq!(check("https://tenon-operator:7070", true), Ok(()));
    assert_eq!(check("http://tenon-operator:7070", false), Ok(()));
    assert!(matches!(check("http://tenon-operator:7070", true), Err(WrongScheme::Plain(_))));
    assert!(matches!(check("https://tenon-operator:7070", false), Err(WrongScheme::Tls(_))));
    for bad in ["tenon-operator:7070", "ftp://tenon-operator", "/"] {
        assert!(matches!(check(bad, true), Err(WrongScheme::Other(_))), "{bad}");
    }
}
