//! Tests which responses the cache keeps, finds and drops.

use http::HeaderName;

use super::*;

const URL: &str = "https://origin.test/thing";

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect()
}

fn request(pairs: &[(&str, &str)]) -> CacheRequest {
    CacheRequest { headers: headers(pairs) }
}

fn response(pairs: &[(&str, &str)]) -> CacheResponse {
    CacheResponse { status: StatusCode::OK, reason: Bytes::new(), headers: headers(pairs) }
}

fn key(worker: &str) -> Key {
    Key::new(&WorkerId::new("shop", worker), "default", URL)
}

fn puts(cache: &ResponseCache, pairs: &[(&str, &str)]) -> bool {
    cache.put(key("a"), &request(&[]), response(pairs), Bytes::from_static(b"body"))
}

fn finds(cache: &ResponseCache, key: &Key, pairs: &[(&str, &str)]) -> Option<(StatusCode, Bytes)> {
    cache.look_up(key, &request(pairs)).map(|(answer, body)| (answer.status, body))
}

const KEPT: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn a_fresh_response_is_found_only_by_the_worker_that_put_it() {
    let cache = ResponseCache::new(1 << 20);
    assert!(puts(&cache, &[KEPT, ("etag", "\"1\"")]));
    assert_eq!(finds(&cache, &key("a"), &[]), Some((StatusCode::OK, Bytes::from_static(b"body"))));
    assert_eq!(finds(&cache, &key("b"), &[]), None);
    assert_eq!(finds(&cache, &Key::new(&WorkerId::new("shop", "a"), "other", URL), &[]), None);
    let same = Key::new(&WorkerId::new("shop", "a"), "default", "https://origin.test/thing#there");
    assert!(finds(&cache, &same, &[]).is_some());
    assert!(cache.remove(&key("a")));
    assert!(!cache.remove(&key("a")));
    assert_eq!(finds(&cache, &key("a"), &[]), None);
}

#[test]
fn a_response_that_may_not_be_cached_is_not_kept() {
    let cache = ResponseCache::new(1 << 20);
    for refused in [
        &[("cache-control", "no-store")][..],
        &[("cache-control", "private, max-age=60")],
        &[("cache-control", "max-age=0")],
        &[("expires", "Thu, 01 Jan 1970 00:00:00 GMT")],
        &[KEPT, ("age", "60")],
        &[],
        &[KEPT, ("set-cookie", "a=1")],
    ] {
        assert!(!puts(&cache, refused), "{refused:?}");
    }
    assert!(
        puts(&cache, &[("cache-control", "max-age=0, s-maxage=9")]),
        "a response with s-maxage=9 was not stored"
    );
}

#[test]
fn a_request_that_differs_in_a_vary_header_misses() {
    let cache = ResponseCache::new(1 << 20);
    let language = |value| request(&[("accept-language", value)]);
    let varies = response(&[KEPT, ("vary", "accept-language")]);
    assert!(cache.put(key("a"), &language("de"), varies, Bytes::from_static(b"Guten Tag")));
    assert!(cache.look_up(&key("a"), &language("de")).is_some());
    assert!(cache.look_up(&key("a"), &language("en")).is_none());
}

#[test]
fn variants_are_kept_side_by_side_and_replaced_individually() {
    let cache = ResponseCache::new(1 << 20);
    let language = |value: &str| request(&[("accept-language", value)]);
    let put = |value, text: &'static str| {
        let varies = response(&[KEPT, ("vary", "accept-language")]);
        assert!(cache.put(key("a"), &language(value), varies, Bytes::from_static(text.as_bytes())));
    };
    let found = |value| cache.look_up(&key("a"), &language(value)).map(|(_, body)| body);
    put("de", "Guten Tag");
    put("fr", "Bonjour");
    put("de", "Moin");
    assert_eq!(found("de").as_deref(), Some(&b"Moin"[..]));
    assert_eq!(found("fr").as_deref(), Some(&b"Bonjour"[..]));
    assert_eq!(cache.entries.get(&key("a")).map(|kept| kept.len()), Some(2));
    assert!(puts(&cache, &[KEPT]), "the response without Vary was not stored");
    assert_eq!(found("en").as_deref(), Some(&b"body"[..]));
}

#[test]
fn the_number_of_variants_is_bounded_and_the_latest_are_kept() {
    let cache = ResponseCache::new(4 << 20);
    for number in 0..40 {
        let varies = response(&[KEPT, ("vary", "x")]);
        assert!(cache.put(
            key("a"),
            &request(&[("x", &number.to_string())]),
            varies,
            Bytes::from(vec![0; 60 << 10])
        ));
        cache.entries.run_pending_tasks();
    }
    let found =
        |number: u32| cache.look_up(&key("a"), &request(&[("x", &number.to_string())])).is_some();
    assert_eq!(
        (0..40).filter(|number| found(*number)).collect::<Vec<_>>(),
        (24..40).collect::<Vec<_>>()
    );
    assert!(cache.remove(&key("a")));
    cache.entries.run_pending_tasks();
    assert!(cache.tenants.0.lock().unwrap().is_empty(), "the tenant's memory is still in use");
}

#[test]
fn a_request_with_no_cache_misses() {
    let cache = ResponseCache::new(1 << 20);
    assert!(puts(&cache, &[KEPT]));
    assert_eq!(finds(&cache, &key("a"), &[("cache-control", "no-cache")]), None);
}

#[test]
fn a_matching_conditional_request_gets_not_modified() {
    let cache = ResponseCache::new(1 << 20);
    assert!(puts(
        &cache,
        &[KEPT, ("etag", "\"1\""), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]
    ));
    let status = |pairs: &[(&str, &str)]| finds(&cache, &key("a"), pairs).unwrap().0;
    assert_eq!(status(&[("if-none-match", "\"0\", W/\"1\"")]), StatusCode::NOT_MODIFIED);
    assert_eq!(status(&[("if-none-match", "\"2\"")]), StatusCode::OK);
    assert_eq!(
        status(&[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]),
        StatusCode::NOT_MODIFIED
    );
    assert_eq!(status(&[("if-modified-since", "Sun, 06 Nov 1994 08:49:36 GMT")]), StatusCode::OK);
}

#[test]
fn a_tenant_gets_half_of_the_cache_and_reuses_freed_space() {
    let cache = ResponseCache::new(256 << 10);
    let put = |name: &str| {
        let key = Key::new(&WorkerId::new("greedy", "a"), name, URL);
        cache.put(key, &request(&[]), response(&[KEPT]), Bytes::from(vec![0; 60 << 10]))
    };
    assert_eq!(["1", "2", "3"].map(put), [true, true, false]);
    assert!(puts(&cache, &[KEPT]), "another tenant has no room");
    assert!(cache.remove(&Key::new(&WorkerId::new("greedy", "a"), "1", URL)));
    cache.entries.run_pending_tasks();
    assert!(put("3"));
}

#[test]
fn a_replaced_response_counts_once() {
    let cache = ResponseCache::new(256 << 10);
    for _ in 0..100 {
        let body = Bytes::from(vec![0; 60 << 10]);
        assert!(cache.put(key("a"), &request(&[]), response(&[KEPT]), body));
        cache.entries.run_pending_tasks();
    }
}
