//! Placement of a pool's Pods on Kubernetes nodes.
//!
//! The types mirror the part of Kubernetes' types that a pool needs, including their rules: a value
//! that would make the API server reject the Deployment is rejected in the RuntimePool, where its
//! author sees the message.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{self, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A taint that the Pods tolerate.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.key) || (has(self.operator) && self.operator == 'Exists')")
        .message("spec.tolerations.key: missing; set it, or set operator to Exists to tolerate every taint"),
    validation = Rule::new("!has(self.value) || !has(self.operator) || self.operator != 'Exists'")
        .message("spec.tolerations.value: not allowed with operator Exists; remove it, or set operator to Equal"),
    validation = Rule::new("!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')")
        .message("spec.tolerations.tolerationSeconds: not allowed with this effect; set effect to NoExecute, or remove it"),
)]
pub struct Toleration {
    /// Key of the taint, such as `example.com/tenants`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[x_kube(validation = Rule::new(label_key("self"))
        .message("spec.tolerations.key: invalid taint key; use one such as tenants or example.com/tenants"))]
    pub key: Option<String>,
    /// Comparison of the taint's value with `value`. `Equal` by default. With `Exists`, every value
    /// matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = LABEL_VALUE))]
    pub value: Option<String>,
    /// Effect of the taint. If not set, taints with any effect are tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Time, in seconds, for which a taint that is added later is tolerated. Unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    Exists,
    Equal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A bound on how unevenly the pool's Pods are spread over the values of a Kubernetes node label.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'")
    .message("spec.topologySpread.minDomains: not allowed with ScheduleAnyway; set whenUnsatisfiable to DoNotSchedule, or remove it"))]
pub struct TopologySpread {
    /// Key of the label, such as `topology.kubernetes.io/zone`.
    #[schemars(length(min = 1, max = 317))]
    #[x_kube(validation = Rule::new(label_key("self"))
        .message("spec.topologySpread.topologyKey: invalid label key; use one such as topology.kubernetes.io/zone"))]
    pub topology_key: String,
    /// Maximum difference between the number of Pods at a value of the label and the lowest number
    /// at any value.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_skew: i32,
    /// Treatment of a Pod that would exceed `maxSkew`: it waits, or is scheduled anyway.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Minimum number of eligible values of the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub min_domains: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

impl Toleration {
    /// Returns this toleration in the form of a Pod template.
    pub fn for_pod(&self) -> v1::Toleration {
        // The pattern does not use `..`, so the compiler demands that a new field is handled here.
        let Self { key, operator, value, effect, toleration_seconds } = self;
        let operator = operator.map(|operator| match operator {
            TolerationOperator::Exists => "Exists",
            TolerationOperator::Equal => "Equal",
        });
        let effect = effect.map(|effect| match effect {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::PreferNoSchedule => "PreferNoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        });
        v1::Toleration {
            key: key.clone(),
            operator: operator.map(str::to_owned),
            value: value.clone(),
            effect: effect.map(str::to_owned),
            toleration_seconds: *toleration_seconds,
        }
    }
}

impl TopologySpread {
    /// Returns this constraint in the form of a Pod template.
    ///
    /// # Arguments
    /// * `selector` - labels that select the template's Pods.
    pub fn over(&self, selector: &BTreeMap<String, String>) -> TopologySpreadConstraint {
        let when_unsatisfiable = match self.when_unsatisfiable {
            WhenUnsatisfiable::DoNotSchedule => "DoNotSchedule",
            WhenUnsatisfiable::ScheduleAnyway => "ScheduleAnyway",
        };
        TopologySpreadConstraint {
            topology_key: self.topology_key.clone(),
            max_skew: self.max_skew,
            when_unsatisfiable: when_unsatisfiable.to_owned(),
            min_domains: self.min_domains,
            label_selector: Some(LabelSelector {
                match_labels: Some(selector.clone()),
                ..LabelSelector::default()
            }),
            ..TopologySpreadConstraint::default()
        }
    }
}

/// Pattern of a label value. A label value also has at most 63 characters.
pub(crate) const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";

/// Returns a CEL expression that holds if `subject` is a label key: a name, optionally preceded by
/// a domain and a slash.
pub(crate) fn label_key(subject: &str) -> String {
    let label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let name = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
    format!(
        "{subject}.matches('^({label}([.]{label})*/)?{name}$') && {subject}.indexOf('/') <= 253"
    )
}

pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Labels that a Kubernetes node must have to run the Pods.",
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
    })
}
