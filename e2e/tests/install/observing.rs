//! Tests the commands with which developers observe Workers on a cluster, with an account that has
//! only the rights that the documentation of the commands names.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenon_crds::ConditionStatus;
use tenon_e2e::{Connection, PortForward, Process, SOON, await_condition, worker};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::installing::HTTP_PORT;
use crate::pods::{NODE, ROUTER};
use crate::stage::{SYSTEM, Stage};

/// Number of Workers, large enough that several nodes run some of them.
const WORKERS: usize = 8;

/// Time for which the profile is recorded.
const PROFILED: &str = "2s";

/// Time limit of the whole profile, including the start of a copy of the Worker.
const PROFILED_WITHIN: Duration = Duration::from_secs(90);

/// The function that the profile must name.
const FUNCTION: &str = "countPrimes";

/// An account that has the rights of `observing.yaml`.
struct Observer {
    /// The folder of the manifest and of the kubeconfig, which contains a credential.
    folder: TempDir,
}

impl Observer {
    async fn create(stage: &Stage) -> anyhow::Result<Self> {
        let observer = Self { folder: tempfile::tempdir()? };
        let namespace = stage.namespace.name();
        let text = std::fs::read_to_string(Stage::file("observing.yaml"))?;
        let text = text.replace("NAMESPACE", namespace).replace("SYSTEM", SYSTEM);
        std::fs::write(observer.manifest(), text)?;
        let file = observer.manifest();
        stage.cluster.kubectl(&["apply", "--filename", &file.to_string_lossy()]).await?;
        let create = ["create", "token", "observer", "--namespace", namespace];
        let token = stage.cluster.kubectl(&create).await?;
        let mut config: serde_yaml::Value =
            serde_yaml::from_slice(&std::fs::read(stage.cluster.kubeconfig())?)?;
        let users = config["users"].as_sequence_mut().context("the kubeconfig has no users")?;
        for user in users {
            user["user"] = serde_yaml::to_value(json!({"token": token.trim()}))?;
        }
        std::fs::write(observer.kubeconfig(), serde_yaml::to_string(&config)?)?;
        Ok(observer)
    }

    fn manifest(&self) -> PathBuf {
        self.folder.path().join("observing.yaml")
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns a command of `tenon` that concerns the Workers of the steps.
    fn tenon(&self, stage: &Stage, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(Process::binary("tenon")?);
        command
            .args(arguments)
            .args(["--namespace", stage.namespace.name(), "--system-namespace", SYSTEM])
            .env("KUBECONFIG", self.kubeconfig())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Deletes the account and its rights, some of which are in the namespace of the installation.
    async fn delete(&self, stage: &Stage) -> anyhow::Result<()> {
        let manifest = self.manifest();
        let delete = ["delete", "--ignore-not-found", "--filename", &manifest.to_string_lossy()];
        stage.cluster.kubectl(&delete).await?;
        Ok(())
    }
}

/// Runs a part of a step with an observer, which is deleted even if the part fails.
async fn observe(
    stage: &Stage,
    part: impl AsyncFnOnce(&Observer) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let observer = Observer::create(stage).await?;
    let outcome = part(&observer).await;
    let deleted = observer.delete(stage).await;
    let remark = outcome?;
    deleted.map(|()| remark)
}

fn observed_worker(i: usize) -> String {
    format!("observed-{i}")
}

/// Returns the source of a Worker that computes and logs on each request.
fn source(text: &str) -> String {
    format!(
        "function {FUNCTION}(most) {{
          let count = 0;
          for (let n = 2; n < most; n++) {{
            let isPrime = true;
            for (let d = 2; d * d <= n; d++) if (n % d === 0) {{ isPrime = false; break; }}
            if (isPrime) count++;
          }}
          return count;
        }}
        export default {{ fetch() {{
          console.log({}, {FUNCTION}(20_000));
          return new Response();
        }} }};",
        json!(text)
    )
}

async fn deploy_workers(stage: &Stage, count: usize) -> anyhow::Result<()> {
    for i in 0..count {
        let name = observed_worker(i);
        stage.namespace.apply(&worker(&name, &source(&format!("line of {name}")))).await?;
    }
    for i in 0..count {
        stage.namespace.await_ready(&observed_worker(i), ConditionStatus::True).await?;
    }
    Ok(())
}

