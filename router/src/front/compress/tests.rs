//! Tests which responses are compressed, and their headers.

use tenon_clients::Clients;
use tenon_compression::metrics::CompressionMetrics;
use tokio::task::LocalSet;

use super::*;

/// Returns the response to a client that accepts gzip, after compression.
fn compressed(
    method: Method,
    status: u16,
    headers: &[(&str, &str)],
    length: usize,
) -> Response<ResponseBody> {
    compressed_for(&[("accept-encoding", "gzip")], method, status, headers, length)
}

fn compressed_for(
    request: &[(&str, &str)],
    method: Method,
    status: u16,
    headers: &[(&str, &str)],
    length: usize,
) -> Response<ResponseBody> {
    let mut builder = http::Request::builder().method(method.clone());
    for (name, value) in request {
        builder = builder.header(*name, *value);
    }
    let request = builder.body(()).unwrap().into_parts().0;
    let content = Bytes::from(vec![b'a'; length]);
    let content = (length > 0 && method != Method::HEAD).then_some(content);
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let response = response.body(ResponseBody::Full(content)).unwrap();

    let metrics = CompressionMetrics::register(&prometheus::Registry::new()).unwrap();
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let clients = Clients::new(1 << 20, 10, std::time::Duration::from_secs(1));
    let admitted = clients.admit(address, tenon_https::TlsMemory::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        compress(&Compression::new(metrics), &request, response, address.into(), admitted.client())
    })
}

fn header<'a>(response: &'a Response<ResponseBody>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

const TEXT: (&str, &str) = ("content-type", "text/plain; charset=utf-8");

#[test]
fn text_is_compressed_with_the_headers_of_compressed_content() {
    let headers = [TEXT, ("etag", "\"a\""), ("accept-ranges", "bytes"), ("content-length", "5000")];
    let response = compressed(Method::GET, 200, &headers, 5000);
    assert_eq!(header(&response, "content-encoding"), Some("gzip"));
    assert_eq!(header(&response, "vary"), Some("accept-encoding"));
    assert_eq!(header(&response, "etag"), Some("W/\"a\""));
    assert_eq!(header(&response, "accept-ranges"), None);
    assert_eq!(header(&response, "content-length"), None);
    let ResponseBody::Full(Some(content)) = response.body() else { panic!("no content") };
    assert!(content.len() < 100 && content.starts_with(&[0x1f, 0x8b]));
}

#[test]
fn the_response_to_head_has_the_same_headers() {
    let headers = [TEXT, ("etag", "\"a\""), ("content-length", "5000")];
    let [get, head] =
        [Method::GET, Method::HEAD].map(|method| compressed(method, 200, &headers, 5000));
    assert_eq!(get.headers(), head.headers());
    let short = compressed(Method::HEAD, 200, &[TEXT, ("content-length", "10")], 0);
    assert_eq!(
        (header(&short, "content-encoding"), header(&short, "content-length")),
        (None, Some("10"))
    );
}

