//! Redirects requests to https, and adds the headers that make clients use https, and HTTP/3, from
//! then on. This module is pure.

use http::{HeaderMap, HeaderValue, header};
use tenon_https::Https;

use crate::front::scheme::Scheme;
use crate::front::target::Target;

/// The default port of URLs with the scheme https.
const DEFAULT_PORT: u16 = 443;

/// The time for which a client remembers that a host speaks HTTP/3, in seconds.
const REMEMBERED: u32 = 86_400;

/// The prefix of the paths at which certificate authorities ask for a proof of control, without TLS
/// (RFC 8555, section 8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// Returns the location to which a request is redirected, or `None` if the request is served.
pub(crate) fn redirect(
    https: Option<&Https>,
    scheme: Scheme,
    target: &Target<'_>,
) -> Option<HeaderValue> {
    let port = https?.settings.redirect.filter(|_| scheme == Scheme::Http)?;
    location(target, port)
}

fn location(target: &Target<'_>, port: u16) -> Option<HeaderValue> {
    if target.path().starts_with(CHALLENGES) {
        return None;
    }
    let (host, path) = (target.host(), target.path_and_query());
    let url = match port {
        DEFAULT_PORT => format!("https://{host}{path}"),
        port => format!("https://{host}:{port}{path}"),
    };
    url.try_into().ok()
}

/// Adds `Strict-Transport-Security` (RFC 6797) to a response over TLS, unless the Worker has added
/// the header.
pub(crate) fn add_hsts(https: Option<&Https>, scheme: Scheme, headers: &mut HeaderMap) {
    if let Some(hsts) = https.and_then(|https| https.settings.hsts.as_ref())
        && scheme == Scheme::Https
        && !headers.contains_key(header::STRICT_TRANSPORT_SECURITY)
    {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
}

/// Returns the value of `Alt-Svc` (RFC 7838) that tells clients of this host to use HTTP/3.
///
/// # Arguments
/// * `port` - the port under which clients reach HTTP/3.
pub(crate) fn alternative(port: u16) -> HeaderValue {
    let value = format!("h3=\":{port}\"; ma={REMEMBERED}");
    value.try_into().expect("digits are not valid in a header")
}

/// Tells a client to use HTTP/3, unless the Worker has stated alternatives of its own.
pub(crate) fn add_alternative(alternative: Option<&HeaderValue>, headers: &mut HeaderMap) {
    if let Some(alternative) = alternative
        && !headers.contains_key(header::ALT_SVC)
    {
        headers.insert(header::ALT_SVC, alternative.clone());
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn location_of(host: &str, path: &str, port: u16) -> Option<String> {
        let request = Request::get(path).header(header::HOST, host).body(()).unwrap();
        let (parts, ()) = request.into_parts();
        let target = Target::of(&parts, &parts.method).unwrap();
        location(&target, port).map(|location| location.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_location_has_the_host_and_path_of_the_request_and_the_port_of_https() {
        let location = |port| location_of("shop.example.com:8080", "/a?b=c", port);
        assert_eq!(location(443).as_deref(), Some("https://shop.example.com/a?b=c"));
        assert_eq!(location(8443).as_deref(), Some("https://shop.example.com:8443/a?b=c"));
    }

    #[test]
    fn http3_is_advertised_unless_the_worker_advertises_alternatives() {
        let port = alternative(443);
        assert_eq!(port, "h3=\":443\"; ma=86400");
        let mut headers = HeaderMap::new();
        add_alternative(None, &mut headers);
        assert!(headers.is_empty());
        add_alternative(Some(&port), &mut headers);
        add_alternative(Some(&alternative(8443)), &mut headers);
        assert_eq!(headers[header::ALT_SVC], port);
    }

    #[test]
    fn a_challenge_of_a_certificate_authority_is_answered_without_tls() {
        assert_eq!(location_of("shop", "/.well-known/acme-challenge/x", 443), None);
        assert!(location_of("shop", "/.well-known/acme-challenge/../x", 443).is_some());
    }
}
