//! Outbound connections of a pool's Workers: the allowed networks, the trusted authorities and the
//! proxy.
//!
//! A pool has no namespace of its own, so its references are resolved in the namespace of the
//! nodes, which is also the operator's namespace.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::{DATA_KEY, DNS_SUBDOMAIN};

pub(super) const NETWORKS: &str = "self.all(net, isCIDR(net) && cidr(net) == cidr(net).masked())";

/// CEL rule of a proxy's URL: a scheme, a host and an optional port. The last label of a name
/// begins with a letter, because a host that ends in a number is an address.
const PROXY_URL: &str = "self.matches('^https?://(([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?[.])*\
    [a-zA-Z]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?|(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\
    ([.](25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}|\\\\[[0-9a-fA-F:]{2,39}\\\\])\
    (:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?/?$') && \
    (!self.contains('[') || isIP(self.substring(self.indexOf('[') + 1, self.indexOf(']'))))";

/// Outbound connections of a pool's Workers.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolEgress {
    /// Networks to allow besides public addresses, such as `10.1.0.0/16` or `fd00:1::/32`. By
    /// default, loopback, link-local, private and metadata addresses are denied. A metadata service
    /// must be listed as a single address, and loopback addresses by a network that has no others,
    /// such as `127.0.0.0/8`: the node's own ports are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 43)))]
    #[x_kube(validation = Rule::new(NETWORKS)
        .message("spec.egress.allowCidrs: invalid network; use a CIDR without host bits, such as 10.1.0.0/16 or fd00:1::/32"))]
    pub allow_cidrs: Vec<String>,

    /// Networks to deny even if they are public or within one of `allowCidrs`, such as the networks
    /// of a cluster with public addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 43)))]
    #[x_kube(validation = Rule::new(NETWORKS)
        .message("spec.egress.denyCidrs: invalid network; use a CIDR without host bits, such as 203.0.113.0/24 or fd00:1::/32"))]
    pub deny_cidrs: Vec<String>,

    /// Certificates in PEM of authorities to trust besides those of the nodes' image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ca_certificates: Vec<CaCertificates>,

    /// Proxy for all connections. By default, Workers connect directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<PoolProxy>,
}

impl PoolEgress {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A reference to certificates in PEM.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.configMapKeyRef) != has(self.secretKeyRef)")
    .message("spec.egress.caCertificates: an entry needs one reference; set either configMapKeyRef or secretKeyRef"))]
pub struct CaCertificates {
    /// Key of a ConfigMap with the certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// Key of a Secret with the certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
}

/// A key of an object in the namespace of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    /// Key in the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = DATA_KEY))]
    pub key: String,
}

/// An HTTP proxy that opens connections by CONNECT, to ports 80 and 443 at least.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolProxy {
    /// URL of the proxy: `http://proxy.example.com:3128`, or `https://` for TLS to the proxy
    /// itself. The host name must be fully qualified; for a Service,
    /// `proxy.infra.svc.cluster.local`.
    #[schemars(length(min = 1, max = 280))]
    #[x_kube(validation = Rule::new(PROXY_URL)
        .message("spec.egress.proxy.url: invalid URL; use one such as http://proxy.example.com:3128, without a path, \
            and set credentialsSecretRef for credentials"))]
    pub url: String,

    /// Secret in the namespace of the nodes with the keys `username` and `password`, such as one of
    /// type `kubernetes.io/basic-auth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,

    /// Resolver of the host names that Workers connect to. With `Node`, the node resolves them,
    /// denies internal addresses, and has the proxy connect to an address. With `Proxy`, the proxy
    /// gets the name, for nodes that cannot resolve Internet names and for proxies with rules by
    /// name; the proxy itself must then deny names that resolve to internal addresses.
    #[serde(default)]
    pub resolver: ProxyResolver,
}

/// A Secret in the namespace of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProxyResolver {
    #[default]
    Node,
    Proxy,
}
