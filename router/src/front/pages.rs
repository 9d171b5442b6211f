//! The interface of the pages that `tenon dev` adds to its router for the browser of a developer. A
//! router on a cluster has no pages, so it answers each failure as [`error`](mod@super::error)
//! says.

use std::fmt;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, header};
use tenon_proto::failure::Failure;
use tenon_proto::id::WorkerId;

/// A request without a response from its Worker.
#[derive(Clone, Copy, Debug)]
pub struct FailedRequest<'a> {
    pub request: &'a Parts,
    pub request_id: &'a str,
    /// The Worker, if one has a route for the request.
    pub worker: Option<&'a WorkerId>,
    pub failure: &'a Failure,
}

/// A page in HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub html: String,
    /// The value of `Content-Security-Policy`.
    pub policy: HeaderValue,
}

/// Answers some requests in place of a Worker, and shows failures as pages. The methods run on the
/// threads that serve requests, so they must not block.
pub trait Pages: fmt::Debug + Send + Sync {
    /// Returns the response to a request that a page has sent, or `None` for all other requests,
    /// which are for Workers.
    fn answer(&self, request: &Parts) -> Option<Response<Bytes>>;

    /// Returns the page that shows a failure, or `None` if the client shows no pages.
    fn failure(&self, failed: &FailedRequest<'_>) -> Option<Page>;
}

/// Replaces the body of the response to a failed request with a page.
pub(crate) fn show(Page { html, policy }: Page, response: &mut Response<Bytes>) {
    *response.body_mut() = Bytes::from(html);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}
