//! Decides which namespaces may claim a host, from the HostGrants of the cluster. This module is
//! pure.
//!
//! ```text
//!  host ─► its own grants ─► or those of the nearest wildcard above it ─► select the namespace?
//!                            or, for a wildcard with grants below it ───► refused
//!                            or no grant at all ───► open, unless a grant is required
//! ```
//!
//! The most specific grants decide alone: a grant of `shop.example.com` takes this host from the
//! namespaces to which `*.example.com` is granted. A wildcard route would also serve the granted
//! hosts below it, so a namespace needs a grant of the wildcard to claim such a route.

use std::collections::{BTreeMap, HashMap};

use tenon_crds::{GrantedNamespaces, HostGrantSpec};

use crate::namespaces::Namespaces;

/// The valid grants of the cluster.
pub struct Grants {
    domain: String,
    /// Whether a host without a grant may not be claimed.
    is_required: bool,
    by_host: HashMap<String, BTreeMap<String, GrantedNamespaces>>,
    /// The hosts of each grant, by its name.
    by_grant: HashMap<String, Vec<String>>,
}

/// The reason why a host cannot be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    #[error(
        "spec.hosts: {0} covers the domains of many owners, because they are registered below it; \
         grant a domain that you own"
    )]
    PublicSuffix(String),
    #[error(
        "spec.hosts: {0} is in the platform's domain, where each namespace has its own hosts; \
         remove it"
    )]
    PlatformDomain(String),
}

impl InvalidHost {
    /// Returns the reason for a condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::PublicSuffix(_) => "PublicSuffix",
            Self::PlatformDomain(_) => "PlatformDomain",
        }
    }
}

/// Checks that a host can be granted on a platform.
///
/// # Errors
/// Fails if the host is in the platform's domain, or if it is a public suffix or its wildcard.
pub fn check(host: &str, domain: &str) -> Result<(), InvalidHost> {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let below = name.strip_suffix(domain);
    if below.is_some_and(|below| below.is_empty() || below.ends_with('.')) {
        return Err(InvalidHost::PlatformDomain(host.to_owned()));
    }
    if is_public_suffix(name) {
        return Err(InvalidHost::PublicSuffix(host.to_owned()));
    }
    Ok(())
}

/// Returns whether the public can register domains directly below this name. A domain of a company
/// that lets others use names below it, such as `github.io`, does not count, because the company
/// itself may grant it.
pub fn is_public_suffix(name: &str) -> bool {
    psl::suffix(name.as_bytes()).is_some_and(|suffix| {
        suffix.as_bytes() == name.as_bytes() && suffix.typ() == Some(psl::Type::Icann)
    })
}

impl Grants {
    /// Creates an empty set of grants.
    ///
    /// # Arguments
    /// * `domain` - the platform's domain, whose hosts cannot be granted.
    /// * `is_required` - whether a host without a grant may not be claimed.
    pub fn new(domain: impl Into<String>, is_required: bool) -> Self {
        let domain = domain.into();
        Self { domain, is_required, by_host: HashMap::new(), by_grant: HashMap::new() }
    }

    /// Sets a grant, or removes it. Hosts that cannot be granted are left out. If the grant has
    /// changed, returns its hosts before and after: the answer may have changed for these hosts,
    /// and for hosts and wildcards above or below them.
    pub fn set(&mut self, name: &str, spec: Option<&HostGrantSpec>) -> Vec<String> {
        let valid = spec.into_iter().flat_map(|spec| &spec.hosts);
        let valid = valid.filter(|host| check(host, &self.domain).is_ok());
        let hosts: Vec<_> = valid.cloned().collect();
        let before = self.by_grant.remove(name).unwrap_or_default();
        let namespaces = spec.map(|spec| &spec.namespaces);
        let is_same = before == hosts
            && hosts.iter().all(|host| {
                self.by_host.get(host).and_then(|grants| grants.get(name)) == namespaces
            });
        for host in &before {
            if let Some(grants) = self.by_host.get_mut(host) {
                grants.remove(name);
                if grants.is_empty() {
                    self.by_host.remove(host);
                }
            }
        }
        for host in &hosts {
            let granted = namespaces.cloned().unwrap_or_default();
            self.by_host.entry(host.clone()).or_default().insert(name.to_owned(), granted);
        }
        let affected = if is_same { Vec::new() } else { [&*before, &*hosts].concat() };
        if !hosts.is_empty() {
            self.by_grant.insert(name.to_owned(), hosts);
        }
        affected
    }

    /// Returns whether Workers of a namespace may claim a host outside of the platform's domain.
    pub fn permits(&self, host: &str, namespace: &str, namespaces: &Namespaces) -> bool {
        if self.by_host.is_empty() {
            return !self.is_required;
        }
        if let Some(grants) = self.deciding(host) {
            return grants.values().any(|granted| namespaces.is_granted(granted, namespace));
        }
        // This scans every granted host, which is acceptable because wildcards are rare.
        let covers_granted = host
            .strip_prefix('*')
            .is_some_and(|below| self.by_host.keys().any(|granted| granted.ends_with(below)));
        !covers_granted && !self.is_required
    }

    /// Returns the grants of the most specific host that covers `host`.
    fn deciding(&self, host: &str) -> Option<&BTreeMap<String, GrantedNamespaces>> {
        self.by_host.get(host).or_else(|| {
            let above = wildcards_above(host);
            above.into_iter().find_map(|wildcard| self.by_host.get(&wildcard))
        })
    }
}

