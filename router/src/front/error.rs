//! Converts a failure into a response: a stable code, a message and the request's id.
//!
//! The body is plain text if the client prefers plain text or does not accept JSON, and JSON
//! otherwise. This module is pure.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version, header};
use serde_json::json;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_table::Limited;

use crate::front::handshake;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Returns the response to a request that failed.
///
/// # Arguments
/// * `request` - the request's head.
pub(crate) fn response(failure: &Failure, request: &Parts, request_id: &str) -> Response<Bytes> {
    let Failure { code, message, .. } = failure;
    let (content_type, body) = if prefers_json(&request.headers) {
        let error = json!({ "code": code.as_str(), "message": message, "requestId": request_id });
        (JSON, format!("{}\n", json!({ "error": error })))
    } else {
        (TEXT, format!("{code}: {message}\n"))
    };
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(code.http_status())
        .expect("the failure code has no valid HTTP status");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = retry_after(*code) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    // The router does not wait for the rest of the body (RFC 9110, section 15.5.9).
    if *code == FailureCode::RequestTimeout && request.version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if *code == FailureCode::UpgradeRequired {
        response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, handshake::VERSION);
        // HTTP/2 has neither of these headers.
        if request.version < Version::HTTP_2 {
            response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
    }
    response
}

/// Adds the headers of a response to a request that exceeds a rate limit: `RateLimit` and
/// `RateLimit-Policy` of the IETF's draft-ietf-httpapi-ratelimit-headers-10, and `Retry-After`.
pub(crate) fn add_rate_limit(headers: &mut HeaderMap, Limited { limit, rate, wait }: &Limited) {
    // The headers state whole seconds, so the wait is rounded up.
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let quota = rate.per_second;
    let values = [
        (RATE_LIMIT, format!("\"{limit}\";r=0;t={seconds}")),
        (RATE_LIMIT_POLICY, format!("\"{limit}\";q={quota};w=1")),
        (header::RETRY_AFTER, seconds.to_string()),
    ];
    for (name, value) in values {
        headers.insert(name, value.parse().expect("digits and names are valid in headers"));
    }
}

/// Returns the value of Retry-After in seconds, or `None` if the failure is not temporary.
fn retry_after(code: FailureCode) -> Option<u32> {
    match code {
        FailureCode::Overloaded | FailureCode::Draining => Some(1),
        FailureCode::NoNode
        | FailureCode::RevisionUnavailable
        | FailureCode::AssetsUnavailable
        | FailureCode::Moved => Some(2),
        FailureCode::WorkerQuarantined => Some(10),
        _ => None,
    }
}

/// Returns whether the client prefers JSON to plain text, or accepts both equally. Without an
/// `accept` header, any type is acceptable.
fn prefers_json(headers: &HeaderMap) -> bool {
    let mut accept = headers.get_all(header::ACCEPT).into_iter().peekable();
    if accept.peek().is_none() {
        return true;
    }
    let ranges: Vec<(&str, f32)> = accept
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let quality = parts.find_map(|parameter| {
                parameter.strip_prefix("q=").or(parameter.strip_prefix("Q="))
            });
            (name, quality.and_then(|quality| quality.parse().ok()).unwrap_or(1.0))
        })
        .collect();
    // The most specific matching range sets the quality of a type (RFC 9110, section 12.5.1).
    let quality = |names: [&str; 3]| {
        let quality_of = |name: &str| {
            ranges.iter().find(|(range, _)| range.eq_ignore_ascii_case(name)).map(|(_, q)| *q)
        };
        names.into_iter().find_map(quality_of).unwrap_or(0.0)
    };
    let json = quality(["application/json", "application/*", "*/*"]);
    json > 0.0 && json >= quality(["text/plain", "text/*", "*/*"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_proto::failure::Phase;

    fn answer(code: FailureCode, accept: Option<&str>) -> (Response<Bytes>, String) {
        let mut request = http::Request::new(()).into_parts().0;
        accept.map(|accept| request.headers.insert(header::ACCEPT, accept.parse().unwrap()));
        let failure = Failure::new(code, Phase::Admission, "A \"sentence\".");
        let response = response(&failure, &request, "r-1");
        let body = String::from_utf8(response.body().to_vec()).unwrap();
        (response, body)
    }

    #[test]
    fn a_caller_that_accepts_json_gets_json() {
        for accept in
            [None, Some("*/*"), Some("application/json"), Some("text/plain;q=0.5, application/*")]
        {
            let (response, body) = answer(FailureCode::WorkerNotFound, accept);
            assert_eq!(response.status(), 404);
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json", "{accept:?}");
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            let expected = json!({"code": "worker_not_found", "message": "A \"sentence\".", "requestId": "r-1"});
            assert_eq!(body, json!({ "error": expected }));
        }
    }

    #[test]
    fn a_caller_that_does_not_accept_json_gets_plain_text() {
        for accept in [
            "text/plain",
            "text/html",
            "application/json;q=0, */*",
            "text/*, */*;q=0.1",
            "nonsense",
        ] {
            let (response, body) = answer(FailureCode::NodeLost, Some(accept));
            assert_eq!(
                response.headers()[header::CONTENT_TYPE],
                "text/plain; charset=utf-8",
                "{accept}"
            );
            assert_eq!(body, "node_lost: A \"sentence\".\n");
        }
    }

    #[test]
    fn only_a_temporary_failure_has_a_retry_after_header() {
        assert!(
            answer(FailureCode::Overloaded, None).0.headers().contains_key(header::RETRY_AFTER)
        );
        assert!(
            !answer(FailureCode::CpuLimitExceeded, None)
                .0
                .headers()
                .contains_key(header::RETRY_AFTER)
        );
    }

    #[test]
    fn the_response_to_an_unsupported_handshake_version_names_the_supported_one() {
        let (response, _) = answer(FailureCode::UpgradeRequired, None);
        assert_eq!(response.status(), 426);
        let values = ["upgrade", "connection", "sec-websocket-version"]
            .map(|name| response.headers()[name].to_owned());
        assert_eq!(values, ["websocket", "upgrade", "13"]);
    }

    #[test]
    fn every_code_has_a_response_with_its_status() {
        for code in FailureCode::ALL {
            assert_eq!(answer(*code, None).0.status().as_u16(), code.http_status());
        }
    }
}
