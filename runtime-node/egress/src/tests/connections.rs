//! Tests which connections are opened, shared, bounded and closed.

use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::io::AsyncWriteExt as _;

use super::origin::{Authority, Origin, read_head, text};
use super::*;
use crate::error::Stage;

/// Returns a client that trusts an authority.
fn trusting(authority: &Authority) -> Client {
    Client::new(&settings_trusting(authority), EgressMetrics::default())
}

fn settings_trusting(authority: &Authority) -> Settings {
    let known = hosts("127.0.0.1 origin.test other.test");
    Settings::isolated(settings().policy, vec![authority.root.clone()], known)
}

fn secure(host: &str, origin: &Origin) -> Url {
    Url::parse(&format!("https://{host}:{}/", origin.port)).unwrap()
}

#[tokio::test]
async fn sequential_requests_share_a_connection() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("hi")).await;
        let client = client();
        for _ in 0..5 {
            fetch_text(&client, get(origin.url("/"))).await;
            // Let the connection's task notice that the exchange is over.
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(origin.connections.get(), 1);
    })
    .await;
}

#[tokio::test]
async fn tenants_do_not_share_connections() {
    on_a_shard(async {
        let authority = Authority::new();
        let plain = Origin::plain(|_| text("hi")).await;
        let http2 =
            Origin::serve(Some(authority.server(&["h2"])), |_| Box::pin(async { text("hi") }))
                .await;
        let client = trusting(&authority);
        for (origin, url) in [(&plain, plain.url("/")), (&http2, secure("origin.test", &http2))] {
            for tenant in ["a", "b", "a", "b"] {
                let response = client.fetch(&context(tenant), get(url.clone())).await.unwrap();
                body(response).await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert_eq!(origin.connections.get(), 2, "{url}");
        }
    })
    .await;
}

#[tokio::test]
async fn http2_is_negotiated_and_serves_many_requests_on_one_connection() {
    on_a_shard(async {
        let authority = Authority::new();
        let origin = Origin::serve(Some(authority.server(&["h2", "http/1.1"])), |request| {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                text(&format!(
                    "{:?} {} {:?}",
                    request.version(),
                    request.uri(),
                    request.headers().get("host")
                ))
            })
        })
        .await;
        let client = trusting(&authority);
        // The requests begin before the client knows the origin's protocol.
        let answers =
            join_all((0..20).map(|_| fetch_text(&client, get(secure("origin.test", &origin)))))
                .await;
        let uri = secure("origin.test", &origin);
        assert!(
            answers.iter().all(|answer| *answer == format!("HTTP/2.0 {uri} None")),
            "{answers:?}"
        );
        assert_eq!(origin.connections.get(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_origin_without_http2_gets_http1() {
    on_a_shard(async {
        let authority = Authority::new();
        for protocols in [&["http/1.1"] as &[&str], &[]] {
            let origin = Origin::serve(Some(authority.server(protocols)), |request| {
                Box::pin(async move { text(&format!("{:?}", request.version())) })
            })
            .await;
            let client = trusting(&authority);
            let answers =
                join_all((0..3).map(|_| fetch_text(&client, get(secure("127.0.0.1", &origin)))))
                    .await;
            assert_eq!(answers, ["HTTP/1.1"; 3]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_certificate_must_be_trusted_and_name_the_host() {
    on_a_shard(async {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let origin =
            Origin::serve(Some(authority.server(&["h2"])), |_| Box::pin(async { text("") })).await;
        let error = failure(&trusting(&stranger), get(secure("origin.test", &origin))).await;
        assert_eq!(error.stage(), Stage::Tls, "{error}");
        let error = failure(&trusting(&authority), get(secure("other.test", &origin))).await;
        assert_eq!(error.stage(), Stage::Tls, "{error}");
        // The client sends no plaintext to a server that does not speak TLS.
        let plain = Origin::plain(|_| text("")).await;
        assert_eq!(
            failure(&trusting(&authority), get(secure("origin.test", &plain))).await.stage(),
            Stage::Tls
        );
    })
    .await;
}

#[tokio::test]
async fn an_idempotent_request_that_finds_its_connection_closed_is_sent_over_another() {
    on_a_shard(async {
        // Each connection sends one response as if it stayed open, and closes when it is used
        // again.
        let origin = Origin::serve_connections(|mut stream| async move {
            if read_head(&mut stream).await {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                read_head(&mut stream).await;
            }
        })
        .await;
        let client = client();
        for connections in 1..=3 {
            assert_eq!(fetch_text(&client, get(origin.url("/"))).await, "ok");
            assert_eq!(origin.connections.get(), connections);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // A request that may have been processed is not sent again.
        let error = failure(&client, post(origin.url("/"), RequestBody::Full("x".into()))).await;
        assert_eq!(error.stage(), Stage::Exchange, "{error}");
        assert_eq!(origin.connections.get(), 3);
    })
    .await;
}

#[tokio::test]
async fn the_number_of_concurrent_requests_of_a_worker_is_bounded() {
    on_a_shard(async {
        let busy = Rc::<Cell<usize>>::default();
        let peak = Rc::<Cell<usize>>::default();
        let (now, highest) = (Rc::clone(&busy), Rc::clone(&peak));
        let origin = Origin::serve(None, move |_| {
            let (now, highest) = (Rc::clone(&now), Rc::clone(&highest));
            Box::pin(async move {
                now.set(now.get() + 1);
                highest.set(highest.get().max(now.get()));
                // Wait until the limit is reached, and then for long enough that a request beyond
                // the limit would arrive.
                while highest.get() < 64 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                now.set(now.get() - 1);
                text("")
            })
        })
        .await;
        let client = client();
        let answers = join_all((0..90).map(|_| fetch(&client, get(origin.url("/"))))).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!((peak.get(), busy.get()), (64, 0));
    })
    .await;
}

#[tokio::test]
async fn the_number_of_unread_responses_is_bounded() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("never read")).await;
        let client = client();
        let mut open = Vec::new();
        for _ in 0..256 {
            let context = context("shop");
            open.push(client.fetch(&context, get(origin.url("/"))).await.unwrap());
        }
        let error = failure(&client, get(origin.url("/"))).await;
        assert!(error.to_string().contains("body.cancel()"), "{error}");
        // Another tenant has its own limit.
        client.fetch(&context("other"), get(origin.url("/"))).await.unwrap();
        open.clear();
        fetch(&client, get(origin.url("/"))).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("hi")).await;
        let mut settings = settings();
        settings.bounds.idle_timeout = Duration::from_millis(50);
        let client = Client::new(&settings, EgressMetrics::default());
        fetch_text(&client, get(origin.url("/"))).await;
        assert_eq!(origin.open.get(), 1);
        until(|| origin.open.get() == 0).await;
    })
    .await;
}

#[tokio::test]
async fn an_http2_connection_is_idle_from_the_end_of_its_last_exchange() {
    on_a_shard(async {
        let idle_timeout = Duration::from_millis(100);
        let authority = Authority::new();
        let answered = Rc::new(Cell::new(Instant::now()));
        let now = Rc::clone(&answered);
        let origin = Origin::serve(Some(authority.server(&["h2"])), move |_| {
            let now = Rc::clone(&now);
            Box::pin(async move {
                tokio::time::sleep(2 * idle_timeout).await;
                now.set(Instant::now());
                text("hi")
            })
        })
        .await;
        let mut settings = settings_trusting(&authority);
        settings.bounds.idle_timeout = idle_timeout;
        let client = Client::new(&settings, EgressMetrics::default());
        fetch_text(&client, get(secure("origin.test", &origin))).await;
        until(|| origin.open.get() == 0).await;
        assert!(answered.get().elapsed() >= idle_timeout);
    })
    .await;
}

#[tokio::test]
async fn the_number_of_idle_connections_is_bounded() {
    on_a_shard(async {
        let origin = Origin::serve(None, |_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                text("hi")
            })
        })
        .await;
        let client = client();
        let answers = join_all((0..30).map(|_| fetch_text(&client, get(origin.url("/"))))).await;
        assert_eq!((answers.len(), origin.connections.get()), (30, 30));
        until(|| origin.open.get() == 8).await;
    })
    .await;
}
