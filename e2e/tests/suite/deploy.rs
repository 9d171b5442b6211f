//! Tests of `tenon deploy`.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, ensure};
use tenon_e2e::{Process, Scenario};
use tokio::process::Command;

/// Returns the manifest of a Worker whose modules are in the folder `code` beside it.
fn worker(pool: &str) -> String {
    format!(
        "apiVersion: tenon.dev/v1alpha1
kind: Worker
metadata: {{name: deployed}}
spec:
  pool: {pool}
  entrypoint: worker.ts
  source: {{configMapRef: {{name: code}}}}
"
    )
}

fn code(text: &str) -> String {
    format!(
        "const text: string = '{text}';\nexport default {{ fetch: () => new Response(text) }};\n"
    )
}

async fn deploy(scenario: &Scenario, folder: &Path) -> anyhow::Result<Output> {
    let output = Command::new(Process::binary("tenon")?)
        .args(["deploy", "--timeout", "15", "--namespace", scenario.namespace.name()])
        .arg(folder)
        .env("KUBECONFIG", scenario.cluster.kubeconfig())
        .kill_on_drop(true)
        .output()
        .await;
    output.context("cannot run tenon")
}

pub async fn a_deployed_folder_serves_when_the_command_ends(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let modules = folder.path().join("code");
    std::fs::create_dir(&modules)?;
    std::fs::write(folder.path().join("worker.yaml"), worker("default"))?;
    let mut connection = scenario.router.connection();
    let host = scenario.namespace.host("deployed");
    for text in ["first", "second"] {
        std::fs::write(modules.join("worker.ts"), code(text))?;
        let output = deploy(&scenario, folder.path()).await?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success() && printed.contains(&host),
            "the command ended with {output:?}"
        );
        let answer = connection.get(&host, "/").await?;
        ensure!(
            answer.status == 200 && answer.body == text,
            "the response is {} {}",
            answer.status,
            answer.body
        );
    }

    // A mistake is found before anything is applied.
    std::fs::write(modules.join("worker.ts"), "export default {\n  fetch( {\n};\n")?;
    let output = deploy(&scenario, folder.path()).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && error.contains("worker.ts:"),
        "the command ended with {output:?}"
    );
    ensure!(connection.get(&host, "/").await?.body == "second", "the last good code is not served");
    Ok(())
}

pub async fn a_failed_deployment_reports_the_reason(scenario: Scenario) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("code"))?;
    std::fs::write(folder.path().join("code/worker.ts"), code("never"))?;
    std::fs::write(folder.path().join("worker.yaml"), worker("defualt"))?;
    let output = deploy(&scenario, folder.path()).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && error.contains("PoolMissing") && error.contains("defualt"),
        "the command ended with {output:?}"
    );
    Ok(())
}
