//! Parses the heads that the fast path accepts, which are a subset of those that hyper accepts and
//! have the same meaning to both.
//!
//! A plain request is a GET or HEAD of HTTP/1.1 without a body, whose target is a path and whose
//! connection stays open. `Host` occurs once, and `Content-Length` and `Connection` occur at
//! most once, in their simplest form. Other headers that concern the framing or the
//! connection, such as `Transfer-Encoding` and `Upgrade`, do not occur. Anything else, valid or
//! not, is left to hyper.
//!
//! This module is pure.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header};
use httparse::Status;

/// The maximum number of headers of a plain request. hyper accepts up to 100.
const MAX_HEADERS: usize = 64;

/// Parses the head of a plain request. Returns `None` for any other head.
///
/// # Arguments
/// * `head` - a whole head, whose lines end with CRLF.
pub(crate) fn parse(head: &[u8]) -> Option<Request<()>> {
    let method = match head {
        [b'G', b'E', b'T', b' ', b'/', ..] => Method::GET,
        [b'H', b'E', b'A', b'D', b' ', b'/', ..] => Method::HEAD,
        _ => return None,
    };
    // The values of the headers share this copy.
    let head = Bytes::copy_from_slice(head);
    let mut space = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    if parsed.parse_with_uninit_headers(&head, &mut space) != Ok(Status::Complete(head.len())) {
        return None;
    }
    let httparse::Request { path: Some(target), version: Some(1), headers, .. } = parsed else {
        return None;
    };
    let uri = uri(&head, target)?;
    let headers = header_map(&head, headers)?;

    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    Some(request)
}

fn uri(head: &Bytes, target: &str) -> Option<Uri> {
    // A fragment never belongs to a target.
    let is_plain = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    is_plain.then(|| Uri::from_maybe_shared(head.slice_ref(target.as_bytes())).ok())?
}

