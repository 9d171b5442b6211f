//! Routes map a request's host and path to the target that serves it.
//!
//! The most specific host with a matching path wins: the exact host, then the longest wildcard
//! `*.suffix`, and so on to the shortest. Within a host the longest path prefix that ends at a
//! segment boundary wins: `/api` matches `/api` and `/api/x`, not `/apix`. Paths are compared as
//! the Worker sees them, without dot segments.
//!
//! A host may also have rules ([`crate::rules`]), which precede the prefixes of the same host. The
//! host `*`, which covers every host, can only have rules.
//!
//! This module is pure. The map of routes is persistent: a clone shares its memory with the
//! original, and a change copies only the parts that it affects.

use std::sync::Arc;

use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;

use crate::rules::Rules;

/// The maximum length of a DNS name, in bytes. Longer names are not looked up.
const MAX_HOST: usize = 253;

/// A route that a Worker claims, normalized for lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    host: HostPattern,
    /// The path prefix without a trailing slash, so that the root is empty.
    path: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Exact(Box<str>),
    /// Every name below this one.
    Below(Box<str>),
}

impl Route {
    /// Creates a route.
    ///
    /// # Arguments
    /// * `host` - a name, or `*.` and a name.
    /// * `path` - a prefix such as `/api`.
    pub fn new(host: &str, path: &str) -> Self {
        Self { host: HostPattern::new(host), path: path.trim_end_matches('/').into() }
    }
}

impl HostPattern {
    fn new(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        match host.strip_prefix("*.") {
            Some(suffix) => Self::Below(suffix.into()),
            None => Self::Exact(host.into()),
        }
    }
}

type Hosts<T> =
    GenericHashMap<Box<str>, Arc<Host<T>>, foldhash::fast::RandomState, DefaultSharedPtr>;

/// Every route, and its target.
#[derive(Clone)]
pub struct Routes<T> {
    exact: Hosts<T>,
    below: Hosts<T>,
    /// The rules of the host `*`.
    anywhere: Option<Arc<Rules>>,
    len: usize,
}

/// The rules and the routes of one host.
#[derive(Clone)]
struct Host<T> {
    rules: Option<Arc<Rules>>,
    paths: Paths<T>,
}

impl<T> Default for Host<T> {
    fn default() -> Self {
        Self { rules: None, paths: Paths::default() }
    }
}

impl<T> Host<T> {
    fn is_empty(&self) -> bool {
        self.rules.is_none() && self.paths.0.is_empty()
    }
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self { exact: Hosts::default(), below: Hosts::default(), anywhere: None, len: 0 }
    }
}

impl<T: Clone + PartialEq> Routes<T> {
    /// Claims a route. The previous owner loses it.
    pub fn insert(&mut self, route: &Route, target: T) {
        let (hosts, name) = self.hosts_mut(&route.host);
        let host = hosts.entry(name.into()).or_default();
        let is_new = Arc::make_mut(host).paths.insert(&route.path, target);
        self.len += usize::from(is_new);
    }

    /// Removes a route, if `target` still owns it.
    pub fn remove(&mut self, route: &Route, target: &T) {
        let (hosts, name) = self.hosts_mut(&route.host);
        let Some(host) = hosts.get_mut(name) else { return };
        if !host.paths.holds(&route.path, target) {
            return;
        }
        let host = Arc::make_mut(host);
        host.paths.remove(&route.path);
        if host.is_empty() {
            hosts.remove(name);
        }
        self.len -= 1;
    }

    /// Replaces the rules of a host.
    ///
    /// # Arguments
    /// * `host` - a name, `*.` and a name, or `*`.
    pub fn set_rules(&mut self, host: &str, rules: Option<Arc<Rules>>) {
        if host == "*" {
            self.anywhere = rules;
            return;
        }
        let pattern = HostPattern::new(host);
        let (hosts, name) = self.hosts_mut(&pattern);
        if rules.is_none() && !hosts.contains_key(name) {
            return;
        }
        let host = Arc::make_mut(hosts.entry(name.into()).or_default());
        host.rules = rules;
        if host.is_empty() {
            hosts.remove(name);
        }
    }

    fn hosts_mut<'a>(&mut self, host: &'a HostPattern) -> (&mut Hosts<T>, &'a str) {
        match host {
            HostPattern::Exact(name) => (&mut self.exact, name),
            HostPattern::Below(suffix) => (&mut self.below, suffix),
        }
    }
}

/// The target or the rule that serves a request.
#[derive(Debug, PartialEq)]
pub enum Found<'a, T, M> {
    /// The target of a route.
    Target(&'a T),
    /// The result of a rule.
    Rule(M),
}

