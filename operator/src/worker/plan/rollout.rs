//! Decides the share of a new revision, and whether the revision is taken back. This module is
//! pure.
//!
//! ```text
//!  latest revision is new ─► step 0 ─► step 1 ─► … ─► Completed: all requests
//!                              │         │
//!                              └────┬────┘ worse than the stable revision, or in quarantine
//!                                   ▼
//!                               TakenBack: no requests, until the latest revision is another one
//! ```
//!
//! A step ends when its duration has passed, a router has acknowledged its division, and the
//! revision has had enough requests without a sign that it is worse. The rollout of a Worker that
//! gets few requests proceeds after ten times the duration. Everything that a decision needs is in
//! the Worker's status, so a new leader continues where its predecessor stopped.

mod analysis;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tenon_crds::{
    AcceptedTarget, ConditionStatus, Rollout, RolloutFigures, RolloutPhase, RolloutStatus,
    WorkerStatus,
};
use tenon_proto::figures::Figures;

use super::fault::PROPAGATION_REASONS;
use super::traffic;
use crate::health::verdict::whole_seconds;
use crate::index::Candidate;
use crate::measurement::counts;
use analysis::{Verdict, judge};

/// The type of the condition that reports the rollout.
pub(super) const CONDITION: &str = "RolledOut";

/// A step ends after this many times its duration even if the revision has had fewer requests than
/// it needs to be judged.
const MAX_DURATIONS: i64 = 10;

/// The decision about a rollout: its new status, and the time of the next decision.
#[derive(Debug)]
pub(super) struct Decision {
    pub status: RolloutStatus,
    /// The next time at which the step may end, or `None` if time alone no longer ends a step.
    pub next: Option<Timestamp>,
}

/// Everything on which a decision depends.
struct Situation<'a> {
    spec: &'a Rollout,
    /// The rollout so far.
    known: Option<&'a RolloutStatus>,
    /// The revisions that serve now.
    serving: &'a [AcceptedTarget],
    latest: &'a str,
    figures: Option<&'a RolloutFigures>,
    /// The revision that nodes refuse, because its code ended a process.
    quarantined: Option<&'a str>,
    /// Whether a router has acknowledged the current division.
    is_acknowledged: bool,
    /// Returns whether a revision exists and can serve.
    can_serve: &'a dyn Fn(&str) -> bool,
    now: Timestamp,
}

/// Returns the decision about a Worker's rollout. Returns `None` if the Worker's spec has no
/// rollout, or if no revision has been accepted.
///
/// # Arguments
/// * `latest` - the latest accepted revision, which may be about to be written.
pub(super) fn decide(
    candidate: &Candidate,
    before: &WorkerStatus,
    latest: Option<&str>,
    now: Timestamp,
) -> Option<Decision> {
    let reported = candidate.worker.status.as_ref();
    let quarantine = reported.and_then(|status| status.quarantine.as_ref());
    let is_propagating = before.conditions.iter().any(|condition| {
        condition.type_ == "Programmed" && PROPAGATION_REASONS.contains(&&*condition.reason)
    });
    let situation = Situation {
        spec: candidate.worker.spec.rollout.as_ref()?,
        known: before.rollout.as_ref(),
        serving: &before.targets(),
        latest: latest?,
        figures: reported.and_then(|status| status.rollout_figures.as_ref()),
        quarantined: quarantine.map(|quarantine| quarantine.revision.as_str()),
        is_acknowledged: !is_propagating,
        can_serve: &|name| traffic::servable(candidate, before, None, "", name).is_ok(),
        now,
    };
    Some(situation.decide())
}

impl Decision {
    /// Returns the revisions among which the requests are divided, with their percentages. If there
    /// are none, the latest revision serves all requests.
    pub(super) fn shares(&self) -> Vec<(&str, i32)> {
        let RolloutStatus { revision, stable, percent, phase, .. } = &self.status;
        match (phase, stable) {
            (RolloutPhase::Completed, _) | (_, None) => Vec::new(),
            (RolloutPhase::TakenBack, Some(stable)) => vec![(stable, 100)],
            (RolloutPhase::Progressing, Some(stable)) => {
                vec![(stable, 100 - percent), (revision, *percent)]
            }
        }
    }
}

