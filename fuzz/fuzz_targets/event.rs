//! Fuzzes the head of a request that another process sends. The request becomes an event or is
//! rejected (`workers/event.js`).

#![no_main]

use arbitrary::Arbitrary;
use bytes::Bytes;
use http::HeaderValue;
use tenon_engine::{Body, CallContext, FetchRequest};
use tenon_proto::runtime::Header;
use url::Url;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    method: &'a str,
    url: &'a str,
    headers: Vec<(&'a str, &'a [u8])>,
    body: &'a [u8],
}

tenon_fuzz::in_an_isolate!("../workers/event.js", |host, input: Input<'_>| {
    // Routers send only valid URLs and header values.
    let Ok(url) = Url::parse(input.url) else { return };
    if input.headers.iter().any(|(_, value)| HeaderValue::from_bytes(value).is_err()) {
        return;
    }
    let header = |(name, value): (&str, &[u8])| Header {
        name: name.to_ascii_lowercase(),
        value: Bytes::copy_from_slice(value),
    };
    let answer = host.deliver(FetchRequest {
        request_id: "fuzz".to_owned(),
        method: input.method.to_owned(),
        url: url.into(),
        headers: input.headers.into_iter().map(header).collect(),
        body: Body::Full(Bytes::copy_from_slice(input.body)),
        entry: None,
        call_context: CallContext::default(),
    });
    assert!(answer.is_none_or(|body| body == input.body));
});
