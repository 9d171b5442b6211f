//! The status of a `Worker`, which the operator's replicas write.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Affinity;
use super::rate::RateLimits;
use super::rollout::{RolloutFigures, RolloutStatus};
use super::traffic::{AcceptedTarget, MAX_TARGETS, SessionAffinity};
use crate::Condition;

/// State of the Worker, as the operator last observed it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerStatus {
    /// The `metadata.generation` that the rest of the status describes; initially -1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Compiled`, `BindingsResolved`, `Programmed`, and their summary `Ready`. While the Worker is
    /// not `Ready`, also `Reconciling` if the operator continues by itself, or `Stalled` if
    /// something must be changed first. `Healthy`, once a node has reported that the code fails
    /// repeatedly or ended a process. `RolledOut`, if the spec has a rollout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// URL of the first accepted route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The same URL for event sources (the duck type `Addressable`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// Name of the latest accepted WorkerRevision. It serves all requests, unless
    /// `accepted.traffic` divides them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<String>,
    /// Placement of the revisions that serve, as it was accepted. A spec that is not accepted does
    /// not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Accepted>,
    /// The latest rollout, if the spec has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// Requests of both revisions of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_figures: Option<RolloutFigures>,
    /// Nodes on which the code fails repeatedly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = CRASH_LOOPS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node"])
    )]
    pub crash_loops: Vec<CrashLoop>,
    /// Set while nodes refuse the revision, because its code ended a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    /// Progress of each schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cron", "timeZone"])
    )]
    pub schedules: Vec<ScheduleStatus>,
}

impl WorkerStatus {
    /// Returns whether the revision of this name serves requests.
    pub fn serves(&self, revision: &str) -> bool {
        self.targets().iter().any(|target| target.revision == revision)
    }

    /// Returns the revisions that serve, with their shares of the requests.
    pub fn targets(&self) -> Cow<'_, [AcceptedTarget]> {
        match (&self.accepted, &self.latest_revision) {
            (Some(accepted), _) if !accepted.traffic.is_empty() => {
                Cow::Borrowed(&accepted.traffic[..])
            }
            (accepted, Some(latest)) => Cow::Owned(vec![AcceptedTarget {
                revision: latest.clone(),
                percent: 100,
                tag: None,
                host: None,
                digest: accepted.as_ref().and_then(|accepted| accepted.digest.clone()),
            }]),
            (_, None) => Cow::Borrowed(&[]),
        }
    }
}

/// The part of an accepted spec that is not in the WorkerRevision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// RuntimePool whose nodes run the revision.
    #[schemars(length(min = 1, max = 63))]
    pub pool: String,
    /// Routes of the requests that the revision handles, including the default one.
    #[schemars(length(max = 32))]
    pub routes: Vec<AcceptedRoute>,
    /// Revisions among which requests are divided. If empty, the latest one serves all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_TARGETS))]
    pub traffic: Vec<AcceptedTarget>,
    /// Part of a request that selects its revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<SessionAffinity>,
    /// Number of shards that the Worker may use.
    #[serde(default, skip_serializing_if = "Affinity::is_preferred")]
    pub affinity: Affinity,
    /// Limits on the rates of clients' requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limits: Option<RateLimits>,
    /// Digest by which nodes know the revision, if it binds Secrets: nodes that hold it continue to
    /// serve it if a Secret is deleted. It is salted with the uids of the Secrets, so their values
    /// cannot be guessed from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 64))]
    pub digest: Option<String>,
}

/// An accepted host and path prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedRoute {
    /// Host name, or a wildcard such as `*.example.com`.
    #[schemars(length(min = 1, max = 253))]
    pub host: String,
    /// Path prefix.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
}

/// Progress of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// The schedule's `cron` in the spec.
    #[schemars(length(min = 1, max = 128))]
    pub cron: String,
    /// The schedule's `timeZone` in the spec.
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// Latest time of the schedule for which the Worker was called, or which was skipped because it
    /// was too late. Before the first such time, the time at which the schedule was first observed.
    pub last_schedule_time: Time,
}

/// Maximum number of nodes named in a Worker's status: enough to distinguish one bad node from bad
/// code.
pub const CRASH_LOOPS: usize = 16;

/// A node that backs off from a revision, because its code has failed several times in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrashLoop {
    /// Name of the node.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// Name of the WorkerRevision.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
    /// Error code of the latest reported failure, as clients see it.
    #[schemars(length(min = 1, max = 63))]
    pub code: String,
    /// Position in the author's files where the code threw, if it did: `file:line:column`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 300))]
    pub place: Option<String>,
    /// Number of consecutive failures at the time of the report.
    pub failures: i32,
    /// Time at which the crash loop began.
    pub since: Time,
    /// Time of the node's latest report. An entry that is not renewed expires.
    pub renewed: Time,
}

/// The period in which every node refuses a revision, because its code ended a process of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quarantine {
    /// Name of the WorkerRevision.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
    /// The way in which the code ended the process.
    pub cause: QuarantineCause,
    /// Node whose process ended.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// Number of times that the code has ended a process of one node. The duration doubles each
    /// time.
    #[schemars(range(min = 1))]
    pub times: i32,
    /// Time of the node's report.
    pub since: Time,
    /// Time at which the quarantine of this revision ends.
    pub until: Time,
}

/// The way in which a revision's code ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QuarantineCause {
    /// The process ended while the code ran: V8 aborted, or memory ran out.
    Crashed,
    /// The process was killed because the code did not stop when it was terminated.
    Hung,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Address {
    /// URL of the first route.
    pub url: String,
}
