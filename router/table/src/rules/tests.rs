//! Tests which rule a request takes. The cases follow those of the Gateway API's conformance suite.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tenon_proto::catalog::{Backend, HostRules, RuleAction, RuleMatch, Variable};

use super::*;

fn exact(path: &str) -> RuleMatch {
    let path = Some(rule_match::Path::Exact(path.into()));
    RuleMatch { path, http: true, https: true, ..Default::default() }
}

fn prefix(path: &str) -> RuleMatch {
    let path = Some(rule_match::Path::Prefix(path.into()));
    RuleMatch { path, http: true, https: true, ..Default::default() }
}

fn variable(name: &str, value: &str) -> Variable {
    Variable { name: name.into(), value: value.into() }
}

/// Returns rules whose matches have an action each. The action of a match has the Worker `a/INDEX`.
fn rules(matches: Vec<RuleMatch>) -> Rules {
    let action = |index: u32| RuleAction {
        backends: vec![Backend { worker: format!("a/{index}"), weight: 1 }],
        ..Default::default()
    };
    let matches: Vec<_> =
        (0..).zip(matches).map(|(action, one)| RuleMatch { action, ..one }).collect();
    let actions = (0..matches.len() as u32).map(action).collect();
    Rules::new(&HostRules { host: "shop".into(), matches, actions }).unwrap()
}

/// Returns the index of the match that a request takes.
fn taken(rules: &Rules, target: &str, headers: &[(&str, &str)]) -> Option<usize> {
    taken_by(rules, Method::GET, target, headers, false)
}

fn taken_by(
    rules: &Rules,
    method: Method,
    target: &str,
    headers: &[(&str, &str)],
    is_https: bool,
) -> Option<usize> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let rule = rules.find(&Request::new(&method, path, query, &map, is_https))?;
    let worker = rule.action.draw(|| 0).unwrap();
    Some(worker.name().parse().unwrap())
}

#[test]
fn an_exact_path_precedes_a_longer_prefix_which_precedes_a_shorter_one() {
    let rules = rules(vec![
        prefix("/"),
        exact("/one"),
        prefix("/one"),
        prefix("/one/two/"),
        exact("/one/two/three/"),
    ]);
    for (path, expected) in [
        ("/", 0),
        ("/onetwo", 0),
        ("/one", 1),
        ("/one/", 2),
        ("/one/tw", 2),
        ("/one/two", 3),
        ("/one/two/", 3),
        ("/one/two/three", 3),
        ("/one/two/three/", 4),
        ("/one/twothree", 2),
    ] {
        assert_eq!(taken(&rules, path, &[]), Some(expected), "{path}");
    }
}

#[test]
fn a_request_that_meets_no_match_of_a_path_takes_one_of_a_shorter_prefix() {
    let with_version =
        RuleMatch { headers: vec![variable("version", "two")], ..prefix("/v2/example") };
    let rules = rules(vec![with_version, prefix("/v2"), prefix("/x")]);
    assert_eq!(taken(&rules, "/v2/example", &[("version", "two")]), Some(0));
    assert_eq!(taken(&rules, "/v2/example", &[("version", "three")]), Some(1));
    assert_eq!(taken(&rules, "/v1", &[]), None);
}

#[test]
fn all_headers_of_a_match_must_have_their_values() {
    let both = vec![variable("version", "two"), variable("color", "blue")];
    let rules = rules(vec![
        RuleMatch { headers: both, ..prefix("/") },
        RuleMatch { headers: vec![variable("version", "one")], ..prefix("/") },
        RuleMatch { headers: vec![variable("list", "a, b")], ..prefix("/") },
    ]);
    for (headers, expected) in [
        (&[("version", "two"), ("color", "blue")][..], Some(0)),
        (&[("Version", "one"), ("color", "blue")], Some(1)),
        (&[("version", "two")], None),
        (&[("version", "ONE")], None),
        (&[("version", "one"), ("version", "one")], None),
        (&[("list", "a, b")], Some(2)),
        (&[], None),
    ] {
        assert_eq!(taken(&rules, "/", headers), expected, "{headers:?}");
    }
    let listed =
        self::rules(vec![RuleMatch { headers: vec![variable("l", "a, b")], ..prefix("/") }]);
    assert_eq!(taken(&listed, "/", &[("l", "a"), ("l", "b")]), Some(0));
    assert_eq!(taken(&listed, "/", &[("l", "a"), ("l", "b"), ("l", "c")]), None);
}

#[test]
fn all_parameters_of_a_match_must_have_their_values() {
    let both = vec![variable("animal", "dolphin"), variable("color", "blue")];
    let rules = rules(vec![
        RuleMatch { query: both, ..prefix("/") },
        RuleMatch { query: vec![variable("animal", "a b")], ..prefix("/") },
    ]);
    for (target, expected) in [
        ("/?animal=dolphin&color=blue", Some(0)),
        ("/x?color=blue&animal=dolphin&z", Some(0)),
        ("/?animal=a+b", Some(1)),
        ("/?animal=a%20b&animal=dolphin", Some(1)),
        ("/?animal=dolphin", None),
        ("/?ANIMAL=a%20b", None),
        ("/", None),
    ] {
        assert_eq!(taken(&rules, target, &[]), expected, "{target}");
    }
}

