//! `Worker`: a tenant's program.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, name};

/// A program that answers HTTP, in an isolate of its own.
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
    doc = "A program that answers HTTP, in an isolate of its own.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Healthy", type_ = "string", json_path = ".status.conditions[?(@.type=='Healthy')].status"),
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
        .message("metadata.name: must have at most 63 characters, because it becomes part of a host name"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!has(self.source.modules) || !has(self.entrypoint) || self.entrypoint in self.source.modules"
    ).message("spec.entrypoint: must be the name of one of spec.source.modules"),
    validation = Rule::new(
        "!has(self.source.modules) || has(self.entrypoint) || size(self.source.modules) == 1 || 'worker.js' in self.source.modules || 'worker.ts' in self.source.modules"
    ).message("spec.entrypoint: is required where spec.source.modules has several modules and none is named worker.js or worker.ts"),
    validation = Rule::new(
        "!has(self.vars) || !has(self.secrets) || self.secrets.all(s, !(s.name in self.vars))"
    ).message("spec.secrets: a name is also in spec.vars; a binding's name must be used once"),
    validation = Rule::new(SERVICES_ARE_APART)
        .message("spec.services: a name is also in spec.vars or spec.secrets; a binding's name must be used once"),
)]
pub struct WorkerSpec {
    /// Where the code is.
    pub source: Source,

    /// Name of the module whose default export handles events. By default the only module, `worker.js`, or `worker.ts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = name::MODULE))]
    pub entrypoint: Option<String>,

    /// The RuntimePool whose nodes run it.
    #[serde(default = "default_pool")]
    #[schemars(length(min = 1, max = 42), regex(pattern = name::POOL))]
    pub pool: String,

    /// Which requests it answers. By default those for `<name>.<namespace>.<domain>`, whatever their path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(r, self.exists_one(s, s.host == r.host && s.path == r.path))")
        .message("spec.routes: a host stands twice with the same path; keep one of them"))]
    pub routes: Vec<Route>,

    /// Text by name, in the handler's `env`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::vars")]
    #[x_kube(validation = Rule::new(schema::all_names(name::BINDING))
        .message("spec.vars: a name must be an identifier of at most 63 letters, digits and underscores"))]
    pub vars: BTreeMap<String, String>,

    /// Values of Secrets, in the handler's `env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
        .message("spec.secrets: a name stands twice; a binding's name must be used once"))]
    pub secrets: Vec<Secret>,

    /// Other Workers, in the handler's `env`: `env.NAME.fetch(request)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
        .message("spec.services: a name stands twice; a binding's name must be used once"))]
    pub services: Vec<ServiceBinding>,

    /// When its `scheduled` handler is called. Each time comes at most once, and is not waited for: where a handler runs
    /// longer than until the next one, both run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.cron == s.cron && t.timeZone == s.timeZone))")
        .message("spec.schedules: a cron stands twice with the same timeZone; keep one of them"))]
    pub schedules: Vec<Schedule>,

    /// Where it may connect to.
    #[serde(default, skip_serializing_if = "Egress::is_empty")]
    pub egress: Egress,

    /// What it needs beyond the standards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(f, self.exists_one(g, g == f))")
        .message("spec.compatibilityFlags: a flag stands twice; keep one of them"))]
    pub compatibility_flags: Vec<CompatibilityFlag>,

    /// What it may use. What is not set is the platform's default.
    #[serde(default)]
    pub limits: Limits,

    /// Whether global variables live from one invocation to the next, as long as their isolate does, or each invocation
    /// has new ones.
    #[serde(default)]
    pub state: StatePolicy,

    /// How many WorkerRevisions are kept to roll back to, beside the one that serves.
    #[serde(default = "default_revision_history_limit")]
    #[schemars(range(min = 0, max = 100))]
    pub revision_history_limit: i32,
}

/// Exactly one place where the code is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.modules) != has(self.configMapRef)")
    .message("spec.source: set exactly one of modules and configMapRef"))]
pub struct Source {
    /// Source text by module name: a relative path such as `worker.js`, `lib/greet.ts` or `menu.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::inline_modules")]
    #[x_kube(validation = Rule::new(format!("self.all(name, size(name) <= 253 && name.matches('{}'))", name::MODULE))
        .message("spec.source.modules: a name must be a relative path of at most 253 letters, digits, dots, dashes and underscores, without . or .. segments"))]
    #[x_kube(validation = Rule::new("self.all(name, !name.matches('[.](wasm|bin|cjs|cts)$'))")
        .message("spec.source.modules: a module here must be text and no CommonJS: .wasm and .bin belong into the binaryData of a ConfigMap, .cjs has to be bundled"))]
    pub modules: Option<BTreeMap<String, String>>,

    /// A ConfigMap of the same namespace whose keys are the modules, in its data or, what is not text, its binaryData.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapRef>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = name::DNS_SUBDOMAIN))]
    pub name: String,
}

