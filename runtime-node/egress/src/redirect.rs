//! Decides whether and how a redirect is followed (Fetch, "HTTP-redirect fetch"). This module is
//! pure.

use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION,
    CONTENT_TYPE, COOKIE, HeaderName, LOCATION, PROXY_AUTHORIZATION,
};
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::EgressError;

/// Maximum number of redirects that are followed.
pub const MAX_REDIRECTS: u32 = 20;

/// Headers with credentials, which only the origin to which the Worker sent them may see.
const CREDENTIALS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// Headers that describe a body, and are dropped with the body.
const BODY_HEADERS: [HeaderName; 5] =
    [CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_TYPE];

/// The step that follows a response.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Return the response, because it is not a redirect or has no `Location`.
    Stay,
    /// Send a request to `url`.
    Go {
        url: Url,
        /// Whether the method changes to GET and the body is dropped.
        as_get: bool,
        /// Whether the target has another origin, so that credentials are dropped.
        is_cross_origin: bool,
    },
}

/// Decides what to do with a response.
///
/// # Arguments
/// * `redirects` - the number of redirects that were already followed.
/// * `replayable` - whether the request has no body, or its body can be sent again.
///
/// # Errors
/// Fails if the redirect leads to a URL that cannot be fetched, if [`MAX_REDIRECTS`] redirects were
/// followed already, or if the redirect requires a body that cannot be sent again.
pub fn next(
    status: StatusCode,
    response: &HeaderMap,
    method: &Method,
    url: &Url,
    redirects: u32,
    replayable: bool,
) -> Result<Next, EgressError> {
    if !is_redirect(status) {
        return Ok(Next::Stay);
    }
    let Some(target) = response.get(LOCATION) else { return Ok(Next::Stay) };
    let target = target.to_str().ok().and_then(|target| url.join(target).ok());
    let Some(mut target) = target else {
        return Err(EgressError::Redirect("its Location is not a URL"));
    };
    if target.fragment().is_none() {
        target.set_fragment(url.fragment());
    }
    if !matches!(target.scheme(), "http" | "https") {
        return Err(EgressError::Redirect("its Location is neither an http: nor an https: URL"));
    }
    if redirects == MAX_REDIRECTS {
        return Err(EgressError::Redirect("there were 20 redirects already"));
    }
    if !target.username().is_empty() || target.password().is_some() {
        return Err(EgressError::Redirect("its Location contains a user name"));
    }
    let as_get = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        StatusCode::SEE_OTHER => !matches!(*method, Method::GET | Method::HEAD),
        _ => false,
    };
    if !as_get && !replayable {
        return Err(EgressError::Redirect(
            "it requires the body again, which was a stream; send a string or a buffer",
        ));
    }
    let is_cross_origin = target.origin() != url.origin();
    Ok(Next::Go { url: target, as_get, is_cross_origin })
}

/// Drops the headers that the redirected request must not carry.
pub fn drop_headers(headers: &mut HeaderMap, as_get: bool, is_cross_origin: bool) {
    let dropped = BODY_HEADERS
        .iter()
        .filter(|_| as_get)
        .chain(CREDENTIALS.iter().filter(|_| is_cross_origin));
    for name in dropped {
        headers.remove(name);
    }
}

/// Returns whether a response with this status redirects (Fetch, "redirect status").
pub fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(
        status: u16,
        location: &str,
        method: Method,
        replayable: bool,
    ) -> Result<Next, String> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, location.parse().unwrap());
        let url = Url::parse("https://a.test/dir/page#part").unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        next(status, &headers, &method, &url, 0, replayable).map_err(|error| error.to_string())
    }

    fn go(url: &str, as_get: bool, is_cross_origin: bool) -> Result<Next, String> {
        Ok(Next::Go { url: Url::parse(url).unwrap(), as_get, is_cross_origin })
    }

    #[test]
    fn a_location_is_relative_to_the_requests_url_and_inherits_its_fragment() {
        assert_eq!(
            after(302, "other", Method::GET, true),
            go("https://a.test/dir/other#part", false, false)
        );
        assert_eq!(
            after(302, "/x#mine", Method::GET, true),
            go("https://a.test/x#mine", false, false)
        );
        assert_eq!(
            after(302, "//b.test/", Method::GET, true),
            go("https://b.test/#part", false, true)
        );
        assert_eq!(
            after(302, "http://a.test/", Method::GET, true),
            go("http://a.test/#part", false, true)
        );
    }

    #[test]
    fn post_changes_to_get_after_301_and_302_and_all_methods_but_head_after_303() {
        for (status, method, as_get) in [
            (301, Method::POST, true),
            (302, Method::POST, true),
            (301, Method::PUT, false),
            (303, Method::PUT, true),
            (303, Method::POST, true),
            (303, Method::HEAD, false),
            (303, Method::GET, false),
            (307, Method::POST, false),
            (308, Method::POST, false),
        ] {
            let next = after(status, "/", method.clone(), true);
            assert_eq!(next, go("https://a.test/#part", as_get, false), "{status} {method}");
        }
    }

    #[test]
    fn a_redirect_that_requires_a_stream_again_is_an_error() {
        assert!(after(307, "/", Method::POST, false).is_err_and(|error| error.contains("stream")));
        assert!(after(303, "/", Method::POST, false).is_ok());
    }

    #[test]
    fn a_location_that_cannot_be_followed_is_an_error() {
        for bad in
            ["ftp://a.test/", "data:,x", "http://", "https://user@b.test/", "https://u:p@a.test/"]
        {
            assert!(after(302, bad, Method::GET, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn other_statuses_and_responses_without_a_location_do_not_redirect() {
        assert_eq!(after(304, "/", Method::GET, true), Ok(Next::Stay));
        assert_eq!(after(201, "/", Method::POST, true), Ok(Next::Stay));
        let url = Url::parse("https://a.test/").unwrap();
        let next = next(StatusCode::FOUND, &HeaderMap::new(), &Method::GET, &url, 0, true).unwrap();
        assert_eq!(next, Next::Stay);
    }

    #[test]
    fn the_number_of_redirects_is_bounded() {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, "/".parse().unwrap());
        let url = Url::parse("https://a.test/").unwrap();
        let next =
            |redirects| next(StatusCode::FOUND, &headers, &Method::GET, &url, redirects, true);
        assert!(next(MAX_REDIRECTS - 1).is_ok());
        assert!(next(MAX_REDIRECTS).is_err());
    }

    #[test]
    fn credentials_are_dropped_for_another_origin() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "cookie", "content-type", "x-own"] {
            headers.insert(HeaderName::from_static(name), "v".parse().unwrap());
        }
        drop_headers(&mut headers, false, true);
        assert!(
            headers.len() == 2
                && headers.contains_key("content-type")
                && headers.contains_key("x-own")
        );
        drop_headers(&mut headers, true, false);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-own"]);
    }
}
