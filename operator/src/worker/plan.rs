//! Plans the desired state of a Worker. This module is pure: the desired objects follow from the
//! current ones.
//!
//! ```text
//!  source ─► draft ─► compile ─► bindings ─► pool, limits, routes ─► no fault? ─► accepted
//!     └─────────┴─────────┴──────────┴──────────┴─► otherwise the conditions say why,
//!                                                   and what was accepted before keeps serving
//! ```
//!
//! Compilation takes time, and its input is hostile. The compilation ([`tenon_compiler`]) and the
//! download of an artifact ([`crate::artifacts`]) therefore run elsewhere, between [`draft`] and
//! [`plan`]. [`placement`] decides where the revision may be served, [`rollout`] which share of the
//! requests it gets, and [`propagation`] whether routers serve it. If the API server refuses the
//! revision, the Worker is planned again with that refusal.

mod artifact;
mod events;
mod fault;
mod placement;
mod propagation;
mod rollout;
mod traffic;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::events::Event;
use tenon_compiler::Outcome;
use tenon_compiler::process::{CompilerError, Job};
use tenon_crds::{
    Accepted, Address, Condition, ConditionStatus, RolloutStatus, SecretKeyRef, Worker,
    WorkerRevision, WorkerRevisionSpec, WorkerStatus, condition,
};
use tenon_schedule::timetable::Timetable;

use crate::artifacts::{ArtifactError, Compiled, Source};
use crate::index::{Candidate, SourceState, secret_value};
use crate::kstatus::{RECONCILING, STALLED, progress};
use crate::owner;
use crate::refusal::Refusal;
use crate::revision::{self, revision_name};
use events::events;
pub use events::failed;
pub use fault::PROPAGATION_REASONS;
use fault::{Fault, HOST_NOT_GRANTED};
use propagation::Propagation;

/// The actions for a Worker, performed in this order.
#[derive(Default)]
pub struct Plan {
    /// A new WorkerRevision.
    pub apply: Option<WorkerRevision>,
    /// The new status, if it differs from the current one.
    pub status: Option<WorkerStatus>,
    /// Names of WorkerRevisions over the history limit.
    pub delete: Vec<String>,
    pub events: Vec<Event>,
    /// Whether the leader must ask the routers whether they serve the catalog's entry.
    pub asks_routers: bool,
    /// The time at which the plan changes even if nothing else has changed by then.
    pub next: Option<Timestamp>,
}

/// A Worker's code before it becomes a revision.
pub struct Draft(Stage);

enum Stage {
    /// The modules have to be compiled.
    Source { spec: WorkerRevisionSpec, job: Job },
    /// The artifact has to be pulled and compiled.
    Artifact(Source),
    /// The code is compiled, or cannot become a revision.
    Settled(Result<WorkerRevisionSpec, Fault>),
}

impl Draft {
    /// Returns the compilation job, if the code has not been compiled before.
    pub fn job(&self) -> Option<&Job> {
        match &self.0 {
            Stage::Source { job, .. } => Some(job),
            Stage::Artifact(_) | Stage::Settled(_) => None,
        }
    }

    /// Returns the artifact to pull and compile, if that has not been done before.
    pub fn artifact(&self) -> Option<&Source> {
        match &self.0 {
            Stage::Artifact(source) => Some(source),
            Stage::Source { .. } | Stage::Settled(_) => None,
        }
    }

    /// Returns the next stage, with the compiled artifact or the reason why there is none.
    #[must_use]
    pub fn pulled(self, worker: &Worker, pulled: Result<Compiled, &ArtifactError>) -> Self {
        let Stage::Artifact(source) = self.0 else { return self };
        Self(Stage::Settled(match pulled {
            Ok(Compiled { digest, entrypoint, assets }) => {
                let assets = assets.map(|layer| layer.to_string());
                Ok(artifact::snapshot(worker, &source.image, digest, entrypoint, assets))
            }
            Err(error) => Err(error.into()),
        }))
    }

    /// Returns the next stage, with the outcome of the compilation job.
    #[must_use]
    pub fn compiled(self, outcome: Outcome) -> Self {
        let Stage::Source { spec, .. } = self.0 else { return self };
        Self(Stage::Settled(match outcome {
            Ok(compiled) => Ok(revision::with_compiled(spec, compiled)),
            Err(errors) => Err(Fault::from_compile_errors(&errors)),
        }))
    }

