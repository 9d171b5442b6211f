//! Tests the installation, up to the first response of a Worker.

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tenon_e2e::{PortForward, answering, await_condition, worker};
use tokio::time::Instant;

use crate::helm::{file, set};
use crate::objects;
use crate::pods::ROUTER;
use crate::stage::{Build, SYSTEM, Stage};

/// Maximum time from the first `helm install` to the first response, with the images already
/// present.
const TIME_LIMIT: Duration = Duration::from_secs(90);

pub const HTTP_PORT: u16 = 8080;

/// Returns the Helm values of `build`: the location of its images, and settings for a small
/// cluster.
pub fn values(stage: &Stage, build: &Build) -> Vec<String> {
    let image = [set("image.registry", &stage.registry), set("image.tag", &build.tag)];
    [file(&Stage::file("small.yaml"))].into_iter().chain(image).collect()
}

pub async fn the_cluster_has_no_trace_of_tenon(stage: &Stage) -> anyhow::Result<String> {
    for release in stage.helm.releases().await? {
        let is_tenon = release.chart.starts_with("tenon-");
        let (name, namespace) = (&release.name, &release.namespace);
        ensure!(
            !is_tenon,
            "Tenon is already installed as {name}; run: helm uninstall {name} --namespace {namespace}"
        );
    }
    // The chart must comply with the strictest Pod Security Standard.
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM, "labels": labels}});
    let api: Api<Namespace> = Api::all(stage.cluster.client());
    api.patch(SYSTEM, &PatchParams::apply("tenon-e2e").force(), &Patch::Apply(namespace)).await?;
    stage.before.set(objects::everything(&stage.cluster).await?)?;

    let version = stage.cluster.client().apiserver_version().await?.git_version;
    let nodes = Api::<Node>::all(stage.cluster.client()).list(&ListParams::default()).await?;
    let names: Vec<_> = nodes.iter().map(ResourceExt::name_any).collect();
    Ok(format!("Kubernetes {version} with {}", names.join(", ")))
}

pub async fn the_first_worker_answers_within_90_seconds(stage: &Stage) -> anyhow::Result<String> {
    let build = stage.first();
    let began = Instant::now();
    stage.helm.upgrade("tenon-crds", &build.chart("tenon-crds"), &[]).await?;
    stage.helm.upgrade("tenon", &build.chart("tenon"), &values(stage, build)).await?;
    let installed = began.elapsed();

    stage.namespace.apply(&worker("first", &answering("hello"))).await?;
    let host = stage.namespace.host("first");
    let router = await_condition("a router Pod", TIME_LIMIT, async || {
        let pods = ROUTER.pods(stage).await?;
        ensure!(!pods.is_empty(), "there are no router Pods");
        Ok(pods[0].name_any())
    })
    .await?;
    let forward = PortForward::open(&stage.cluster, SYSTEM, &router, HTTP_PORT).await?;
    let mut connection = forward.connection();
    await_condition("the first Worker to answer", TIME_LIMIT, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(
            answer.status == 200 && answer.body == "hello",
            "the response is {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    })
    .await?;
    let answered = began.elapsed();
    ensure!(
        answered <= TIME_LIMIT,
        "the first answer took {:.1} s, more than {TIME_LIMIT:?}",
        answered.as_secs_f64()
    );
    let (answered, installed) = (answered.as_secs_f64(), installed.as_secs_f64());
    Ok(format!("first answer after {answered:.1} s, of which helm took {installed:.1} s"))
}

pub async fn helm_test_passes(stage: &Stage) -> anyhow::Result<String> {
    let output = stage.helm.test("tenon").await?;
    ensure!(output.contains("Succeeded"), "`helm test` did not succeed:\n{output}");
    Ok(String::new())
}
