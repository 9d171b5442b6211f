//! `Worker`: a tenant's program.

mod assets;
mod rate;
mod rollout;
pub(crate) mod schema;
mod source;
mod status;
mod traffic;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name;

pub use assets::{Assets, HtmlHandling, NotFoundHandling};
pub use rate::{RateLimit, RateLimits};
pub use rollout::{
    RevisionFigures, Rollout, RolloutAnalysis, RolloutFigures, RolloutPhase, RolloutStatus,
    RolloutStep,
};
pub use source::{ConfigMapRef, OciSource, PullSecretRef, Source};
pub use status::{
    Accepted, AcceptedRoute, Address, CRASH_LOOPS, CrashLoop, Quarantine, QuarantineCause,
    ScheduleStatus, WorkerStatus,
};
pub use traffic::{AcceptedTarget, SessionAffinity, TrafficTarget};

/// A JavaScript program that handles HTTP requests, in an isolate of its own.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "tenon.dev",
    version = "v1alpha1",
    kind = "Worker",
    namespaced,
    status = "WorkerStatus",
    derive = "PartialEq",
    shortname = "wk",
    category = "tenon",
    cel,
    doc = "A JavaScript program that handles HTTP requests, in an isolate of its own.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Healthy",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Healthy')].status"
    ),
    printcolumn(
        name = "Rollout",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='RolledOut')].reason"
    ),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.latestRevision"),
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.pool", priority = "1"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name: longer than 63 characters; use a shorter name, because it becomes part of a host name"),
    validation = Rule::new(traffic::PREVIEWS_HAVE_SHORT_NAMES)
        .message("spec.traffic.tag: longer than 61 characters together with the Worker's name; use a shorter tag, because both become part of a host name"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!has(self.source.modules) || !has(self.entrypoint) || self.entrypoint in self.source.modules"
    ).message("spec.entrypoint: not in spec.source.modules; set it to the name of one of them"),
    validation = Rule::new(
        "!has(self.source.modules) || has(self.entrypoint) || size(self.source.modules) == 1 || 'worker.js' in self.source.modules || 'worker.ts' in self.source.modules"
    ).message("spec.entrypoint: missing; set it, because spec.source.modules has several modules and none is named worker.js or worker.ts"),
    validation = Rule::new(
        "!has(self.vars) || !has(self.secrets) || self.secrets.all(s, !(s.name in self.vars))"
    ).message("spec.secrets: a name is also in spec.vars; use each binding name once"),
    validation = Rule::new(SERVICE_NAMES_ARE_UNIQUE)
        .message("spec.services: a name is also in spec.vars or spec.secrets; use each binding name once"),
    validation = Rule::new(ASSETS_NAME_IS_UNIQUE)
        .message("spec.assets.binding: another binding has that name; use each binding name once"),
    validation = Rule::new("!has(self.assets) || has(self.source.oci)").message(ASSETS_NEED_AN_ARTIFACT),
    validation = Rule::new(rollout::ROLLOUT_OR_TRAFFIC)
        .message("spec.rollout: spec.traffic divides the requests already; remove one of them"),
)]
pub struct WorkerSpec {
    /// Source of the code.
    pub source: Source,

    /// Name of the module whose default export handles events. Defaults to `worker.js`, to
    /// `worker.ts`, or to the only module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = name::MODULE))]
    pub entrypoint: Option<String>,

    /// RuntimePool whose nodes run the Worker.
    #[serde(default = "default_pool")]
    #[schemars(length(min = 1, max = 42), regex(pattern = name::POOL))]
    pub pool: String,