/// The longest path of all routes whose host matches wins.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// `shop.example.com`, or `*.example.com` for every name below example.com.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(
        "self.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')"
    ).message("spec.routes.host: must be a DNS name in lower case without a port, or one that begins with *."))]
    pub host: String,

    /// Prefix that ends at a segment's end: `/api` matches `/api` and `/api/x`, not `/apix`.
    #[serde(default = "default_path")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = Rule::new("self == '/' || self.matches('^(/[^/]+)+$')")
            .message("spec.routes.path: must be / or begin with /, without // and without / at its end"),
        validation = Rule::new("!self.matches('/([.]|%2[Ee]){1,2}(/|$)')")
            .message("spec.routes.path: must have no . or .. segment, because clients resolve them before they ask"),
        validation = Rule::new("self.matches('^([-A-Za-z0-9._~!$&()*+,;=:@/\\']|%[0-9A-Fa-f][0-9A-Fa-f])*$')")
            .message("spec.routes.path: must have anything but letters, digits and -._~!$&'()*+,;=:@ percent-encoded, and no query"),
    )]
    pub path: String,
}

/// A value of a Secret under a name in `env`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z_][A-Za-z0-9_]*$')")
        .message("spec.secrets.name: must be an identifier of letters, digits and underscores"))]
    pub name: String,
    pub secret_key_ref: SecretKeyRef,
}

/// One key of a Secret in the Worker's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = name::DNS_SUBDOMAIN))]
    pub name: String,
    #[schemars(length(min = 1, max = 253), regex(pattern = name::DATA_KEY))]
    pub key: String,
}

/// A Worker as a value of `env`, which answers as its routes would.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceBinding {
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z_][A-Za-z0-9_]*$')")
        .message("spec.services.name: must be an identifier of letters, digits and underscores"))]
    pub name: String,
    /// Name of a Worker in the same namespace. It may come later; until then a call fails.
    #[schemars(length(min = 1, max = 63), regex(pattern = name::DNS_SUBDOMAIN))]
    pub worker: String,
}

/// CEL rule for a Worker's spec and for a revision: no service binding has the name of a variable
/// or a secret.
pub(crate) const SERVICES_ARE_APART: &str = "!has(self.services) || self.services.all(s, \
     (!has(self.vars) || !(s.name in self.vars)) && (!has(self.secrets) || !self.secrets.exists(t, t.name == s.name)))";

/// Times that come again, to the minute.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Minute, hour, day of the month, month and day of the week: `*/15 9-17 * * MON-FRI`. Where both days are
    /// restricted, either will do.
    #[schemars(length(min = 9, max = 128))]
    #[x_kube(validation = Rule::new(format!("self.matches('{}')", cron_form()))
        .message("spec.schedules.cron: must be five fields of *, values, ranges, lists and steps, one space apart, such as */15 9-17 * * MON-FRI"))]
    pub cron: String,
    /// By whose clocks, as in `Europe/Berlin`. What the clocks skip when they are put forward comes at once after that;
    /// what they show twice when they are put back comes once.
    #[serde(default = "default_time_zone")]
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[A-Za-z][-+A-Za-z0-9_]*(/[A-Za-z0-9][-+A-Za-z0-9_]*)*$"))]
    pub time_zone: String,
}

/// Returns the pattern of a cron expression, as far as a regular expression can check one.
fn cron_form() -> String {
    let value = "([0-9]{1,2}|[A-Za-z]{3})";
    let item = format!("([*]|{value}(-{value})?)(/[0-9]{{1,2}})?");
    let field = format!("{item}(,{item})*");
    format!("^{field}( {field}){{4}}$")
}

/// To which hosts a Worker may connect.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Egress {
    /// Hosts as in `api.example.com` or, for every name below example.com, `*.example.com`; with `:8443` at that port only.
    /// Any public host where this is not set, and none where it is empty. It never opens what the pool does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 260)))]
    #[x_kube(validation = Rule::new(format!("self.all(host, host.matches('{HOST_PATTERN}'))"))
        .message("spec.egress.allow: must be DNS names in lower case, which may begin with *. and end with a port, such as *.example.com:8443"))]
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

/// What a Worker can ask for beyond the standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum CompatibilityFlag {
    /// Modules of Node.js such as `node:buffer`.
    #[serde(rename = "nodejs_compat")]
    NodejsCompat,
}

/// What an isolate and an invocation may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// CPU time of one invocation, milliseconds; of one that has a WebSocket, from each message to the next. A Worker that
    /// may take more than 1000 runs in its node's lanes, where others wait for it least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 30_000))]
    pub cpu_ms: Option<i32>,
    /// Wall-clock time of one invocation with its `waitUntil`, milliseconds. While a response streams it begins anew with
    /// each piece that is sent, and while a WebSocket is open with all that goes over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 900_000))]
    pub wall_ms: Option<i32>,
    /// JavaScript heap and array buffers of one isolate, MiB.
    #[serde(default, rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8, max = 2048))]
    pub memory_mib: Option<i32>,
    /// CPU time of compiling and evaluating the modules, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub startup_ms: Option<i32>,
    /// Invocations at once in one isolate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub concurrency: Option<i32>,
    /// Largest request body, MiB.
    #[serde(default, rename = "requestBodyMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 512))]
    pub request_body_mib: Option<i32>,
    /// How often one invocation may call out: fetches, their redirects, and calls of other Workers.
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

