//! Reports in the status of HostGrants whether their hosts can be granted.
//!
//! [`crate::grants`] decides; the index applies the grants, on every replica. This module writes
//! the statuses, on the leader. There are few grants, and a grant depends on no other object, so
//! kube's own Controller runs the reconciles.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tenon_crds::{HostGrant, HostGrantStatus, condition};
use tokio::sync::watch;

use crate::grants;
use crate::kstatus::{Progress, progress};
use crate::leader::starts;
use crate::metrics::Metrics;
use crate::owner;
use crate::worker::MANAGER;
use crate::worker::queue::backoff;

/// The dependencies of a grant's reconcile.
pub struct Context {
    pub client: Client,
    /// The platform's domain.
    pub domain: String,
    pub leading_rx: watch::Receiver<bool>,
    pub metrics: Arc<Metrics>,
}

/// The number of failures that determines the delay of every retry, because failures are not
/// counted.
const FAILURES: u32 = 4;

/// The error for a status that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot set the status of HostGrant {name}: {source}")]
pub struct GrantError {
    name: String,
    source: kube::Error,
}

/// Writes the statuses whenever this replica leads, for the lifetime of the process.
pub async fn run(context: Context) {
    let mut leading_rx = context.leading_rx.clone();
    let starts = starts(leading_rx.clone());
    // Nothing needs to be done before this replica leads for the first time.
    if leading_rx.wait_for(|leads| *leads).await.is_err() {
        return;
    }
    let grants = Api::<HostGrant>::all(context.client.clone());
    Controller::new(grants, watcher::Config::default())
        .reconcile_all_on(starts)
        .run(reconcile, |_, _, _| Action::requeue(backoff(FAILURES)), Arc::new(context))
        .for_each(|result| async move {
            match result {
                Ok(_) | Err(controller::Error::ObjectNotFound(_)) => {}
                Err(error) => tracing::warn!(%error, "cannot reconcile a HostGrant; retrying"),
            }
        })
        .await;
}

async fn reconcile(grant: Arc<HostGrant>, context: Arc<Context>) -> Result<Action, GrantError> {
    if !*context.leading_rx.borrow() || owner::is_being_deleted(&*grant) {
        return Ok(Action::await_change());
    }
    let timer = context.metrics.reconcile("HostGrant");
    let result = set_status(&grant, &context).await;
    timer.ended(result.is_ok());
    result.map(|()| Action::await_change())
}

async fn set_status(grant: &HostGrant, context: &Context) -> Result<(), GrantError> {
    let status = status(grant, &context.domain, Timestamp::now());
    if grant.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let patch = json!({
        "apiVersion": HostGrant::api_version(&()),
        "kind": HostGrant::kind(&()),
        "status": status,
    });
    let (grants, name) = (Api::<HostGrant>::all(context.client.clone()), grant.name_any());
    let params = PatchParams::apply(MANAGER).force();
    let patched = grants.patch_status(&name, &params, &Patch::Apply(patch)).await;
    patched.map(drop).map_err(|source| GrantError { name, source })
}

/// Returns the status of a grant.
///
/// # Arguments
/// * `now` - the transition time of conditions that change.
fn status(grant: &HostGrant, domain: &str, now: Timestamp) -> HostGrantStatus {
    let before =
        grant.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = grant.metadata.generation;
    let invalid = grant.spec.hosts.iter().find_map(|host| grants::check(host, domain).err());
    let (reason, message) = match &invalid {
        None => ("Granted", "all hosts are granted".to_owned()),
        Some(invalid) => (invalid.reason(), format!("{invalid}. Other hosts are granted")),
    };
    let ready = condition(before, "Ready", invalid.is_none(), reason, message, generation, now);
    let stalled = invalid.map(|_| progress(before, Progress::Stalled, &ready, now));
    HostGrantStatus {
        observed_generation: generation,
        conditions: std::iter::once(ready).chain(stalled).collect(),
    }
}

#[cfg(test)]
mod tests {
    use tenon_crds::ConditionStatus;

    use super::*;
    use crate::kstatus::tests::{Computed, check_golden, compute, keeps_contract, state};

    fn status_of(hosts: &[&str]) -> HostGrantStatus {
        let grant: HostGrant = serde_json::from_value(json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "HostGrant",
            "metadata": {"name": "shop", "generation": 1},
            "spec": {"hosts": hosts, "namespaces": {"names": ["shop"]}},
        }))
        .unwrap();
        status(&grant, "tenon.example", Timestamp::from_second(1).unwrap())
    }

    #[test]
    fn the_status_of_a_grant_names_a_host_that_cannot_be_granted() {
        let ready = status_of(&["shop.example.com"]).conditions.remove(0);
        assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::True, "Granted"));
        let stalled = status_of(&["shop.example.com", "*.co.uk"]).conditions.remove(0);
        assert_eq!(stalled.reason, "PublicSuffix");
        assert!(stalled.message.starts_with("spec.hosts: *.co.uk covers"), "{}", stalled.message);
        let platform = status_of(&["x.shop.tenon.example"]).conditions.remove(0);
        assert_eq!(platform.reason, "PlatformDomain");
    }

    #[test]
    fn tools_distinguish_grants_that_are_current_or_failed() {
        let mut states = Vec::new();
        for (expected, host) in [
            (Computed::Current, "shop.example.com"),
            (Computed::Failed, "*.co.uk"),
            (Computed::Failed, "x.shop.tenon.example"),
        ] {
            let HostGrantStatus { observed_generation, conditions } = status_of(&[host]);
            assert!(keeps_contract(&conditions), "{conditions:?}");
            assert_eq!(compute(Some(1), observed_generation, &conditions), expected, "{host}");
            let reason = conditions[0].reason.clone();
            let (kind, generation) = ("HostGrant", Some(1));
            states.push(state(
                kind,
                &reason,
                expected,
                generation,
                observed_generation,
                &conditions,
            ));
        }
        check_golden("kstatus-grant.json", &states);
    }
}
