//! Responses that Workers cache (`caches`), in this process's memory, for as long as HTTP's rules
//! allow (RFC 9111).
//!
//! ```text
//!  put ─► storable? fresh? ─► tenant's share? ─► variants (Worker, cache, URL) ─► match: fresh?
//!                                                   └─ stale, or the cache is full ─► evicted
//! ```
//!
//! If the responses of a URL vary (`Vary`), the cache keeps the latest variants of the URL, at most
//! `MAX_VARIANTS` of them.
//!
//! All shards of a process share the cache, so that a response fetched by one serves the others.
//! Each Worker sees only its own entries. The cache may refuse or evict any response; its Worker
//! then fetches the response again.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{
    CONTENT_LENGTH, ETAG, HeaderMap, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, SET_COOKIE,
    TRANSFER_ENCODING,
};
use http::{HeaderValue, Method, StatusCode, Uri};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy, RequestLike, ResponseLike};
use moka::Expiry;
use moka::notification::RemovalCause;
use moka::ops::compute::{CompResult, Op};
use moka::sync::Cache;
use rustc_hash::FxHashMap;
use tenon_proto::id::WorkerId;

/// The maximum size of a cached body, in bytes.
pub const MAX_BODY: usize = 8 << 20;

/// The estimated memory of an entry besides its body, headers and URL, in bytes.
const ENTRY_OVERHEAD: usize = 1024;

/// The maximum number of variants of one URL: enough for the usual languages and content codings.
const MAX_VARIANTS: usize = 16;

/// The number by which the cache's size is divided to obtain the share of one namespace.
const SHARE_DIVISOR: u64 = 2;

/// A cache of responses; see the module's documentation.
pub struct ResponseCache {
    entries: Cache<Key, Variants>,
    tenants: Arc<Tenants>,
    bound: u64,
}

/// The key of a cached response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    worker: WorkerId,
    cache: Box<str>,
    url: Box<str>,
}

/// The request whose response is looked up, or the request that a stored response answered.
#[derive(Debug)]
pub struct CacheRequest {
    pub headers: HeaderMap,
}

/// A response to be cached, without its body.
#[derive(Debug)]
pub struct CacheResponse {
    pub status: StatusCode,
    pub reason: Bytes,
    pub headers: HeaderMap,
}

/// A stored response, with its memory in bytes.
struct Entry {
    policy: CachePolicy,
    status: StatusCode,
    reason: Bytes,
    body: Bytes,
    size: u32,
}

/// The variants of one URL, the latest last.
type Variants = Arc<[Arc<Entry>]>;

fn size_of(variants: &Variants) -> u32 {
    variants.iter().fold(0, |sum, entry| sum.saturating_add(entry.size))
}

/// The number of bytes that each namespace uses.
#[derive(Default)]
struct Tenants(Mutex<FxHashMap<Box<str>, u64>>);

impl Key {
    /// Creates a key.
    ///
    /// # Arguments
    /// * `url` - an absolute URL; its fragment is ignored.
    pub fn new(worker: &WorkerId, cache: &str, url: &str) -> Self {
        let url = url.split_once('#').map_or(url, |(url, _)| url);
        Self { worker: worker.clone(), cache: cache.into(), url: url.into() }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.worker.as_str().hash(state);
        self.cache.hash(state);
        self.url.hash(state);
    }
}

impl ResponseCache {
    /// Creates a cache.
    ///
    /// # Arguments
    /// * `bound` - the maximum size of all entries together, in bytes.
    pub fn new(bound: u64) -> Arc<Self> {
        let tenants = Arc::<Tenants>::default();
        let counted = Arc::clone(&tenants);
        let release = move |key: Arc<Key>, kept: Variants, _: RemovalCause| {
            counted.release(&key, size_of(&kept))
        };
        let entries = Cache::builder()
            .max_capacity(bound)
            .weigher(|_, kept: &Variants| size_of(kept))
            .expire_after(Freshness)
            .eviction_listener(release)
            .build();
        Arc::new(Self { entries, tenants, bound })
    }

    /// Stores a response, unless HTTP's rules forbid that, the response is already stale or sets
    /// cookies, its body is longer than [`MAX_BODY`], or its namespace's share has no room. Returns
    /// whether the response is stored.
    pub fn put(
        &self,
        key: Key,
        request: &CacheRequest,
        response: CacheResponse,
        body: Bytes,
    ) -> bool {
        let CacheResponse { status, reason, mut headers } = response;
        // `Transfer-Encoding` described the transfer of the message, not the response.
        headers.remove(TRANSFER_ENCODING);
        let length =
            headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
        let size = body.len() + length + key.url.len() + ENTRY_OVERHEAD;
        let has_cookies = headers.contains_key(SET_COOKIE);
        let response = Head { status, headers: &headers };
        let policy = CachePolicy::new_options(
            request,
            &response,
            SystemTime::now(),
            CacheOptions::default(),
        );
        if body.len() > MAX_BODY
            || has_cookies
            || !policy.is_storable()
            || policy.is_stale(SystemTime::now())
        {
            return false;
        }
        let Ok(size) = u32::try_from(size) else { return false };
        let entry = Arc::new(Entry { policy, status, reason, body, size });
        let put = self.entries.entry(key.clone()).and_compute_with(|kept| {
            let before = kept.map(moka::Entry::into_value).unwrap_or_default();
            let others = before
                .iter()
                .filter(|other| !other.policy.is_stale(SystemTime::now()) && !other.meets(request));
            let mut variants: Vec<_> = others.cloned().collect();
            variants.drain(..variants.len().saturating_sub(MAX_VARIANTS - 1));
            variants.push(entry);
            let variants = Variants::from(variants);
            // The previous value's part of the share is released when the new value replaces it.
            let share = self.bound / SHARE_DIVISOR + u64::from(size_of(&before));
            let has_room = self.tenants.take(&key, size_of(&variants), share);
            if has_room { Op::Put(variants) } else { Op::Nop }
        });
        matches!(put, CompResult::Inserted(_) | CompResult::ReplacedWith(_))
    }