/// What of an invocation's global state the next one sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StatePolicy {
    /// All of it, while the isolate lives.
    #[default]
    Persist,
    /// Nothing.
    Reset,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerStatus {
    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Compiled`, `BindingsResolved`, `Programmed`, and their summary `Ready`. Besides `Healthy`, once a node has told
    /// that the code fails again and again, or that it ended a process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Where it answers: its first route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The same for event sources (the duck type `Addressable`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// The WorkerRevision that serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<String>,
    /// The nodes on which its code fails again and again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = CRASH_LOOPS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node"])
    )]
    pub crash_loops: Vec<CrashLoop>,
    /// Set while no node runs the revision, because its code ended a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    /// What has come of each of the schedules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cron", "timeZone"])
    )]
    pub schedules: Vec<ScheduleStatus>,
}

/// How far a schedule has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    #[schemars(length(min = 1, max = 128))]
    pub cron: String,
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// The latest time of the schedule for which the Worker was called, or which was passed over because it was found too
    /// late; of a schedule for which neither has been, when it was first seen.
    pub last_schedule_time: Time,
}

/// Maximum number of nodes named in a Worker's status: enough to distinguish one bad node from bad
/// code.
pub const CRASH_LOOPS: usize = 16;

/// One node on which a revision is left alone for a while, because its code has failed several times in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrashLoop {
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// The WorkerRevision.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
    /// Of the latest failure that was told, as callers see it.
    #[schemars(length(min = 1, max = 63))]
    pub code: String,
    /// Where in its author's files the code threw, if it did: `file:line:column`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 300))]
    pub place: Option<String>,
    /// How many in a row, when that was told.
    pub failures: i32,
    pub since: Time,
    /// When the node told of it last. It is forgotten when that is too long ago.
    pub renewed: Time,
}

/// The time for which every node refuses a revision, because its code ended a process of a node.
// The `revision` field is the name of the WorkerRevision, not the digest by which nodes know it:
// the digest covers the values of Secrets, and read access to a Worker must not allow a short value
// to be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quarantine {
    /// The WorkerRevision.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
    pub cause: QuarantineCause,
    /// The node that lost a process to it.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// How often it has ended a process of one node. The quarantine doubles each time.
    #[schemars(range(min = 1))]
    pub times: i32,
    /// When the node told of it.
    pub since: Time,
    /// When it ends, unless another revision serves before.
    pub until: Time,
}

/// How a revision's code ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QuarantineCause {
    /// The process ended while the code ran: the engine aborted, or memory ran out.
    Crashed,
    /// The code did not stop when it was told to, so the process was killed.
    Hung,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Address {
    pub url: String,
}

impl WorkerSpec {
    /// Returns the spec of a Worker with these modules and defaults for everything else.
    pub fn with_modules(modules: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            source: Source { modules: Some(modules.into_iter().collect()), config_map_ref: None },
            entrypoint: None,
            pool: default_pool(),
            routes: Vec::new(),
            vars: BTreeMap::new(),
            secrets: Vec::new(),
            services: Vec::new(),
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

pub(crate) mod schema {
    //! Schemas of maps with bounds that schemars has no attribute for.

    use schemars::{Schema, SchemaGenerator, json_schema};

    /// Maximum size of the modules, in bytes. An object in etcd is at most 1.5 MiB; the modules get
    /// 1 MiB of it.
    const MODULES_BYTES: u32 = 1024 * 1024;

    /// Returns the schema of a revision's modules, which may come from a ConfigMap with this many
    /// keys.
    pub(crate) fn modules(_: &mut SchemaGenerator) -> Schema {
        up_to(1_000)
    }

    const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

    /// Returns the schema of a revision's binary modules, in Base64.
    pub(crate) fn binary_modules(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The modules that are not text.",
            "type": "object",
            "maxProperties": 1_000,
            // The format `byte` is not used, because the API server then accepts a list as well.
            "additionalProperties": { "type": "string", "pattern": BASE64, "maxLength": MODULES_BYTES / 3 * 4 + 4 },
        })
    }

    pub(crate) fn inline_modules(_: &mut SchemaGenerator) -> Schema {
        let mut schema = up_to(256);
        schema.insert("nullable".to_owned(), true.into());
        schema
    }

    fn up_to(modules: u32) -> Schema {
        json_schema!({
            "description": "Source text by module name: a relative path such as `worker.js`, `lib/greet.ts` or `menu.json`.",
            "type": "object",
            "minProperties": 1,
            "maxProperties": modules,
            "additionalProperties": { "type": "string", "maxLength": MODULES_BYTES },
        })
    }

    /// Returns a CEL expression that holds if every key of a map matches a pattern.
    ///
    /// # Arguments
    /// * `form` - the pattern, a regular expression.
    pub(crate) fn all_names(form: &str) -> String {
        format!("self.all(name, name.matches('{form}'))")
    }

    pub(crate) fn vars(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Text by name, in the handler's `env`.",
            "type": "object",
            "maxProperties": 128,
            "additionalProperties": { "type": "string", "maxLength": 32768 },
        })
    }
}
