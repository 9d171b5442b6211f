//! Tests of Workers whose code is in a registry.

use std::path::Path;
use std::process::Output;
use std::time::Instant;

use anyhow::{Context, ensure};
use tenon_artifact::{Bundle, Credentials, Reference, Registry, RegistryConfig};
use tenon_crds::{Assets, ConditionStatus, OciSource, Source, Worker};
use tenon_e2e::{Process, REGISTRY, SOON, Scenario, answering, worker};
use tokio::process::Command;

use crate::refusals::await_stalled;

/// Size of a module in bytes, larger than the API server allows for an object.
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

fn from_image(name: &str, image: &str) -> Worker {
    let mut worker = worker(name, "");
    let oci = OciSource { image: image.to_owned(), pull_secret_ref: None };
    worker.spec.source = Source { oci: Some(oci), ..Source::default() };
    worker
}

pub async fn a_bundle_larger_than_an_object_is_pushed_and_served(
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
        ensure!(output.status.success(), "the command ended with {output:?}");
        let answer = connection.get(&host, "/").await?;
        let expected = format!("{text}{LARGE}");
        ensure!(
            answer.status == 200 && answer.body == expected,
            "the response is {} {}",
            answer.status,
            answer.body
        );
    }

    // Another Worker runs the same artifact, by its digest, without local files.
    let image = scenario.namespace.worker("pushed").await?.spec.source.oci;
    let image = image.context("the Worker has no artifact")?.image;
    scenario.namespace.apply(&from_image("copied", &image)).await?;
    let host = scenario.namespace.host("copied");
    scenario.await_answer(&host, &format!("second{LARGE}"), SOON).await?;
    Ok(())
}

const SITE: &str = "
apiVersion: tenon.dev/v1alpha1
kind: Worker
metadata: {name: site}
spec:
  source:
    modules:
      worker.js: |
        export default {
          async fetch(request, env) {
            const { pathname } = new URL(request.url);
            if (pathname === '/api/page') {
              const page = await env.FILES.fetch(new URL('/about', request.url));
              return new Response('worker: ' + await page.text(), page);
            }
            return env.FILES.fetch(request);
          },
        };
  assets: {binding: FILES, notFoundHandling: NotFoundPage}
";

pub async fn static_files_are_pushed_with_the_code_and_served_by_routers(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let public = folder.path().join("public");
    std::fs::create_dir(&public)?;
    std::fs::write(folder.path().join("worker.yaml"), SITE)?;
    std::fs::write(public.join("404.html"), "missing")?;
    std::fs::write(public.join("_redirects"), "/old /about 301\n")?;
    let large = "0123456789".repeat(200_000);
    std::fs::write(public.join("large.txt"), &large)?;
    let pages = public.join("pages");
    std::fs::create_dir(&pages)?;
    let files = std::env::var("TENON_E2E_FILES").map_or(Ok(100), |files| files.parse())?;
    for page in 0..files {
        let text = format!("<p>page {page}</p>\n").repeat(400);
        std::fs::write(pages.join(format!("{page}.html")), text)?;
    }
    let prefix = format!("{REGISTRY}/{}", scenario.namespace.name());
    let mut connection = scenario.router.connection();
    let host = scenario.namespace.host("site");
    for text in ["first", "second"] {
        std::fs::write(public.join("about.html"), text)?;
        let began = Instant::now();
        let output = deploy(&scenario, folder.path(), &prefix).await?;
        ensure!(output.status.success(), "the command ended with {output:?}");
        println!("deployed {files} files in {:?}", began.elapsed());
        for (path, status, body) in [
            ("/about", 200, text),
            ("/old", 301, ""),
            ("/large.txt", 200, &large),
            ("/api/page", 200, &format!("worker: {text}")),
            ("/none", 404, "missing"),
        ] {
            let answer = connection.get(&host, path).await?;
            ensure!(
                answer.status == status && answer.body == body,
                "the response to {path} is {} with {} bytes, not {status} with {}",
                answer.status,
                answer.body.len(),
                body.len()
            );
            // No node takes part in serving a file.
            let by_worker = path == "/api/page" || path == "/none";
            ensure!(
                answer.node.is_some() == by_worker,
                "{path} was served by node {:?}",
                answer.node
            );
        }
    }

    // Invalid rules are reported, and the previous files are still served.
    std::fs::write(public.join("_redirects"), "/old\n")?;
    let output = deploy(&scenario, folder.path(), &prefix).await?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && message.contains("_redirects:1: "), "{message}");
    ensure!(
        connection.get(&host, "/about").await?.body == "second",
        "the previous files are not served"
    );

    // A Worker with `assets` needs an artifact that contains files.
    let mut without = from_image("without", &push(&scenario, "code", "code").await?.to_string());
    without.spec.assets = Some(Assets::default());
    scenario.namespace.apply(&without).await?;
    let ready = await_stalled(&scenario, "without").await?;
    ensure!(ready.reason == "InvalidAssets", "the condition Ready is {ready:?}");
    Ok(())
}

/// Pushes an artifact without static files.
async fn push(scenario: &Scenario, repository: &str, text: &str) -> anyhow::Result<Reference> {
    let config =
        RegistryConfig { plain_http: vec![REGISTRY.to_owned()], ..RegistryConfig::default() };
    let modules = [("worker.js".to_owned(), answering(text).into())].into();
    let bundle = Bundle { entrypoint: None, modules };
    let namespace = scenario.namespace.name();
    let reference: Reference = format!("{REGISTRY}/{namespace}/{repository}:v1").parse()?;
    Ok(Registry::new(config)?.push(&reference, &Credentials::Anonymous, &bundle, None).await?)
}

pub async fn an_unavailable_artifact_is_reported_and_pulled_once_it_exists(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let (namespace, name) = (&scenario.namespace, scenario.namespace.name());
    namespace.apply(&from_image("elsewhere", "registry.example.com/acme/cart:v1")).await?;
    let ready = await_stalled(&scenario, "elsewhere").await?;
    ensure!(ready.reason == "RegistryNotAllowed", "the condition Ready is {ready:?}");

    // The same bundle has the same digest in every repository.
    let early = push(&scenario, "early", "pulled").await?;
    let digest = early.digest().context("the pushed reference has no digest")?;
    namespace.apply(&from_image("late", &format!("{REGISTRY}/{name}/late@{digest}"))).await?;
    let ready = await_stalled(&scenario, "late").await?;
    ensure!(
        ready.reason == "ArtifactUnavailable" && ready.message.contains("does not exist"),
        "the condition Ready is {ready:?}"
    );
    push(&scenario, "late", "pulled").await?;
    namespace.await_ready("late", ConditionStatus::True).await?;
    scenario.await_answer(&namespace.host("late"), "pulled", SOON).await?;
    Ok(())
}
