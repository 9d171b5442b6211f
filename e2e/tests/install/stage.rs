//! What the steps work with: a cluster, what is to be installed, and a namespace of their own.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tenon_e2e::{Cluster, Namespace};
use tokio::sync::OnceCell;

use crate::helm::Helm;
use crate::leftovers::Object;
use crate::prober::ProberPod;

/// Where Tenon is installed.
pub use tenon_e2e::INSTALLED as SYSTEM;

/// The repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// How much of each log a failure shows.
const LOG_LINES: usize = 8;

pub struct Stage {
    pub cluster: Cluster,
    pub helm: Helm,
    /// Where the images are: `TENON_E2E_REGISTRY`.
    pub registry: String,
    /// What is tested: this repository's charts, and images by `TENON_E2E_TAG`.
    pub current: Build,
    /// What is upgraded from, where that is another: `TENON_E2E_PREVIOUS`, a repository, and `TENON_E2E_PREVIOUS_TAG`.
    pub previous: Option<Build>,
    /// Where the Workers and the prober are.
    pub namespace: Namespace,
    /// The image of a Prometheus: `TENON_E2E_PROMETHEUS`.
    pub prometheus: String,
    pub prober: OnceCell<ProberPod>,
    /// What was in the cluster before.
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
    /// # Errors
    /// When no cluster is named, or it does not answer.
    pub async fn from_env() -> anyhow::Result<Self> {
        let cluster = Cluster::from_env().await?;
        let or = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
        let current = Build { repository: ROOT.into(), tag: or("TENON_E2E_TAG", "e2e") };
        let previous = env::var_os("TENON_E2E_PREVIOUS").map(|repository| {
            let tag = or("TENON_E2E_PREVIOUS_TAG", "e2e-previous");
            Build { repository: repository.into(), tag }
        });
        let namespace = Namespace::create(&cluster, "tenon-e2e").await.context("the cluster does not answer")?;
        Ok(Self {
            helm: Helm::of(&cluster),
            cluster,
            registry: or("TENON_E2E_REGISTRY", "ghcr.io/tenon-dev"),
            current,
            previous,
            namespace,
            prometheus: or("TENON_E2E_PROMETHEUS", "quay.io/prometheus/prometheus:v3.5.0"),
            prober: OnceCell::new(),
            before: OnceCell::new(),
        })
    }

    /// The build that is installed first.
    pub fn first(&self) -> &Build {
        self.previous.as_ref().unwrap_or(&self.current)
    }

    /// What `kubectl` says of objects in the installation's namespace.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.cluster.kubectl(&[["--namespace", SYSTEM].as_slice(), arguments].concat()).await
    }

    /// A file beside this one.
    pub fn file(name: &str) -> PathBuf {
        Path::new(ROOT).join("e2e/tests/install").join(name)
    }

    /// What one would ask first after a failure: the Pods, the warnings, and what the processes complain of.
    pub async fn circumstances(&self) -> String {
        let mut text = String::new();
        let pods = ["get", "pods", "--all-namespaces", "--output", "wide"];
        let warnings = ["get", "events", "--field-selector", "type=Warning", "--sort-by", "lastTimestamp"];
        for arguments in [pods.as_slice(), warnings.as_slice()] {
            let _ = writeln!(text, "── kubectl {}\n{}", arguments.join(" "), or_error(self.kubectl(arguments).await));
        }
        for component in ["operator", "router", "runtime-node"] {
            let selector = format!("app.kubernetes.io/component={component}");
            let logs = self.kubectl(&["logs", "--prefix", "--tail", "200", "--selector", &selector]).await;
            let complaints: Vec<_> =
                or_error(logs).lines().filter(|line| is_complaint(line)).map(str::to_owned).collect();
            let last = &complaints[complaints.len().saturating_sub(LOG_LINES)..];
            let _ = writeln!(text, "── complaints of {component}\n{}", last.join("\n"));
        }
        text
    }
}

fn or_error(output: anyhow::Result<String>) -> String {
    output.unwrap_or_else(|error| format!("{error:#}"))
}

fn is_complaint(line: &str) -> bool {
    ["WARN", "ERROR", "panicked", "error:"].iter().any(|sign| line.contains(sign))
}
