//! Handshakes of two processes, with certificates of every kind.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::UnixTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

use super::*;

const BOTH: [ExtendedKeyUsagePurpose; 2] =
    [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a bundle for a role that trusts this authority.
    fn bundle(&self, role: Role) -> Bundle {
        self.issue(role, |_| {})
    }

    fn issue(&self, role: Role, change: impl FnOnce(&mut CertificateParams)) -> Bundle {
        let mut params = CertificateParams::new([role.dns_name().to_owned()]).unwrap();
        params.extended_key_usages = BOTH.to_vec();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Bundle {
            certificate: certificate.pem().into(),
            key: key.serialize_pem().into(),
            authorities: self.pem().into(),
        }
    }
}

fn process(role: Role, bundle: &Bundle) -> Tls {
    let tls = Tls::to_come(role, &Registry::new()).unwrap();
    tls.install(bundle).unwrap();
    tls
}

/// Connects `client`, which expects a server of the role `looks_for`, to `server`, and returns the
/// outcome of both sides.
async fn meet(
    client: &Tls,
    server: &Tls,
    looks_for: Role,
) -> (Result<Stream, Reason>, Result<Stream, Reason>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let accepted = async { server.accept(listener.accept().await.unwrap().0).await };
    let (called, accepted) = tokio::join!(client.connect(looks_for, "127.0.0.1", stream), accepted);
    (called.map_err(|error| error.reason), accepted.map_err(|error| error.reason))
}

/// Returns the reason of a failed handshake on either side.
async fn outcome(client: &Tls, server: &Tls, looks_for: Role) -> (Option<Reason>, Option<Reason>) {
    let (called, accepted) = meet(client, server, looks_for).await;
    (called.err(), accepted.err())
}

fn refused(bundle: &Bundle, role: Role) -> String {
    let error = Identity::of(bundle, role, UnixTime::now()).expect_err("it is wrong");
    error.to_string()
}

#[tokio::test]
async fn two_processes_shake_hands_and_know_who_the_other_is() {
    let authority = Authority::new("one");
    let router = process(Role::Router, &authority.bundle(Role::Router));
    let node = process(Role::RuntimeNode, &authority.bundle(Role::RuntimeNode));
    let (called, accepted) = meet(&router, &node, Role::RuntimeNode).await;
    let (mut called, mut accepted) = (called.unwrap(), accepted.unwrap());
    for role in Role::ALL {
        assert_eq!(called.peer_is(role), Some(role == Role::RuntimeNode));
        assert_eq!(accepted.peer_is(role), Some(role == Role::Router));
    }
    called.write_all(b"ping").await.unwrap();
    called.flush().await.unwrap();
    let mut heard = [0; 4];
    accepted.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"ping");
    // Data that arrived with the server's first message is not lost.
    accepted.write_all(b"pong").await.unwrap();
    accepted.flush().await.unwrap();
    called.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"pong");
}

#[tokio::test]
async fn each_role_lets_in_those_that_have_business_with_it() {
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
        let (called, accepted) = meet(&processes[0], server, role).await;
        assert!(called.is_ok(), "{role}");
        assert!(
            Role::ALL
                .into_iter()
                .all(|role| accepted.as_ref().unwrap().peer_is(role) == Some(true))
        );
    }
}

#[tokio::test]
async fn a_server_of_another_role_than_was_looked_for_is_none() {
    let authority = Authority::new("one");
    let router = process(Role::Router, &authority.bundle(Role::Router));
    let node = process(Role::RuntimeNode, &authority.bundle(Role::RuntimeNode));
    assert_eq!(
        outcome(&router, &node, Role::Operator).await,
        (Some(Reason::WrongRole), Some(Reason::Refused))
    );
}

#[tokio::test]
async fn a_stranger_is_refused() {
    let node = process(Role::RuntimeNode, &Authority::new("one").bundle(Role::RuntimeNode));
    let stranger = process(Role::Router, &Authority::new("another").bundle(Role::Router));
    assert_eq!(
        outcome(&stranger, &node, Role::RuntimeNode).await,
        (Some(Reason::Untrusted), Some(Reason::Refused))
    );

    // A client that trusts the node is still unknown to it.
    let (known, unknown) = (Authority::new("one"), Authority::new("another"));
    let node = process(Role::RuntimeNode, &known.bundle(Role::RuntimeNode));
    let believer = Bundle {
        authorities: (known.pem() + &unknown.pem()).into(),
        ..unknown.bundle(Role::Router)
    };
    let believer = process(Role::Router, &believer);
    assert_eq!(
        outcome(&believer, &node, Role::RuntimeNode).await,
        (Some(Reason::Refused), Some(Reason::Untrusted))
    );
}

