//! Decides which requests may reach the inspector. This module is pure.
//!
//! A Web page that the developer visits can send requests to ports of the machine. Such a request
//! is recognized in one of two ways: it names the page's origin, or, if the page's own name
//! resolves to this machine (DNS rebinding), its `Host` is that name. Debuggers send no origin, or
//! the origin of the browser's DevTools, and connect to an IP address or to `localhost`.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};

/// The schemes of the origins of DevTools in browsers.
const DEVTOOLS: [&str; 2] = ["devtools", "chrome-devtools"];

/// Returns whether a request with these headers may be served.
pub(super) fn admits(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    text(header::HOST).is_some_and(is_local) && text(header::ORIGIN).is_none_or(is_devtools)
}

/// Returns whether the host is an IP address or `localhost`, and not a name that the owner of a
/// page can make resolve to this machine.
fn is_local(host: &str) -> bool {
    let Ok(host) = host.parse::<http::uri::Authority>() else { return false };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn is_devtools(origin: &str) -> bool {
    let origin = origin.parse::<Uri>().ok();
    let scheme = origin.as_ref().and_then(Uri::scheme_str);
    scheme.is_some_and(|scheme| DEVTOOLS.contains(&scheme))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn admitted(host: &'static str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
        admits(&headers)
    }

    #[test]
    fn debuggers_are_admitted() {
        for host in ["127.0.0.1:9229", "localhost:9229", "LocalHost", "[::1]:9229", "10.0.0.7"] {
            assert!(admitted(host, None), "{host}");
        }
        assert!(admitted("127.0.0.1:9229", Some("devtools://devtools")));
    }

    #[test]
    fn pages_are_refused() {
        for host in ["evil.example:9229", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
            assert!(!admitted(host, None), "{host}");
        }
        for origin in ["http://localhost:3000", "https://evil.example", "null", "file://", ""] {
            assert!(!admitted("127.0.0.1:9229", Some(origin)), "{origin}");
        }
        assert!(!admits(&HeaderMap::new()));
    }
}
