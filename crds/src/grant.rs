//! `HostGrant`: the namespaces whose Workers may claim hosts.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;
use crate::name::{DNS_LABEL, HOST};
use crate::namespaces::{self, NamespaceSelector};

/// Hosts, and the namespaces whose Workers may have routes with these hosts.
#[allow(clippy::duplicated_attributes)] // Each printed column has the same attributes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "tenon.dev",
    version = "v1alpha1",
    kind = "HostGrant",
    status = "HostGrantStatus",
    derive = "PartialEq",
    shortname = "hg",
    category = "tenon",
    doc = "A grant of hosts to namespaces, whose Workers may then have routes with these hosts.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Hosts", type_ = "string", json_path = ".spec.hosts"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct HostGrantSpec {
    /// Hosts such as `shop.example.com`, or `*.example.com` for every name below example.com. Only
    /// the granted namespaces may claim them. Of several grants, those of the most specific host
    /// decide. Hosts below the platform's domain belong to the namespace in their name and cannot
    /// be granted.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    #[x_kube(
        validation = Rule::new(format!("self.all(host, host.matches('{HOST}'))"))
            .message("spec.hosts: invalid host; use a DNS name in lower case without a port, which may begin with *."),
        validation = Rule::new("self.all(host, !host.matches('^[*][.][^.]+$'))")
            .message("spec.hosts: a wildcard below a top-level domain; use one below a domain that you own, such as *.example.com"),
        validation = Rule::new("self.all(host, self.exists_one(other, other == host))")
            .message("spec.hosts: duplicate host; keep one of them"),
    )]
    pub hosts: Vec<String>,
    /// Namespaces whose Workers may claim the hosts.
    pub namespaces: GrantedNamespaces,
}

/// A selection of namespaces. A namespace is selected if its name is listed or its labels match.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.selector) || (has(self.names) && size(self.names) > 0)")
        .message("spec.namespaces: selects no namespace; set names or selector"),
    validation = Rule::new(namespaces::match_labels_rule())
        .message("spec.namespaces.selector.matchLabels: invalid key; use a label key such as team or example.com/team"),
    validation = Rule::new(namespaces::expression_keys_rule())
        .message("spec.namespaces.selector.matchExpressions.key: invalid key; use a label key such as team or example.com/team"),
    validation = Rule::new(namespaces::EXPRESSION_VALUES)
        .message("spec.namespaces.selector.matchExpressions.values: missing for In or NotIn, or not allowed with another operator; set them with In and NotIn only"),
)]
pub struct GrantedNamespaces {
    /// Names of namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = DNS_LABEL)))]
    pub names: Vec<String>,
    /// Labels of namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NamespaceSelector>,
}

/// State of the grant, as the operator last observed it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostGrantStatus {
    /// The `metadata.generation` that the rest of the status describes; initially -1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`: whether all hosts are granted, and if not, why. A grant that is not ready also has
    /// `Stalled`, because it must be changed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
