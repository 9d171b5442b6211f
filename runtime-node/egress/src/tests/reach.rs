//! Tests which addresses requests may reach.

use super::origin::{Origin, text};
use super::*;
use crate::error::Stage;

/// Returns a client with the default policy, for which some names resolve to internal addresses.
fn closed() -> Client {
    let known = hosts(
        "127.0.0.1 inside.test\n::1 inside.test\n10.96.0.1 cluster.test\n169.254.169.254 metadata.test\nfd00:ec2::254 metadata.test",
    );
    Client::new(&Settings::isolated(Policy::default(), Vec::new(), known), EgressMetrics::default())
}

#[tokio::test]
async fn no_spelling_of_an_internal_address_leads_to_it() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("reached")).await;
        let client = closed();
        for host in [
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "017700000001",
            "0177.0.0.01",
            "127.0.0.1.",
            "0",
            "0.0.0.0",
            "[::]",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::127.0.0.1]",
            "[2002:7f00:1::]",
            "localhost",
            "LOCALHOST",
            "a.localhost",
            "localhost.",
            "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
            "127\u{3002}0\u{3002}0\u{3002}1",
            "%31%32%37.0.0.1",
            "inside.test",
            "INSIDE.test.",
            "cluster.test",
            "metadata.test",
            "169.254.169.254",
            "0xa9fea9fe",
            "2852039166",
            "[::ffff:a9fe:a9fe]",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.0.1",
            "100.64.0.1",
        ] {
            let url = Url::parse(&format!("http://{host}:{}/", origin.port)).unwrap();
            let error = failure(&client, get(url)).await;
            assert_eq!(error.stage(), Stage::Policy, "{host}: {error}");
        }
        assert_eq!(origin.connections.get(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_does_not_reveal_the_internal_address_of_a_name() {
    on_a_shard(async {
        let error =
            failure(&closed(), get(Url::parse("http://cluster.test/").unwrap())).await.to_string();
        assert!(error.contains("cluster.test") && error.contains("--egress-allow"), "{error}");
        assert!(!error.contains("10.96") && !error.contains("private"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_address_that_the_node_allows_is_reached() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("reached")).await;
        let client = client();
        for host in ["127.0.0.1", "origin.test", "localhost", "[::ffff:127.0.0.1]"] {
            let url = Url::parse(&format!("http://{host}:{}/", origin.port)).unwrap();
            assert_eq!(fetch_text(&client, get(url)).await, "reached", "{host}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_workers_own_list_only_narrows_the_policy() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("reached")).await;
        let url = |host: &str| Url::parse(&format!("http://{host}:{}/", origin.port)).unwrap();
        let only = |pattern: &str| EgressContext {
            egress: Rc::new(Egress::Only(vec![pattern.parse().unwrap()])),
            ..context("shop")
        };
        let client = client();
        client.fetch(&only("origin.test"), get(url("origin.test"))).await.unwrap();
        client.fetch(&only("*.test"), get(url("origin.test."))).await.unwrap();
        for (pattern, host) in [
            ("origin.test", "other.test"),
            ("origin.test:1", "origin.test"),
            ("*.origin.test", "origin.test"),
        ] {
            let error = client.fetch(&only(pattern), get(url(host))).await.err().unwrap();
            assert!(error.to_string().contains("spec.egress.allow"), "{error}");
        }
        // A Worker's own list does not allow an address that the node refuses.
        let error =
            closed().fetch(&only("inside.test"), get(url("inside.test"))).await.err().unwrap();
        assert!(matches!(error, EgressError::RefusedName { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn other_schemes_and_the_ports_of_other_protocols_are_refused() {
    on_a_shard(async {
        let client = client();
        for url in [
            "ftp://origin.test/",
            "ws://origin.test/",
            "blob:https://a.test/x",
            "about:blank",
            "file:///etc/passwd",
        ] {
            let error = failure(&client, get(Url::parse(url).unwrap())).await;
            assert!(error.to_string().contains("http:, https: and data:"), "{url}: {error}");
        }
        for port in [22, 25, 6000] {
            let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
            assert!(matches!(failure(&client, get(url)).await, EgressError::BadPort(_)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_refused_connection_is_reported() {
    on_a_shard(async {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let error =
            failure(&client(), get(Url::parse(&format!("http://origin.test:{port}/")).unwrap()))
                .await;
        assert_eq!(error.stage(), Stage::Connect);
        assert!(error.to_string().contains("refused"), "{error}");
    })
    .await;
}
