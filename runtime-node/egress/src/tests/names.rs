//! Tests the resolution of names, with a name server that changes its answers.

use std::net::Ipv4Addr;
use std::rc::Rc;

use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use tokio::net::UdpSocket;
use tokio::task::spawn_local;

use super::origin::{Origin, text};
use super::*;
use crate::Endpoint;
use crate::error::Stage;

/// Starts a name server that answers each query for IPv4 addresses with the result of `answers`,
/// and has no IPv6 addresses. The argument of `answers` is the number of earlier such queries.
/// Returns the server's port and the number of these queries.
async fn name_server(answers: impl Fn(usize) -> Vec<Ipv4Addr> + 'static) -> (u16, Rc<Cell<usize>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let queries = Rc::<Cell<usize>>::default();
    let count = Rc::clone(&queries);
    spawn_local(async move {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question).await {
            let question = &question[..length];
            let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
            let wants_v4 = question[end - 3] == 1;
            let addresses =
                if wants_v4 { answers(count.replace(count.get() + 1)) } else { Vec::new() };
            // The header has the query's id, the flags of a response, and the number of records in
            // each section.
            let mut answer = question[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
            answer.extend(&question[12..end]);
            for address in addresses {
                // A record has a reference to the query's name, the type A, the class IN, a TTL of
                // zero, and four bytes of data.
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                answer.extend(address.octets());
            }
            let _ = socket.send_to(&answer, from).await;
        }
    });
    (port, queries)
}

fn client_of(port: u16, policy: Policy) -> Client {
    let mut server = NameServerConfig::udp_and_tcp("127.0.0.1".parse().unwrap());
    server.connections.iter_mut().for_each(|connection| connection.port = port);
    let config =
        ResolverConfig::from_parts(None, vec!["search.test".parse().unwrap()], vec![server]);
    let resolver = Some((config, ResolverOpts::default()));
    let settings =
        Settings { resolver, ..Settings::isolated(policy, Vec::new(), Hosts::default()) };
    Client::new(&settings, EgressMetrics::default())
}

fn local(last: u8) -> Policy {
    Policy::new(vec![format!("127.0.0.{last}/32").parse().unwrap()], vec![])
}

#[tokio::test]
async fn a_resolved_name_is_cached() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("found")).await;
        let (port, queries) = name_server(|_| vec![Ipv4Addr::LOCALHOST]).await;
        let client = client_of(port, local(1));
        for tenant in ["a", "b", "c"] {
            let url = Url::parse(&format!("http://name.test:{}/", origin.port)).unwrap();
            let response = client.fetch(&context(tenant), get(url)).await.unwrap();
            assert_eq!(body(response).await.unwrap(), "found");
        }
        assert_eq!(queries.get(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_name_that_changes_to_an_internal_address_is_refused() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("found")).await;
        // The first answer is an address that may be reached; later ones are internal addresses.
        let (port, _) =
            name_server(|n| vec![Ipv4Addr::new(127, 0, 0, if n == 0 { 1 } else { 9 })]).await;
        let client = client_of(port, local(1));
        let url = |name| Url::parse(&format!("http://{name}.test:{}/", origin.port)).unwrap();
        assert_eq!(fetch_text(&client, get(url("a"))).await, "found");
        let error = failure(&client, get(url("b"))).await;
        assert!(matches!(error, EgressError::RefusedName { .. }), "{error}");
        // The earlier decision no longer applies: the cached answer has expired, and the other
        // tenant has no connection.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        let error = client.fetch(&context("other"), get(url("a"))).await.err().unwrap();
        assert!(matches!(error, EgressError::RefusedName { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_socket_is_not_opened_to_a_name_that_changes_to_an_internal_address() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("found")).await;
        let (port, _) =
            name_server(|n| vec![Ipv4Addr::new(127, 0, 0, if n == 0 { 1 } else { 9 })]).await;
        let client = client_of(port, local(1));
        let connect = async |name| {
            let endpoint = Endpoint::new(name, origin.port).unwrap();
            client.connect(&context("shop"), endpoint, false).await
        };
        assert!(connect("a.test").await.is_ok());
        let error = connect("b.test").await.err().unwrap();
        assert!(matches!(error, EgressError::RefusedName { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_worker_resolves_only_names_that_it_may_connect_to_and_addresses_that_it_may_reach() {
    on_a_shard(async {
        let (port, queries) =
            name_server(|_| vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::LOCALHOST]).await;
        let client = client_of(port, local(1));
        let resolve = async |context: &EgressContext, name| {
            client.resolve(context, url::Host::parse(name).unwrap()).await
        };
        let reachable = [std::net::IpAddr::from(Ipv4Addr::LOCALHOST)];
        assert_eq!(resolve(&context("shop"), "name.test").await.unwrap(), reachable);
        let inside = resolve(&context("shop"), "10.0.0.1").await.unwrap_err();
        assert_eq!(inside.stage(), Stage::Policy, "{inside}");
        let egress = Rc::new(Egress::Only(vec!["db.test:5432".parse().unwrap()]));
        let limited = EgressContext { egress, ..context("shop") };
        assert_eq!(resolve(&limited, "db.test.").await.unwrap(), reachable);
        let asked = queries.get();
        let error = resolve(&limited, "secret.evil.test").await.unwrap_err();
        assert!(error.to_string().contains("spec.egress.allow"), "{error}");
        assert_eq!(queries.get(), asked);
        let budget = Rc::new(FixedBudget { subrequests: Cell::new(0), memory: 0 });
        let spent = EgressContext { budget, ..context("shop") };
        assert_eq!(resolve(&spent, "name.test").await.unwrap_err().stage(), Stage::Limit);
    })
    .await;
}

#[tokio::test]
async fn only_the_allowed_addresses_of_a_name_are_connected_to() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("found")).await;
        let (port, _) =
            name_server(|_| vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::LOCALHOST]).await;
        let url = Url::parse(&format!("http://name.test:{}/", origin.port)).unwrap();
        assert_eq!(fetch_text(&client_of(port, local(1)), get(url)).await, "found");
    })
    .await;
}

#[tokio::test]
async fn an_unknown_name_is_a_resolution_error() {
    on_a_shard(async {
        let (port, _) = name_server(|_| Vec::new()).await;
        let error =
            failure(&client_of(port, local(1)), get(Url::parse("http://name.test/").unwrap()))
                .await;
        assert_eq!(error.stage(), Stage::Resolve, "{error}");
        let error = failure(&client(), get(Url::parse("http://unlisted.test/").unwrap())).await;
        assert_eq!(error.stage(), Stage::Resolve, "{error}");
    })
    .await;
}