/// Returns the reason for which a node refuses a client that behaves like `client`.
async fn let_in_by_a_node<F: Future>(
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
async fn one_without_a_certificate_is_refused() {
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
    assert_eq!(let_in_by_a_node(&authority, client).await, Reason::NoCertificate);
}

#[tokio::test]
async fn one_who_speaks_no_tls_is_refused() {
    let plain = async |mut stream: TcpStream| {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream
    };
    assert_eq!(let_in_by_a_node(&Authority::new("one"), plain).await, Reason::NotTls);
}

#[tokio::test]
async fn one_who_hangs_up_is_no_event() {
    assert_eq!(
        let_in_by_a_node(&Authority::new("one"), async |stream| drop(stream)).await,
        Reason::Closed
    );
}

#[tokio::test(start_paused = true)]
async fn one_who_says_nothing_is_hung_up_on() {
    assert_eq!(
        let_in_by_a_node(&Authority::new("one"), async |stream| stream).await,
        Reason::Timeout
    );
}

#[tokio::test]
async fn a_process_without_a_certificate_yet_lets_nobody_in() {
    let authority = Authority::new("one");
    let router = process(Role::Router, &authority.bundle(Role::Router));
    let operator = Tls::to_come(Role::Operator, &Registry::new()).unwrap();
    let (called, accepted) = outcome(&router, &operator, Role::Operator).await;
    assert_eq!((called, accepted), (Some(Reason::Closed), Some(Reason::NoIdentity)));
    operator.install(&authority.bundle(Role::Operator)).unwrap();
    assert_eq!(outcome(&router, &operator, Role::Operator).await, (None, None));
}

#[tokio::test]
async fn who_comes_again_resumes_until_a_certificate_changes() {
    let authority = Authority::new("one");
    let router = process(Role::Router, &authority.bundle(Role::Router));
    let node = process(Role::RuntimeNode, &authority.bundle(Role::RuntimeNode));
    let handshakes = || (node.0.metrics.full(), node.0.metrics.resumed());
    for expected in [(1, 0), (1, 1), (1, 2)] {
        let (called, accepted) = meet(&router, &node, Role::RuntimeNode).await;
        assert_eq!(handshakes(), expected);
        // The result is the same as after a full handshake.
        assert_eq!(accepted.unwrap().peer_is(Role::Router), Some(true));
        drop(called);
    }
    node.install(&authority.bundle(Role::RuntimeNode)).unwrap();
    assert_eq!(outcome(&router, &node, Role::RuntimeNode).await, (None, None));
    assert_eq!(handshakes(), (2, 2));
}

#[tokio::test]
async fn an_authority_that_is_believed_no_more_is_no_way_back_in() {
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
fn what_is_wrong_is_told_by_the_file_and_with_the_remedy() {
    let role = Role::Router;
    let (one, another) = (Authority::new("one"), Authority::new("another"));
    let good = one.bundle(role);
    let wrong = |bundle: Bundle| refused(&bundle, role);

    assert!(
        wrong(Bundle { certificate: Vec::new(), ..good.clone() })
            .starts_with("tls.crt contains no certificate")
    );
    assert!(
        wrong(Bundle { authorities: Vec::new(), ..good.clone() })
            .starts_with("ca.crt contains no certificate")
    );
    assert!(
        wrong(Bundle { key: Vec::new(), ..good.clone() })
            .starts_with("tls.key contains no private key")
    );
    let damaged = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    assert!(
        wrong(Bundle { authorities: damaged, ..good.clone() })
            .starts_with("ca.crt contains a malformed certificate")
    );
    assert!(
        wrong(Bundle { key: one.bundle(role).key, ..good.clone() })
            .starts_with("tls.key is not the key of tls.crt")
    );
    let untrusted = wrong(Bundle { authorities: another.pem().into(), ..good.clone() });
    assert!(
        untrusted.starts_with("tls.crt is not issued by an authority in ca.crt"),
        "{untrusted}"
    );
    let of_node = refused(&one.bundle(Role::RuntimeNode), role);
    assert!(of_node.contains("issue it for the DNS name router.tenon.internal"), "{of_node}");
    let expired = one.issue(role, |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    assert!(wrong(expired).starts_with("tls.crt has expired"));
    let early = one.issue(role, |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1));
    assert!(wrong(early).starts_with("tls.crt is not valid yet"));
    for usage in BOTH {
        let one_sided = one.issue(role, |params| params.extended_key_usages = vec![usage]);
        assert!(wrong(one_sided).contains("\"server auth\" and \"client auth\""));
    }
}

#[test]
fn of_several_authorities_the_one_that_it_comes_from_is_known() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let bundle =
        Bundle { authorities: (old.pem() + &new.pem()).into(), ..new.bundle(Role::Router) };
    let identity = Identity::of(&bundle, Role::Router, UnixTime::now()).unwrap();
    assert_eq!(identity.issuer(), new.0.der());
}

/// Switches a volume to new content, as the kubelet does.
fn turn(volume: &Path, turn: &str, bundle: &Bundle) {
    let directory = volume.join(format!("..{turn}"));
    fs::create_dir(&directory).unwrap();
    for (file, content) in [
        (identity::CERTIFICATE, &bundle.certificate),
        (identity::KEY, &bundle.key),
        (identity::AUTHORITIES, &bundle.authorities),
    ] {
        fs::write(directory.join(file), content).unwrap();
        let link = volume.join(file);
        if !link.is_symlink() {
            symlink(Path::new("..data").join(file), link).unwrap();
        }
    }
    symlink(format!("..{turn}"), volume.join("..new")).unwrap();
    fs::rename(volume.join("..new"), volume.join("..data")).unwrap();
}

#[tokio::test]
async fn a_change_of_the_files_is_taken_and_a_bad_one_is_not() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let volume = tempfile::tempdir().unwrap();
    turn(volume.path(), "1", &old.bundle(Role::RuntimeNode));
    let registry = Registry::new();
    let (node, mut files) =
        Tls::read(volume.path().to_owned(), Role::RuntimeNode, &registry).unwrap();
    let routers =
        [&old, &new].map(|authority| process(Role::Router, &authority.bundle(Role::Router)));
    let believed = async || {
        let [old, new] = &routers;
        [
            outcome(old, &node, Role::RuntimeNode).await.1.is_none(),
            outcome(new, &node, Role::RuntimeNode).await.1.is_none(),
        ]
    };
    files.look(&node.0);
    assert_eq!(believed().await, [true, false]);

    turn(volume.path(), "2", &new.bundle(Role::Router));
    files.look(&node.0);
    files.look(&node.0);
    assert_eq!(believed().await, [true, false]);
    assert_eq!(node.0.metrics.reads(), (1, 1));

    turn(volume.path(), "3", &new.bundle(Role::RuntimeNode));
    files.look(&node.0);
    assert_eq!(believed().await, [false, true]);
    assert_eq!(node.0.metrics.reads(), (2, 1));

    fs::remove_file(volume.path().join("..data")).unwrap();
    files.look(&node.0);
    assert_eq!(believed().await, [false, true]);
}

