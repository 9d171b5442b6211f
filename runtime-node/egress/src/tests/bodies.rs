//! Tests bodies in both directions, which are streamed on demand or interrupted.

use async_compression::tokio::bufread::GzipEncoder;
use bytes::Bytes;
use futures::stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::origin::{Authority, Origin, bytes, read_head, streamed, text};
use super::*;
use crate::error::Stage;

/// Returns an endless stream that adds the number of produced bytes to `made`.
fn endless(made: Rc<Cell<usize>>) -> impl futures::Stream<Item = Bytes> {
    stream::repeat_with(move || {
        made.set(made.get() + 16 * 1024);
        Bytes::from_static(&[7; 16 * 1024])
    })
}

#[tokio::test]
async fn a_body_is_read_as_it_arrives_from_the_origin() {
    on_a_shard(async {
        let (piece_tx, piece_rx) = futures::channel::mpsc::unbounded::<Bytes>();
        let piece_rx = std::cell::RefCell::new(Some(piece_rx));
        let origin = Origin::plain(move |_| streamed(piece_rx.borrow_mut().take().unwrap())).await;
        let mut body =
            fetch(&client(), get(origin.url("/"))).await.unwrap().body.unwrap().into_stream();
        for text in ["one", "two"] {
            piece_tx.unbounded_send(text.into()).unwrap();
            assert_eq!(body.next().await.unwrap().unwrap(), text);
        }
        drop(piece_tx);
        assert!(body.next().await.is_none());
        assert!(body.next().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_body_is_not_read_far_ahead_of_its_reader() {
    on_a_shard(async {
        let authority = Authority::new();
        let settings =
            Settings::isolated(settings().policy, vec![authority.root.clone()], Hosts::default());
        let client = Client::new(&settings, EgressMetrics::default());
        for tls in [None, Some(authority.server(&["h2"]))] {
            let is_http2 = tls.is_some();
            let made = Rc::<Cell<usize>>::default();
            let count = Rc::clone(&made);
            let origin = Origin::serve(tls, move |_| {
                Box::pin(futures::future::ready(streamed(endless(Rc::clone(&count)))))
            })
            .await;
            let mut url = origin.url("/");
            if is_http2 {
                url.set_scheme("https").unwrap();
            }
            let mut body = fetch(&client, get(url)).await.unwrap().body.unwrap().into_stream();
            let first = body.next().await.unwrap().unwrap();
            assert!(!first.is_empty());
            // Wait until the origin sends nothing more ahead of the reader.
            let mut before = 0;
            while made.get() != before {
                before = made.get();
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            // The limit is above the client's window, plus, for HTTP/1, the kernel's socket buffers
            // of a local connection.
            let limit = if is_http2 { 1 << 20 } else { 16 << 20 };
            assert!(before < limit, "{before} bytes were sent ahead");
            drop(body);
            until(|| origin.open.get() == usize::from(is_http2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_unread_body_does_not_block_other_responses() {
    on_a_shard(async {
        let authority = Authority::new();
        let settings =
            Settings::isolated(settings().policy, vec![authority.root.clone()], Hosts::default());
        let client = Client::new(&settings, EgressMetrics::default());
        let made = Rc::<Cell<usize>>::default();
        let origin = Origin::serve(Some(authority.server(&["h2"])), move |request| {
            let answer = if request.uri().path() == "/endless" {
                streamed(endless(Rc::clone(&made)))
            } else {
                text("here")
            };
            Box::pin(futures::future::ready(answer))
        })
        .await;
        let url =
            |path: &str| Url::parse(&format!("https://127.0.0.1:{}{path}", origin.port)).unwrap();
        let mut unread = Vec::new();
        for _ in 0..50 {
            unread.push(fetch(&client, get(url("/endless"))).await.unwrap());
        }
        assert_eq!(fetch_text(&client, get(url("/short"))).await, "here");
        assert_eq!(origin.connections.get(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_decoded_body_loses_its_encoding_headers() {
    on_a_shard(async {
        let plain = "squeeze ".repeat(10_000);
        let mut coded = Vec::new();
        GzipEncoder::new(plain.as_bytes()).read_to_end(&mut coded).await.unwrap();
        let origin = Origin::plain(move |_| {
            let mut answer = bytes(coded.clone());
            answer.headers_mut().insert("content-encoding", HeaderValue::from_static("gzip"));
            answer.headers_mut().insert("content-length", coded.len().into());
            answer
        })
        .await;
        let response = fetch(&client(), get(origin.url("/"))).await.unwrap();
        assert!(
            !response.headers.contains_key("content-encoding")
                && !response.headers.contains_key("content-length")
        );
        assert_eq!(body(response).await.unwrap(), plain);
    })
    .await;
}

#[tokio::test]
async fn a_body_with_an_unknown_coding_is_passed_to_the_worker() {
    on_a_shard(async {
        let origin = Origin::raw(
            b"HTTP/1.1 200 OK\r\ncontent-encoding: own\r\ncontent-length: 3\r\n\r\nxyz",
        )
        .await;
        let response = fetch(&client(), get(origin.url("/"))).await.unwrap();
        assert_eq!(response.headers["content-encoding"], "own");
        assert_eq!(body(response).await.unwrap(), "xyz");
    })
    .await;
}

#[tokio::test]
async fn an_interrupted_body_is_an_error_after_its_last_bytes() {
    on_a_shard(async {
        for answer in [
            b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf" as &[u8],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense\r\n",
        ] {
            let origin = Origin::raw(answer).await;
            let mut body =
                fetch(&client(), get(origin.url("/"))).await.unwrap().body.unwrap().into_stream();
            assert_eq!(body.next().await.unwrap().unwrap(), "half");
            let error = body.next().await.unwrap().unwrap_err();
            assert_eq!(error.stage(), Stage::Body, "{error}");
            assert!(body.next().await.is_none());
        }
    })
    .await;
}

#[tokio::test]
async fn dropping_a_body_or_a_request_ends_the_exchange() {
    on_a_shard(async {
        let made = Rc::<Cell<usize>>::default();
        let origin = Origin::plain(move |_| streamed(endless(Rc::clone(&made)))).await;
        let client = client();
        let response = fetch(&client, get(origin.url("/"))).await.unwrap();
        drop(response);
        until(|| origin.open.get() == 0).await;

        let silent = Origin::serve_connections(|mut stream| async move {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all).await;
        })
        .await;
        let mut pending = Box::pin(fetch(&client, get(silent.url("/"))));
        assert!(futures::poll!(&mut pending).is_pending());
        while silent.open.get() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            assert!(futures::poll!(&mut pending).is_pending());
        }
        drop(pending);
        until(|| silent.open.get() == 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_stream_is_sent_chunked_unless_its_length_is_known() {
    on_a_shard(async {
        let origin = Origin::plain(|request| {
            let header =
                |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            text(&format!(
                "{:?} {:?} {:?}",
                request.body(),
                header("content-length"),
                header("transfer-encoding")
            ))
        })
        .await;
        let client = client();
        let stream =
            || stream::iter([Ok(Bytes::from("some")), Ok(Bytes::from("thing"))]).boxed_local();
        let request = post(
            origin.url("/"),
            RequestBody::Stream { bytes: stream(), length: None, trailers: None },
        );
        assert_eq!(fetch_text(&client, request).await, r#"b"something" None Some("chunked")"#);
        let request = post(
            origin.url("/"),
            RequestBody::Stream { bytes: stream(), length: Some(9), trailers: None },
        );
        assert_eq!(fetch_text(&client, request).await, r#"b"something" Some("9") None"#);
    })
    .await;
}

#[tokio::test]
async fn a_failed_upload_stream_fails_the_request() {
    on_a_shard(async {
        let authority = Authority::new();
        let settings =
            Settings::isolated(settings().policy, vec![authority.root.clone()], Hosts::default());
        let client = Client::new(&settings, EgressMetrics::default());
        for tls in [None, Some(authority.server(&["h2"]))] {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let origin = Origin::serve(tls, |_| Box::pin(std::future::pending())).await;
            let url = Url::parse(&format!("{scheme}://127.0.0.1:{}/", origin.port)).unwrap();
            let pieces = [Ok(Bytes::from("some")), Err(EgressError::Upload("lost".to_owned()))];
            let stream = stream::iter(pieces).boxed_local();
            let error = failure(
                &client,
                post(url, RequestBody::Stream { bytes: stream, length: None, trailers: None }),
            )
            .await;
            assert_eq!(error.stage(), Stage::Request, "{scheme}: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_response_may_arrive_before_the_request_has_been_sent() {
    on_a_shard(async {
        let origin = Origin::serve_connections(|mut stream| async move {
            if read_head(&mut stream).await {
                let _ = stream
                    .write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nno!")
                    .await;
                // Read the rest of the request, so that no TCP reset discards the response.
                let mut rest = Vec::new();
                let _ = stream.read_to_end(&mut rest).await;
            }
        })
        .await;
        let never = stream::pending().boxed_local();
        let upload = RequestBody::Stream { bytes: never, length: None, trailers: None };
        let response = fetch(&client(), post(origin.url("/"), upload)).await;
        let response = response.unwrap();
        assert_eq!(response.status.as_u16(), 413);
        assert_eq!(body(response).await.unwrap(), "no!");
    })
    .await;
}

#[tokio::test]
async fn a_request_without_memory_for_its_response_is_refused() {
    on_a_shard(async {
        let origin = Origin::plain(|_| text("")).await;
        let budget = Rc::new(FixedBudget { subrequests: Cell::new(1), memory: 1000 });
        let error = client()
            .fetch(&EgressContext { budget, ..context("shop") }, get(origin.url("/")))
            .await
            .err()
            .unwrap();
        assert_eq!(error.stage(), Stage::Limit, "{error}");
    })
    .await;
}