impl<T> Routes<T> {
    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the target that serves a request, without regard to rules, or `None` if no route
    /// matches.
    ///
    /// # Arguments
    /// * `host` - a host in upper, lower or mixed case, with or without a port.
    /// * `path` - a path that begins with a slash and has no query.
    pub fn find(&self, host: &str, path: &str) -> Option<&T> {
        match self.find_with(host, path, |_| None::<()>)? {
            Found::Target(target) => Some(target),
            Found::Rule(()) => None,
        }
    }

    /// Returns the target or the rule that serves a request, or `None` if nothing matches.
    ///
    /// # Arguments
    /// * `host` - a host in upper, lower or mixed case, with or without a port.
    /// * `path` - a path that begins with a slash and has no query.
    /// * `by_rules` - returns the result of a host's rules, if one of them matches the request.
    pub fn find_with<'a, M>(
        &'a self,
        host: &str,
        path: &str,
        mut by_rules: impl FnMut(&'a Rules) -> Option<M>,
    ) -> Option<Found<'a, T, M>> {
        let name = without_port(host);
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.len() > MAX_HOST {
            return None;
        }
        let mut lowered = [0; MAX_HOST];
        let name = lower(name, &mut lowered);
        let mut lookup = |host: &'a Host<T>| {
            let rule = host.rules.as_deref().and_then(&mut by_rules).map(Found::Rule);
            rule.or_else(|| host.paths.find(path).map(Found::Target))
        };
        if let Some(found) = self.exact.get(name).and_then(|host| lookup(host)) {
            return Some(found);
        }
        // Most installations have no wildcards, and then the name need not be split.
        if !self.below.is_empty() {
            let mut suffixes = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
            if let Some(found) = suffixes.find_map(|suffix| lookup(self.below.get(suffix)?)) {
                return Some(found);
            }
        }
        by_rules(self.anywhere.as_deref()?).map(Found::Rule)
    }
}

/// The routes of one host: path prefixes in ascending order. Usually there are one or two, so no
/// tree is needed.
#[derive(Clone)]
struct Paths<T>(Vec<(Box<str>, T)>);

impl<T> Default for Paths<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Paths<T> {
    fn position(&self, path: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(prefix, _)| (**prefix).cmp(path))
    }

    /// Inserts a path. Returns whether it was absent before.
    fn insert(&mut self, path: &str, target: T) -> bool {
        match self.position(path) {
            Ok(at) => {
                self.0[at].1 = target;
                false
            }
            Err(at) => {
                self.0.insert(at, (path.into(), target));
                true
            }
        }
    }

    fn remove(&mut self, path: &str) {
        if let Ok(at) = self.position(path) {
            self.0.remove(at);
        }
    }

    /// Returns the target of the longest matching prefix.
    ///
    /// Every prefix of `rest` sorts at or before it, and all entries between the two have that
    /// prefix too. So the greatest entry at or before `rest` either is the answer, or shares with
    /// `rest` everything that the answer can consist of, and the search continues with that part.
    /// The number of steps is bounded by the number of segments of a route, and does not depend on
    /// the request.
    fn find(&self, path: &str) -> Option<&T> {
        let mut rest = path;
        loop {
            let at = match self.position(rest) {
                Ok(at) => return Some(&self.0[at].1),
                Err(0) => return None,
                Err(after) => after - 1,
            };
            let prefix = &*self.0[at].0;
            let shared = prefix.bytes().zip(rest.bytes()).take_while(|(a, b)| a == b).count();
            // The segment boundary. The end of `rest` cannot be the boundary again, or the loop
            // would not terminate.
            rest = match rest.as_bytes().get(shared) {
                Some(b'/') => &rest[..shared],
                _ => &rest[..rest.as_bytes()[..shared].iter().rposition(|byte| *byte == b'/')?],
            };
        }
    }
}

impl<T: PartialEq> Paths<T> {
    fn holds(&self, path: &str, target: &T) -> bool {
        self.position(path).is_ok_and(|at| self.0[at].1 == *target)
    }
}

/// Removes the port from `a.example:80` and `[::1]:80`.
fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    }
}

/// Returns `name` in lower case: itself, or a copy in `buffer`, which has room for it.
fn lower<'a>(name: &'a str, buffer: &'a mut [u8; MAX_HOST]) -> &'a str {
    if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return name;
    }
    let lowered = &mut buffer[..name.len()];
    lowered.copy_from_slice(name.as_bytes());
    lowered.make_ascii_lowercase();
    std::str::from_utf8(lowered).expect("lower-casing ASCII letters keeps UTF-8 valid")
}

#[cfg(test)]
mod tests;
