//! Requests of Workers for their own static files: `env.ASSETS.fetch(request)`.
//!
//! A call belongs to one thread.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use tenon_assets::Audience;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::runtime::InvokeHead;
use tenon_table::Worker;

use crate::front::assets::{self, Answer, Request};
use crate::thread::RouterThread;

/// Answers a call for static files.
///
/// # Errors
/// Fails if the Worker has no static files, if the method or the URL is not valid, or if the files
/// are unavailable.
pub(super) async fn answer_call(
    thread: &RouterThread,
    worker: &Worker,
    head: &InvokeHead,
) -> Result<Answer, Failure> {
    let invalid = |what: &str| Failure::new(FailureCode::BadRequest, Phase::Admission, what);
    let assets = worker.assets.as_ref().ok_or_else(|| invalid("the Worker has no static files"))?;
    let method = Method::from_bytes(head.method.as_bytes())
        .map_err(|_| invalid("the request's method is not valid"))?;
    let url: Uri = head.url.parse().map_err(|_| invalid("the request's URL is not valid"))?;
    let headers = header_map(head);
    let request =
        Request { method: &method, path: url.path(), query: url.query(), headers: &headers };
    let answer = if assets::is_get_or_head(&method) {
        assets::answer(&thread.shared.sites, worker, assets, Audience::Worker, &request).await?
    } else {
        None
    };
    Ok(answer.unwrap_or_else(|| assets::no_file(&method)))
}

/// Returns the call's headers, which may ask for a range or state that the caller has the file.
/// `accept-encoding` is left out, so that the Worker reads uncompressed content.
fn header_map(head: &InvokeHead) -> HeaderMap {
    let pairs = head.headers.iter().filter_map(|header| {
        let name: HeaderName = header.name.parse().ok()?;
        Some((name, HeaderValue::from_maybe_shared(header.value.clone()).ok()?))
    });
    pairs.filter(|(name, _)| *name != header::ACCEPT_ENCODING).collect()
}