    /// Returns the next stage, with the error of a compilation job that had no outcome.
    #[must_use]
    pub fn not_compiled(self, error: &CompilerError) -> Self {
        Self(Stage::Settled(Err(Fault::waiting("CompilerFailed", error.to_string()))))
    }

    /// Compiles in the calling thread, which is safe for trusted code only.
    #[must_use]
    pub fn compiled_here(self) -> Self {
        let outcome = self.job().map(|Job { modules, entrypoint, flags }| {
            tenon_compiler::compile(modules, entrypoint, flags)
        });
        match outcome {
            Some(outcome) => self.compiled(outcome),
            None => self,
        }
    }
}

/// Returns the first stage of a plan.
pub fn draft(candidate: &Candidate) -> Draft {
    let modules = match &candidate.source {
        SourceState::Modules(modules) => modules,
        SourceState::MissingConfigMap(name) => {
            let message =
                format!("spec.source.configMapRef: ConfigMap {name:?} does not exist; create it");
            return Draft(Stage::Settled(Err(Fault::waiting("ConfigMapMissing", message))));
        }
        SourceState::Artifact { oci, pull_secret } => {
            return Draft(artifact::draft(candidate, oci, pull_secret.as_ref()));
        }
    };
    Draft(match revision::snapshot(&candidate.worker, modules) {
        Err(error) => Stage::Settled(Err(Fault::stalled("InvalidSource", error.to_string()))),
        // The code of an existing revision has been compiled before.
        Ok(spec) if has_revision(candidate, &revision_name(&spec)) => Stage::Settled(Ok(spec)),
        Ok(spec) => {
            let (entrypoint, flags) =
                (spec.entrypoint.clone(), revision::flags(&spec.compatibility_flags));
            Stage::Source { job: Job { modules: modules.clone(), entrypoint, flags }, spec }
        }
    })
}

