//! `tenon status`: shows what the operator reports about a Worker, and the Worker's revisions.

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tenon_crds::{
    ConditionStatus, RevisionFigures, RolloutFigures, RolloutPhase, RolloutStatus, Worker,
};

use crate::output::{Output, table};
use crate::revisions::{self, Args};

/// Prints the status.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (worker, rows) = args.read()?;
    match args.output {
        Output::Text => {
            print!("{}", table(facts(&worker)));
            if !rows.is_empty() {
                println!();
                revisions::print(&rows, Timestamp::now())?;
            }
        }
        Output::Json => {
            let status = json!({"status": worker.status, "revisions": rows});
            println!("{}", serde_json::to_string_pretty(&status)?);
        }
    }
    Ok(())
}

/// Returns the lines about a Worker, each with a name and its text.
fn facts(worker: &Worker) -> Vec<[String; 2]> {
    let status = worker.status.clone().unwrap_or_default();
    let mut facts = Vec::new();
    let mut fact = |name: &str, text: String| facts.push([name.to_owned(), text]);
    match status.url {
        Some(url) => fact("URL", url),
        None => fact("URL", "none, because no revision has been accepted yet".to_owned()),
    }
    fact("Pool", worker.spec.pool.clone());
    let is_current = status.observed_generation >= worker.metadata.generation;
    for condition in &status.conditions {
        let holds = match condition.status {
            ConditionStatus::True => "yes",
            ConditionStatus::False => "no",
            ConditionStatus::Unknown => "unknown",
        };
        // A message may have several lines.
        let message = condition.message.replace('\n', "; ");
        fact(&condition.type_, format!("{holds}, {}: {message}", condition.reason));
    }
    if let Some(figures) = current_figures(&status.rollout, status.rollout_figures) {
        let requests = |of: RevisionFigures| {
            format!("{} for {}, of which {} failed", of.requests, of.revision, of.failed)
        };
        let requests = figures.revisions.into_iter().map(requests).collect::<Vec<_>>();
        fact("Requests", requests.join("; "));
    }
    if !is_current {
        fact("Note", "the operator has not seen the latest change of the spec".to_owned());
    }
    facts
}

/// Returns the figures of the current step of a rollout, or of the step in which the revision was
/// taken back.
fn current_figures(
    rollout: &Option<RolloutStatus>,
    figures: Option<RolloutFigures>,
) -> Option<RolloutFigures> {
    let rollout = rollout.as_ref().filter(|rollout| rollout.phase != RolloutPhase::Completed)?;
    figures.filter(|figures| figures.since == rollout.step_started_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisions::tests::worker;

    #[test]
    fn conditions_are_listed_with_their_reasons() {
        let ready = json!({
            "type": "Ready", "status": "False", "reason": "SyntaxError", "message": "a\nb",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let (worker, _) = worker(json!({"url": "http://cart", "conditions": [ready]}), &[]);
        let facts = facts(&worker);
        let lines: Vec<_> = facts.iter().map(|[name, text]| (&**name, &**text)).collect();
        assert_eq!(
            lines,
            [("URL", "http://cart"), ("Pool", "default"), ("Ready", "no, SyntaxError: a; b")]
        );
    }

    #[test]
    fn the_requests_of_a_rollout_in_progress_are_listed_by_revision() {
        let listed = |phase: &str, since: &str| {
            let rollout = json!({
                "revision": "cart-2", "stable": "cart-1", "phase": phase, "step": 0, "percent": 10,
                "stepStartedAt": "2026-01-01T00:00:00Z", "message": "",
            });
            let of = |revision: &str, requests: i32, failed: i32| json!({"revision": revision, "requests": requests, "failed": failed});
            let revisions = [of("cart-1", 90, 0), of("cart-2", 10, 3)];
            let figures = json!({"since": since, "revisions": revisions});
            let (worker, _) = worker(json!({"rollout": rollout, "rolloutFigures": figures}), &[]);
            facts(&worker).into_iter().find(|[name, _]| name == "Requests").map(|[_, text]| text)
        };
        let expected = "90 for cart-1, of which 0 failed; 10 for cart-2, of which 3 failed";
        assert_eq!(listed("Progressing", "2026-01-01T00:00:00Z").as_deref(), Some(expected));
        assert_eq!(listed("Progressing", "2026-01-01T00:00:09Z"), None);
        assert_eq!(listed("Completed", "2026-01-01T00:00:00Z"), None);
    }

    #[test]
    fn an_unseen_change_is_noted() {
        let (mut worker, _) = worker(json!({"observedGeneration": 1}), &[]);
        worker.metadata.generation = Some(2);
        assert_eq!(facts(&worker).last().unwrap()[0], "Note");
    }
}