#[test]
fn a_match_may_be_limited_to_a_method_and_to_one_kind_of_listener() {
    let rules = rules(vec![
        RuleMatch { method: "POST".into(), ..prefix("/") },
        RuleMatch { https: false, ..prefix("/plain") },
        RuleMatch { http: false, ..prefix("/secret") },
    ]);
    assert_eq!(taken_by(&rules, Method::POST, "/", &[], false), Some(0));
    assert_eq!(taken_by(&rules, Method::GET, "/", &[], false), None);
    assert_eq!(taken_by(&rules, Method::GET, "/plain", &[], false), Some(1));
    assert_eq!(taken_by(&rules, Method::GET, "/plain", &[], true), None);
    assert_eq!(taken_by(&rules, Method::GET, "/secret", &[], false), None);
    assert_eq!(taken_by(&rules, Method::GET, "/secret", &[], true), Some(2));
}

fn action(backends: &[(&str, u32)]) -> Action {
    let backends = backends.iter();
    let backends =
        backends.map(|(worker, weight)| Backend { worker: worker.to_string(), weight: *weight });
    Action::new(&RuleAction { backends: backends.collect(), ..Default::default() }).unwrap()
}

#[test]
fn requests_are_divided_by_weight() {
    let action = action(&[("a/one", 7), ("a/none", 0), ("a/two", 3)]);
    let mut counts = BTreeMap::new();
    for position in 0..10 {
        *counts.entry(action.draw(|| position).unwrap().as_str()).or_insert(0) += 1;
    }
    assert_eq!(counts, BTreeMap::from([("a/one", 7), ("a/two", 3)]));
}

#[test]
fn the_share_of_an_invalid_backend_is_served_by_none() {
    let half = action(&[("a/one", 1), ("", 1)]);
    assert_eq!(half.draw(|| 0).map(WorkerId::as_str), Some("a/one"));
    assert_eq!(half.draw(|| 1), None);
    assert_eq!(action(&[("a/one", 0)]).draw(|| 0), None);
    assert_eq!(action(&[]).draw(|| 0), None);
}

#[test]
fn a_prefix_is_replaced_at_the_segment_boundary() {
    let change =
        |prefix: &str, path: &str, matched| PathChange::Prefix(prefix.into()).apply(path, matched);
    for (prefix, path, matched, expected) in [
        ("/xyz", "/foo/bar", 4, "/xyz/bar"),
        ("/xyz/", "/foo/bar", 4, "/xyz/bar"),
        ("/xyz", "/foo", 4, "/xyz"),
        ("/xyz", "/foo/", 4, "/xyz/"),
        ("", "/foo", 4, "/"),
        ("", "/foo/bar", 4, "/bar"),
        ("/", "/foo/bar", 4, "/bar"),
        ("/", "/foo", 4, "/"),
        ("/xyz", "/bar", 0, "/xyz/bar"),
    ] {
        assert_eq!(change(prefix, path, matched), expected, "{prefix} {path}");
    }
    assert_eq!(PathChange::Full("/a".into()).apply("/foo/bar", 4), "/a");
}

#[test]
fn headers_are_set_added_and_removed() {
    let changes = HeaderChanges::new(Some(&catalog::HeaderChanges {
        set: vec![variable("x-set", "new")],
        add: vec![variable("x-add", "more"), variable("connection", "close")],
        remove: vec!["x-remove".into()],
    }))
    .unwrap();
    let mut headers = HeaderMap::new();
    for name in ["x-set", "x-add", "x-remove"] {
        headers.append(name, HeaderValue::from_static("old"));
    }
    changes.apply(&mut headers, |name| name != "connection");
    let all = |name| headers.get_all(name).iter().collect::<Vec<_>>();
    assert_eq!(all("x-set"), ["new"]);
    assert_eq!(all("x-add"), ["old", "more"]);
    assert!(all("x-remove").is_empty() && all("connection").is_empty());
}

#[test]
fn an_invalid_entry_is_refused() {
    let refused = |change: fn(&mut HostRules)| {
        let mut entry = HostRules {
            host: "shop".into(),
            matches: vec![prefix("/")],
            actions: vec![RuleAction::default()],
        };
        change(&mut entry);
        Rules::new(&entry).unwrap_err().to_string()
    };
    assert_eq!(refused(|entry| entry.matches[0].path = None), "a match has no path");
    assert!(refused(|entry| entry.matches[0].action = 1).contains("action 1"));
    assert!(refused(|entry| entry.matches[0].method = "G T".into()).contains("G T"));
    assert!(refused(|entry| entry.matches[0].headers.push(variable("a b", "c"))).contains("a b"));
    let redirect = catalog::Redirect { status: 200, ..Default::default() };
    let mut entry = HostRules { actions: vec![RuleAction::default()], ..Default::default() };
    entry.actions[0].redirect = Some(redirect);
    assert!(Rules::new(&entry).is_err());
}

proptest! {
    #[test]
    fn the_rule_of_the_longest_matching_prefix_is_found(
        mut list in prop::collection::vec("(/[ab]{0,2}){1,4}", 1..8),
        path in "(/[ab]{0,2}){1,5}",
    ) {
        list.iter_mut().for_each(|prefix| *prefix = prefix.trim_end_matches('/').to_owned());
        list.sort();
        list.dedup();
        let rules = rules(list.iter().map(|path| prefix(path)).collect());
        let is_prefix = |prefix: &&String| {
            let rest = path.strip_prefix(prefix.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let longest = list.iter().filter(is_prefix).max_by_key(|prefix| prefix.len());
        let expected = longest.map(|longest| list.iter().position(|one| one == longest).unwrap());
        prop_assert_eq!(taken(&rules, &path, &[]), expected);
    }
}
