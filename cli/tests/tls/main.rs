//! Tests the TLS between a catalog, a router and a node, each with its own certificate in a
//! directory: each server accepts only the clients that it serves, and no request fails during a
//! rotation of certificates.
#![allow(clippy::unwrap_used)] // This file contains only tests.

mod certificates;
mod platform;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use libtest_mimic::{Arguments, Trial};
use tenon_lifecycle::tls::{Connector, Principal, Role, Stream, Tls};
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::{
    GetAssetsRequest, GetRevisionRequest, Node as NodeEntry, ReportRequest, ReportTrafficRequest,
    WatchRequest,
};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use certificates::{NAMESPACE, authority, client_tls, node_tls};
use platform::{DEADLINE, Platform, await_condition, runtime};

fn main() -> ExitCode {
    // V8 is initialized first: on some processors, threads that were created before V8 was
    // initialized cannot run JavaScript.
    tenon_engine::init();
    let trials = vec![
        trial(
            "each_server_admits_the_roles_that_it_serves",
            each_server_admits_the_roles_that_it_serves,
        ),
        trial(
            "a_node_gets_only_the_revisions_of_its_pool",
            a_node_gets_only_the_revisions_of_its_pool,
        ),
        trial(
            "no_request_fails_while_certificates_change",
            no_request_fails_while_certificates_change,
        ),
        trial(
            "a_front_forwards_requests_with_the_certificate_of_its_node",
            a_front_forwards_requests_with_the_certificate_of_its_node,
        ),
        trial(
            "only_nodes_of_pools_with_a_front_make_the_calls_of_routers",
            only_nodes_of_pools_with_a_front_make_the_calls_of_routers,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

fn each_server_admits_the_roles_that_it_serves() {
    let authority = authority();
    let platform = Platform::start(&authority);
    assert_eq!(platform.get(platform.router.addr()), "hello");

    let runtime = runtime();
    let servers = [
        (Role::Operator, platform.catalog),
        (Role::Router, platform.router.internal_addr().unwrap()),
        (Role::RuntimeNode, platform.node.addresses()[0]),
    ];
    let untrusted = self::authority();
    runtime.block_on(async {
        for (server, address) in servers {
            for client in Role::ALL {
                let admitted =
                    authenticates(&client_tls(&authority, client), server, address).await;
                assert_eq!(admitted, server.admits(client), "whether {server} admits {client}");
                assert!(
                    !authenticates(&client_tls(&untrusted, client), server, address).await,
                    "the {server} admits a {client} of another authority"
                );
                let other_role = Role::ALL.into_iter().find(|role| *role != server).unwrap();
                assert!(
                    !authenticates(&client_tls(&authority, client), other_role, address).await,
                    "the {server} authenticates as a {other_role}"
                );
            }
            assert!(hangs_up_on_plain_http(address), "the {server} answers plain HTTP");
        }
        // The catalog accepts routers and nodes. Only nodes may report health and receive
        // revisions, because revisions include secrets. Only routers may watch all Workers and
        // report traffic.
        for role in [Role::Router, Role::RuntimeNode] {
            let mut client = catalog_client(&platform, client_tls(&authority, role));
            let watch = client.watch(WatchRequest { client: role.to_string(), resume: None }).await;
            let revision = client
                .get_revision(GetRevisionRequest {
                    digest: platform.digest.clone(),
                    ..Default::default()
                })
                .await;
            let report = client
                .report(ReportRequest { node: "n".to_owned(), ..ReportRequest::default() })
                .await;
            let traffic = client.report_traffic(ReportTrafficRequest::default()).await;
            let codes = [
                watch.err().map(|status| status.code()),
                revision.err().map(|status| status.code()),
                report.err().map(|status| status.code()),
                traffic.err().map(|status| status.code()),
            ];
            let denied = Some(Code::PermissionDenied);
            let expected = match role {
                Role::RuntimeNode => [denied, None, None, denied],
                _ => [None, denied, denied, None],
            };
            assert_eq!(codes, expected, "{role}");
        }
    });
    platform.stop();
}

fn a_front_forwards_requests_with_the_certificate_of_its_node() {
    let authority = authority();
    let platform = Platform::with(&authority, &["--admit-fronts"]);
    platform.entries.set_fronts(BTreeSet::from(["edge".to_owned()]));
    let front = platform.start_front(&authority, "edge");
    assert_eq!(platform.get(front.addr()), "hello");
    front.stop();
    platform.stop();
}

fn only_nodes_of_pools_with_a_front_make_the_calls_of_routers() {
    let authority = authority();
    let platform = Platform::start(&authority);
    let uri = |pool: &str| Principal::Pool(pool.to_owned()).uri(NAMESPACE);
    let calls = async |uri: Option<&str>| {
        let mut client = catalog_client(&platform, node_tls(&authority, uri));
        let watch = WatchRequest { client: "front".to_owned(), resume: None };
        let assets = GetAssetsRequest { digest: vec![0; 32] };
        [
            client.watch(watch).await.map(drop).map_err(|status| status.code()),
            client.get_assets(assets).await.map(drop).map_err(|status| status.code()),
            client
                .report_traffic(ReportTrafficRequest::default())
                .await
                .map(drop)
                .map_err(|status| status.code()),
        ]
    };
    let denied = [Err(Code::PermissionDenied); 3];
    runtime().block_on(async {
        assert_eq!(calls(Some(&uri("edge"))).await, denied);
        platform.entries.set_fronts(BTreeSet::from(["edge".to_owned()]));
        // No Worker serves the revision whose static files are requested.
        let served = [Ok(()), Err(Code::NotFound), Ok(())];
        assert_eq!(calls(Some(&uri("edge"))).await, served);
        // The node `n` of the pool `default` has the address of these connections.
        for other in [Some(uri("default")), Some(uri("other")), None] {
            assert_eq!(calls(other.as_deref()).await, denied, "{other:?}");
        }
        let watch = WatchRequest { client: "front".to_owned(), resume: None };
        let mut client = catalog_client(&platform, node_tls(&authority, Some(&uri("edge"))));
        let mut stream = client.watch(watch).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().is_some());
        platform.entries.set_fronts(BTreeSet::new());
        let ended = loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                ended => break ended,
            }
        };
        assert_eq!(ended.map(drop).map_err(|status| status.code()), Err(Code::PermissionDenied));
    });
    platform.stop();
}

