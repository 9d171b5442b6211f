//! A real Prometheus sees what the dashboards show.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use tenon_e2e::{PortForward, await_condition};
use tokio::process::Command;

use crate::stage::{ROOT, Stage};

const POD: &str = "prometheus";
const PORT: u16 = 9090;

/// With the time to pull its image.
const STARTS_WITHIN: Duration = Duration::from_secs(180);

/// A Prometheus begins to scrape, so that it has seen all that is done from here on.
pub async fn a_prometheus_scrapes_every_process(stage: &Stage) -> anyhow::Result<String> {
    let node = &stage.prober.get().context("the prober is there")?.node;
    let manifest = std::fs::read_to_string(Stage::file("prometheus.yaml"))?;
    let manifest = manifest.replace("NAMESPACE", stage.namespace.name()).replace("NODE", node);
    let manifest = manifest.replace("IMAGE", &stage.prometheus);
    let file = written(&manifest)?;
    stage.cluster.kubectl(&["apply", "--filename", &file.to_string_lossy()]).await?;
    await_condition(&format!("a Prometheus ({})", stage.prometheus), STARTS_WITHIN, async || {
        let status = stage.namespace.api::<Pod>().get(POD).await?.status.context("no status yet")?;
        let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        ensure!(ready, "{:?}", status.container_statuses);
        Ok(())
    })
    .await?;
    let forward = PortForward::open(&stage.cluster, stage.namespace.name(), POD, PORT).await?;
    let mut connection = forward.connection();
    await_condition("every process to be scraped", STARTS_WITHIN, async || {
        let answer = connection.get(POD, "/api/v1/query?query=count(up==1)by(component)").await?;
        for component in ["operator", "router", "runtime-node"] {
            ensure!(answer.body.contains(&format!("\"component\":\"{component}\"")), "{}", answer.body);
        }
        Ok(())
    })
    .await?;
    Ok(stage.prometheus.clone())
}

pub async fn every_panel_of_every_dashboard_shows_data(stage: &Stage) -> anyhow::Result<String> {
    let forward = PortForward::open(&stage.cluster, stage.namespace.name(), POD, PORT).await?;
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "tenon-dashboards", "--", "check"]);
    command.args(["--prometheus", &format!("http://{}", forward.address()), "--interval", "60"]);
    let output = command.current_dir(ROOT).kill_on_drop(true).output().await?;
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}\n{}", said.trim(), complaint.trim());
    Ok(said.trim().to_owned())
}

/// Takes Prometheus' rights away, which are where Tenon is and not Tenon's.
pub async fn the_prometheus_ends(stage: &Stage) -> anyhow::Result<String> {
    stage.kubectl(&["delete", "role/prometheus", "rolebinding/prometheus", "--ignore-not-found"]).await?;
    let in_ours = ["--namespace", stage.namespace.name(), "delete", "pod/prometheus", "--ignore-not-found"];
    stage.cluster.kubectl(&in_ours).await?;
    Ok(String::new())
}

fn written(manifest: &str) -> anyhow::Result<PathBuf> {
    let folder = PathBuf::from(ROOT).join("target/e2e");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("prometheus.yaml");
    std::fs::write(&file, manifest)?;
    Ok(file)
}
