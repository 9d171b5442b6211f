//! Translates the patterns of wrangler's routes into routes of a Worker. This module is pure.

use serde_json::{Value, json};

/// The routes for a pattern, and how the routes differ from the pattern.
#[derive(Debug, PartialEq)]
pub(super) struct Routes {
    pub(super) routes: Vec<Value>,
    pub(super) difference: Option<&'static str>,
}

/// Translates a pattern such as `*.example.com/api/*`. Returns `None` if the pattern has a wildcard
/// elsewhere than at the start of the host or the end of the path.
pub(super) fn routes(pattern: &str) -> Option<Routes> {
    let bare = pattern.trim_start_matches("https://").trim_start_matches("http://");
    let (host, path) = bare.split_at(bare.find('/').unwrap_or(bare.len()));
    let host = host.to_ascii_lowercase();
    let prefix = path.strip_suffix('*').unwrap_or(path);
    if prefix.contains('*') || host.trim_start_matches('*').contains('*') {
        return None;
    }
    let difference = if !path.ends_with('*') && path.len() > 1 {
        Some("becomes a route that also matches the paths below this path")
    } else if !prefix.ends_with('/') && !prefix.is_empty() {
        Some("becomes a route that matches whole segments: /api matches /api/x, and not /apix")
    } else {
        None
    };
    let prefix = prefix.trim_end_matches('/');
    let path = if prefix.is_empty() { "/" } else { prefix };
    let hosts = match host.strip_prefix('*') {
        // `*example.com` matches the domain and every name below it.
        Some(domain) if !domain.starts_with('.') => vec![domain.to_owned(), format!("*.{domain}")],
        _ => vec![host],
    };
    let routes = hosts.iter().map(|host| json!({ "host": host, "path": path })).collect();
    Some(Routes { routes, difference })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Vec<(String, String)> {
        let text = |route: &Value, key| route[key].as_str().unwrap().to_owned();
        let routes = routes(pattern).unwrap().routes;
        routes.iter().map(|route| (text(route, "host"), text(route, "path"))).collect()
    }

    #[test]
    fn a_pattern_becomes_a_host_and_a_prefix() {
        for (pattern, host, path) in [
            ("example.com", "example.com", "/"),
            ("https://Example.com/*", "example.com", "/"),
            ("example.com/api/*", "example.com", "/api"),
            ("*.example.com/api", "*.example.com", "/api"),
        ] {
            assert_eq!(of(pattern), [(host.to_owned(), path.to_owned())], "{pattern}");
        }
    }

    #[test]
    fn a_wildcard_without_a_dot_includes_the_domain() {
        let hosts: Vec<_> = of("*example.com/*").into_iter().map(|(host, _)| host).collect();
        assert_eq!(hosts, ["example.com", "*.example.com"]);
    }

    #[test]
    fn differences_are_described_and_other_wildcards_are_refused() {
        assert_eq!(routes("example.com/*").unwrap().difference, None);
        assert_eq!(routes("example.com/api/*").unwrap().difference, None);
        assert!(routes("example.com/api*").unwrap().difference.unwrap().contains("segments"));
        assert!(routes("example.com/api").unwrap().difference.unwrap().contains("below"));
        assert_eq!(routes("example.com/*/edit"), None);
        assert_eq!(routes("a.*.com"), None);
    }
}