    /// Routes of the requests that the Worker handles. Defaults to every path of
    /// `<name>.<namespace>.<domain>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(r, self.exists_one(s, s.host == r.host && s.path == r.path))")
        .message("spec.routes: duplicate host and path; keep one of them"))]
    pub routes: Vec<Route>,

    /// Revisions among which requests are divided. By default, all requests go to the latest
    /// accepted revision. A rollback names an earlier one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = traffic::MAX_TARGETS))]
    #[x_kube(
        validation = Rule::new(traffic::ADDS_UP)
            .message("spec.traffic: the percentages do not add up to 100; change one of them"),
        validation = Rule::new(traffic::REVISIONS_ARE_UNIQUE)
            .message("spec.traffic: duplicate revision; keep one of its targets"),
        validation = Rule::new(traffic::TAGS_ARE_UNIQUE)
            .message("spec.traffic: duplicate tag; use each tag once"),
    )]
    pub traffic: Vec<TrafficTarget>,

    /// Shares by which each new revision takes over the requests, and conditions under which it is
    /// taken back. By default, it gets all requests at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,

    /// Part of a request that selects its revision, if `traffic` or `rollout` divides the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<SessionAffinity>,

    /// Whether other shards help when the Worker's own shard is busy with the Worker's requests.
    #[serde(default)]
    pub affinity: Affinity,

    /// Limits on the rates of clients' requests. A change creates no new revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limits: Option<RateLimits>,

    /// Variables, in the handler's `env`: text by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::vars")]
    #[x_kube(validation = Rule::new(schema::all_names(name::BINDING))
        .message("spec.vars: invalid name; use an identifier of at most 63 letters, digits and underscores"))]
    pub vars: BTreeMap<String, String>,

    /// Values of Secrets, in the handler's `env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
        .message("spec.secrets: duplicate name; use each binding name once"))]
    pub secrets: Vec<Secret>,

    /// Other Workers, in the handler's `env`, to call by `env.NAME.fetch(request)`, or by
    /// `env.NAME.method()` if they extend `WorkerEntrypoint`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
        .message("spec.services: duplicate name; use each binding name once"))]
    pub services: Vec<ServiceBinding>,

    /// Static files, which routers serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assets: Option<Assets>,

    /// Schedules on which the `scheduled` handler is called, at most once for each time. A call
    /// that runs past the next time overlaps with the next call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.cron == s.cron && t.timeZone == s.timeZone))")
        .message("spec.schedules: duplicate cron and timeZone; keep one of them"))]
    pub schedules: Vec<Schedule>,

    /// Hosts that the Worker may connect to.
    #[serde(default, skip_serializing_if = "Egress::is_empty")]
    pub egress: Egress,

    /// Features that the Worker needs beyond the web standards: `nodejs_compat` provides modules of
    /// Node.js.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(f, self.exists_one(g, g == f))")
        .message("spec.compatibilityFlags: duplicate flag; keep one of them"))]
    pub compatibility_flags: Vec<CompatibilityFlag>,

    /// Limits of the Worker. A limit that is not set defaults to that of the RuntimePool, or else
    /// to the platform's.
    #[serde(default)]
    pub limits: Limits,

    /// Lifetime of global variables: that of the isolate (`Persist`), or one invocation (`Reset`).
    #[serde(default)]
    pub state: StatePolicy,

    /// Number of WorkerRevisions to keep for rollbacks, besides those that serve.
    #[serde(default = "default_revision_history_limit")]
    #[schemars(range(min = 0, max = 100))]
    pub revision_history_limit: i32,
}

/// A host and a path prefix. The most specific host with a matching path wins, and within a host
/// the longest path.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Host name such as `shop.example.com`, or `*.example.com` for every name below example.com.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(format!("self.matches('{}')", name::HOST))
        .message("spec.routes.host: invalid host; use a DNS name in lower case without a port, which may begin with *."))]
    pub host: String,

    /// Path prefix that ends at a segment boundary: `/api` matches `/api` and `/api/x`, not
    /// `/apix`.
    #[serde(default = "default_path")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = Rule::new("self == '/' || self.matches('^(/[^/]+)+$')")
            .message("spec.routes.path: invalid path; use / or a path that begins with /, without // and without / at its end"),
        validation = Rule::new("!self.matches('/([.]|%2[Ee]){1,2}(/|$)')")
            .message("spec.routes.path: has a . or .. segment, which clients resolve before they send a request; remove it"),
        validation = Rule::new("self.matches('^([-A-Za-z0-9._~!$&()*+,;=:@/\\']|%[0-9A-Fa-f][0-9A-Fa-f])*$')")
            .message("spec.routes.path: invalid character; percent-encode all but letters, digits and -._~!$&'()*+,;=:@/ and remove any query"),
    )]
    pub path: String,
}

