//! Selections of namespaces by label.
//!
//! The rules of a selection are on the type that holds it, because their messages name the field.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{ParseExpressionError, Selector};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::placement::{LABEL_VALUE, label_key};

/// A selection of namespaces by their labels. All parts must match. An empty selection matches
/// every namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceSelector {
    /// Labels that a namespace must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on the labels of a namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<NamespaceRequirement>,
}

/// A requirement on one label of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceRequirement {
    /// Key of the label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// Relation between the label and `values`.
    pub operator: NamespaceOperator,
    /// Values of the label, for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63), regex(pattern = LABEL_VALUE)))]
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespaceOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl NamespaceSelector {
    /// Returns the selection in the form in which labels are matched.
    ///
    /// # Errors
    /// Never fails for a selection that the schema allows.
    pub fn to_selector(&self) -> Result<Selector, ParseExpressionError> {
        let requirement = |requirement: &NamespaceRequirement| {
            let operator = match requirement.operator {
                NamespaceOperator::In => "In",
                NamespaceOperator::NotIn => "NotIn",
                NamespaceOperator::Exists => "Exists",
                NamespaceOperator::DoesNotExist => "DoesNotExist",
            };
            LabelSelectorRequirement {
                key: requirement.key.clone(),
                operator: operator.to_owned(),
                values: Some(requirement.values.clone()),
            }
        };
        LabelSelector {
            match_labels: Some(self.match_labels.clone()),
            match_expressions: Some(self.match_expressions.iter().map(requirement).collect()),
        }
        .try_into()
    }
}

/// Returns the CEL rule that the keys of `matchLabels` in `self.selector` are label keys.
pub(crate) fn match_labels_rule() -> String {
    format!(
        "!has(self.selector) || !has(self.selector.matchLabels) || \
         self.selector.matchLabels.all(key, {})",
        label_key("key")
    )
}

/// Returns the CEL rule that the keys of `matchExpressions` in `self.selector` are label keys.
pub(crate) fn expression_keys_rule() -> String {
    format!(
        "!has(self.selector) || !has(self.selector.matchExpressions) || \
         self.selector.matchExpressions.all(e, {})",
        label_key("e.key")
    )
}

/// CEL rule: a requirement in `self.selector` has values exactly if its operator compares values.
pub(crate) const EXPRESSION_VALUES: &str = "!has(self.selector) || \
    !has(self.selector.matchExpressions) || \
    self.selector.matchExpressions.all(e, \
    (e.operator in ['In', 'NotIn']) == (has(e.values) && size(e.values) > 0))";

fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Labels that a namespace must have.",
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
    })
}

#[cfg(test)]
mod tests {
    use kube::core::SelectorExt as _;
    use serde_json::json;

    use super::*;

    fn matches(selector: serde_json::Value, labels: &[(&str, &str)]) -> bool {
        let selector: NamespaceSelector = serde_json::from_value(selector).unwrap();
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        selector.to_selector().unwrap().matches(&labels.collect())
    }

    #[test]
    fn a_selection_matches_as_kubernetes_matches_labels() {
        assert!(matches(json!({}), &[]));
        let team = json!({"matchLabels": {"team": "shop"}});
        assert!(matches(team.clone(), &[("team", "shop"), ("other", "x")]));
        assert!(!matches(team, &[("team", "bank")]));
        let expression = |operator: &str, values: &[&str]| {
            let requirement = json!({"key": "tier", "operator": operator, "values": values});
            json!({"matchExpressions": [requirement]})
        };
        for (operator, values, labels, expected) in [
            ("In", &["a", "b"][..], &[("tier", "b")][..], true),
            ("In", &["a"], &[], false),
            ("NotIn", &["a"], &[], true),
            ("NotIn", &["a"], &[("tier", "a")], false),
            ("Exists", &[], &[("tier", "")], true),
            ("Exists", &[], &[], false),
            ("DoesNotExist", &[], &[], true),
            ("DoesNotExist", &[], &[("tier", "a")], false),
        ] {
            let selector = expression(operator, values);
            assert_eq!(matches(selector.clone(), labels), expected, "{selector} {labels:?}");
        }
    }
}
