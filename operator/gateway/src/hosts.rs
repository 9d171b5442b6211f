//! The hosts of a listener and of a route, and what they have in common. This module is pure.

/// The wildcard that covers every host.
pub const ANY: &str = "*";

/// Returns the hosts that a listener and a route have in common: those whose requests arrive at the
/// listener and that the route names. Without hostnames, a route takes all hosts of the listener.
///
/// # Arguments
/// * `listener` - the listener's hostname, or `None` if it takes all hosts.
/// * `route` - the route's hostnames.
pub fn intersection(listener: Option<&str>, route: &[String]) -> Vec<String> {
    let listener = listener.filter(|host| !host.is_empty()).map(str::to_ascii_lowercase);
    let mut hosts: Vec<String> = match (&listener, route) {
        (None, []) => vec![ANY.to_owned()],
        (Some(listener), []) => vec![listener.clone()],
        (None, route) => route.iter().map(|host| host.to_ascii_lowercase()).collect(),
        (Some(listener), route) => {
            let route = route.iter().map(|host| host.to_ascii_lowercase());
            route.filter_map(|host| common(listener, &host)).collect()
        }
    };
    hosts.sort();
    hosts.dedup();
    hosts
}

/// Returns the more specific of two hosts if the other one covers it.
fn common(one: &str, other: &str) -> Option<String> {
    if covers(one, other) {
        Some(other.to_owned())
    } else if covers(other, one) {
        Some(one.to_owned())
    } else {
        None
    }
}

/// Returns whether every name that `host` matches also matches `wide`. A wildcard stands for one or
/// more labels, so `*.example.com` does not cover `example.com`.
fn covers(wide: &str, host: &str) -> bool {
    match wide.strip_prefix('*') {
        None => wide == host,
        Some(suffix) => {
            host.strip_prefix('*').unwrap_or(host).ends_with(suffix)
                && Some(host) != suffix.strip_prefix('.')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common_hosts(listener: Option<&str>, route: &[&str]) -> Vec<String> {
        let route: Vec<_> = route.iter().map(|host| (*host).to_owned()).collect();
        intersection(listener, &route)
    }

    #[test]
    fn a_side_without_hosts_takes_those_of_the_other() {
        assert_eq!(common_hosts(None, &[]), ["*"]);
        assert_eq!(common_hosts(Some("a.example"), &[]), ["a.example"]);
        assert_eq!(common_hosts(None, &["B.example", "*.a.example"]), ["*.a.example", "b.example"]);
    }

    #[test]
    fn hosts_intersect_as_in_the_conformance_suite() {
        for (listener, route, expected) in [
            (
                "very.specific.com",
                &["non.matching.com", "very.specific.com"][..],
                &["very.specific.com"][..],
            ),
            ("very.specific.com", &["*.specific.com", "*.com"], &["very.specific.com"]),
            ("very.specific.com", &["specific.com"], &[]),
            (
                "*.wildcard.io",
                &[
                    "non.matching.com",
                    "wildcard.io",
                    "foo.wildcard.io",
                    "bar.wildcard.io",
                    "foo.bar.wildcard.io",
                ],
                &["bar.wildcard.io", "foo.bar.wildcard.io", "foo.wildcard.io"],
            ),
            ("*.anotherwildcard.io", &["*.anotherwildcard.io"], &["*.anotherwildcard.io"]),
            ("*.a.io", &["*.b.a.io", "*.io"], &["*.a.io", "*.b.a.io"]),
            ("*.a.io", &["*.xa.io", "xa.io"], &[]),
            ("*.a.io", &["*", "a.io"], &["*.a.io"]),
            ("*", &["*.a.io", "b.io"], &["*.a.io", "b.io"]),
        ] {
            assert_eq!(common_hosts(Some(listener), route), expected, "{listener} {route:?}");
        }
    }
}
