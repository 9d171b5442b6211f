//! The processes' certificates are made anew while they talk to each other.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use tenon_e2e::await_condition;

use crate::metrics::values;
use crate::pods::{self, ALL};
use crate::prober::none_fails;
use crate::stage::{SYSTEM, Stage};

const SECRETS: [&str; 3] = ["tenon-operator-tls", "tenon-router-tls", "tenon-runtime-node-tls"];

const MADE_WITHIN: Duration = Duration::from_secs(30);

/// A kubelet looks for changed Secrets every minute or so, and what it has of them may be as old again.
const READ_WITHIN: Duration = Duration::from_secs(180);

/// The end of each Pod's own certificate, by the Pod's name.
type Expiries = BTreeMap<String, f64>;

pub async fn new_certificates_fail_no_request(stage: &Stage) -> anyhow::Result<String> {
    none_fails(stage, replace(stage)).await
}

async fn replace(stage: &Stage) -> anyhow::Result<String> {
    let before = expiries(stage).await?;
    let secrets: Api<Secret> = Api::namespaced(stage.cluster.client(), SYSTEM);
    for name in SECRETS {
        let old = secrets.get(name).await?.uid();
        secrets.delete(name, &DeleteParams::default()).await?;
        await_condition(&format!("a new Secret {name}"), MADE_WITHIN, async || {
            let new = secrets.get(name).await?;
            ensure!(new.uid() != old, "it is the old one");
            Ok(())
        })
        .await?;
    }
    await_condition("every process to have its new certificate", READ_WITHIN, async || {
        let now = expiries(stage).await?;
        ensure!(now.keys().eq(before.keys()), "the Pods are others: {now:?}");
        let still: Vec<_> =
            now.iter().filter(|(pod, end)| before[*pod] == **end).map(|(pod, _)| pod.as_str()).collect();
        ensure!(still.is_empty(), "{} have the old one", still.join(", "));
        Ok(())
    })
    .await?;
    Ok(format!("{} processes have new certificates, and none was restarted", before.len()))
}

async fn expiries(stage: &Stage) -> anyhow::Result<Expiries> {
    let mut all = Expiries::new();
    for component in ALL {
        for pod in component.pods(stage).await? {
            let name = pod.name_any();
            let metrics = pods::metrics(stage, &name).await?;
            let ends = values(&metrics, "tenon_certificate_expiry_timestamp_seconds", &["certificate=\"leaf\""]);
            let end = ends.first().with_context(|| format!("{name} does not tell when its certificate ends"))?;
            all.insert(name, *end);
        }
    }
    Ok(all)
}