/// Returns the plan of a Worker.
///
/// # Arguments
/// * `draft` - the candidate's draft, compiled if it has a job, and pulled if it has an artifact.
/// * `refused` - the API server's refusal of the planned revision.
/// * `now` - the current time: conditions that change get it, and steps of a rollout depend on it.
pub fn plan(
    candidate: &Candidate,
    draft: &Draft,
    refused: Option<Refusal>,
    now: Timestamp,
) -> Plan {
    let before = own_part(candidate.worker.status.clone().unwrap_or_default());
    let compiled = match &draft.0 {
        Stage::Settled(settled) => settled.as_ref().map_err(Clone::clone),
        Stage::Source { .. } | Stage::Artifact(_) => {
            Err(Fault::waiting("NotCompiled", "the modules have not been compiled"))
        }
    };
    let bound = count_bound_secrets(candidate);
    let placed = placement::requested(candidate)
        .and_then(|placed| refused.map_or(Ok(placed), |refusal| Err(refusal.into())));

    let snapshot = compiled.as_ref().ok().copied().filter(|_| bound.is_ok() && placed.is_ok());
    let latest_of = |snapshot: Option<&WorkerRevisionSpec>| {
        snapshot.map(revision_name).or_else(|| before.latest_revision.clone())
    };
    let newest = latest_of(snapshot);
    let rollout = rollout::decide(candidate, &before, newest.as_deref(), now);
    let traffic = match &rollout {
        Some(rollout) => {
            traffic::of_rollout(candidate, &before, newest.as_deref(), &rollout.shares())
        }
        None => traffic::targets(candidate, &before, newest.as_deref()),
    };
    let placed = placed.and_then(|placed| Ok(Accepted { traffic: traffic.clone()?, ..placed }));
    let snapshot = snapshot.filter(|_| placed.is_ok());
    let latest = latest_of(snapshot);
    let changed = match (&placed, snapshot, &rollout) {
        (Ok(placed), Some(_), _) => Some(placed.clone()),
        // The rollout of what was accepted before does not depend on a spec that is not accepted.
        (_, _, Some(_)) => before
            .accepted
            .clone()
            .zip(traffic.ok())
            .map(|(accepted, traffic)| Accepted { traffic, ..accepted }),
        _ => traffic::rollback(candidate, &before, placed.as_ref().ok(), traffic),
    };
    let (rollout, next) = match (rollout, &changed) {
        (Some(decision), _) => (Some(decision.status), decision.next),
        (None, Some(_)) => (None, None),
        (None, None) => (before.rollout.clone(), None),
    };
    let accepted = changed.or_else(|| before.accepted.clone());
    let digest = placement::digest(candidate, &before, latest.as_deref());
    let accepted = accepted.map(|accepted| Accepted { digest, ..accepted });
    let serving = traffic::summary(latest.as_deref(), accepted.as_ref());
    let apply =
        snapshot.filter(|spec| !has_revision(candidate, &revision_name(spec))).map(|spec| {
            let mut revision = WorkerRevision::new(&revision_name(spec), spec.clone());
            revision.metadata.namespace = Some(candidate.id.namespace().to_owned());
            revision.metadata.owner_references = Some(owner::controller(&*candidate.worker));
            revision.metadata.labels = Some(labels(candidate.id.name()));
            revision
        });
    // A host that is no longer granted is not served, so no router would acknowledge it.
    let is_withdrawn = placed.as_ref().is_err_and(|fault| fault.reason == HOST_NOT_GRANTED);
    let propagation = latest
        .as_deref()
        .zip(accepted.as_ref())
        .filter(|_| !is_withdrawn)
        .map(|(latest, accepted)| Propagation::new(candidate, &before, latest, accepted));
    let asks_routers = matches!(propagation, Some(Propagation::Unacknowledged(_)));
    let programmed = match propagation {
        // This holds for a rollback as well, although the spec itself is not accepted.
        Some(Propagation::NotInCatalog(fault) | Propagation::Unacknowledged(fault)) => Err(fault),
        Some(Propagation::Done) | None => {
            placed.and_then(|_| programmed(candidate, serving.as_deref(), snapshot.is_some()))
        }
    };

    let compiled = compiled.map(|spec| {
        let modules = candidate.source.modules().map_or(0, BTreeMap::len);
        format!("{}, entrypoint {}", count(modules, "module"), spec.entrypoint)
    });
    let bound = bound.map(|secrets| count(secrets, "secret"));
    let outcomes = [
        ("Compiled", "Compiled", compiled),
        ("BindingsResolved", "Resolved", bound),
        ("Programmed", "Programmed", programmed),
    ];
    let latest = Latest { latest, accepted, serving, rollout };
    let status = status(candidate, &before, outcomes, latest, now);
    Plan {
        delete: superseded(candidate, &before, &status),
        events: events(&before, &status),
        status: (status != before).then_some(status),
        apply,
        asks_routers,
        next,
    }
}

/// The label of a WorkerRevision with the name of its Worker.
pub const WORKER_LABEL: &str = "tenon.dev/worker";

/// The types of the conditions that this module sets.
const CONDITIONS: [&str; 7] = [
    "Compiled",
    "BindingsResolved",
    "Programmed",
    "Ready",
    RECONCILING,
    STALLED,
    rollout::CONDITION,
];

/// Returns the part of a status that this module sets. [`crate::health`] writes what nodes report,
/// [`crate::figures`] what routers report, and [`crate::schedule`] the progress of schedules.
fn own_part(mut status: WorkerStatus) -> WorkerStatus {
    status.conditions.retain(|condition| CONDITIONS.contains(&condition.type_.as_str()));
    status.crash_loops.clear();
    status.quarantine = None;
    status.schedules.clear();
    status.rollout_figures = None;
    status
}

fn has_revision(candidate: &Candidate, name: &str) -> bool {
    candidate.revisions.iter().any(|revision| revision.name_any() == name)
}

fn labels(worker: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/managed-by".to_owned(), "tenon".to_owned()),
        (WORKER_LABEL.to_owned(), worker.to_owned()),
    ])
}

/// Returns the number of bound secrets, if all of them exist.
fn count_bound_secrets(candidate: &Candidate) -> Result<usize, Fault> {
    let bound = &candidate.worker.spec.secrets;
    let value = |reference: &SecretKeyRef| {
        secret_value(candidate.secrets.get(&reference.name)?, &reference.key)
    };
    match revision::missing_secret(bound, value) {
        Some(missing) => Err(Fault::waiting("SecretMissing", missing.to_string())),
        None => Ok(bound.len()),
    }
}

