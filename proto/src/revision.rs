//! A revision: the immutable snapshot of a Worker's code and configuration that a node runs, named
//! by its digest.

mod assembler;
mod binding;
mod digest;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use crate::catalog::{self, GetRevisionResponse, get_revision_response::Part};
use crate::egress::Egress;
use crate::id::{ArtifactDigest, RevisionDigest, WorkerId};

pub use assembler::{Assembler, MalformedRevision, TooLarge};
pub use binding::{Binding, BoundService, ByKind};
pub use digest::modules_digest;

/// The maximum number of modules of a Worker.
pub const MAX_MODULES: usize = 1_000;

/// The maximum total size of a Worker's modules and their names, in bytes. Kubernetes objects are
/// limited to far less. This limit applies to OCI artifacts, because a node keeps in memory the
/// modules of every Worker that it runs.
pub const MAX_SOURCE_BYTES: usize = 25 * 1024 * 1024;

/// The maximum number of variables, secrets, services, compatibility flags, host patterns and path
/// patterns of a Worker, taken together. The schema of Workers allows fewer.
pub const MAX_BINDINGS: usize = 1_000;

/// The maximum size of a piece of a module in one message, in bytes. It is well under gRPC's
/// default limit of 4 MiB.
const MODULE_CHUNK: usize = 256 * 1024;

/// A revision with resolved bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    pub worker: WorkerId,
    /// Name of the WorkerRevision, for logs.
    pub name: String,
    /// Name of the module whose default export handles events. It is a key of `modules`.
    pub entrypoint: String,
    /// Content of each module, by its name.
    pub modules: BTreeMap<String, Bytes>,
    /// The OCI artifact from which the modules were compiled. The revision's digest covers the
    /// artifact instead of the modules, so that the digest can be computed without the modules.
    /// `None` for other sources.
    pub artifact: Option<ArtifactDigest>,
    /// The static files, if there are any. Routers serve them.
    pub assets: Option<catalog::Assets>,
    /// Bindings by name, which is also the name of the property of `env`.
    pub bindings: BTreeMap<String, Binding>,
    pub limits: Limits,
    pub state: StatePolicy,
    pub egress: Egress,
    pub compatibility_flags: BTreeSet<CompatibilityFlag>,
    /// Unpredictable bytes that the digest covers, so that the values of secrets cannot be guessed
    /// from the digest. Empty if the revision has no secrets.
    pub salt: Bytes,
}

/// The part of an invocation's global state that is visible to the next invocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatePolicy {
    /// The whole state is visible, for the lifetime of the isolate.
    #[default]
    Persist,
    /// No state is visible: each invocation has its own global object.
    Reset,
}

/// An optional feature beyond the web standards that a Worker can enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompatibilityFlag {
    /// Provides Node.js modules such as `node:buffer`.
    NodejsCompat,
}

impl CompatibilityFlag {
    pub const ALL: [Self; 1] = [Self::NodejsCompat];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodejsCompat => "nodejs_compat",
        }
    }
}

/// The error for text that names no compatibility flag of this version.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown compatibility flag {0:?}; remove it, or upgrade the platform")]
pub struct UnknownFlag(String);

impl FromStr for CompatibilityFlag {
    type Err = UnknownFlag;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|flag| flag.as_str() == text);
        known.ok_or_else(|| UnknownFlag(text.to_owned()))
    }
}

impl fmt::Display for CompatibilityFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The limits of one isolate and of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum CPU time of one invocation, in milliseconds.
    pub cpu_ms: u32,
    /// Maximum wall-clock time of one invocation, in milliseconds.
    pub wall_ms: u32,
    /// Maximum JavaScript heap of one isolate, and separately its maximum native memory, in MiB.
    pub memory_mib: u32,
    /// Maximum CPU time to compile and evaluate the modules, in milliseconds.
    pub startup_ms: u32,
    /// Maximum number of concurrent invocations in one isolate.
    pub concurrency: u32,
    /// Maximum size of a request body, in MiB.
    pub request_body_mib: u32,
    /// Maximum number of outbound calls of one invocation: fetches, their redirects, and calls of
    /// other Workers.
    pub subrequests: u32,
}

/// The default of [`Limits::subrequests`]. It is high enough for a page that is assembled from many
/// responses, and low enough that a public Worker cannot be made to flood other servers, because
/// one request from outside causes at most this number of calls. A pool can have a higher default.
const DEFAULT_SUBREQUESTS: u32 = 50;

impl Default for Limits {
    /// Returns the limits of a Worker that sets none.
    fn default() -> Self {
        Self {
            cpu_ms: 1000,
            wall_ms: 30_000,
            memory_mib: 128,
            startup_ms: 1000,
            concurrency: 100,
            request_body_mib: 16,
            subrequests: DEFAULT_SUBREQUESTS,
        }
    }
}

impl Revision {
    /// Returns a revision of these modules with defaults for everything else: the entrypoint
    /// `worker.js`, the name of the Worker followed by `-1`, and no bindings.
    pub fn with_modules(
        worker: WorkerId,
        modules: impl IntoIterator<Item = (String, Bytes)>,
    ) -> Self {
        Self {
            name: format!("{}-1", worker.name()),
            worker,
            entrypoint: "worker.js".to_owned(),
            modules: modules.into_iter().collect(),
            artifact: None,
            assets: None,
            bindings: BTreeMap::new(),
            limits: Limits::default(),
            state: StatePolicy::default(),
            egress: Egress::default(),
            compatibility_flags: BTreeSet::new(),
            salt: Bytes::new(),
        }
    }