async fn delete_workers(stage: &Stage, count: usize) -> anyhow::Result<()> {
    for i in 0..count {
        stage.namespace.delete_worker(&observed_worker(i)).await?;
    }
    Ok(())
}

async fn routers(stage: &Stage) -> anyhow::Result<PortForward> {
    let routers = ROUTER.pods(stage).await?;
    let router = routers.first().context("there are no router Pods")?;
    PortForward::open(&stage.cluster, SYSTEM, &router.name_any(), HTTP_PORT).await
}

/// Requests a Worker, and returns the node that has answered.
async fn request(stage: &Stage, router: &mut Connection, i: usize) -> anyhow::Result<String> {
    let answer = router.get(&stage.namespace.host(&observed_worker(i)), "/").await?;
    ensure!(answer.status == 200, "the response is {} {}", answer.status, answer.body);
    answer.node.context("the response names no node")
}

pub async fn tail_shows_the_lines_of_every_node_as_they_are_written(
    stage: &Stage,
) -> anyhow::Result<String> {
    deploy_workers(stage, WORKERS).await?;
    let remark = observe(stage, async |observer| {
        let mut tail = observer
            .tenon(stage, &["tail", "--search", "line of observed-"])?
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run tenon")?;
        let stdout = tail.stdout.take().context("tenon has no output")?;
        let printed: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&printed);
        tokio::spawn(async move {
            let mut stdout = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = stdout.next_line().await {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let forward = routers(stage).await?;
        let mut router = forward.connection();
        let nodes = NODE.pods(stage).await?.len();
        let mut answered = BTreeSet::new();
        // A line that was written before the command followed its node is not shown, so the
        // requests are repeated.
        await_condition("a line of each Worker, from each node", SOON, async || {
            for i in 0..WORKERS {
                answered.insert(request(stage, &mut router, i).await?);
            }
            let printed = printed.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
            let missing: Vec<_> = (0..WORKERS)
                .map(observed_worker)
                .filter(|name| !printed.contains(&format!("{name}  line of {name}")))
                .collect();
            ensure!(missing.is_empty(), "no lines of {} in:\n{printed}", missing.join(", "));
            ensure!(answered.len() >= nodes.min(2), "only {answered:?} of {nodes} nodes answered");
            Ok(())
        })
        .await?;
        tail.kill().await?;
        Ok(format!("lines of {WORKERS} Workers on {} of {nodes} nodes", answered.len()))
    });
    let remark = remark.await;
    delete_workers(stage, WORKERS).await?;
    remark
}

pub async fn a_cpu_profile_names_the_functions_of_a_worker(
    stage: &Stage,
) -> anyhow::Result<String> {
    deploy_workers(stage, 1).await?;
    let remark = observe(stage, async |observer| {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("observed.cpuprofile");
        let (name, path) = (observed_worker(0), file.to_string_lossy());
        let arguments = ["profile", &name, "--duration", PROFILED, "--output", &path];
        let mut command = observer.tenon(stage, &arguments)?;
        let profiled = command.output();
        let forward = routers(stage).await?;
        let mut router = forward.connection();
        let requests = async {
            loop {
                request(stage, &mut router, 0).await?;
            }
        };
        let output = tokio::select! {
            output = profiled => output.context("cannot run tenon")?,
            failed = requests => return failed,
            () = tokio::time::sleep(PROFILED_WITHIN) => {
                anyhow::bail!("there is no profile after {PROFILED_WITHIN:?}")
            }
        };
        ensure!(output.status.success(), "tenon profile failed: {output:?}");
        let profile: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        let nodes = profile["nodes"].as_array().context("the profile has no nodes")?;
        let is_named = |node: &&Value| node["callFrame"]["functionName"] == FUNCTION;
        let samples: i64 =
            nodes.iter().filter(is_named).filter_map(|node| node["hitCount"].as_i64()).sum();
        ensure!(samples > 0, "the profile has no sample of {FUNCTION}: {profile}");
        Ok(format!("{samples} samples of {FUNCTION} in {PROFILED}"))
    });
    let remark = remark.await;
    delete_workers(stage, 1).await?;
    remark
}
