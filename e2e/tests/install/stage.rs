//! The environment of the steps: the cluster, the builds to install, and a namespace for the steps.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tenon_e2e::{Cluster, Namespace};
use tokio::sync::OnceCell;

use crate::helm::Helm;
use crate::objects::Object;

/// The namespace in which Tenon is installed.
pub use tenon_e2e::SYSTEM_NAMESPACE as SYSTEM;

/// Path of the repository's root.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Maximum number of lines of each component's logs that the diagnostics contain.
const LOG_LINES: usize = 8;

/// The environment of the steps.
pub struct Stage {
    pub cluster: Cluster,
    pub helm: Helm,
    /// The registry of the images: `TENON_E2E_REGISTRY`.
    pub registry: String,
    /// The build under test: this repository's charts, and images with the tag `TENON_E2E_TAG`.
    pub current: Build,
    /// The build to upgrade from, if it differs: the charts of the repository `TENON_E2E_PREVIOUS`,
    /// and images with the tag `TENON_E2E_PREVIOUS_TAG`.
    pub previous: Option<Build>,
    /// The namespace of the Workers and the prober.
    pub namespace: Namespace,
    /// The image of Prometheus: `TENON_E2E_PROMETHEUS`.
    pub prometheus: String,
    /// The Kubernetes node of the prober, once the prober runs. The node must not be drained.
    pub prober_node: OnceCell<String>,
    /// The objects that were in the cluster before the installation.
    pub before: OnceCell<BTreeSet<Object>>,
}

/// Charts and images that belong together.
#[derive(Clone)]
pub struct Build {
    pub repository: PathBuf,
    pub tag: String,
}

impl Build {
    pub fn chart(&self, name: &str) -> PathBuf {
        self.repository.join("charts").join(name)
    }
}

impl Stage {
    /// Reads the environment and creates the steps' namespace.
    ///
    /// # Errors
    /// Fails if the environment names no cluster, or if the namespace cannot be created.
    pub async fn from_env() -> anyhow::Result<Self> {
        let cluster = Cluster::from_env().await?;
        let var_or =
            |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
        let current = Build { repository: ROOT.into(), tag: var_or("TENON_E2E_TAG", "e2e") };
        let previous = env::var_os("TENON_E2E_PREVIOUS").map(|repository| {
            let tag = var_or("TENON_E2E_PREVIOUS_TAG", "e2e-previous");
            Build { repository: repository.into(), tag }
        });
        let namespace = Namespace::create(&cluster, "tenon-e2e")
            .await
            .context("cannot create the namespace of the steps")?;
        Ok(Self {
            helm: Helm::of(&cluster),
            cluster,
            registry: var_or("TENON_E2E_REGISTRY", "ghcr.io/tenon-dev"),
            current,
            previous,
            namespace,
            prometheus: var_or("TENON_E2E_PROMETHEUS", "quay.io/prometheus/prometheus:v3.5.0"),
            prober_node: OnceCell::new(),
            before: OnceCell::new(),
        })
    }

    /// Returns the build that is installed first.
    pub fn first(&self) -> &Build {
        self.previous.as_ref().unwrap_or(&self.current)
    }

    /// Runs `kubectl` in the installation's namespace and returns its output.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.cluster.kubectl(&[["--namespace", SYSTEM].as_slice(), arguments].concat()).await
    }

    /// Returns the path of a file beside this one.
    pub fn file(name: &str) -> PathBuf {
        Path::new(ROOT).join("e2e/tests/install").join(name)
    }

    /// Returns information about a failure: the Pods, the warning Events, and the warnings and
    /// errors in the processes' logs.
    pub async fn diagnostics(&self) -> String {
        let mut text = String::new();
        let pods = ["get", "pods", "--all-namespaces", "--output", "wide"];
        let warnings =
            ["get", "events", "--field-selector", "type=Warning", "--sort-by", "lastTimestamp"];
        for arguments in [pods.as_slice(), warnings.as_slice()] {
            let _ = writeln!(
                text,
                "── kubectl {}\n{}",
                arguments.join(" "),
                or_error(self.kubectl(arguments).await)
            );
        }
        for component in ["operator", "router", "runtime-node"] {
            let selector = format!("app.kubernetes.io/component={component}");
            let logs =
                self.kubectl(&["logs", "--prefix", "--tail", "200", "--selector", &selector]).await;
            let warnings: Vec<_> =
                or_error(logs).lines().filter(|line| is_warning(line)).map(str::to_owned).collect();
            let last = &warnings[warnings.len().saturating_sub(LOG_LINES)..];
            let _ = writeln!(text, "── warnings of {component}\n{}", last.join("\n"));
        }
        text
    }
}

fn or_error(output: anyhow::Result<String>) -> String {
    output.unwrap_or_else(|error| format!("{error:#}"))
}

fn is_warning(line: &str) -> bool {
    ["WARN", "ERROR", "panicked", "error:"].iter().any(|marker| line.contains(marker))
}
