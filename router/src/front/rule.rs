//! The effects of the rules of HTTPRoutes: changes of the request that a Worker sees and of its
//! response, and redirects that replace the Worker's response. This module is pure.

use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_table::rules::{Redirect, Rule};

use crate::front::headers;
use crate::front::response::{self, ResponseBody};
use crate::front::scheme::Scheme;
use crate::front::target::Target;

/// The parts of a request that a rule changes; `None` for a part that stays as the client sent it.
pub(super) struct Changed {
    pub(super) target: Option<Target<'static>>,
    pub(super) headers: Option<HeaderMap>,
}

impl Changed {
    /// Returns the parts of a request that differ between what the client sent and what the Worker
    /// sees.
    ///
    /// # Errors
    /// Fails if the rule rewrites the request's target to one that is not valid.
    pub(super) fn of(
        rule: Rule<'_>,
        target: &Target<'_>,
        headers: &HeaderMap,
    ) -> Result<Self, Failure> {
        let action = rule.action;
        let path = action.rewrite_path.as_ref();
        let path = path.map(|change| change.apply(target.path(), rule.matched));
        let host = action.rewrite_host.as_deref();
        let rewrites = host.is_some() || path.is_some();
        let target = rewrites.then(|| target.rewritten(host, path.as_deref())).transpose()?;
        let headers = (!action.request_headers.is_empty()).then(|| {
            let mut headers = headers.clone();
            action.request_headers.apply(&mut headers, may_change);
            headers
        });
        Ok(Self { target, headers })
    }
}

/// Changes the headers of a response.
pub(super) fn change_response(rule: Rule<'_>, headers: &mut HeaderMap) {
    rule.action.response_headers.apply(headers, may_change);
}

/// Returns whether a rule may change a header. The headers of the framing and of the connection
/// belong to the router, as do its own.
fn may_change(name: &HeaderName) -> bool {
    !headers::is_hop_by_hop(name)
        && !headers::is_reserved(name)
        && ![header::HOST, header::CONTENT_LENGTH, header::TRAILER].contains(name)
}

/// Returns the response of a rule that redirects.
///
/// # Errors
/// Fails if the location is not valid.
pub(super) fn redirect(
    redirect: &Redirect,
    rule: Rule<'_>,
    scheme: Scheme,
    target: &Target<'_>,
) -> Result<Response<ResponseBody>, Failure> {
    let location = location(redirect, rule.matched, scheme, target);
    let location = HeaderValue::try_from(location).map_err(|_| {
        let message = "the location to which the HTTPRoute redirects is not valid";
        Failure::new(FailureCode::BadRequest, Phase::Admission, message)
    })?;
    let mut response = response::redirect(redirect.status, location);
    change_response(rule, response.headers_mut());
    Ok(response)
}

/// Returns the location of a redirect. The port is left out if it is the default of the scheme. A
/// redirect that names a scheme goes to that scheme's default port, unless it also names a port.
fn location(redirect: &Redirect, matched: usize, requested: Scheme, target: &Target<'_>) -> String {
    let scheme = redirect.scheme.as_deref().unwrap_or(requested.as_str());
    let host = redirect.host.as_deref().unwrap_or(target.host());
    let requested_port = || target.port().filter(|_| redirect.scheme.is_none());
    let port = redirect.port.map(u16::from).or_else(requested_port);
    let port = port.filter(|port| !matches!((scheme, port), ("http", 80) | ("https", 443)));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let path = redirect.path.as_ref().map(|change| change.apply(target.path(), matched));
    let path = path.as_deref().unwrap_or(target.path());
    let query = target.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{host}{port}{path}{query}")
}

#[cfg(test)]
mod tests {
    use http::Request;
    use tenon_proto::catalog::{self, HostRules, RuleAction, RuleMatch, path_change, rule_match};
    use tenon_table::rules::Rules;

    use super::*;

    /// Returns the location to which a request of `http://shop.example:8080` is redirected by a
    /// rule of the prefix `/old`.
    fn location_of(path: &str, redirect: catalog::Redirect) -> String {
        let path_match = rule_match::Path::Prefix("/old".into());
        let rules = Rules::new(&HostRules {
            host: "shop.example".into(),
            matches: vec![RuleMatch { path: Some(path_match), http: true, ..Default::default() }],
            actions: vec![RuleAction {
                redirect: Some(catalog::Redirect { status: 302, ..redirect }),
                ..Default::default()
            }],
        })
        .unwrap();
        let request = Request::get(path).header(header::HOST, "shop.example:8080").body(());
        let (parts, ()) = request.unwrap().into_parts();
        let target = Target::of(&parts, &parts.method).unwrap();
        let request = tenon_table::rules::Request::new(
            &parts.method,
            target.path(),
            target.query(),
            &parts.headers,
            false,
        );
        let rule = rules.find(&request).unwrap();
        let redirect = rule.action.redirect.as_ref().unwrap();
        location(redirect, rule.matched, Scheme::Http, &target)
    }

    fn change(change: path_change::Change) -> Option<catalog::PathChange> {
        Some(catalog::PathChange { change: Some(change) })
    }

    #[test]
    fn a_redirect_keeps_the_parts_of_the_request_that_it_does_not_replace() {
        let none = catalog::Redirect::default;
        for (path, redirect, expected) in [
            ("/old/a?b=c", none(), "http://shop.example:8080/old/a?b=c"),
            (
                "/old",
                catalog::Redirect { scheme: "https".into(), ..none() },
                "https://shop.example/old",
            ),
            (
                "/old",
                catalog::Redirect { scheme: "https".into(), port: 8443, ..none() },
                "https://shop.example:8443/old",
            ),
            ("/old", catalog::Redirect { port: 80, ..none() }, "http://shop.example/old"),
            (
                "/old",
                catalog::Redirect { host: "b.example".into(), ..none() },
                "http://b.example:8080/old",
            ),
            (
                "/old/x",
                catalog::Redirect {
                    path: change(path_change::Change::Full("/new".into())),
                    ..none()
                },
                "http://shop.example:8080/new",
            ),
            (
                "/old/x",
                catalog::Redirect {
                    path: change(path_change::Change::Prefix("/".into())),
                    ..none()
                },
                "http://shop.example:8080/x",
            ),
        ] {
            assert_eq!(location_of(path, redirect), expected);
        }
    }

    #[test]
    fn a_rule_changes_no_header_of_the_framing_or_of_the_router() {
        for name in ["content-length", "transfer-encoding", "connection", "tenon-node", "host"] {
            assert!(!may_change(&name.parse().unwrap()), "{name}");
        }
        assert!(may_change(&header::CACHE_CONTROL));
    }
}
