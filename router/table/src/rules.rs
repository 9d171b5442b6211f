//! The rules of a host: which action a request takes, by its path, method, headers and query.
//!
//! ```text
//!  exact path ─► longest prefix ─► … ─► shortest prefix
//!      └─ the matches of each, in the order of the catalog: the first that the request meets
//! ```
//!
//! The operator puts the matches of a host into the order of precedence that the Gateway API
//! specifies. Paths take precedence over all other conditions, so a request is compared only with
//! the matches of its own path and of the prefixes above.
//!
//! This module is pure.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::num::NonZeroU16;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tenon_proto::catalog::{self, path_change, rule_match};
use tenon_proto::id::WorkerId;
use url::form_urlencoded;

type Map<V> = HashMap<Box<str>, V, foldhash::fast::RandomState>;

/// The rules of one host.
#[derive(Debug)]
pub struct Rules {
    exact: Map<Vec<Match>>,
    /// The matches by prefix without a trailing slash, so that the root is empty.
    prefixes: Map<Vec<Match>>,
    /// The length of the longest prefix, in bytes.
    longest: usize,
    actions: Vec<Action>,
}

/// The conditions of one match besides its path.
#[derive(Debug)]
struct Match {
    method: Option<Method>,
    headers: Box<[(HeaderName, Box<[u8]>)]>,
    query: Box<[(Box<str>, Box<str>)]>,
    /// Whether requests without TLS can meet the conditions.
    http: bool,
    /// Whether requests over TLS can meet the conditions.
    https: bool,
    action: usize,
}

/// The effect of a rule on its requests.
#[derive(Debug)]
pub struct Action {
    backends: Backends,
    pub redirect: Option<Redirect>,
    pub request_headers: HeaderChanges,
    pub response_headers: HeaderChanges,
    /// Replaces the host that the Worker sees.
    pub rewrite_host: Option<Box<str>>,
    /// Replaces the path that the Worker sees.
    pub rewrite_path: Option<PathChange>,
}

/// The Workers that serve the requests of a rule, each with the end of its share. `None` takes the
/// share of a backend that is not valid.
#[derive(Debug)]
struct Backends {
    ends: Box<[(u64, Option<WorkerId>)]>,
    total: u64,
}

/// The parts of a redirect's location that replace those of the request; `None` keeps a part.
#[derive(Debug)]
pub struct Redirect {
    pub scheme: Option<Box<str>>,
    pub host: Option<Box<str>>,
    pub port: Option<NonZeroU16>,
    pub path: Option<PathChange>,
    pub status: StatusCode,
}

/// A change of a path.
#[derive(Debug)]
pub enum PathChange {
    Full(Box<str>),
    /// Replaces the matched prefix.
    Prefix(Box<str>),
}

/// Changes of headers.
#[derive(Debug, Default)]
pub struct HeaderChanges {
    set: Vec<(HeaderName, HeaderValue)>,
    add: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<HeaderName>,
}

/// The parts of a request by which it is matched.
pub struct Request<'a> {
    pub method: &'a Method,
    /// The path without the query.
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
    /// Whether the client uses TLS.
    pub is_https: bool,
    /// The query's parameters, once they are needed.
    parameters: OnceCell<HashMap<String, String>>,
}

/// The rule that a request takes.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    pub action: &'a Action,
    /// The length, in bytes, of the part of the path that the rule has matched: the prefix without
    /// a trailing slash, or the whole path.
    pub matched: usize,
}

/// The reason why the rules of a host are not valid.
#[derive(Debug, thiserror::Error)]
pub enum MalformedRules {
    #[error("a match has no path")]
    NoPath,
    #[error("a match names the action {0}, which does not exist")]
    Action(u32),
    #[error("the method {0} is not valid")]
    Method(String),
    #[error("the header {0} is not valid")]
    Header(String),
    #[error("the status {0} or the port {1} of a redirect is not valid")]
    Redirect(u32, u32),
    #[error(transparent)]
    Worker(#[from] tenon_proto::id::InvalidWorkerId),
}

impl<'a> Request<'a> {
    /// Returns the parts of a request by which it is matched.
    ///
    /// # Arguments
    /// * `path` - the path without the query.
    /// * `is_https` - whether the client uses TLS.
    pub fn new(
        method: &'a Method,
        path: &'a str,
        query: Option<&'a str>,
        headers: &'a HeaderMap,
        is_https: bool,
    ) -> Self {
        Self { method, path, query, headers, is_https, parameters: OnceCell::new() }
    }