#[test]
fn a_directory_without_a_certificate_is_told_with_the_file() {
    let empty = tempfile::tempdir().unwrap();
    let args = TlsArgs { tls_dir: Some(empty.path().to_owned()) };
    let error = args.open(Role::Router, &Registry::new()).unwrap_err().to_string();
    assert!(error.contains("tls.crt") && error.contains("mount a Secret"), "{error}");
    assert!(TlsArgs::default().open(Role::Router, &Registry::new()).unwrap().is_none());
}

#[test]
fn its_end_is_in_the_metrics() {
    let registry = Registry::new();
    let tls = Tls::to_come(Role::Router, &registry).unwrap();
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
fn a_url_says_how_its_server_is_spoken_to() {
    let check = |url: &str, tls| check_scheme(&url.parse().unwrap(), tls);
    assert_eq!(check("https://tenon-operator:7070", true), Ok(()));
    assert_eq!(check("http://tenon-operator:7070", false), Ok(()));
    assert!(matches!(check("http://tenon-operator:7070", true), Err(WrongScheme::Plain(_))));
    assert!(matches!(check("https://tenon-operator:7070", false), Err(WrongScheme::Tls(_))));
    for bad in ["tenon-operator:7070", "ftp://tenon-operator", "/"] {
        assert!(matches!(check(bad, true), Err(WrongScheme::Other(_))), "{bad}");
    }
}
