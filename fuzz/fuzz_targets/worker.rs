//! Fuzzes the plans of Workers. Every Worker that can be parsed has a plan. Once the plan is
//! carried out, the next plan is empty. Scheduled calls are made only for times that are due, and
//! only once.

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tenon_crds::{PoolLimits, Worker, WorkerRevision};
use tenon_operator::claims::Holder;
use tenon_operator::index::{Candidate, SourceState};
use tenon_operator::namespaces::Access;
use tenon_operator::revision;
use tenon_operator::worker::plan::{draft, plan};
use tenon_schedule::due::{CATCH_UP, Due};

fuzz_target!(|data: &[u8]| {
    let Ok(worker) = serde_json::from_slice::<Worker>(data) else { return };
    let now = Timestamp::from_second(1_800_000_000).expect("the timestamp is in range");
    schedules(worker.clone(), now);

    let source = match &worker.spec.source.modules {
        Some(modules) => SourceState::Modules(revision::join_modules(modules, [])),
        None => SourceState::MissingConfigMap("config".to_owned()),
    };
    // The revision that a rollout replaces exists, so that the rollout proceeds.
    let rollout = worker.status.iter().flat_map(|status| &status.rollout);
    let stable = rollout.filter_map(|rollout| rollout.stable.as_deref()).map(|name| {
        let spec =
            json!({"worker": "cart", "digest": "", "entrypoint": "worker.js", "modules": {}});
        let spec = serde_json::from_value(spec).expect("the revision lacks a field");
        Arc::new(WorkerRevision::new(name, spec))
    });
    let revisions = stable.collect();
    let mut candidate = Candidate {
        id: revision::worker_id(&worker),
        routes: revision::routes(&worker, "localhost")
            .into_iter()
            .map(|route| (route, Holder::Claimant))
            .collect(),
        worker: Arc::new(worker),
        source,
        secrets: BTreeMap::new(),
        revisions,
        previews: Vec::new(),
        missing_secrets: BTreeMap::new(),
        serving: Vec::new(),
        published: None,
        pool: Some(PoolLimits::default()),
        access: Access::Allowed,
    };
    let first = plan(&candidate, &draft(&candidate).compiled_here(), None, now);
    if let Some(created) = first.apply {
        let resolved =
            revision::resolve(&candidate.id, "name", &created.spec, &PoolLimits::default(), |_| {
                Some("x".to_owned())
            });
        if let Ok(resolved) = resolved {
            assert!(resolved.modules.contains_key(&resolved.entrypoint));
        }
        candidate.revisions.push(Arc::new(created));
    }
    let mut worker = (*candidate.worker).clone();
    worker.status = first.status.or(worker.status);
    candidate.worker = Arc::new(worker);
    let second = plan(&candidate, &draft(&candidate).compiled_here(), None, now);
    assert!(
        second.apply.is_none() && second.status.is_none(),
        "{:?} after {:?}",
        second.status,
        candidate.worker.status
    );
    // A plan that changes nothing records no Events.
    assert!(second.events.is_empty());
});

fn schedules(mut worker: Worker, now: Timestamp) {
    let due = Due::of(&worker, now);
    for call in &due.calls {
        assert!(
            call.time <= now && call.time >= now.saturating_sub(CATCH_UP).unwrap_or(now),
            "the time of a call is not within the catch-up period: {}",
            call.time
        );
    }
    assert!(due.next.is_none_or(|next| next > now));
    let claims = due.claim.clone();
    if let (Some(claim), Some(status)) = (due.claim, &mut worker.status) {
        status.schedules = claim;
    }
    let again = Due::of(&worker, now);
    assert!(again.calls.is_empty() && again.claim.is_none(), "{again:?} after {claims:?}");
}