/// A binding of a Secret's value to a name in `env`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Name of the value in `env`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z_][A-Za-z0-9_]*$')")
        .message("spec.secrets.name: invalid name; use an identifier of letters, digits and underscores"))]
    pub name: String,
    pub secret_key_ref: SecretKeyRef,
}

/// One key of a Secret in the Worker's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// Name of the Secret. Secrets of Helm releases are not allowed.
    #[schemars(length(min = 1, max = 253), regex(pattern = name::DNS_SUBDOMAIN))]
    pub name: String,
    /// Key of the value in the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = name::DATA_KEY))]
    pub key: String,
}

/// A binding of another Worker to a name in `env`. That Worker handles calls like requests for its
/// routes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceBinding {
    /// Name of the Worker in `env`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z_][A-Za-z0-9_]*$')")
        .message("spec.services.name: invalid name; use an identifier of letters, digits and underscores"))]
    pub name: String,
    /// Name of a Worker in the same namespace. Calls fail until that Worker exists.
    #[schemars(length(min = 1, max = 63), regex(pattern = name::DNS_SUBDOMAIN))]
    pub worker: String,
    /// Name of the exported class that handles requests and calls. Defaults to the default export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z_$][A-Za-z0-9_$]*$')")
        .message("spec.services.entrypoint: invalid name; use the name of an export, such as Admin"))]
    pub entrypoint: Option<String>,
}

/// CEL rule for a Worker's spec and for a revision: no service binding has the name of a variable
/// or a secret.
pub(crate) const SERVICE_NAMES_ARE_UNIQUE: &str = "!has(self.services) || self.services.all(s, \
     (!has(self.vars) || !(s.name in self.vars)) && (!has(self.secrets) || !self.secrets.exists(t, t.name == s.name)))";

/// CEL rule for a Worker's spec and for a revision: the binding of assets has a name of its own.
pub(crate) const ASSETS_NAME_IS_UNIQUE: &str = "!has(self.assets) || !has(self.assets.binding) || \
     ((!has(self.vars) || !(self.assets.binding in self.vars)) && \
     (!has(self.secrets) || !self.secrets.exists(s, s.name == self.assets.binding)) && \
     (!has(self.services) || !self.services.exists(s, s.name == self.assets.binding)))";

/// Message of the rule that a Worker with assets names an artifact. Tools that make the artifact
/// from files apply the rule only afterwards.
pub const ASSETS_NEED_AN_ARTIFACT: &str = "spec.assets: the files are in an OCI artifact; \
    set spec.source.oci, or use tenon deploy --registry";

/// A recurring time, with a resolution of one minute.
#[derive(
    KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Minute, hour, day of the month, month and day of the week: `*/15 9-17 * * MON-FRI`. If both
    /// days are restricted, a time needs to match only one of them.
    #[schemars(length(min = 9, max = 128))]
    #[x_kube(validation = Rule::new(format!("self.matches('{}')", cron_form()))
        .message("spec.schedules.cron: invalid expression; use five fields of *, values, ranges, lists and steps, one space apart, such as */15 9-17 * * MON-FRI"))]
    pub cron: String,
    /// Time zone, such as `Europe/Berlin`. When clocks go forward, the handler is called for
    /// skipped times right after the change; when they go back, it is called once for repeated
    /// times.
    #[serde(default = "default_time_zone")]
    #[schemars(
        length(min = 1, max = 64),
        regex(pattern = "^[A-Za-z][-+A-Za-z0-9_]*(/[A-Za-z0-9][-+A-Za-z0-9_]*)*$")
    )]
    pub time_zone: String,
}

/// Returns the pattern that a cron expression must match. The operator parses the expression and
/// checks its values.
fn cron_form() -> String {
    let value = "([0-9]{1,2}|[A-Za-z]{3})";
    let item = format!("([*]|{value}(-{value})?)(/[0-9]{{1,2}})?");
    let field = format!("{item}(,{item})*");
    format!("^{field}( {field}){{4}}$")
}