/// Returns the wildcards that cover a host, from the most specific one to the widest. A wildcard
/// does not cover itself.
pub fn wildcards_above(host: &str) -> impl Iterator<Item = String> {
    let name = host.strip_prefix("*.").unwrap_or(host);
    std::iter::successors(Some(name), |name| Some(name.split_once('.')?.1))
        .skip(1)
        .map(|domain| format!("*.{domain}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(hosts: &[&str], names: &[&str]) -> HostGrantSpec {
        serde_json::from_value(json!({"hosts": hosts, "namespaces": {"names": names}})).unwrap()
    }

    /// Returns grants of one host to one namespace each.
    fn grants(all: &[(&str, &str)], is_required: bool) -> Grants {
        let mut grants = Grants::new("tenon.example", is_required);
        for (i, (host, namespace)) in all.iter().enumerate() {
            grants.set(&format!("grant-{i}"), Some(&spec(&[host], &[namespace])));
        }
        grants
    }

    fn permits(grants: &Grants, host: &str, namespace: &str) -> bool {
        grants.permits(host, namespace, &Namespaces::default())
    }

    #[test]
    fn a_granted_host_is_open_to_granted_namespaces_only() {
        let grants =
            grants(&[("shop.example.com", "shop"), ("shop.example.com", "partner")], false);
        for (host, namespace, expected) in [
            ("shop.example.com", "shop", true),
            ("shop.example.com", "partner", true),
            ("shop.example.com", "evil", false),
            // There is no grant for these.
            ("x.shop.example.com", "evil", true),
            ("example.com", "evil", true),
        ] {
            assert_eq!(permits(&grants, host, namespace), expected, "{host} {namespace}");
        }
    }

    #[test]
    fn the_most_specific_grant_decides() {
        let all = [
            ("*.example.com", "corp"),
            ("*.shop.example.com", "shop"),
            ("pay.shop.example.com", "pay"),
        ];
        let grants = grants(&all, false);
        for (host, namespace) in [
            ("a.example.com", "corp"),
            ("a.b.example.com", "corp"),
            ("*.example.com", "corp"),
            ("*.b.example.com", "corp"),
            ("shop.example.com", "corp"),
            ("a.shop.example.com", "shop"),
            ("*.shop.example.com", "shop"),
            ("pay.shop.example.com", "pay"),
        ] {
            for other in ["corp", "shop", "pay", "evil"] {
                let expected = other == namespace;
                assert_eq!(permits(&grants, host, other), expected, "{host} {other}");
            }
        }
        assert!(permits(&grants, "example.com", "evil"), "a wildcard covers the name above it");
    }

    #[test]
    fn a_wildcard_over_a_granted_host_needs_a_grant_of_its_own() {
        let grants = grants(&[("shop.example.com", "shop")], false);
        for wildcard in ["*.example.com", "*.com"] {
            for namespace in ["shop", "evil"] {
                assert!(!permits(&grants, wildcard, namespace), "{wildcard} {namespace}");
            }
        }
        assert!(permits(&grants, "*.example.org", "evil"));
        assert!(permits(&grants, "*.hop.example.com", "evil"));
    }

    #[test]
    fn every_host_needs_a_grant_if_grants_are_required() {
        let (none, some) = (grants(&[], true), grants(&[("shop.example.com", "shop")], true));
        assert!(!permits(&none, "shop.example.com", "shop"));
        assert!(permits(&some, "shop.example.com", "shop"));
        assert!(!permits(&some, "other.example.com", "shop"));
        assert!(permits(&grants(&[], false), "shop.example.com", "shop"));
    }

    #[test]
    fn a_changed_grant_affects_its_hosts_before_and_after() {
        let mut grants = grants(&[], false);
        let hosts = |grants: &mut Grants, spec: Option<&HostGrantSpec>| grants.set("one", spec);
        assert_eq!(hosts(&mut grants, Some(&spec(&["a.org"], &["a"]))), ["a.org"]);
        assert!(hosts(&mut grants, Some(&spec(&["a.org"], &["a"]))).is_empty());
        assert_eq!(hosts(&mut grants, Some(&spec(&["a.org"], &["b"]))), ["a.org", "a.org"]);
        assert_eq!(hosts(&mut grants, Some(&spec(&["b.org"], &["b"]))), ["a.org", "b.org"]);
        assert_eq!(hosts(&mut grants, None), ["b.org"]);
        assert!(grants.by_host.is_empty() && grants.by_grant.is_empty());
    }

    #[test]
    fn a_public_suffix_or_a_host_of_the_platform_cannot_be_granted() {
        let reason = |host: &str| check(host, "tenon.example").err().map(|error| error.reason());
        for host in ["*.co.uk", "co.uk", "*.com", "com", "*.com.au"] {
            assert_eq!(reason(host), Some("PublicSuffix"), "{host}");
        }
        for host in ["tenon.example", "*.tenon.example", "a.b.tenon.example", "*.b.tenon.example"] {
            assert_eq!(reason(host), Some("PlatformDomain"), "{host}");
        }
        for host in ["*.example.co.uk", "example.com", "nottenon.example", "shop.internal"] {
            assert_eq!(reason(host), None, "{host}");
        }
        let mut grants = grants(&[], false);
        assert_eq!(grants.set("one", Some(&spec(&["*.co.uk", "a.co.uk"], &["a"]))), ["a.co.uk"]);
        assert!(permits(&grants, "b.co.uk", "evil"));
    }
}