#[test]
fn content_that_must_not_or_need_not_be_compressed_is_sent_unchanged() {
    type Case = (&'static str, u16, &'static [(&'static str, &'static str)], usize);
    let cases: [Case; 15] = [
        ("has no type", 200, &[], 5000),
        ("is an image", 200, &[("content-type", "image/png")], 5000),
        ("is gRPC", 200, &[("content-type", "application/grpc-web+json")], 5000),
        ("is a stream of events", 200, &[("content-type", "Text/Event-Stream; x=y")], 5000),
        ("is short", 200, &[TEXT], 1023),
        ("is empty", 200, &[TEXT], 0),
        ("is encoded", 200, &[TEXT, ("content-encoding", "gzip")], 5000),
        ("opts out", 200, &[TEXT, ("content-encoding", "identity")], 5000),
        ("must not be transformed", 200, &[TEXT, ("cache-control", "public, No-Transform")], 5000),
        ("is partial", 206, &[TEXT], 5000),
        ("has a range", 200, &[TEXT, ("content-range", "bytes 0-4999/9000")], 5000),
        ("has the status 204", 204, &[TEXT], 5000),
        ("has the status 205", 205, &[TEXT], 5000),
        ("has a digest", 200, &[TEXT, ("content-digest", "sha-256=:AA==:")], 5000),
        ("is longer than a turn", 200, &[TEXT], TURN + 1),
    ];
    for (name, status, headers, length) in cases {
        let response = compressed(Method::GET, status, headers, length);
        let stated = headers.iter().find(|(name, _)| *name == "content-encoding");
        assert_eq!(
            header(&response, "content-encoding"),
            stated.map(|(_, coding)| *coding),
            "content that {name}"
        );
        let content = match response.body() {
            ResponseBody::Full(content) => content.as_ref().map_or(0, Bytes::len),
            _ => panic!("content that {name} became a stream"),
        };
        assert_eq!(content, length, "content that {name}");
    }
}

#[test]
fn the_uncompressed_response_has_vary_too() {
    let cases: [&[(&str, &str)]; 4] = [
        &[],
        &[("accept-encoding", "deflate")],
        &[("accept-encoding", "gzip;q=0")],
        &[("accept-encoding", "gzip"), ("cache-control", "no-transform")],
    ];
    for request in cases {
        let response = compressed_for(request, Method::GET, 200, &[TEXT, ("etag", "\"a\"")], 5000);
        assert_eq!(header(&response, "content-encoding"), None, "{request:?}");
        assert_eq!(header(&response, "vary"), Some("accept-encoding"), "{request:?}");
        assert_eq!(header(&response, "etag"), Some("\"a\""), "{request:?}");
    }
}

#[test]
fn the_workers_vary_header_is_kept() {
    for (stated, expected) in [
        ("Origin", "Origin, accept-encoding"),
        ("Accept-Encoding", "Accept-Encoding"),
        ("*", "*"),
        ("origin, cookie", "origin, cookie, accept-encoding"),
    ] {
        let response = compressed(Method::GET, 200, &[TEXT, ("vary", stated)], 5000);
        assert_eq!(header(&response, "vary"), Some(expected), "{stated}");
    }
    let twice = [TEXT, ("vary", "origin"), ("vary", "cookie")];
    let response = compressed(Method::GET, 200, &twice, 5000);
    assert_eq!(header(&response, "vary"), Some("origin, cookie, accept-encoding"));
    assert_eq!(response.headers().get_all("vary").iter().count(), 1);
}

#[test]
fn a_client_with_compressed_content_learns_that_it_is_unchanged() {
    for (known, expected) in
        [("W/\"a\"", "W/\"a\""), ("\"b\", W/\"a\"", "W/\"a\""), ("\"a\"", "\"a\""), ("*", "\"a\"")]
    {
        let request = [("accept-encoding", "gzip"), ("if-none-match", known)];
        let response = compressed_for(&request, Method::GET, 304, &[("etag", "\"a\"")], 0);
        assert_eq!(header(&response, "etag"), Some(expected), "{known}");
    }
}

#[test]
fn a_body_that_has_to_wait_for_its_turn_is_compressed_while_it_is_sent() {
    use http_body_util::BodyExt as _;
    let metrics = CompressionMetrics::register(&prometheus::Registry::new()).unwrap();
    let compression = Compression::new(metrics);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let content = Bytes::from(vec![b'a'; TURN]);
        for is_first in [true, false] {
            let (body, is_compressed) = whole(&compression, content.clone(), Coding::Zstd);
            assert!(is_compressed);
            assert_eq!(matches!(&body, ResponseBody::Full(_)), is_first);
            let sent = body.collect().await.unwrap().to_bytes();
            assert!(zstd::decode_all(&sent[..]).unwrap() == content);
        }
    });
}
