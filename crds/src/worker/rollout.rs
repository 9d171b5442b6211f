//! `spec.rollout` of a Worker, and the progress of its rollout in the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of steps.
const MAX_STEPS: usize = 10;

/// The steps by which a new revision takes over the requests.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// Shares of the requests that a new revision gets, one after the other, before it gets all of
    /// them.
    #[schemars(length(min = 1, max = MAX_STEPS))]
    #[x_kube(validation = Rule::new(ASCENDS)
        .message("spec.rollout.steps: the percentages do not ascend; change one of them"))]
    pub steps: Vec<RolloutStep>,
    /// Conditions under which a new revision is taken back.
    #[serde(default)]
    pub analysis: RolloutAnalysis,
}

/// One share of a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStep {
    /// Percentage of the requests.
    #[schemars(range(min = 1, max = 99))]
    pub percent: i32,
    /// Minimum duration of the step, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub duration_seconds: i32,
}

/// The comparison of a new revision with the revision that it replaces, by the requests of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutAnalysis {
    /// Number of requests to the new revision before it is judged. A step lasts until the revision
    /// has had this number, but at most ten times its duration.
    #[serde(default = "default_min_requests")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub min_requests: i32,
    /// Percentage points by which the share of failed requests, which are those with a status of
    /// 500 or more, may exceed that of the other revision.
    #[serde(default = "default_max_error_percent")]
    #[schemars(range(min = 0, max = 100))]
    pub max_error_percent: i32,
    /// Percentage by which the 99th percentile of the time until a response begins may exceed that
    /// of the other revision.
    #[serde(default = "default_max_p99_percent")]
    #[schemars(range(min = 0, max = 10_000))]
    pub max_p99_percent: i32,
}

impl Default for RolloutAnalysis {
    fn default() -> Self {
        Self {
            min_requests: default_min_requests(),
            max_error_percent: default_max_error_percent(),
            max_p99_percent: default_max_p99_percent(),
        }
    }
}

fn default_min_requests() -> i32 {
    100
}

fn default_max_error_percent() -> i32 {
    1
}

fn default_max_p99_percent() -> i32 {
    50
}

/// The latest rollout of a Worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Name of the WorkerRevision that is rolled out.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
    /// Name of the WorkerRevision that it replaces, which serves the other requests. Not set for
    /// the first revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub stable: Option<String>,
    pub phase: RolloutPhase,
    /// Index of the step in `spec.rollout.steps`, from 0.
    #[schemars(range(min = 0, max = MAX_STEPS))]
    pub step: i32,
    /// Percentage of the requests that the revision gets.
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,
    /// Time at which the step began. It also identifies the figures of the step.
    pub step_started_at: Time,
    /// Human-readable explanation.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// The state of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutPhase {
    /// The revision gets the share of the current step.
    Progressing,
    /// The revision gets all requests.
    Completed,
    /// The revision gets no requests, because it was worse than the revision that it was to
    /// replace.
    TakenBack,
}

impl RolloutPhase {
    /// Returns the name in the schema.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Progressing => "Progressing",
            Self::Completed => "Completed",
            Self::TakenBack => "TakenBack",
        }
    }
}

/// Requests during a step of a rollout, as routers have counted them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutFigures {
    /// The `stepStartedAt` of the step.
    pub since: Time,
    /// The stable revision, and the one that is rolled out.
    #[schemars(length(max = 2))]
    pub revisions: Vec<RevisionFigures>,
}

/// Requests of one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionFigures {
    /// Name of the WorkerRevision.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
    /// Number of requests, except those that failed because of their clients.
    #[schemars(range(min = 0))]
    pub requests: i64,
    /// Number of requests with a status of 500 or more.
    #[schemars(range(min = 0))]
    pub failed: i64,
    /// Number of requests by the time until the response began. Bucket 0 ends at 1.024 ms, and each
    /// doubling of the time after it has four buckets of equal width.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(range(min = 0)))]
    pub latencies: Vec<i64>,
}

/// CEL rule for the steps: each percentage is larger than those before it.
const ASCENDS: &str = "self.map(s, s.percent).isSorted() && \
     self.all(s, self.exists_one(t, t.percent == s.percent))";

/// CEL rule for a Worker's spec: requests are divided by `traffic` or by `rollout`.
pub(super) const ROLLOUT_OR_TRAFFIC: &str =
    "!has(self.rollout) || !has(self.traffic) || size(self.traffic) == 0";