fn a_node_gets_only_the_revisions_of_its_pool() {
    let authority = authority();
    let platform = Platform::start(&authority);
    let fetch = async |uri: Option<&str>| {
        let request = GetRevisionRequest { digest: platform.digest.clone(), ..Default::default() };
        let mut client = catalog_client(&platform, node_tls(&authority, uri));
        client.get_revision(request).await.map(drop).map_err(|status| status.code())
    };
    let denied = Err(Code::PermissionDenied);
    runtime().block_on(async {
        let pool = |name: &str| Principal::Pool(name.to_owned()).uri(NAMESPACE);
        assert_eq!(fetch(Some(&pool("default"))).await, Ok(()));
        for foreign in [
            pool("other"),
            Principal::Router.uri(NAMESPACE),
            Principal::Pool("default".to_owned()).uri("another-platform"),
        ] {
            assert_eq!(fetch(Some(&foreign)).await, denied, "{foreign}");
        }
        // A certificate of an earlier version names no pool. The address of the connection decides,
        // as long as all nodes at that address are of one pool.
        assert_eq!(fetch(None).await, Ok(()));
        let other = NodeEntry {
            name: "other".to_owned(),
            pool: "other".to_owned(),
            address: Ipv4Addr::LOCALHOST.to_string(),
            ..NodeEntry::default()
        };
        platform.entries.set_node(other);
        assert_eq!(fetch(None).await, denied);
        assert_eq!(fetch(Some(&pool("default"))).await, Ok(()));
        platform.entries.remove_node("other");
        platform.entries.remove_node("n");
        assert_eq!(fetch(None).await, denied);
    });
    platform.stop();
}

fn no_request_fails_while_certificates_change() {
    let (old, new) = (authority(), authority());
    let platform = Platform::start(&old);
    let (served, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let await_requests = |requests: usize| {
        let before = served.load(Ordering::Relaxed);
        await_condition("more requests are served", || {
            served.load(Ordering::Relaxed) >= before + requests
        });
    };
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(platform.get(platform.router.addr()), "hello");
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Each process first trusts the new authority, then presents a certificate from the new
        // authority, then stops trusting the old one. A process takes a step when it reloads its
        // files.
        for (signs, others) in [(&old, &new), (&new, &old)] {
            platform.renew(signs, &[others]);
            await_requests(50);
            // A new router can connect to the processes that are already running.
            let router = platform.start_router();
            assert_eq!(platform.get(router.router.addr()), "hello");
            router.stop();
        }
        platform.renew(&new, &[]);
        let router = platform.start_router();
        assert_eq!(platform.get(router.router.addr()), "hello");
        router.stop();
        let runtime = runtime();
        let node = platform.node.addresses()[0];
        assert!(runtime.block_on(authenticates(
            &client_tls(&new, Role::Router),
            Role::RuntimeNode,
            node
        )));
        assert!(!runtime.block_on(authenticates(
            &client_tls(&old, Role::Router),
            Role::RuntimeNode,
            node
        )));
        await_requests(50);
        stop.store(true, Ordering::Relaxed);
        load.join().expect("a request failed");
    });
    platform.stop();
}

fn catalog_client(platform: &Platform, tls: Tls) -> CatalogClient<Channel> {
    let connector = Connector::new(Some(tls), Role::Operator, DEADLINE);
    let endpoint = Endpoint::from_shared(format!("https://{}", platform.catalog)).unwrap();
    CatalogClient::new(endpoint.connect_with_connector_lazy(connector))
}

/// Returns whether the server accepts the client and proves that it has the role that the client
/// expects.
async fn authenticates(client: &Tls, expected_role: Role, address: SocketAddr) -> bool {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let connected =
        tokio::time::timeout(DEADLINE, client.connect(expected_role, "127.0.0.1", stream))
            .await
            .unwrap();
    connected.is_ok_and(|stream: Stream| stream.peer_is(expected_role) == Some(true))
}

/// Returns whether a client that speaks HTTP/2 without TLS receives a TLS alert or nothing.
fn hangs_up_on_plain_http(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut response = Vec::new();
    // The server may also reset the connection.
    let _ = stream.read_to_end(&mut response);
    const ALERT: u8 = 21;
    response.first().is_none_or(|first| *first == ALERT)
}
