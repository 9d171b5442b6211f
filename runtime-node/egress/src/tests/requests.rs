//! Tests requests as the origin receives them, and the heads of responses as the Worker gets them.

use tenon_proto::id::ShardId;

use super::origin::{Origin, ReceivedRequest, pieces, read_head, text};
use super::*;
use crate::error::Stage;
use crate::metrics::EgressFamilies;

#[tokio::test]
async fn a_request_is_sent_unchanged_with_default_headers_added() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("hello")).await;
        let request = with(
            post(origin.url("/a%20b?c=[d]|e#f"), RequestBody::Full("body".into())),
            &[("x-own", "1"), ("x-own", "2")],
        );
        assert_eq!(fetch_text(&client(), request).await, "hello");
        let request = only(&origin.requests.borrow());
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri().to_string(), "/a%20b?c=[d]|e");
        assert_eq!(request.body(), "body");
        let header = |name: &str| {
            request.headers().get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(header("host"), [format!("127.0.0.1:{}", origin.port)]);
        assert_eq!(header("content-length"), ["4"]);
        assert_eq!(header("user-agent"), ["Tenon"]);
        assert_eq!(header("accept"), ["*/*"]);
        assert_eq!(header("accept-encoding"), ["gzip, br"]);
        assert_eq!(header("x-own"), ["1", "2"]);
    })
    .await;
}

#[tokio::test]
async fn headers_reserved_for_the_client_are_dropped() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("")).await;
        let own = [
            ("connection", "x-secret"),
            ("content-length", "999"),
            ("expect", "100-continue"),
            ("host", "elsewhere.test"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("user-agent", "mine"),
            ("range", "bytes=0-1"),
        ];
        fetch_text(&client(), with(get(origin.url("/")), &own)).await;
        let request = only(&origin.requests.borrow());
        for dropped in [
            "connection",
            "content-length",
            "expect",
            "keep-alive",
            "te",
            "transfer-encoding",
            "upgrade",
        ] {
            assert_eq!(request.headers().get(dropped), None, "{dropped}");
        }
        assert_eq!(request.headers()["host"], format!("127.0.0.1:{}", origin.port));
        assert_eq!(request.headers()["user-agent"], "mine");
        assert_eq!(request.headers()["accept-encoding"], "identity");
    })
    .await;
}

#[tokio::test]
async fn the_head_of_a_response_is_passed_on_without_hop_by_hop_headers() {
    on_a_shard(async {
        let origin = Origin::raw(
            b"HTTP/1.1 418 Short and Stout\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nConnection: close\r\n\
              Transfer-Encoding: chunked\r\nX-Latin: caf\xe9\r\n\r\n3\r\ntea\r\n0\r\n\r\n",
        )
        .await;
        let response = fetch(&client(), get(origin.url("/pot#lid"))).await.unwrap();
        assert_eq!((response.status.as_u16(), response.reason.as_str()), (418, "Short and Stout"));
        let cookies: Vec<_> = response.headers.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=1", "b=2"]);
        assert_eq!(response.headers["x-latin"].as_bytes(), b"caf\xe9");
        for dropped in ["connection", "transfer-encoding"] {
            assert!(!response.headers.contains_key(dropped), "{dropped}");
        }
        assert_eq!((response.url.path(), response.redirected), ("/pot", false));
        assert_eq!(body(response).await.unwrap(), "tea");
    })
    .await;
}

#[tokio::test]
async fn a_response_with_status_304_or_to_a_head_request_has_no_body() {
    on_a_shard(async {
        let origin = Origin::raw(
            b"HTTP/1.1 304 Not Modified\r\ncontent-encoding: gzip\r\ncontent-length: 7\r\n\r\n",
        )
        .await;
        let response = fetch(&client(), get(origin.url("/"))).await.unwrap();
        assert!(response.body.is_none() && response.headers.contains_key("content-encoding"));
        let origin = Origin::plain(|_| text("not for HEAD")).await;
        let response = fetch(&client(), Request { method: Method::HEAD, ..get(origin.url("/")) })
            .await
            .unwrap();
        assert!(response.body.is_none());
        assert_eq!(response.headers["content-length"], "12");
    })
    .await;
}

#[tokio::test]
async fn informational_responses_are_skipped() {
    on_a_shard(async {
        let origin = Origin::raw(
            b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        )
        .await;
        assert_eq!(fetch_text(&client(), get(origin.url("/"))).await, "ok");
    })
    .await;
}

#[tokio::test]
async fn a_missing_or_malformed_response_is_an_error() {
    on_a_shard(async {
        for (answer, why) in [
            (b"" as &[u8], "closed before"),
            (b"HTTP/1.1 200 OK\r\ncontent-le", "closed before"),
            (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
        ] {
            let origin = Origin::raw(answer).await;
            let error = failure(&client(), get(origin.url("/"))).await;
            assert_eq!(error.stage(), Stage::Exchange);
            assert!(error.to_string().contains(why), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_endless_response_head_is_not_read_to_its_end() {
    on_a_shard(async {
        let origin = Origin::serve_connections(|mut stream| async move {
            use tokio::io::AsyncWriteExt as _;
            if read_head(&mut stream).await {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
                for n in 0.. {
                    if stream
                        .write_all(format!("x-{n}: {}\r\n", "y".repeat(500)).as_bytes())
                        .await
                        .is_err()
                    {
                        return;
                    }
                }
            }
        })
        .await;
        let error = failure(&client(), get(origin.url("/"))).await;
        assert!(error.to_string().contains("larger than"), "{error}");
        until(|| origin.open.get() == 0).await;
    })
    .await;
}

#[tokio::test]
async fn the_number_of_subrequests_of_an_invocation_is_bounded() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("")).await;
        let (client, context) = (client(), context("shop"));
        for _ in 0..100 {
            client.fetch(&context, get(origin.url("/"))).await.unwrap();
        }
        let error = client.fetch(&context, get(origin.url("/"))).await.err().unwrap();
        assert!(error.to_string().contains("100 subrequests"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn requests_are_counted_by_outcome() {
    on_a_shard(async {
        let origin = Origin::plain(|_| pieces(["four".to_owned()])).await;
        let registry = prometheus::Registry::new();
        let metrics = EgressFamilies::register(&registry).unwrap().shard(ShardId(0));
        let client = Client::new(&settings(), metrics.clone());
        fetch_text(&client, post(origin.url("/"), RequestBody::Full("exactly 16 bytes".into())))
            .await;
        failure(&client, get(Url::parse("http://10.0.0.1/").unwrap())).await;
        assert_eq!((metrics.sent.get(), metrics.received.get()), (16, 4));
        until(|| (metrics.open.get(), metrics.idle.get()) == (1, 1)).await;
        let families = registry.gather();
        let requests =
            families.iter().find(|family| family.name() == "tenon_egress_requests_total").unwrap();
        let counts: Vec<_> =
            requests.get_metric().iter().map(|metric| metric.get_counter().get_value()).collect();
        assert_eq!(counts.iter().sum::<f64>(), 2.0);
    })
    .await;
}

/// Returns the only request that an origin has received.
fn only(requests: &[ReceivedRequest]) -> ReceivedRequest {
    assert_eq!(requests.len(), 1);
    requests[0].clone()
}