    /// Returns the stored response for the request if it is fresh, or 304 if the request's
    /// validators match it.
    pub fn look_up(&self, key: &Key, request: &CacheRequest) -> Option<(CacheResponse, Bytes)> {
        let kept = self.entries.get(key)?;
        let (entry, head) = kept.iter().rev().find_map(|entry| {
            let BeforeRequest::Fresh(head) =
                entry.policy.before_request(request, SystemTime::now())
            else {
                return None;
            };
            Some((entry, head))
        })?;
        let mut headers = head.headers;
        if matches_validators(&request.headers, &headers) {
            headers.remove(CONTENT_LENGTH);
            let reason = Bytes::from_static(b"Not Modified");
            return Some((
                CacheResponse { status: StatusCode::NOT_MODIFIED, reason, headers },
                Bytes::new(),
            ));
        }
        let response =
            CacheResponse { status: entry.status, reason: entry.reason.clone(), headers };
        Some((response, entry.body.clone()))
    }

    /// Removes the stored responses of a key. Returns whether there were any.
    pub fn remove(&self, key: &Key) -> bool {
        self.entries.remove(key).is_some()
    }
}

impl Entry {
    /// Returns whether the entry answers the request, fresh or not.
    fn meets(&self, request: &CacheRequest) -> bool {
        match self.policy.before_request(request, SystemTime::now()) {
            BeforeRequest::Fresh(_) => true,
            BeforeRequest::Stale { matches, .. } => matches,
        }
    }
}

/// Returns whether the requester already has the response (RFC 9110 §13.1).
fn matches_validators(request: &HeaderMap, response: &HeaderMap) -> bool {
    fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
        headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok())
    }
    if let Some(tags) = text(request, &IF_NONE_MATCH) {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let tag = text(response, &ETAG).map(opaque);
        return tags.trim() == "*"
            || tags.split(',').any(|candidate| Some(opaque(candidate)) == tag);
    }
    let date =
        |headers, name| text(headers, name).and_then(|date| httpdate::parse_http_date(date).ok());
    date(request, &IF_MODIFIED_SINCE)
        .zip(date(response, &LAST_MODIFIED))
        .is_some_and(|(since, last)| last <= since)
}

impl Tenants {
    /// Counts `size` bytes for the key's namespace, unless it would then use more than `share`
    /// bytes. Returns whether the bytes were counted.
    fn take(&self, key: &Key, size: u32, share: u64) -> bool {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = tenants.entry(key.namespace().into()).or_default();
        let has_room = *used + u64::from(size) <= share;
        if has_room {
            *used += u64::from(size);
        }
        has_room
    }

    fn release(&self, key: &Key, size: u32) {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = tenants.get_mut(key.namespace()) {
            *used = used.saturating_sub(size.into());
            if *used == 0 {
                tenants.remove(key.namespace());
            }
        }
    }
}

impl Key {
    fn namespace(&self) -> &str {
        self.worker.as_str().split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

/// The expiry policy: the variants of a URL expire once none of them is fresh.
struct Freshness;

impl Expiry<Key, Variants> for Freshness {
    fn expire_after_create(&self, _: &Key, kept: &Variants, _: Instant) -> Option<Duration> {
        let now = SystemTime::now();
        kept.iter().map(|entry| entry.policy.time_to_live(now)).max()
    }

    fn expire_after_update(
        &self,
        key: &Key,
        kept: &Variants,
        now: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.expire_after_create(key, kept, now)
    }
}

impl RequestLike for CacheRequest {
    fn uri(&self) -> Uri {
        // The key already identifies the URL, and not every URL fits this type.
        Uri::default()
    }

    fn is_same_uri(&self, other: &Uri) -> bool {
        *other == Uri::default()
    }

    fn method(&self) -> &Method {
        &Method::GET
    }

    fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

struct Head<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
}

impl ResponseLike for Head<'_> {
    fn status(&self) -> StatusCode {
        self.status
    }

    fn headers(&self) -> &HeaderMap {
        self.headers
    }
}

#[cfg(test)]
mod tests;
