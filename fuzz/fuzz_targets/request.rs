//! Fuzzes the head of a client's request as a node receives it. The head has exactly one host and,
//! apart from `upgrade`, no hop-by-hop headers. Only the router sets the headers that are reserved
//! for it. A request that the router refuses gets a response with a reason.

#![no_main]

use std::net::IpAddr;

use arbitrary::Arbitrary;
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use libfuzzer_sys::fuzz_target;
use tenon_proto::failure::FailureCode;
use tenon_proto::frame::Decoder;
use tenon_proto::runtime::{InvokeRequest, invoke_request::Part};
use tenon_router::fuzzing;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    method: &'a [u8],
    uri: &'a [u8],
    http2: bool,
    protocol: Option<&'a str>,
    headers: Vec<(&'a [u8], &'a [u8])>,
    peer: IpAddr,
}

fuzz_target!(|input: Input<'_>| {
    let (Ok(method), Ok(uri)) = (Method::from_bytes(input.method), Uri::try_from(input.uri)) else {
        return;
    };
    let version = if input.http2 { Version::HTTP_2 } else { Version::HTTP_11 };
    let (mut parts, ()) = Request::new(()).into_parts();
    (parts.method, parts.uri, parts.version) = (method, uri, version);
    for (name, value) in input.headers {
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        else {
            continue;
        };
        if parts.headers.try_append(name, value).is_err() {
            return;
        }
    }
    if let Some(protocol) = input.protocol {
        parts.extensions.insert(fuzzing::Protocol::from(protocol));
    }
    let message = match fuzzing::head(&parts, input.peer) {
        Ok(message) => message,
        Err(failure) => {
            assert!(matches!(failure.code, FailureCode::BadRequest | FailureCode::UpgradeRequired));
            let answer = fuzzing::answer(&failure, &parts);
            assert!(answer.status().is_client_error() && !answer.body().is_empty());
            return;
        }
    };
    let mut decoder = Decoder::default();
    decoder.push(message);
    let Ok(Some(InvokeRequest { part: Some(Part::Head(head)) })) = decoder.next() else {
        panic!("the message is not a head");
    };
    decoder.finish().expect("the bytes are not one message");

    let values = |name: &str| {
        head.headers
            .iter()
            .filter(|header| header.name == name)
            .map(|header| &header.value)
            .collect::<Vec<_>>()
    };
    match &values("upgrade")[..] {
        [] => assert_eq!(head.method, parts.method.as_str()),
        upgrade => {
            assert_eq!((upgrade.len(), &upgrade[0][..]), (1, &b"websocket"[..]));
            assert_eq!((head.method.as_str(), head.more_body), ("GET", true));
            assert!(
                values("sec-websocket-key").len() <= 1
                    && values("sec-websocket-version").len() <= 1
            );
        }
    }
    let after_scheme = head.url.strip_prefix("http://").expect("the URL is not absolute");
    let [host] = &values("host")[..] else { panic!("not one host: {head:?}") };
    assert!(!host.is_empty() && after_scheme.as_bytes().starts_with(host));
    assert_eq!(values("x-forwarded-host"), [*host]);
    assert_eq!(values("x-forwarded-proto").len(), 1);
    let [peer] = &values("x-forwarded-for")[..] else {
        panic!("not one x-forwarded-for: {head:?}")
    };
    assert_eq!(&peer[..], input.peer.to_canonical().to_string().as_bytes());
    let [id] = &values("x-request-id")[..] else { panic!("not one x-request-id: {head:?}") };
    assert_eq!(*id, head.request_id.as_bytes());
    assert!((1..=128).contains(&id.len()));
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "te",
        "expect",
        "forwarded",
        "x-real-ip",
    ] {
        assert!(values(name).is_empty(), "the head has {name}");
    }
    assert!(
        head.headers.iter().all(|header| HeaderName::from_bytes(header.name.as_bytes()).is_ok())
    );
});
