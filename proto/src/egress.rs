//! The hosts that a Worker may connect to according to its own specification, which narrows what
//! the node's policy allows.

use std::fmt;
use std::str::FromStr;

/// The hosts that a Worker may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Egress {
    /// Any host that the node's policy allows.
    #[default]
    Open,
    /// Only the hosts that match one of these patterns, in the order of the Worker's specification.
    Only(Vec<HostPattern>),
}

impl Egress {
    /// Returns whether a Worker may connect to `host` on `port`.
    ///
    /// # Arguments
    /// * `host` - the host as in a URL: a name in lower case without a trailing dot, or an IP
    ///   address.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        match self {
            Self::Open => true,
            Self::Only(patterns) => patterns.iter().any(|pattern| pattern.matches(host, port)),
        }
    }

    /// Returns whether a Worker may connect to `host` on any port at all; see [`Self::allows`].
    pub fn allows_host(&self, host: &str) -> bool {
        match self {
            Self::Open => true,
            Self::Only(patterns) => patterns.iter().any(|pattern| pattern.matches_host(host)),
        }
    }
}

/// A pattern of hosts: `api.example.com`, or `*.example.com` for every name below example.com, each
/// with an optional `:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// Whether the pattern matches every name below `host`, and not `host` itself.
    is_wildcard: bool,
    host: String,
    /// The port that the pattern matches. `None` matches every port.
    port: Option<u16>,
}

/// The error for text that is not a host pattern.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a host pattern; use a DNS name in lower case, with *. before it for all names below it, and a port such as :8443 after it for that port only"
)]
pub struct InvalidHostPattern(String);

impl HostPattern {
    /// Returns whether the pattern matches a host and a port; see [`Egress::allows`].
    pub fn matches(&self, host: &str, port: u16) -> bool {
        self.port.is_none_or(|only| only == port) && self.matches_host(host)
    }

    fn matches_host(&self, host: &str) -> bool {
        if !self.is_wildcard {
            return host == self.host;
        }
        let name = host.strip_suffix(&self.host).and_then(|rest| rest.strip_suffix('.'));
        name.is_some_and(|name| !name.is_empty())
    }
}

impl FromStr for HostPattern {
    type Err = InvalidHostPattern;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidHostPattern(text.to_owned());
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => {
                let is_plain = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
                let port = port.parse().ok().filter(|_| is_plain).ok_or_else(invalid)?;
                (name, Some(port))
            }
            None => (text, None),
        };
        let (is_wildcard, host) =
            name.strip_prefix("*.").map_or((false, name), |domain| (true, domain));
        if host.split('.').all(is_label) {
            Ok(Self { is_wildcard, host: host.to_owned(), port })
        } else {
            Err(invalid())
        }
    }
}

/// Returns whether `label` is a label of a DNS name, in lower case.
fn is_label(label: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&label.len())
        && label.bytes().all(is_inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_wildcard { "*." } else { "" })?;
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn only(patterns: &[&str]) -> Egress {
        Egress::Only(patterns.iter().map(|pattern| pattern.parse().unwrap()).collect())
    }

    #[test]
    fn an_absent_list_allows_every_host_and_an_empty_list_allows_none() {
        assert!(Egress::default().allows("example.com", 443));
        assert!(!only(&[]).allows("example.com", 443));
    }

    #[test]
    fn a_name_matches_only_itself() {
        let egress = only(&["api.example.com"]);
        assert!(egress.allows("api.example.com", 443) && egress.allows("api.example.com", 8443));
        for other in
            ["example.com", "x.api.example.com", "xapi.example.com", "api.example.com.evil.net"]
        {
            assert!(!egress.allows(other, 443), "{other}");
        }
    }

    #[test]
    fn a_wildcard_matches_subdomains_and_not_the_domain_itself() {
        let egress = only(&["*.example.com"]);
        assert!(egress.allows("a.example.com", 443) && egress.allows("a.b.example.com", 443));
        for other in ["example.com", ".example.com", "aexample.com", "a.example.com.evil.net"] {
            assert!(!egress.allows(other, 443), "{other}");
        }
    }

    #[test]
    fn a_pattern_with_a_port_matches_only_that_port() {
        let egress = only(&["*.example.com:8443"]);
        assert!(egress.allows("a.example.com", 8443));
        assert!(!egress.allows("a.example.com", 443));
        assert!(egress.allows_host("a.example.com") && !egress.allows_host("example.com"));
    }

    #[test]
    fn an_invalid_pattern_is_refused() {
        let long = format!("{}.com", "a".repeat(64));
        for bad in [
            "", "*", "*.", "a..b", "-a", "a-", "A.com", "a.*.com", "a:0", "a:65536", "a:+1", "a:",
            "[::1]", &long,
        ] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_is_displayed_as_it_was_parsed(text in "([*][.])?[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?([.][a-z0-9]{1,5}){0,3}(:[1-9][0-9]{0,3})?") {
            prop_assert_eq!(text.parse::<HostPattern>().unwrap().to_string(), text);
        }
    }
}
