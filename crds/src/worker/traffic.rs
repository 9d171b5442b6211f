//! `spec.traffic` and `spec.sessionAffinity` of a Worker, and the accepted form of the former.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name;

/// Maximum number of revisions among which a Worker's requests are divided.
pub(super) const MAX_TARGETS: usize = 8;

/// A revision, and its share of the Worker's requests.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficTarget {
    /// Name of a WorkerRevision of the Worker. If not set, the latest accepted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = name::DNS_SUBDOMAIN))]
    pub revision: Option<String>,
    /// Percentage of the requests. 0 keeps the revision, for its tag or for a later change.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,
    /// Name of a preview: all requests for `<tag>--<name>.<namespace>.<domain>` go to this
    /// revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("spec.traffic.tag: invalid tag; use lower-case letters, digits and dashes, which become part of a host name"))]
    pub tag: Option<String>,
}

/// The part of a request that selects its revision. Requests with the same value go to the same
/// revision, as long as the shares do not change. Other requests are divided at random.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("has(self.cookie) != has(self.header)")
    .message("spec.sessionAffinity: needs exactly one part of the request; set either cookie or header"))]
pub struct SessionAffinity {
    /// Name of a cookie, which the Worker sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self.matches(\"^[-!#$%&'*+.^_`|~A-Za-z0-9]+$\")")
        .message("spec.sessionAffinity.cookie: invalid name; use letters, digits and dashes"))]
    pub cookie: Option<String>,
    /// Name of a request header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self.matches(\"^[-!#$%&'*+.^_`|~A-Za-z0-9]+$\")")
        .message("spec.sessionAffinity.header: invalid name; use letters, digits and dashes"))]
    pub header: Option<String>,
}

/// A revision that serves, and its accepted share of the requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedTarget {
    /// Name of the WorkerRevision.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
    /// Percentage of the requests.
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,
    /// Name of its preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40))]
    pub tag: Option<String>,
    /// Host of its preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub host: Option<String>,
    /// Digest by which nodes know the revision, if it binds Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 64))]
    pub digest: Option<String>,
}

/// CEL rule for `spec.traffic`: the percentages of its targets add up to 100 if there are any.
pub(super) const ADDS_UP: &str = "self.size() == 0 || self.map(t, t.percent).sum() == 100";

/// CEL rule for `spec.traffic`: no revision has two targets.
pub(super) const REVISIONS_ARE_UNIQUE: &str = "self.all(t, has(t.revision) \
     ? self.exists_one(s, has(s.revision) && s.revision == t.revision) \
     : self.exists_one(s, !has(s.revision)))";

/// CEL rule for `spec.traffic`: no tag names two targets.
pub(super) const TAGS_ARE_UNIQUE: &str =
    "self.all(t, !has(t.tag) || self.exists_one(s, has(s.tag) && s.tag == t.tag))";

/// CEL rule for a Worker: the first label of each preview's host has at most 63 characters.
pub(super) const PREVIEWS_HAVE_SHORT_NAMES: &str = "!has(self.spec.traffic) || \
     self.spec.traffic.all(t, \
     !has(t.tag) || size(t.tag) + 2 + size(self.metadata.name) <= 63)";
