//! Tests the TLS between a catalog, a router and a node, each with its own certificate in a
//! directory: each server accepts only the clients that it serves, and no request fails during a
//! rotation of certificates.
#![allow(clippy::unwrap_used)] // This file contains only tests.

mod certificates;
mod platform;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use libtest_mimic::{Arguments, Trial};
use tenon_lifecycle::tls::{Connector, Role, Stream, Tls};
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::{GetRevisionRequest, ReportRequest, ReportTrafficRequest, WatchRequest};
use tonic::Code;
use tonic::transport::Endpoint;

use certificates::{authority, client_tls};
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
            "no_request_fails_while_certificates_change",
            no_request_fails_while_certificates_change,
        ),
        trial(
            "a_front_forwards_requests_with_the_certificate_of_its_node",
            a_front_forwards_requests_with_the_certificate_of_its_node,
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
        // The catalog accepts routers and nodes, but only nodes may receive revisions, which
        // include secrets, and report health, and only routers may report traffic.
        for role in [Role::Router, Role::RuntimeNode] {
            let connector =
                Connector::new(Some(client_tls(&authority, role)), Role::Operator, DEADLINE);
            let endpoint = Endpoint::from_shared(format!("https://{}", platform.catalog)).unwrap();
            let mut client = CatalogClient::new(endpoint.connect_with_connector_lazy(connector));
            client.watch(WatchRequest { client: role.to_string(), resume: None }).await.unwrap();
            let revision =
                client.get_revision(GetRevisionRequest { digest: platform.digest.clone() }).await;
            let report = client
                .report(ReportRequest { node: "n".to_owned(), ..ReportRequest::default() })
                .await;
            let traffic = client.report_traffic(ReportTrafficRequest::default()).await;
            let codes = [
                revision.err().map(|status| status.code()),
                report.err().map(|status| status.code()),
                traffic.err().map(|status| status.code()),
            ];
            let denied = Some(Code::PermissionDenied);
            let expected = match role {
                Role::RuntimeNode => [None, None, denied],
                _ => [denied, denied, None],
            };
            assert_eq!(codes, expected, "{role}");
        }
    });
    platform.end();
}

fn a_front_forwards_requests_with_the_certificate_of_its_node() {
    let platform = Platform::with(&authority(), &["--admit-fronts"]);
    let front = platform.start_front();
    assert_eq!(platform.get(front.addr()), "hello");
    front.end();
    platform.end();
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
            router.end();
        }
        platform.renew(&new, &[]);
        let router = platform.start_router();
        assert_eq!(platform.get(router.router.addr()), "hello");
        router.end();
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
    platform.end();
}

/// Returns whether the server accepts the client and proves to have the role that the client
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
