//! Tests that no request fails while certificates are replaced, or while their source changes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tenon_e2e::await_condition;

use crate::helm::set;
use crate::metrics::values;
use crate::pods::{self, ALL, Component, NODE, OPERATOR, ROUTER};
use crate::prober::under_load;
use crate::stage::{SYSTEM, Stage};
use crate::upgrading::{replace_every_pod, upgrade};

/// The Secrets that the operator creates, the component that each is for, and the chart's value
/// that names a Secret to use instead.
const SECRETS: [(&str, Component, &str); 3] = [
    ("tenon-operator-tls", OPERATOR, "operator"),
    ("tenon-router-tls", ROUTER, "router"),
    // The installation has one pool.
    ("tenon-pool-default-tls", NODE, "runtimeNode"),
];

const CREATED_WITHIN: Duration = Duration::from_secs(30);

/// Time limit for processes to use new certificates. The kubelet updates mounted Secrets about
/// every minute, from a cache that may be a minute old.
const READ_WITHIN: Duration = Duration::from_secs(180);

/// The expiry time of each Pod's own certificate, by Pod name.
type Expiries = BTreeMap<String, f64>;

pub async fn no_request_fails_while_certificates_are_replaced(
    stage: &Stage,
) -> anyhow::Result<String> {
    under_load(stage, replace(stage)).await
}

pub async fn no_request_fails_while_switching_to_user_provided_secrets(
    stage: &Stage,
) -> anyhow::Result<String> {
    under_load(stage, switch_and_restore(stage)).await
}

/// Switches from the operator's Secrets to copies that a user provides, and back.
async fn switch_and_restore(stage: &Stage) -> anyhow::Result<String> {
    let secrets: Api<Secret> = Api::namespaced(stage.cluster.client(), SYSTEM);
    let switched = switch_to_copies(stage, &secrets).await;
    // Switch back regardless of the outcome: the next steps expect the operator's Secrets.
    match switched {
        Ok(()) => drop(replace_every_pod(stage, upgrade(stage, &[])).await?),
        Err(_) => upgrade(stage, &[]).await?,
    }
    let [operator, router, node] = SECRETS.map(|(name, ..)| copy_of(name));
    stage.kubectl(&["delete", "secret", "--ignore-not-found", &operator, &router, &node]).await?;
    switched?;
    Ok("switched from the operator's Secrets to copies, and back; every Pod was replaced twice"
        .to_owned())
}

async fn switch_to_copies(stage: &Stage, secrets: &Api<Secret>) -> anyhow::Result<()> {
    let mut values = vec![set("certificates.mode", "existingSecret")];
    for (name, _, value) in SECRETS {
        copy(secrets, name, &copy_of(name)).await?;
        values.push(set(&format!("certificates.existingSecret.{value}"), &copy_of(name)));
    }
    replace_every_pod(stage, upgrade(stage, &values)).await?;
    for (name, component, _) in SECRETS {
        for pod in component.pods(stage).await? {
            let volumes =
                pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
            let mut mounted =
                volumes.filter_map(|volume| volume.secret.as_ref()?.secret_name.as_ref());
            ensure!(
                mounted.any(|secret| *secret == copy_of(name)),
                "Pod {} does not mount Secret {}",
                pod.name_any(),
                copy_of(name)
            );
        }
    }
    Ok(())
}

/// Copies a Secret with a certificate.
pub async fn copy(secrets: &Api<Secret>, name: &str, copy: &str) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": copy},
        "type": "kubernetes.io/tls",
        "data": secrets.get(name).await?.data,
    });
    let params = PatchParams::apply("tenon-e2e").force();
    secrets.patch(copy, &params, &Patch::Apply(secret)).await?;
    Ok(())
}

/// Returns the name of the copy of a Secret.
fn copy_of(name: &str) -> String {
    format!("own-{name}")
}

async fn replace(stage: &Stage) -> anyhow::Result<String> {
    let before = expiries(stage).await?;
    let secrets: Api<Secret> = Api::namespaced(stage.cluster.client(), SYSTEM);
    for (name, ..) in SECRETS {
        let old = secrets.get(name).await?.uid();
        secrets.delete(name, &DeleteParams::default()).await?;
        await_condition(
            &format!("Secret {name} to be created again"),
            CREATED_WITHIN,
            async || {
                let new = secrets.get(name).await?;
                ensure!(new.uid() != old, "the old Secret still exists");
                Ok(())
            },
        )
        .await?;
    }
    await_condition("every process to use its new certificate", READ_WITHIN, async || {
        let now = expiries(stage).await?;
        ensure!(now.keys().eq(before.keys()), "the Pods have changed: {now:?}");
        let unchanged: Vec<_> = now
            .iter()
            .filter(|(pod, end)| before[*pod] == **end)
            .map(|(pod, _)| pod.as_str())
            .collect();
        ensure!(
            unchanged.is_empty(),
            "the old certificate is still in use by {}",
            unchanged.join(", ")
        );
        Ok(())
    })
    .await?;
    Ok(format!("{} processes have new certificates, without a restart", before.len()))
}

async fn expiries(stage: &Stage) -> anyhow::Result<Expiries> {
    let mut all = Expiries::new();
    for component in ALL {
        for pod in component.pods(stage).await? {
            let name = pod.name_any();
            let metrics = pods::metrics(stage, &name).await?;
            let ends = values(
                &metrics,
                "tenon_certificate_expiry_timestamp_seconds",
                &["certificate=\"leaf\""],
            );
            let end = ends
                .first()
                .with_context(|| format!("{name} reports no expiry of its certificate"))?;
            all.insert(name, *end);
        }
    }
    Ok(all)
}
