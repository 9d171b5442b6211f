//! An object that can be read has a plan; once that is carried out there is nothing left to do. What is called for by its
//! schedules is due now, and not again.

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use tenon_crds::{PoolLimits, Worker};
use tenon_operator::claims::Holder;
use tenon_operator::index::{Candidate, SourceState};
use tenon_operator::revision;
use tenon_operator::schedule::due::{CATCH_UP, Due};
use tenon_operator::worker::plan::{draft, plan};

fuzz_target!(|data: &[u8]| {
    let Ok(worker) = serde_json::from_slice::<Worker>(data) else { return };
    let now = Timestamp::from_second(1_800_000_000).expect("it is a time");
    schedules(worker.clone(), now);

    let source = match &worker.spec.source.modules {
        Some(modules) => SourceState::Modules(revision::together(modules, [])),
        None => SourceState::MissingConfigMap("config".to_owned()),
    };
    let mut candidate = Candidate {
        id: revision::worker_id(&worker),
        routes: revision::routes(&worker, "localhost").into_iter().map(|route| (route, Holder::Claimant)).collect(),
        worker: Arc::new(worker),
        source,
        secrets: BTreeMap::new(),
        revisions: Vec::new(),
        limits: PoolLimits::default(),
    };
    let first = plan(&candidate, draft(&candidate).compiled_here(), now);
    if let Some(made) = first.apply {
        let resolved =
            revision::resolve(&candidate.id, "name", &made.spec, &candidate.limits, |_| Some("x".to_owned()));
        if let Ok(resolved) = resolved {
            assert!(resolved.modules.contains_key(&resolved.entrypoint));
        }
        candidate.revisions.push(Arc::new(made));
    }
    let mut worker = (*candidate.worker).clone();
    worker.status = first.status.or(worker.status);
    candidate.worker = Arc::new(worker);
    let second = plan(&candidate, draft(&candidate).compiled_here(), now);
    assert!(
        second.apply.is_none() && second.status.is_none(),
        "{:?} after {:?}",
        second.status,
        candidate.worker.status
    );
    // A revision of a Worker that was named as another is nobody's.
    assert!(second.events.is_empty());
});

fn schedules(mut worker: Worker, now: Timestamp) {
    let due = Due::of(&worker, now);
    for call in &due.calls {
        assert!(call.time <= now && call.time >= now.saturating_sub(CATCH_UP).unwrap_or(now), "{}", call.time);
    }
    assert!(due.next.is_none_or(|next| next > now));
    let claims = due.claim.clone();
    if let (Some(claim), Some(status)) = (due.claim, &mut worker.status) {
        status.schedules = claim;
    }
    let again = Due::of(&worker, now);
    assert!(again.calls.is_empty() && again.claim.is_none(), "{again:?} after {claims:?}");
}
