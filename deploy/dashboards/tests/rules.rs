//! Tests that every alert has a runbook and a test.

use std::collections::BTreeSet;

use serde::Deserialize;

const RULES: &str = include_str!("../../../charts/tenon/rules/tenon.yaml");
const RUNBOOKS: &str = include_str!("../../../charts/tenon/RUNBOOKS.md");
const TESTS: &str = include_str!("../rules/tests.yaml");

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    alert: String,
    #[serde(rename = "for")]
    for_: String,
    labels: Labels,
    annotations: Annotations,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    severity: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    summary: String,
    description: String,
    runbook_url: String,
}

fn rules() -> Vec<Rule> {
    let rules: Rules = serde_yaml::from_str(RULES).expect("cannot parse the rules");
    rules.groups.into_iter().flat_map(|group| group.rules).collect()
}

#[test]
fn every_alert_has_a_severity_a_description_and_a_runbook() {
    for Rule { alert, for_, labels, annotations, .. } in rules() {
        assert!(
            ["page", "ticket"].contains(&labels.severity.as_str()),
            "{alert} has the severity {}",
            labels.severity
        );
        assert!(for_ != "0s", "{alert} fires without a delay");
        assert!(
            annotations.summary.ends_with('.'),
            "the summary of {alert} does not end with a full stop: {}",
            annotations.summary
        );
        assert!(
            annotations.description.contains("{{ $"),
            "the description of {alert} contains no label"
        );
        let section = format!("charts/tenon/RUNBOOKS.md#{}", alert.to_lowercase());
        assert!(
            annotations.runbook_url.ends_with(&section),
            "the runbook of {alert} is {}",
            annotations.runbook_url
        );
    }
}

#[test]
fn alerts_and_runbook_sections_correspond() {
    let sections: BTreeSet<_> =
        RUNBOOKS.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let rules = rules();
    assert_eq!(sections, rules.iter().map(|rule| rule.alert.as_str()).collect());
    for section in RUNBOOKS.split("\n## ").skip(1) {
        for part in ["**What it means.**", "**Where to look.**", "**What to do.**"] {
            assert_eq!(
                section.matches(part).count(),
                1,
                "{part} does not occur once in this section: {section}"
            );
        }
    }
}

#[test]
fn every_alert_is_triggered_by_a_test() {
    let tests: serde_yaml::Value = serde_yaml::from_str(TESTS).unwrap();
    let cases = tests["tests"]
        .as_sequence()
        .unwrap()
        .iter()
        .flat_map(|test| test["alert_rule_test"].as_sequence().unwrap());
    let triggered = cases
        .filter(|case| case.get("exp_alerts").is_some())
        .map(|case| case["alertname"].as_str().unwrap());
    let triggered: BTreeSet<_> = triggered.collect();
    let rules = rules();
    assert_eq!(triggered, rules.iter().map(|rule| rule.alert.as_str()).collect());
}