impl Situation<'_> {
    fn decide(&self) -> Decision {
        let known = self.known.filter(|known| known.revision == self.latest);
        match known.map(|known| (known, known.phase, known.stable.as_deref())) {
            None => self.begin(),
            Some((known, RolloutPhase::Completed, _))
            | Some((known, RolloutPhase::TakenBack, Some(_))) => {
                Decision { status: known.clone(), next: None }
            }
            Some((known, RolloutPhase::Progressing, Some(stable))) if (self.can_serve)(stable) => {
                self.proceed(known, stable)
            }
            // There is no revision to return to.
            Some(_) => self.complete(None),
        }
    }

    /// Begins the rollout of the latest revision.
    fn begin(&self) -> Decision {
        let stable = match self.known {
            Some(known) if known.phase == RolloutPhase::Completed => Some(&known.revision),
            Some(known) => known.stable.as_ref(),
            // The first of the revisions with the largest share.
            None => {
                let largest = self.serving.iter().rev().max_by_key(|target| target.percent);
                largest.map(|target| &target.revision)
            }
        };
        match stable.filter(|name| *name != self.latest && (self.can_serve)(name)) {
            Some(stable) => self.enter(0, stable),
            None => self.complete(None),
        }
    }

    /// Continues the current step, ends it, or takes the revision back.
    fn proceed(&self, known: &RolloutStatus, stable: &str) -> Decision {
        let number = usize::try_from(known.step).unwrap_or(0);
        let Some(step) = self.spec.steps.get(number) else {
            return self.complete(Some(stable));
        };
        if self.quarantined == Some(self.latest) {
            return self.take_back(known, stable, "its code ended a process of a node");
        }
        let [new, old] = [self.latest, stable].map(|name| self.figures_of(known, name));
        let analysis = &self.spec.analysis;
        let has_enough = new.requests >= u64::try_from(analysis.min_requests).unwrap_or(0);
        let began = known.step_started_at.0;
        let duration = SignedDuration::from_secs(i64::from(step.duration_seconds.max(1)));
        let after = |times: i64| {
            let seconds = duration.as_secs().saturating_mul(times);
            began.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
        };
        let (end, latest_end) = (after(1), after(MAX_DURATIONS));
        let may_end = self.now >= end;
        let is_judged = has_enough || self.now >= latest_end;
        let verdict = judge(analysis, &new, &old, stable);
        let reason = match verdict {
            Verdict::Worse(why) if is_judged => return self.take_back(known, stable, &why),
            Verdict::Sound if may_end && is_judged && self.is_acknowledged => {
                return self.enter(number + 1, stable);
            }
            Verdict::Sound if may_end && !is_judged => {
                format!("; it has had fewer than {} requests", analysis.min_requests)
            }
            Verdict::Suspect | Verdict::Worse(_) if may_end => {
                format!("; more of its requests fail than of {stable}, which may be chance")
            }
            _ => String::new(),
        };
        let next = [end, latest_end].into_iter().find(|time| *time > self.now);
        let status = self.in_step(number, stable, began, &reason);
        Decision { status, next }
    }

    /// Enters a step, or completes the rollout if there is no such step.
    fn enter(&self, number: usize, stable: &str) -> Decision {
        let Some(step) = self.spec.steps.get(number) else {
            return self.complete(Some(stable));
        };
        // Figures are assigned to a step by the time at which it began, so no two steps may begin
        // at the same time.
        let earlier = [
            self.known.map(|known| &known.step_started_at),
            self.figures.map(|known| &known.since),
        ];
        let earlier = earlier.into_iter().flatten().map(|time| time.0);
        let later =
            earlier.map(|time| time.checked_add(SignedDuration::from_secs(1)).unwrap_or(time));
        let began = later.fold(whole_seconds(self.now).0, Timestamp::max);
        let duration = SignedDuration::from_secs(i64::from(step.duration_seconds.max(1)));
        let status = self.in_step(number, stable, began, "");
        Decision { status, next: began.checked_add(duration).ok() }
    }

    /// Returns the status in a step that exists.
    ///
    /// # Arguments
    /// * `reason` - the reason why the step continues after its duration: the end of a sentence, or
    ///   an empty text.
    fn in_step(
        &self,
        number: usize,
        stable: &str,
        began: Timestamp,
        reason: &str,
    ) -> RolloutStatus {
        let steps = self.spec.steps.len();
        let percent = self.spec.steps.get(number).map_or(0, |step| step.percent.clamp(1, 99));
        RolloutStatus {
            revision: self.latest.to_owned(),
            stable: Some(stable.to_owned()),
            phase: RolloutPhase::Progressing,
            step: i32::try_from(number).unwrap_or(0),
            percent,
            step_started_at: whole_seconds(began),
            message: format!(
                "revision {} gets {percent} % of the requests, and {stable} the others, in step {} \
                 of {steps}{reason}",
                self.latest,
                number + 1
            ),
        }
    }

    fn complete(&self, stable: Option<&str>) -> Decision {
        let status = RolloutStatus {
            revision: self.latest.to_owned(),
            stable: stable.map(str::to_owned),
            phase: RolloutPhase::Completed,
            step: i32::try_from(self.spec.steps.len()).unwrap_or(0),
            percent: 100,
            step_started_at: whole_seconds(self.now),
            message: format!("revision {} gets all requests", self.latest),
        };
        Decision { status, next: None }
    }

    fn take_back(&self, known: &RolloutStatus, stable: &str, why: &str) -> Decision {
        let status = RolloutStatus {
            phase: RolloutPhase::TakenBack,
            percent: 0,
            message: format!(
                "revision {} was taken back, and {stable} gets all requests: {why}; change the \
                 code and apply it again",
                self.latest
            ),
            ..known.clone()
        };
        Decision { status, next: None }
    }

    /// Returns the figures of a revision in the current step. They are zero before the step has
    /// begun by this leader's clock, and until figures of the step are known.
    fn figures_of(&self, known: &RolloutStatus, name: &str) -> Figures {
        let began = whole_seconds(known.step_started_at.0);
        let is_about_step = |figures: &&RolloutFigures| {
            whole_seconds(figures.since.0) == began && began.0 <= self.now
        };
        let of_step = self.figures.filter(is_about_step);
        let mut revisions = of_step.into_iter().flat_map(|figures| &figures.revisions);
        revisions.find(|known| known.revision == name).map(counts).unwrap_or_default()
    }
}

/// Returns the status of the condition that reports a rollout.
pub(super) fn condition_status(phase: RolloutPhase) -> ConditionStatus {
    match phase {
        RolloutPhase::Completed => ConditionStatus::True,
        RolloutPhase::TakenBack => ConditionStatus::False,
        RolloutPhase::Progressing => ConditionStatus::Unknown,
    }
}

#[cfg(test)]
mod tests;
