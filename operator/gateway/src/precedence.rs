//! Puts the rules of all routes of a host into the order in which they match. This module is pure.
//!
//! The order is that of the specification: an exact path, the longer path, a method, the number of
//! headers, the number of query parameters; then the older route, the route's namespace and name,
//! and the order of the rules in the route.

use std::cmp::Reverse;

use k8s_openapi::jiff::Timestamp;
use prost::Message as _;
use tenon_proto::catalog::{HostRules, RuleMatch, rule_match};

use crate::Key;
use crate::attach::Schemes;
use crate::compile::Compiled;

/// The maximum number of matches of a host. A request may be compared with each of them that has
/// its path.
pub const MAX_MATCHES: usize = 1000;

/// The maximum size of the rules of a host, in bytes.
pub const MAX_SIZE: usize = 1024 * 1024;

/// A route of a host.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub key: &'a Key,
    /// The time at which the route was created.
    pub since: Option<Timestamp>,
    pub schemes: Schemes,
    pub compiled: &'a Compiled,
}

/// Returns the rules of a host, and the routes that have no room among them. Older routes get room
/// before newer ones.
pub fn rules<'a>(host: &str, mut members: Vec<Member<'a>>) -> (HostRules, Vec<&'a Key>) {
    members.sort_by_key(|member| (member.since, member.key));
    let mut rules = HostRules { host: host.to_owned(), ..HostRules::default() };
    let (mut matches, mut left_out, mut size) = (Vec::new(), Vec::new(), 0);
    for member in members {
        let Compiled { matches: own, actions, .. } = member.compiled;
        let own_size = own.iter().map(RuleMatch::encoded_len).sum::<usize>()
            + actions.iter().map(|action| action.encoded_len()).sum::<usize>();
        if matches.len() + own.len() > MAX_MATCHES || size + own_size > MAX_SIZE {
            left_out.push(member.key);
            continue;
        }
        size += own_size;
        let first = u32::try_from(rules.actions.len()).unwrap_or(u32::MAX);
        let Schemes { http, https } = member.schemes;
        matches.extend(own.iter().cloned().map(|conditions| RuleMatch {
            action: first + conditions.action,
            http,
            https,
            ..conditions
        }));
        rules.actions.extend(actions.iter().cloned());
    }
    // The sort is stable, so equal matches keep the order of their routes and rules.
    matches.sort_by_key(rank);
    rules.matches = matches;
    (rules, left_out)
}

/// Returns the rank of a match. A lower rank precedes.
fn rank(conditions: &RuleMatch) -> impl Ord + use<> {
    let (is_prefix, length) = match &conditions.path {
        Some(rule_match::Path::Exact(path)) => (false, path.len()),
        Some(rule_match::Path::Prefix(path)) => (true, path.len()),
        None => (true, 0),
    };
    (
        is_prefix,
        Reverse(length),
        conditions.method.is_empty(),
        Reverse(conditions.headers.len()),
        Reverse(conditions.query.len()),
    )
}

#[cfg(test)]
mod tests {
    use tenon_proto::catalog::{Backend, RuleAction, Variable};

    use super::*;

    fn prefix(path: &str) -> RuleMatch {
        RuleMatch { path: Some(rule_match::Path::Prefix(path.into())), ..Default::default() }
    }

    fn exact(path: &str) -> RuleMatch {
        RuleMatch { path: Some(rule_match::Path::Exact(path.into())), ..Default::default() }
    }

    fn variables(count: usize) -> Vec<Variable> {
        (0..count).map(|at| Variable { name: at.to_string(), value: String::new() }).collect()
    }

    /// Returns a route with one rule for each match. The Worker of a rule is `name/INDEX`.
    fn route(name: &str, matches: Vec<RuleMatch>) -> Compiled {
        let action = |at: u32| RuleAction {
            backends: vec![Backend { worker: format!("{name}/{at}"), weight: 1 }],
            ..Default::default()
        };
        Compiled {
            actions: (0..matches.len() as u32).map(action).collect(),
            matches: (0..)
                .zip(matches)
                .map(|(action, conditions)| RuleMatch { action, ..conditions })
                .collect(),
            ..Default::default()
        }
    }

    /// Returns the Workers of the matches, in order. Each route is older than the next one.
    fn order(routes: &[(&str, &Compiled)]) -> Vec<String> {
        let keys: Vec<Key> =
            routes.iter().map(|(name, _)| ("a".to_owned(), (*name).to_owned())).collect();
        let members =
            keys.iter().zip(routes).enumerate().map(|(at, (key, (_, compiled)))| Member {
                key,
                since: Some(Timestamp::from_second(at as i64).unwrap()),
                schemes: Schemes { http: true, https: false },
                compiled,
            });
        // The order in which routes are seen does not matter.
        let (rules, left_out) = rules("shop", members.rev().collect());
        assert!(left_out.is_empty());
        assert!(rules.matches.iter().all(|conditions| conditions.http && !conditions.https));
        let worker = |conditions: &RuleMatch| {
            rules.actions[conditions.action as usize].backends[0].worker.clone()
        };
        rules.matches.iter().map(worker).collect()
    }

    #[test]
    fn more_specific_matches_precede() {
        let one = route(
            "one",
            vec![
                prefix("/"),
                RuleMatch { query: variables(2), ..prefix("/match") },
                RuleMatch { headers: variables(1), ..prefix("/match") },
                RuleMatch { headers: variables(2), query: variables(1), ..prefix("/match") },
                RuleMatch { method: "GET".into(), ..prefix("/match") },
                exact("/match"),
                prefix("/match/longer"),
                prefix("/match"),
            ],
        );
        assert_eq!(
            order(&[("one", &one)]),
            ["one/5", "one/6", "one/4", "one/3", "one/2", "one/1", "one/7", "one/0"]
        );
    }

    #[test]
    fn among_equal_matches_the_older_route_and_then_the_earlier_rule_precedes() {
        let (old, new) =
            (route("old", vec![prefix("/"), prefix("/")]), route("new", vec![prefix("/")]));
        assert_eq!(order(&[("z", &old), ("a", &new)]), ["old/0", "old/1", "new/0"]);
    }

    #[test]
    fn routes_without_a_time_of_creation_follow_the_order_of_their_names() {
        let compiled = route("x", vec![prefix("/")]);
        let keys = [("a", "two"), ("a", "one")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let schemes = Schemes::default();
        let members =
            keys.iter().map(|key| Member { key, since: None, schemes, compiled: &compiled });
        let full = route("x", vec![prefix("/"); MAX_MATCHES]);
        assert!(rules("shop", members.collect()).1.is_empty());
        let members = keys.iter().map(|key| Member { key, since: None, schemes, compiled: &full });
        assert_eq!(rules("shop", members.collect()).1, [&keys[0]]);
    }
}