/// Hosts that a Worker may connect to.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Egress {
    /// Hosts such as `api.example.com`, or `*.example.com` for every name below example.com; with a
    /// port, as in `api.example.com:8443`, only that port is allowed. If not set, every host that
    /// the pool allows is allowed; if empty, none. It never allows what the pool denies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 260)))]
    #[x_kube(validation = Rule::new(format!("self.all(host, host.matches('{HOST_PATTERN}'))"))
        .message("spec.egress.allow: invalid host; use a DNS name in lower case, which may begin with *. and end with a port, such as *.example.com:8443"))]
    pub allow: Option<Vec<String>>,
}

/// Pattern of a DNS name with an optional wildcard before it and an optional port after it.
const HOST_PATTERN: &str = "^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*\
     (:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$";

impl Egress {
    /// Returns whether no restriction is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.allow.is_none()
    }
}

/// A feature beyond the web standards that a Worker can enable.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum CompatibilityFlag {
    /// Node.js modules such as `node:buffer`.
    #[serde(rename = "nodejs_compat")]
    NodejsCompat,
}

/// Limits of an isolate and of an invocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// CPU time of one invocation, in milliseconds; with a WebSocket, from each message to the
    /// next. 1000 by default. A Worker with a limit above 1000 runs in its node's lanes, where it
    /// delays others least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 30_000))]
    pub cpu_ms: Option<i32>,
    /// Wall-clock time of one invocation including `waitUntil`, in milliseconds. It restarts with
    /// each chunk that a streamed response sends, and with all traffic on an open WebSocket. 30000
    /// by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 900_000))]
    pub wall_ms: Option<i32>,
    /// JavaScript heap of one isolate, in MiB. Its array buffers, WebAssembly memories, bodies and
    /// other native memory together may take as much again. 128 by default.
    #[serde(default, rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8, max = 2048))]
    pub memory_mib: Option<i32>,
    /// CPU time to compile and evaluate the modules, in milliseconds. 1000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub startup_ms: Option<i32>,
    /// Maximum number of concurrent invocations in one isolate; open WebSockets do not count. 100
    /// by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub concurrency: Option<i32>,
    /// Largest request body, in MiB. 16 by default.
    #[serde(default, rename = "requestBodyMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 512))]
    pub request_body_mib: Option<i32>,
    /// Maximum number of outbound calls of one invocation: fetches, their redirects, TCP sockets,
    /// and calls of other Workers. 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000))]
    pub subrequests: Option<i32>,
}

impl Limits {
    /// Returns whether no limit is set.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The part of an invocation's global state that is visible to the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StatePolicy {
    /// All of it, for the lifetime of the isolate.
    #[default]
    Persist,
    /// None: each invocation has its own global object.
    Reset,
}

/// The number of shards that serve a Worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Affinity {
    /// One, as long as it can serve all requests; then as many as necessary.
    #[default]
    Preferred,
    /// Always one, so that all requests see the same global state. Requests beyond what this shard
    /// can serve wait or fail.
    Strict,
}

impl Affinity {
    pub(crate) fn is_preferred(&self) -> bool {
        *self == Self::Preferred
    }
}

impl WorkerSpec {
    /// Returns the spec of a Worker with these modules and defaults for everything else.
    pub fn with_modules(modules: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            source: Source {
                modules: Some(modules.into_iter().collect()),
                config_map_ref: None,
                oci: None,
            },
            entrypoint: None,
            pool: default_pool(),
            routes: Vec::new(),
            traffic: Vec::new(),
            rollout: None,
            session_affinity: None,
            affinity: Affinity::default(),
            rate_limits: None,
            vars: BTreeMap::new(),
            secrets: Vec::new(),
            services: Vec::new(),
            assets: None,
            schedules: Vec::new(),
            egress: Egress::default(),
            compatibility_flags: Vec::new(),
            limits: Limits::default(),
            state: StatePolicy::default(),
            revision_history_limit: default_revision_history_limit(),
        }
    }
}

fn default_pool() -> String {
    "default".to_owned()
}

fn default_time_zone() -> String {
    "UTC".to_owned()
}

fn default_path() -> String {
    "/".to_owned()
}

fn default_revision_history_limit() -> i32 {
    10
}
