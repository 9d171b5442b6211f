//! Tests which route matches a host and a path.

use proptest::prelude::*;

use super::*;

fn routes(list: &[(&str, &str)]) -> Routes<usize> {
    let mut routes = Routes::default();
    list.iter().enumerate().for_each(|(i, (host, path))| routes.insert(&Route::new(host, path), i));
    routes
}

#[test]
fn a_host_matches_in_any_case_and_with_any_port() {
    let routes = routes(&[("Shop.Example", "/"), ("[::1]", "/")]);
    for host in ["shop.example", "SHOP.example:8080", "shop.example."] {
        assert_eq!(routes.find(host, "/"), Some(&0), "{host}");
    }
    assert_eq!(routes.find("[::1]:8080", "/"), Some(&1));
    assert_eq!(routes.find("[::1]", "/"), Some(&1));
    assert_eq!(routes.find("example", "/"), None);
}

#[test]
fn the_most_specific_host_wins() {
    let routes = routes(&[("*.example", "/"), ("*.b.example", "/"), ("a.b.example", "/only")]);
    assert_eq!(routes.find("a.b.example", "/only"), Some(&2));
    assert_eq!(routes.find("a.b.example", "/else"), Some(&1));
    assert_eq!(routes.find("x.y.b.example", "/"), Some(&1));
    assert_eq!(routes.find("x.example", "/"), Some(&0));
    assert_eq!(routes.find("example", "/"), None);
}

#[test]
fn the_longest_prefix_wins_at_a_segment_boundary() {
    let routes = routes(&[("a", "/"), ("a", "/api"), ("a", "/api/v1/"), ("a", "/api-docs")]);
    for (path, expected) in [
        ("/", 0),
        ("/x", 0),
        ("/ap", 0),
        ("/apix", 0),
        ("/api", 1),
        ("/api/", 1),
        ("/api/v", 1),
        ("/api/v1", 2),
        ("/api/v1/x/y", 2),
        ("/api/v10", 1),
        ("/api-docs/x", 3),
        ("/api-x", 0),
        ("//", 0),
    ] {
        assert_eq!(routes.find("a", path), Some(&expected), "{path}");
    }
}

#[test]
fn a_host_without_a_root_route_serves_only_its_paths() {
    let routes = routes(&[("a", "/b/c")]);
    assert_eq!(routes.find("a", "/"), None);
    assert_eq!(routes.find("a", "/b"), None);
    assert_eq!(routes.find("a", "/b/d/c"), None);
    assert_eq!(routes.find("a", "/b/c/d"), Some(&0));
}

#[test]
fn a_route_is_removed_only_by_its_owner() {
    let mut routes = routes(&[("a", "/"), ("a", "/x")]);
    routes.remove(&Route::new("a", "/x"), &7);
    assert_eq!(routes.find("a", "/x"), Some(&1));
    routes.remove(&Route::new("a", "/x"), &1);
    assert_eq!(routes.find("a", "/x"), Some(&0));
    routes.remove(&Route::new("a", "/"), &0);
    assert_eq!(routes.find("a", "/x"), None);
    assert!(routes.exact.is_empty());
}

#[test]
fn invalid_dns_names_are_not_found() {
    let routes = routes(&[("*.a", "/")]);
    assert_eq!(routes.find(&format!("{}.a", "x".repeat(300)), "/"), None);
    assert_eq!(routes.find("", "/"), None);
}

/// Generates hosts of few letters, so that routes often collide.
fn host() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]", 1..4).prop_map(|labels| labels.join("."))
}

fn path() -> impl Strategy<Value = String> {
    "(/[ab-]{0,2}){0,4}".prop_map(|path| if path.is_empty() { "/".into() } else { path })
}

/// Finds the route with a literal implementation of the rules.
fn find_by_rules(routes: &[(String, String)], host: &str, path: &str) -> Option<usize> {
    let host_rank = |pattern: &str| match pattern.strip_prefix("*.") {
        Some(suffix) => host.ends_with(&format!(".{suffix}")).then_some(suffix.len()),
        None => (pattern == host).then_some(usize::MAX),
    };
    let path_rank = |prefix: &str| {
        let prefix = prefix.trim_end_matches('/');
        (path == prefix || path.starts_with(&format!("{prefix}/"))).then_some(prefix.len())
    };
    let rank = |(i, (h, p)): (usize, &(String, String))| Some((host_rank(h)?, path_rank(p)?, i));
    routes.iter().enumerate().filter_map(rank).max().map(|(_, _, i)| i)
}

proptest! {
    #[test]
    fn the_index_agrees_with_the_routing_rules(
        claims in prop::collection::vec((any::<bool>(), host(), path()), 0..12),
        host in host(),
        path in path(),
    ) {
        let claims: Vec<(String, String)> = claims
            .into_iter()
            .map(|(wild, host, path)| (if wild { format!("*.{host}") } else { host }, path))
            .collect();
        let mut routes = Routes::default();
        claims.iter().enumerate().for_each(|(i, (h, p))| routes.insert(&Route::new(h, p), i));
        prop_assert_eq!(routes.find(&host, &path).copied(), find_by_rules(&claims, &host, &path));
        // Removed routes leave nothing behind.
        claims.iter().enumerate().for_each(|(i, (h, p))| routes.remove(&Route::new(h, p), &i));
        prop_assert_eq!(routes.find(&host, &path), None);
        prop_assert!(routes.is_empty() && routes.exact.is_empty() && routes.below.is_empty());
    }

    #[test]
    fn looking_up_arbitrary_hosts_and_paths_does_not_panic(host in ".*", path in "/.*") {
        let _ = routes(&[("a", "/"), ("*.b", "/é")]).find(&host, &path);
    }
}
