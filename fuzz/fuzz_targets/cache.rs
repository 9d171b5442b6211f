//! Fuzzes the response cache. A cached response was stored by the same Worker for a matching
//! request. It has the stored status and body, unless it is a 304 response, and sets no cookie.

#![no_main]

use arbitrary::Arbitrary;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE, VARY};
use http::{StatusCode, header};
use libfuzzer_sys::fuzz_target;
use tenon_proto::id::WorkerId;
use tenon_web::response_cache::{CacheRequest, CacheResponse, Key, ResponseCache};

const NAMES: [HeaderName; 16] = [
    header::CACHE_CONTROL,
    header::EXPIRES,
    header::DATE,
    header::AGE,
    header::VARY,
    header::ETAG,
    header::LAST_MODIFIED,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::SET_COOKIE,
    header::AUTHORIZATION,
    header::PRAGMA,
    header::CONTENT_LENGTH,
    header::RANGE,
    header::ACCEPT,
    header::WARNING,
];

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    status: u16,
    url: &'a str,
    request: Vec<(u8, &'a [u8])>,
    answered: Vec<(u8, &'a [u8])>,
    next_request: Vec<(u8, &'a [u8])>,
    body: &'a [u8],
}

fn headers(list: &[(u8, &[u8])]) -> HeaderMap {
    let header = |(name, value): &(u8, &[u8])| {
        Some((
            NAMES[usize::from(*name) % NAMES.len()].clone(),
            HeaderValue::from_bytes(value).ok()?,
        ))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in list.iter().filter_map(header) {
        headers.append(name, value);
    }
    headers
}

fuzz_target!(|input: Input<'_>| {
    let cache = ResponseCache::new(1 << 20);
    let key = |worker| Key::new(&WorkerId::new("tenant", worker), "default", input.url);
    let Ok(status) = StatusCode::from_u16(200 + input.status % 400) else { return };
    let answer = CacheResponse {
        status,
        reason: Bytes::from_static(b"Fine"),
        headers: headers(&input.answered),
    };
    let request = CacheRequest { headers: headers(&input.request) };
    let (has_cookies, vary) = (
        answer.headers.contains_key(SET_COOKIE),
        answer.headers.get_all(VARY).iter().cloned().collect::<Vec<_>>(),
    );
    let body = Bytes::copy_from_slice(input.body);

    let kept = cache.put(key("worker"), &request, answer, body.clone());
    let again = CacheRequest { headers: headers(&input.next_request) };
    assert!(cache.look_up(&key("other"), &again).is_none());
    let found = cache.look_up(&key("worker"), &again);
    assert!(found.is_none() || kept);
    if let Some((answer, found)) = found {
        assert!(!has_cookies && !answer.headers.contains_key(SET_COOKIE));
        match answer.status {
            StatusCode::NOT_MODIFIED if status != StatusCode::NOT_MODIFIED => {
                assert!(found.is_empty())
            }
            found_status => assert_eq!((found_status, found), (status, body)),
        }
        assert!(vary.iter().all(|vary| vary != "*"));
        for name in vary.iter().filter_map(|vary| HeaderName::from_bytes(vary.as_bytes()).ok()) {
            assert_eq!(request.headers.get(&name), again.headers.get(&name), "{name}");
        }
    }
    assert_eq!(cache.remove(&key("worker")), kept);
    assert!(cache.look_up(&key("worker"), &request).is_none());
});
