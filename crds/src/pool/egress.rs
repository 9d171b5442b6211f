//! Outbound connections of a pool's Workers: the allowed networks, the trusted authorities and the
//! proxy.
//!
//! A pool has no namespace of its own, so its references are resolved in the namespace of the
//! nodes, which is the operator's.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::{DATA_KEY, DNS_SUBDOMAIN};

const NETWORKS: &str = "self.all(net, isCIDR(net) && cidr(net) == cidr(net).masked())";

/// CEL rule of a proxy's URL: a scheme, a host and an optional port. The last label of a name
/// begins with a letter, because a host that ends in a number is an address.
const PROXY_URL: &str = "self.matches('^https?://(([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?[.])*\
    [a-zA-Z]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?|(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\
    ([.](25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}|\\\\[[0-9a-fA-F:]{2,39}\\\\])\
    (:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?/?$') && \
    (!self.contains('[') || isIP(self.substring(self.indexOf('[') + 1, self.indexOf(']'))))";

/// How a pool's Workers reach what is outside.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolEgress {
    /// Networks such as `10.1.0.0/16` or `fd00:1::/32`, in spite of what is refused by default: loopback, link-local,
    /// private and metadata addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 43)))]
    #[x_kube(validation = Rule::new(NETWORKS)
        .message("spec.egress.allowCidrs: must be networks without bits of a host, such as 10.1.0.0/16 or fd00:1::/32"))]
    pub allow_cidrs: Vec<String>,

    /// Networks that are refused although they are public, or within one of `allowCidrs`, such as a cluster's own where it
    /// has public addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 43)))]
    #[x_kube(validation = Rule::new(NETWORKS)
        .message("spec.egress.denyCidrs: must be networks without bits of a host, such as 203.0.113.0/24 or fd00:1::/32"))]
    pub deny_cidrs: Vec<String>,

    /// Authorities that connections trust beside those of the nodes' image: certificates in PEM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ca_certificates: Vec<CaCertificates>,

    /// What all connections go through. By default none: they go straight out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<PoolProxy>,
}

impl PoolEgress {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where certificates are.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.configMapKeyRef) != has(self.secretKeyRef)")
    .message("spec.egress.caCertificates: must have either a configMapKeyRef or a secretKeyRef"))]
pub struct CaCertificates {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
}

/// A key of an object in the namespace of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    #[schemars(length(min = 1, max = 253), regex(pattern = DATA_KEY))]
    pub key: String,
}

/// An HTTP proxy that connects to hosts and ports by CONNECT, 80 and 443 among them.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolProxy {
    /// `http://proxy.example.com:3128`, or `https://` where TLS is spoken with the proxy itself. The host's name is taken as
    /// it stands: a Service's is `proxy.infra.svc.cluster.local`.
    #[schemars(length(min = 1, max = 280))]
    #[x_kube(validation = Rule::new(PROXY_URL)
        .message("spec.egress.proxy.url: must be a URL such as http://proxy.example.com:3128, without a path or \
            credentials; these are in the Secret of credentialsSecretRef"))]
    pub url: String,

    /// Who asks: the keys `username` and `password` of a Secret in the namespace of the nodes, such as one of the type
    /// `kubernetes.io/basic-auth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,

    /// Who resolves the names that Workers connect to. `Node`: the node, which refuses what leads inside, and has the proxy
    /// connect to an address. `Proxy`: the proxy, which gets the name; for nodes that cannot resolve names of the Internet,
    /// and proxies that judge by name. Then the proxy itself has to refuse names that lead inside.
    #[serde(default)]
    pub resolver: ProxyResolver,
}

/// A Secret in the namespace of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProxyResolver {
    #[default]
    Node,
    Proxy,
}