    /// Returns the first value of a query parameter. The query is parsed once, so that the cost
    /// does not depend on the number of matches.
    fn parameter(&self, name: &str) -> Option<&str> {
        let parameters = self.parameters.get_or_init(|| {
            let mut first = HashMap::new();
            for (name, value) in form_urlencoded::parse(self.query.unwrap_or_default().as_bytes()) {
                first.entry(name.into_owned()).or_insert_with(|| value.into_owned());
            }
            first
        });
        parameters.get(name).map(String::as_str)
    }
}

impl Rules {
    /// Returns the rules that an entry of the catalog describes.
    ///
    /// # Errors
    /// Fails if the entry is not valid.
    pub fn new(entry: &catalog::HostRules) -> Result<Self, MalformedRules> {
        let actions = entry.actions.iter().map(Action::new).collect::<Result<Vec<_>, _>>()?;
        let mut rules =
            Self { exact: Map::default(), prefixes: Map::default(), longest: 0, actions };
        for conditions in &entry.matches {
            let matched = Match::new(conditions, rules.actions.len())?;
            let matches = match conditions.path.as_ref().ok_or(MalformedRules::NoPath)? {
                rule_match::Path::Exact(path) => rules.exact.entry(path.as_str().into()),
                rule_match::Path::Prefix(path) => {
                    let prefix = path.trim_end_matches('/');
                    rules.longest = rules.longest.max(prefix.len());
                    rules.prefixes.entry(prefix.into())
                }
            };
            matches.or_default().push(matched);
        }
        Ok(rules)
    }

    /// Returns the rule that a request takes, or `None` if the request meets no match.
    pub fn find(&self, request: &Request<'_>) -> Option<Rule<'_>> {
        let path = request.path;
        let first = |matches: &[Match]| {
            let found = matches.iter().find(|one| one.is_met(request))?;
            Some(&self.actions[found.action])
        };
        if let Some(action) = self.exact.get(path).and_then(|matches| first(matches)) {
            return Some(Rule { action, matched: path.len() });
        }
        prefixes(path, self.longest).find_map(|prefix| {
            let action = first(self.prefixes.get(prefix)?)?;
            Some(Rule { action, matched: prefix.len() })
        })
    }
}

/// Returns the parts of a path that end at a segment boundary and are not longer than `longest`,
/// from the longest to the root, which is empty.
fn prefixes(path: &str, longest: usize) -> impl Iterator<Item = &str> {
    let within = path.as_bytes().iter().take(longest + 1).enumerate();
    let boundaries = within.filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    let whole = (path.len() <= longest && !path.ends_with('/')).then_some(path);
    whole.into_iter().chain(boundaries.rev())
}

impl Match {
    fn new(conditions: &catalog::RuleMatch, actions: usize) -> Result<Self, MalformedRules> {
        let method = match conditions.method.as_str() {
            "" => None,
            name => {
                let invalid = |_| MalformedRules::Method(name.to_owned());
                Some(Method::from_bytes(name.as_bytes()).map_err(invalid)?)
            }
        };
        let headers = conditions
            .headers
            .iter()
            .map(|header| Ok((header_name(&header.name)?, header.value.as_bytes().into())));
        let query = conditions.query.iter();
        let query = query.map(|one| (one.name.as_str().into(), one.value.as_str().into()));
        let action = usize::try_from(conditions.action).ok().filter(|action| *action < actions);
        Ok(Self {
            method,
            headers: headers.collect::<Result<_, MalformedRules>>()?,
            query: query.collect(),
            http: conditions.http,
            https: conditions.https,
            action: action.ok_or(MalformedRules::Action(conditions.action))?,
        })
    }

    fn is_met(&self, request: &Request<'_>) -> bool {
        (if request.is_https { self.https } else { self.http })
            && self.method.as_ref().is_none_or(|method| method == request.method)
            && self.headers.iter().all(|(name, value)| has(request.headers, name, value))
            && self.query.iter().all(|(name, value)| request.parameter(name) == Some(value))
    }
}

/// Returns whether a header has the expected value. The values of a repeated header count as one,
/// with commas between them (RFC 9110, section 5.3).
fn has(headers: &HeaderMap, name: &HeaderName, expected: &[u8]) -> bool {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return false };
    let Some(mut rest) = expected.strip_prefix(first.as_bytes()) else { return false };
    for value in values {
        let Some(after) = rest.strip_prefix(b",") else { return false };
        let after = after.trim_ascii_start();
        match after.strip_prefix(value.as_bytes()) {
            Some(remaining) => rest = remaining,
            None => return false,
        }
    }
    rest.is_empty()
}

impl Action {
    fn new(action: &catalog::RuleAction) -> Result<Self, MalformedRules> {
        let mut total = 0;
        let ends = action.backends.iter().map(|backend| {
            total += u64::from(backend.weight);
            let is_valid = !backend.worker.is_empty();
            Ok((total, is_valid.then(|| backend.worker.parse()).transpose()?))
        });
        let ends = ends.collect::<Result<_, MalformedRules>>()?;
        Ok(Self {
            backends: Backends { ends, total },
            redirect: action.redirect.as_ref().map(Redirect::new).transpose()?,
            request_headers: HeaderChanges::new(action.request_headers.as_ref())?,
            response_headers: HeaderChanges::new(action.response_headers.as_ref())?,
            rewrite_host: text(&action.rewrite_host),
            rewrite_path: PathChange::new(action.rewrite_path.as_ref()),
        })
    }

