//! Workers whose code is in a registry.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, ensure};
use tenon_artifact::{Bundle, Credentials, Reference, Registry, RegistryConfig};
use tenon_crds::{ConditionStatus, OciSource, Source, Worker};
use tenon_e2e::{Process, REGISTRY, SOON, Scenario, answering, worker};
use tokio::process::Command;

use crate::refusals::await_stalled;

/// Larger than an object of the API server can be.
const LARGE: usize = 4 << 20;

fn code(text: &str, bytes: usize) -> String {
    let padding = "x".repeat(bytes);
    format!(
        "const text: string = '{text}';\nconst padding = '{padding}';\nexport default {{ fetch: () => new Response(text + padding.length) }};\n"
    )
}

const MANIFEST: &str = "
apiVersion: tenon.dev/v1alpha1
kind: Worker
metadata: {name: pushed}
spec:
  entrypoint: main.ts
  source: {configMapRef: {name: code}}
";

async fn deploy(scenario: &Scenario, folder: &Path, prefix: &str) -> anyhow::Result<Output> {
    let docker = tempfile::tempdir()?;
    std::fs::write(docker.path().join("config.json"), "{}")?;
    let output = Command::new(Process::binary("tenon")?)
        .args(["deploy", "--timeout", "60", "--namespace", scenario.namespace.name()])
        .args(["--registry", prefix, "--plain-http"])
        .arg(folder)
        .env("KUBECONFIG", scenario.cluster.kubeconfig())
        .env("DOCKER_CONFIG", docker.path())
        .kill_on_drop(true)
        .output()
        .await;
    output.context("cannot run tenon")
}

fn of_image(name: &str, image: &str) -> Worker {
    let mut worker = worker(name, "");
    let oci = OciSource { image: image.to_owned(), pull_secret_ref: None };
    worker.spec.source = Source { oci: Some(oci), ..Source::default() };
    worker
}

pub async fn a_bundle_that_no_object_can_hold_is_pushed_and_served(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let modules = folder.path().join("code");
    std::fs::create_dir(&modules)?;
    std::fs::write(folder.path().join("worker.yaml"), MANIFEST)?;
    let prefix = format!("{REGISTRY}/{}", scenario.namespace.name());
    let mut connection = scenario.router.connection();
    let host = scenario.namespace.host("pushed");
    for text in ["first", "second"] {
        std::fs::write(modules.join("main.ts"), code(text, LARGE))?;
        let output = deploy(&scenario, folder.path(), &prefix).await?;
        ensure!(output.status.success(), "{output:?}");
        let answer = connection.get(&host, "/").await?;
        let expected = format!("{text}{LARGE}");
        ensure!(answer.status == 200 && answer.body == expected, "{}", answer.body);
    }

    // Another Worker runs the same artifact, by its digest, without a file at hand.
    let image = scenario.namespace.worker("pushed").await?.spec.source.oci;
    let image = image.context("the Worker has no artifact")?.image;
    scenario.namespace.apply(&of_image("copied", &image)).await?;
    let host = scenario.namespace.host("copied");
    scenario.await_answer(&host, &format!("second{LARGE}"), SOON).await?;
    Ok(())
}

pub async fn an_artifact_that_cannot_be_pulled_is_named_and_pulled_once_it_can(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let (namespace, name) = (&scenario.namespace, scenario.namespace.name());
    namespace.apply(&of_image("elsewhere", "registry.example.com/acme/cart:v1")).await?;
    let ready = await_stalled(&scenario, "elsewhere").await?;
    ensure!(ready.reason == "RegistryNotAllowed", "{ready:?}");

    let registry = Registry::new(RegistryConfig {
        plain_http: vec![REGISTRY.to_owned()],
        ..Default::default()
    })?;
    let modules = [("worker.js".to_owned(), answering("pulled").into())].into();
    let bundle = Bundle { entrypoint: None, modules };
    let push = async |repository: &str| {
        let reference: Reference = format!("{REGISTRY}/{name}/{repository}:v1").parse()?;
        let pushed = registry.push(&reference, &Credentials::Anonymous, &bundle).await?;
        anyhow::Ok(pushed.digest().context("no digest")?.to_owned())
    };
    // The same bundle has the same digest in every repository.
    let digest = push("early").await?;
    namespace.apply(&of_image("late", &format!("{REGISTRY}/{name}/late@{digest}"))).await?;
    let ready = await_stalled(&scenario, "late").await?;
    ensure!(
        ready.reason == "ArtifactUnavailable" && ready.message.contains("does not exist"),
        "{ready:?}"
    );
    push("late").await?;
    namespace.await_ready("late", ConditionStatus::True).await?;
    scenario.await_answer(&namespace.host("late"), "pulled", SOON).await?;
    Ok(())
}
