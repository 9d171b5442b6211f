//! Tests trailers, and gRPC calls, which end with trailers.

use std::cell::RefCell;
use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::Version;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::origin::{LocalExecutor, Origin};
use super::*;

/// The version of a request, its header `te`, and its trailers.
type Received = (Version, Option<HeaderValue>, Option<HeaderMap>);

/// Starts an origin that answers with a body and trailers, or, on the path `/refused`, with a head
/// only. The origin speaks HTTP/1.1 and HTTP/2 without TLS.
async fn origin() -> (Origin, Rc<RefCell<Vec<Received>>>) {
    let log = Rc::<RefCell<Vec<Received>>>::default();
    let shared = Rc::clone(&log);
    let service = move |request: http::Request<Incoming>| {
        let log = Rc::clone(&shared);
        async move {
            let (head, body) = request.into_parts();
            let trailers = body.collect().await.unwrap().trailers().cloned();
            let te = head.headers.get(http::header::TE).cloned();
            log.borrow_mut().push((head.version, te, trailers));
            let frames = [
                Frame::data(Bytes::from_static(b"message")),
                Frame::trailers(fields(&[("grpc-status", "0"), ("x-more", "yes")])),
            ];
            let is_refused = head.uri.path() == "/refused";
            let frames = if is_refused { Vec::new() } else { frames.into() };
            let body = StreamBody::new(stream::iter(frames.into_iter().map(Ok::<_, Infallible>)));
            let mut response = http::Response::new(if is_refused {
                http_body_util::Empty::new().boxed_unsync()
            } else {
                body.boxed_unsync()
            });
            let head = response.headers_mut();
            head.insert("content-type", HeaderValue::from_static("application/grpc"));
            head.insert("trailer", HeaderValue::from_static("grpc-status"));
            Ok::<_, Infallible>(response)
        }
    };
    let origin = Origin::serve_connections(move |stream| {
        let service = service.clone();
        async move {
            let builder = hyper_util::server::conn::auto::Builder::new(LocalExecutor);
            let _ = builder.serve_connection(TokioIo::new(stream), service_fn(service)).await;
        }
    })
    .await;
    (origin, log)
}

fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    pairs.iter().map(pair).collect()
}

/// Returns a request whose body is followed by trailers.
fn call(url: Url, content_type: &'static str) -> Request {
    let piece = Ok(Bytes::from_static(b"question"));
    Request {
        method: Method::POST,
        headers: fields(&[("content-type", content_type)]),
        body: RequestBody::Stream {
            bytes: stream::iter([piece]).boxed_local(),
            length: None,
            trailers: Some(Box::new(|| fields(&[("x-checksum", "1")]))),
        },
        ..get(url)
    }
}

/// Reads the body of a response. Returns it with its trailers.
async fn read(response: Response) -> (Vec<u8>, HeaderMap) {
    let Some(ResponseBody::Stream { mut bytes, trailers }) = response.body else {
        panic!("the response has no body")
    };
    let mut all = Vec::new();
    while let Some(piece) = bytes.next().await {
        all.extend_from_slice(&piece.unwrap());
    }
    (all, trailers())
}

#[tokio::test]
async fn a_grpc_call_uses_http2_and_has_trailers_in_both_directions() {
    on_a_shard(async {
        let (origin, log) = origin().await;
        let client = client();
        for _ in 0..2 {
            let response = fetch(&client, call(origin.url("/"), "application/grpc+proto")).await;
            let (body, trailers) = read(response.unwrap()).await;
            assert_eq!(body, b"message");
            assert_eq!(trailers, fields(&[("grpc-status", "0"), ("x-more", "yes")]));
        }
        let te = Some(HeaderValue::from_static("trailers"));
        let expected = (Version::HTTP_2, te, Some(fields(&[("x-checksum", "1")])));
        assert_eq!(*log.borrow(), [expected.clone(), expected]);
        assert_eq!(origin.connections.get(), 1);
    })
    .await;
}

#[tokio::test]
async fn other_requests_without_tls_use_http1() {
    on_a_shard(async {
        let (origin, log) = origin().await;
        let response = fetch(&client(), call(origin.url("/"), "application/grpc-web")).await;
        assert_eq!(read(response.unwrap()).await.0, b"message");
        let (version, te, _) = log.borrow()[0].clone();
        assert_eq!((version, te), (Version::HTTP_11, None));
    })
    .await;
}

#[tokio::test]
async fn a_response_without_a_body_is_known_to_be_empty() {
    on_a_shard(async {
        let (origin, _log) = origin().await;
        let url = origin.url("/refused");
        let response = fetch(&client(), call(url, "application/grpc")).await.unwrap();
        assert!(matches!(response.body, Some(ResponseBody::Empty)));
    })
    .await;
}