    /// Draws the Worker that serves a request. Returns `None` if no backend has a weight, or if the
    /// drawn backend is not valid.
    ///
    /// # Arguments
    /// * `random` - returns a random number.
    pub fn draw(&self, random: impl FnOnce() -> u64) -> Option<&WorkerId> {
        let Backends { ends, total } = &self.backends;
        let position = match (*total, &**ends) {
            (0, _) => return None,
            (_, [_]) => 0,
            // Weights are at most a million, so the bias of a remainder is negligible.
            (total, _) => random() % total,
        };
        ends.iter().find(|(end, _)| position < *end)?.1.as_ref()
    }
}

impl Redirect {
    fn new(redirect: &catalog::Redirect) -> Result<Self, MalformedRules> {
        let invalid = || MalformedRules::Redirect(redirect.status, redirect.port);
        let status = u16::try_from(redirect.status).ok();
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        Ok(Self {
            scheme: text(&redirect.scheme),
            host: text(&redirect.host),
            port: NonZeroU16::new(u16::try_from(redirect.port).map_err(|_| invalid())?),
            path: PathChange::new(redirect.path.as_ref()),
            status: status.filter(StatusCode::is_redirection).ok_or_else(invalid)?,
        })
    }
}

impl PathChange {
    fn new(change: Option<&catalog::PathChange>) -> Option<Self> {
        Some(match change?.change.as_ref()? {
            path_change::Change::Full(path) => Self::Full(path.as_str().into()),
            path_change::Change::Prefix(prefix) => Self::Prefix(prefix.as_str().into()),
        })
    }

    /// Returns the changed path.
    ///
    /// # Arguments
    /// * `matched` - the length of the prefix that the rule has matched, in bytes, without a
    ///   trailing slash.
    pub fn apply(&self, path: &str, matched: usize) -> String {
        let path = match self {
            Self::Full(path) => path.to_string(),
            Self::Prefix(prefix) => {
                let rest = path.get(matched..).unwrap_or_default();
                // The rest of a path below the prefix begins with a slash.
                [if rest.is_empty() { prefix } else { prefix.trim_end_matches('/') }, rest].concat()
            }
        };
        if path.starts_with('/') { path } else { format!("/{path}") }
    }
}

impl HeaderChanges {
    fn new(changes: Option<&catalog::HeaderChanges>) -> Result<Self, MalformedRules> {
        let Some(changes) = changes else { return Ok(Self::default()) };
        let values = |list: &[catalog::Variable]| {
            let value = |header: &catalog::Variable| {
                let invalid = |_| MalformedRules::Header(header.name.clone());
                let value = HeaderValue::from_str(&header.value).map_err(invalid)?;
                Ok((header_name(&header.name)?, value))
            };
            list.iter().map(value).collect::<Result<_, MalformedRules>>()
        };
        Ok(Self {
            set: values(&changes.set)?,
            add: values(&changes.add)?,
            remove: changes
                .remove
                .iter()
                .map(|name| header_name(name))
                .collect::<Result<_, _>>()?,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }

    /// Applies the changes. A header for which a map has no room is left out.
    ///
    /// # Arguments
    /// * `may_change` - returns whether a rule may change a header.
    pub fn apply(&self, headers: &mut HeaderMap, may_change: impl Fn(&HeaderName) -> bool) {
        for (name, value) in self.set.iter().filter(|(name, _)| may_change(name)) {
            let _ = headers.try_insert(name.clone(), value.clone());
        }
        for (name, value) in self.add.iter().filter(|(name, _)| may_change(name)) {
            let _ = headers.try_append(name.clone(), value.clone());
        }
        for name in self.remove.iter().filter(|name| may_change(name)) {
            headers.remove(name);
        }
    }
}

fn header_name(name: &str) -> Result<HeaderName, MalformedRules> {
    name.parse().map_err(|_| MalformedRules::Header(name.to_owned()))
}

fn text(text: &str) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests;