    /// Returns a revision like [`with_modules`](Self::with_modules), with `worker.js` as the only
    /// module.
    pub fn from_source(worker: WorkerId, source: impl Into<Bytes>) -> Self {
        Self::with_modules(worker, [("worker.js".to_owned(), source.into())])
    }

    /// Returns the Workers that the code may call, with the names of their bindings, sorted by
    /// name.
    pub fn services(&self) -> impl Iterator<Item = (&str, &WorkerId)> {
        self.bindings.iter().filter_map(|(name, binding)| match binding {
            Binding::Service(service) => Some((name.as_str(), &service.worker)),
            Binding::Var(_) | Binding::Secret(_) | Binding::Assets => None,
        })
    }

    /// Returns the messages that carry this revision in response to `GetRevision`.
    ///
    /// # Arguments
    /// * `digest` - the revision's own digest. Callers know it, and computing it again would read
    ///   every byte.
    pub fn to_messages(
        &self,
        digest: &RevisionDigest,
    ) -> impl Iterator<Item = GetRevisionResponse> + use<> {
        // The pattern does not use `..`, so the compiler demands that a new field is handled here.
        let Self {
            worker,
            name,
            entrypoint,
            modules,
            artifact,
            assets,
            bindings,
            limits,
            state,
            egress,
            compatibility_flags,
            salt,
        } = self;
        let ByKind { vars, secrets, services, assets: assets_binding } = ByKind::of(bindings);
        let modules_digest = artifact.map(|_| modules_digest(modules));
        let head = catalog::RevisionHead {
            digest: digest.as_bytes().to_vec(),
            worker: worker.to_string(),
            revision: name.clone(),
            entrypoint: entrypoint.clone(),
            vars: to_variables(&vars),
            secrets: to_variables(&secrets),
            limits: Some((*limits).into()),
            modules: modules.len() as u32,
            state: catalog::StatePolicy::from(*state).into(),
            egress: to_egress(egress),
            services: to_services(&services),
            compatibility_flags: compatibility_flags.iter().map(ToString::to_string).collect(),
            salt: salt.to_vec(),
            artifact: artifact.map(|digest| digest.as_bytes().to_vec()).unwrap_or_default(),
            modules_digest: modules_digest.map(Vec::from).unwrap_or_default(),
            assets: assets.clone(),
            assets_binding: assets_binding.unwrap_or_default().to_owned(),
        };
        let chunks = modules.clone().into_iter().flat_map(|(name, mut rest)| {
            let mut name = Some(name);
            std::iter::from_fn(move || {
                if name.is_none() && rest.is_empty() {
                    return None;
                }
                let data = rest.split_to(rest.len().min(MODULE_CHUNK));
                Some(catalog::ModuleChunk {
                    name: name.take().unwrap_or_default(),
                    data,
                    end: rest.is_empty(),
                })
            })
        });
        std::iter::once(Part::Head(head))
            .chain(chunks.map(Part::Module))
            .map(|part| GetRevisionResponse { part: Some(part) })
    }
}

fn to_variables(texts: &[(&str, &str)]) -> Vec<catalog::Variable> {
    let variable = |(name, value): &(&str, &str)| catalog::Variable {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    texts.iter().map(variable).collect()
}

/// Converts an egress policy; [`Egress::Open`] becomes `None`.
fn to_egress(egress: &Egress) -> Option<catalog::Egress> {
    match egress {
        Egress::Open => None,
        Egress::Only(patterns) => {
            Some(catalog::Egress { allow: patterns.iter().map(ToString::to_string).collect() })
        }
    }
}

fn to_services(services: &[(&str, &BoundService)]) -> Vec<catalog::ServiceBinding> {
    let binding = |(name, service): &(&str, &BoundService)| catalog::ServiceBinding {
        name: (*name).to_owned(),
        worker: service.worker.to_string(),
        entrypoint: service.entrypoint.clone().unwrap_or_default(),
    };
    services.iter().map(binding).collect()
}

impl From<StatePolicy> for catalog::StatePolicy {
    fn from(policy: StatePolicy) -> Self {
        match policy {
            StatePolicy::Persist => Self::Persist,
            StatePolicy::Reset => Self::Reset,
        }
    }
}

impl From<catalog::StatePolicy> for StatePolicy {
    fn from(policy: catalog::StatePolicy) -> Self {
        match policy {
            catalog::StatePolicy::Persist => Self::Persist,
            catalog::StatePolicy::Reset => Self::Reset,
        }
    }
}

impl From<Limits> for catalog::Limits {
    fn from(limits: Limits) -> Self {
        let Limits {
            cpu_ms,
            wall_ms,
            memory_mib,
            startup_ms,
            concurrency,
            request_body_mib,
            subrequests,
        } = limits;
        let subrequests = Some(subrequests);
        Self { cpu_ms, wall_ms, memory_mib, startup_ms, concurrency, request_body_mib, subrequests }
    }
}

impl From<catalog::Limits> for Limits {
    fn from(limits: catalog::Limits) -> Self {
        let catalog::Limits {
            cpu_ms,
            wall_ms,
            memory_mib,
            startup_ms,
            concurrency,
            request_body_mib,
            subrequests,
        } = limits;
        let subrequests = subrequests.unwrap_or(DEFAULT_SUBREQUESTS);
        Self { cpu_ms, wall_ms, memory_mib, startup_ms, concurrency, request_body_mib, subrequests }
    }
}

#[cfg(test)]
mod tests;