fn programmed(
    candidate: &Candidate,
    serving: Option<&str>,
    is_current: bool,
) -> Result<String, Fault> {
    if let Some(invalid) =
        candidate.worker.spec.schedules.iter().find_map(|schedule| Timetable::of(schedule).err())
    {
        return Err(Fault::stalled("InvalidSchedule", invalid.to_string()));
    }
    match serving {
        None => Err(Fault::waiting("NoRevision", "no revision serves yet")),
        Some(name) if !is_current => {
            Err(Fault::waiting("Outdated", format!("revision {name} keeps serving")))
        }
        Some(name) => Ok(format!("revision {name} serves")),
    }
}

/// The result of a plan's decision on what serves.
struct Latest {
    latest: Option<String>,
    accepted: Option<Accepted>,
    /// Description of the revisions that serve.
    serving: Option<String>,
    rollout: Option<RolloutStatus>,
}

fn status(
    candidate: &Candidate,
    before: &WorkerStatus,
    outcomes: [(&str, &str, Result<String, Fault>); 3],
    Latest { latest, accepted, serving, rollout }: Latest,
    now: Timestamp,
) -> WorkerStatus {
    let generation = candidate.worker.metadata.generation;
    let make = |type_: &str, status: ConditionStatus, reason: &str, message: &str| {
        condition(&before.conditions, type_, status, reason, message, generation, now)
    };
    const HOLDS: ConditionStatus = ConditionStatus::True;
    let fault =
        fault::summary(outcomes.iter().filter_map(|(_, _, outcome)| outcome.as_ref().err()));
    let summary = match fault {
        None => make("Ready", HOLDS, "Serving", serving.as_deref().unwrap_or_default()),
        Some(fault) => {
            let keeps = serving.as_ref().filter(|_| !fault.is_propagation());
            let keeps = keeps.map(|name| format!("\nrevision {name} keeps serving"));
            let message = format!("{}{}", fault.message, keeps.unwrap_or_default());
            make("Ready", fault.status(), fault.reason, &message)
        }
    };
    let mut conditions: Vec<Condition> = outcomes
        .iter()
        .map(|(type_, reason, outcome)| match outcome {
            Ok(message) => make(type_, HOLDS, reason, message),
            Err(fault) => make(type_, fault.status(), fault.reason, &fault.message),
        })
        .collect();
    let not_ready = fault.map(|fault| progress(&before.conditions, fault.progress, &summary, now));
    conditions.push(summary);
    conditions.extend(not_ready);
    conditions.extend(rollout.as_ref().map(|rollout| {
        let status = rollout::condition_status(rollout.phase);
        make(rollout::CONDITION, status, rollout.phase.as_str(), &rollout.message)
    }));
    let first = accepted.iter().flat_map(revision::accepted_routes).next();
    let url = first.map(|route| revision::url(&route));
    WorkerStatus {
        observed_generation: generation,
        conditions,
        address: url.clone().map(|url| Address { url }),
        url,
        latest_revision: latest,
        accepted,
        rollout,
        rollout_figures: None,
        crash_loops: Vec::new(),
        quarantine: None,
        schedules: Vec::new(),
    }
}

/// Returns the oldest revisions over the history limit. Revisions that the spec names are kept. So
/// are those that serve before or after the plan, because a replica may not have seen the change
/// yet.
fn superseded(candidate: &Candidate, before: &WorkerStatus, after: &WorkerStatus) -> Vec<String> {
    let is_kept = |name: &str| {
        let named = &candidate.worker.spec.traffic;
        named.iter().any(|target| target.revision.as_deref() == Some(name))
            || [before, after].iter().any(|status| {
                status.serves(name) || status.latest_revision.as_deref() == Some(name)
            })
    };
    let mut history: Vec<_> =
        candidate.revisions.iter().filter(|revision| !is_kept(&revision.name_any())).collect();
    history.sort_by_key(|revision| {
        std::cmp::Reverse((revision.creation_timestamp(), revision.name_any()))
    });
    let limit = usize::try_from(candidate.worker.spec.revision_history_limit).unwrap_or(0);
    history.iter().skip(limit).map(|revision| revision.name_any()).collect()
}

/// Formats a count with its noun.
fn count(count: usize, thing: &str) -> String {
    match count {
        0 => format!("no {thing}s"),
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests;