fn header_map(head: &Bytes, headers: &[httparse::Header<'_>]) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for header in headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        let is_sole = || !map.contains_key(&name);
        let is_plain = match name {
            // `TE` may announce that the client accepts trailers.
            header::TRANSFER_ENCODING | header::UPGRADE | header::EXPECT | header::TE => false,
            header::HOST => is_sole(),
            header::CONTENT_LENGTH => header.value == b"0" && is_sole(),
            header::CONNECTION => header.value.eq_ignore_ascii_case(b"keep-alive") && is_sole(),
            _ => true,
        };
        if !is_plain {
            return None;
        }
        map.append(name, HeaderValue::from_maybe_shared(head.slice_ref(header.value)).ok()?);
    }
    map.contains_key(header::HOST).then_some(map)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_clients::head::{Ahead, Messages};

    use super::*;
    use crate::front::fast_path::reference;

    fn with(headers: &str) -> String {
        format!("GET /a?b=c HTTP/1.1\r\nHost: shop\r\n{headers}\r\n")
    }

    #[test]
    fn a_plain_request_is_parsed() {
        for (headers, expected) in [
            ("", &[][..]),
            ("X-A: 1\r\nx-b:2\t\r\nX-A:  3 \r\n", &[("x-a", "1"), ("x-a", "3"), ("x-b", "2")]),
            ("Connection: Keep-Alive\r\n", &[("connection", "Keep-Alive")]),
            ("content-length: 0\r\n", &[("content-length", "0")]),
            ("dnt: 1\r\nempty:\r\n", &[("dnt", "1"), ("empty", "")]),
        ] {
            let request = parse(with(headers).as_bytes()).unwrap_or_else(|| panic!("{headers:?}"));
            assert_eq!(
                (request.method(), request.uri()),
                (&Method::GET, &"/a?b=c".parse().unwrap())
            );
            let mut found: Vec<_> = request
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
                .collect();
            found.sort_unstable();
            let mut expected = [&[("host", "shop")][..], expected].concat();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
        let head = parse(b"HEAD / HTTP/1.1\r\nhost: shop\r\n\r\n").unwrap();
        assert_eq!(head.method(), Method::HEAD);
    }

    #[test]
    fn any_other_request_is_left_to_hyper() {
        let others = [
            "POST / HTTP/1.1\r\nhost: shop\r\n\r\n",
            "get / HTTP/1.1\r\nhost: shop\r\n\r\n",
            "GET / HTTP/1.0\r\nhost: shop\r\n\r\n",
            "GET  / HTTP/1.1\r\nhost: shop\r\n\r\n",
            "GET / HTTP/1.1 \r\nhost: shop\r\n\r\n",
            "GET /a b HTTP/1.1\r\nhost: shop\r\n\r\n",
            "GET /#a HTTP/1.1\r\nhost: shop\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\nhost: shop\r\n\r\n",
            "GET http://shop/ HTTP/1.1\r\nhost: shop\r\n\r\n",
            "GET * HTTP/1.1\r\nhost: shop\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nhost: shop\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: shop\r\n\r\nmore",
        ];
        for other in others {
            assert!(parse(other.as_bytes()).is_none(), "{other:?}");
        }
        let headers = [
            "host: shop\r\n",
            "transfer-encoding: chunked\r\n",
            "transfer-encoding: identity\r\n",
            "content-length: 1\r\n",
            "content-length: 00\r\n",
            "content-length: +0\r\n",
            "content-length:\r\n",
            "content-length: 0, 0\r\n",
            "content-length: 0\r\ncontent-length: 0\r\n",
            "upgrade: websocket\r\n",
            "expect: 100-continue\r\n",
            "te: trailers\r\n",
            "connection: close\r\n",
            "connection: keep-alive, x\r\n",
            "connection: keep-alive\r\nconnection: close\r\n",
            "x: y\r\n z\r\n",
            "x : y\r\n",
            " x: y\r\n",
            "x\r\n",
            ": y\r\n",
            "x: \0\r\n",
            "x: a\rb\r\n",
            "x(: y\r\n",
        ];
        for other in headers {
            assert!(parse(with(other).as_bytes()).is_none(), "{other:?}");
        }
        let many = |count| with(&"x: y\r\n".repeat(count));
        assert!(parse(many(MAX_HEADERS - 1).as_bytes()).is_some());
        assert!(parse(many(MAX_HEADERS).as_bytes()).is_none());
    }

    /// Returns heads in which each part is nearly always valid, and often unusual.
    fn heads() -> impl Strategy<Value = Vec<u8>> {
        let part = |parts: &'static [&'static str]| prop::sample::select(parts);
        let request_line = (
            part(&["GET", "HEAD", "GET", "POST", "G(T", ""]),
            part(&[" ", " ", " ", "  ", "\t"]),
            prop_oneof!["/[!-~]{0,8}", "[ -~]{0,8}", "http://[a-z@:/]{0,8}", Just("*".to_owned())],
            part(&[" HTTP/1.1", " HTTP/1.1", " HTTP/1.1", " HTTP/1.0", " HTTP/2.0", ""]),
        );
        let name = part(&[
            "host",
            "Host",
            "content-length",
            "Transfer-Encoding",
            "connection",
            "Expect",
            "upgrade",
            "x",
            "Cookie",
            "x y",
            "",
            " x",
            "te",
        ]);
        let value = prop_oneof![
            part(&[
                "shop",
                "0",
                "1",
                "00",
                "chunked",
                "keep-alive",
                "close",
                "100-continue",
                "a\rb",
                "\t",
                "websocket",
                "0, 0",
                " 0 ",
            ])
            .prop_map(|value| value.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..6),
        ];
        let separator = part(&[":", ": ", ":\t ", " : ", ""]);
        let end = part(&["\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r\n "]);
        let headers = prop::collection::vec((name, separator, value, end), 0..4);
        let host = part(&["host: shop\r\n", "host: shop\r\n", ""]);
        (request_line, host, headers).prop_map(
            |((method, space, target, version), host, headers)| {
                let mut head = format!("{method}{space}{target}{version}\r\n{host}").into_bytes();
                for (name, separator, value, end) in headers {
                    head.extend(
                        [name.as_bytes(), separator.as_bytes(), &value, end.as_bytes()].concat(),
                    );
                }
                head.extend(b"\r\n");
                head
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn hyper_reads_every_accepted_head_in_the_same_way(head in heads()) {
            let Ahead::Head(len) = Messages::default().look_ahead(&head) else { return Ok(()) };
            if let Some(request) = parse(&head[..len]) {
                prop_assert_eq!(Some(reference::facts(&request)), reference::read(&head[..len]));
            }
        }
    }
}
