//! Tests that every panel of the dashboards shows data from a real Prometheus server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use serde_yaml::Value;
use tenon_crds::Schedule;
use tenon_e2e::{PortForward, Process, await_condition, worker};
use tokio::process::Command;

use crate::certificates;
use crate::helm::set;
use crate::installing::HTTP_PORT;
use crate::pods::ROUTER;
use crate::prober::probed_worker;
use crate::stage::{ROOT, SYSTEM, Stage};
use crate::upgrading::upgrade;

/// The Secret with the certificate that the routers show to clients.
const CLIENTS_SECRET: &str = "clients-tls";

const POD: &str = "prometheus";
const PORT: u16 = 9090;

/// Time limit for a crash loop in the status of a Worker. A node reports a crash loop at the second
/// failure, which follows after a pause.
const FAILS_WITHIN: Duration = Duration::from_secs(60);

/// Time limit for data in every panel. The schedule of the Worker is due within one minute.
const SHOWN_WITHIN: Duration = Duration::from_secs(120);

/// Folder for pictures of the dashboards, relative to the root of the repository.
const PICTURES: &str = "target/e2e/dashboards";

/// Time limit for the start of Prometheus, which includes pulling its image.
const STARTS_WITHIN: Duration = Duration::from_secs(180);

/// Starts a Prometheus server, which scrapes every process from now on.
pub async fn a_prometheus_scrapes_every_process(stage: &Stage) -> anyhow::Result<String> {
    let node = stage.prober_node.get().context("the prober is not running")?;
    stage.namespace.apply_config_map(POD, &[("prometheus.yml", &configuration()?)]).await?;
    let manifest = std::fs::read_to_string(Stage::file("prometheus.yaml"))?;
    let manifest = manifest.replace("NAMESPACE", stage.namespace.name()).replace("NODE", node);
    let manifest = manifest.replace("IMAGE", &stage.prometheus);
    let file = write_manifest(&manifest)?;
    stage.cluster.kubectl(&["apply", "--filename", &file.to_string_lossy()]).await?;
    await_condition(
        &format!("Prometheus ({}) to be ready", stage.prometheus),
        STARTS_WITHIN,
        async || {
            let status = stage
                .namespace
                .api::<Pod>()
                .get(POD)
                .await?
                .status
                .context("the Pod of Prometheus has no status yet")?;
            let ready = status
                .conditions
                .iter()
                .flatten()
                .any(|c| c.type_ == "Ready" && c.status == "True");
            ensure!(ready, "the Pod of Prometheus is not ready: {:?}", status.container_statuses);
            Ok(())
        },
    )
    .await?;
    let forward = PortForward::open(&stage.cluster, stage.namespace.name(), POD, PORT).await?;
    let mut connection = forward.connection();
    await_condition("every process to be scraped", STARTS_WITHIN, async || {
        let answer = connection.get(POD, "/api/v1/query?query=count(up==1)by(component)").await?;
        for component in ["operator", "router", "runtime-node"] {
            ensure!(
                answer.body.contains(&format!("\"component\":\"{component}\"")),
                "no {component} is scraped: {}",
                answer.body
            );
        }
        Ok(())
    })
    .await?;
    Ok(stage.prometheus.clone())
}

/// Returns the documented scrape configuration, with a shorter interval, and limited to Tenon's
/// namespace.
fn configuration() -> anyhow::Result<String> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("deploy/dashboards/scrape.yaml"))?;
    let mut configuration: Value = serde_yaml::from_str(&text)?;
    configuration["global"] = serde_yaml::to_value(json!({"scrape_interval": "5s"}))?;
    let discovery = &mut configuration["scrape_configs"][0]["kubernetes_sd_configs"][0];
    discovery["namespaces"] = serde_yaml::to_value(json!({"names": [SYSTEM]}))?;
    Ok(serde_yaml::to_string(&configuration)?)
}

