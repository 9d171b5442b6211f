//! The front of a pool, whose nodes serve clients without routers.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretRef;
use super::egress::NETWORKS;

/// The front of a pool. The keys of its certificates and the requests of all tenants are in the
/// processes that run the pool's Workers.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolFront {
    /// Type of the Service `tenon-pool-NAME-front`, at which clients connect: on port 80 and, with
    /// certificates, 443.
    #[serde(default)]
    pub service_type: FrontServiceType,

    /// Secrets of type `kubernetes.io/tls` in the namespace of the nodes, with certificates for
    /// HTTPS. A client gets the certificate for the host that it requests, or the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
        .message("spec.front.tlsSecretRefs: duplicate name; keep one of them"))]
    pub tls_secret_refs: Vec<SecretRef>,

    /// Networks of proxies and load balancers whose `X-Forwarded-*` headers are trusted, such as
    /// `10.0.0.0/8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 43)))]
    #[x_kube(validation = Rule::new(NETWORKS)
        .message("spec.front.trustedProxies: invalid network; use a CIDR without host bits, such as 10.1.0.0/16 or fd00:1::/32"))]
    pub trusted_proxies: Vec<String>,
}

/// The type of a Service for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FrontServiceType {
    #[default]
    ClusterIP,
    NodePort,
    LoadBalancer,
}

impl FrontServiceType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIP => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}