pub async fn every_panel_of_every_dashboard_shows_data(stage: &Stage) -> anyhow::Result<String> {
    serve_https(stage).await?;
    fill_every_panel(stage).await?;
    let forward = PortForward::open(&stage.cluster, stage.namespace.name(), POD, PORT).await?;
    let prometheus = format!("http://{}", forward.address());
    let worker = format!("worker={}", probed_worker(0));
    let options = ["--prometheus", &prometheus, "--set", &worker];
    let report = await_condition("data in every panel", SHOWN_WITHIN, async || {
        run_tool(&[["check"].as_slice(), &options].concat()).await
    })
    .await;
    // The pictures also show which panels are empty.
    run_tool(&[["draw", "--out", PICTURES].as_slice(), &options].concat()).await?;
    Ok(format!("{}\npictures are in {PICTURES}", report?))
}

/// Has the routers serve TLS to clients, with a copy of their own certificate.
async fn serve_https(stage: &Stage) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(stage.cluster.client(), SYSTEM);
    certificates::copy(&secrets, "tenon-router-tls", CLIENTS_SECRET).await?;
    upgrade(stage, &[set("router.https.secrets", &format!("{{{CLIENTS_SECRET}}}"))]).await
}

/// Creates what a healthy installation lacks: a Worker with a schedule, and a Worker that cannot
/// start. Waits until the crash loop of the latter is in its status.
async fn fill_every_panel(stage: &Stage) -> anyhow::Result<()> {
    let mut ticking = worker(
        "ticking",
        "export default { scheduled() {}, fetch() { return new Response('tick') } }",
    );
    ticking.spec.schedules =
        vec![Schedule { cron: "* * * * *".to_owned(), time_zone: "UTC".to_owned() }];
    stage.namespace.apply(&ticking).await?;
    stage
        .namespace
        .apply(&worker("broken", "throw new Error('broken'); export default { fetch() {} }"))
        .await?;
    let broken = stage.namespace.host("broken");
    let router = ROUTER.pods(stage).await?.first().context("no router is running")?.name_any();
    let forward = PortForward::open(&stage.cluster, SYSTEM, &router, HTTP_PORT).await?;
    let mut connection = forward.connection();
    await_condition("a crash loop of the broken Worker", FAILS_WITHIN, async || {
        let answer = connection.get(&broken, "/").await?;
        let status = stage
            .namespace
            .worker("broken")
            .await?
            .status
            .context("the broken Worker has no status yet")?;
        ensure!(
            !status.crash_loops.is_empty(),
            "the status has no crash loop; the response is {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    })
    .await
}

/// Runs `tenon-dashboards` and returns its output.
async fn run_tool(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(Process::binary("tenon-dashboards")?);
    let output = command.args(arguments).current_dir(ROOT).kill_on_drop(true).output().await?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(
        output.status.success(),
        "tenon-dashboards failed:\n{}\n{}",
        stdout.trim(),
        stderr.trim()
    );
    Ok(stdout.trim().to_owned())
}

/// Deletes Prometheus and its rights, and the certificate for clients. The rights and the
/// certificate are in Tenon's namespace but are not part of Tenon.
pub async fn the_prometheus_is_deleted(stage: &Stage) -> anyhow::Result<String> {
    let secret = format!("secret/{CLIENTS_SECRET}");
    let objects = ["role/prometheus", "rolebinding/prometheus", &secret];
    stage.kubectl(&[&["delete", "--ignore-not-found"], objects.as_slice()].concat()).await?;
    let delete_pod =
        ["--namespace", stage.namespace.name(), "delete", "pod/prometheus", "--ignore-not-found"];
    stage.cluster.kubectl(&delete_pod).await?;
    Ok(String::new())
}

fn write_manifest(manifest: &str) -> anyhow::Result<PathBuf> {
    let folder = PathBuf::from(ROOT).join("target/e2e");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("prometheus.yaml");
    std::fs::write(&file, manifest)?;
    Ok(file)
}
