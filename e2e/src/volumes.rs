//! The protocol between processes, and directories that follow Secrets, as the kubelet maintains
//! them for Pods.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::{Namespace, await_condition};

/// The protocol between processes.
#[derive(Clone, Copy, Debug)]
pub enum Transport<'a> {
    Plain,
    /// TLS with certificates that the operator issues, and renews after less than a minute.
    Tls(&'a Volumes),
}

/// The volumes with the Pods' certificates. They are updated until this value is dropped.
#[derive(Debug)]
pub struct Volumes {
    folder: PathBuf,
    _tasks: JoinSet<()>,
}

/// The operator's arguments that make it issue certificates, and renew them within the duration of
/// a test.
const OPERATOR: [&str; 4] = [
    "--self-signed",
    "--authority-lifetime=50s",
    "--certificate-lifetime=46s",
    // Processes check their files every two seconds.
    "--certificate-propagation=5s",
];

/// The roles whose certificates are mounted. The operator reads its own certificate from its
/// Secret.
const ROLES: [&str; 2] = ["router", "runtime-node"];

const MOUNTED_WITHIN: Duration = Duration::from_secs(15);

/// The symbolic link that the kubelet replaces when a volume changes.
const DATA: &str = "..data";

impl Volumes {
    /// Copies the certificates of routers and nodes from the operator's namespace, now and whenever
    /// they change.
    ///
    /// # Arguments
    /// * `system` - the operator's namespace.
    /// * `pool` - the pool of the nodes.
    /// * `folder` - the parent folder of the volumes.
    pub fn of(system: &Namespace, pool: &str, folder: PathBuf) -> Self {
        let mut tasks = JoinSet::new();
        let secrets = ["tenon-router-tls".to_owned(), format!("tenon-pool-{pool}-tls")];
        for (role, secret) in ROLES.into_iter().zip(secrets) {
            let volume = folder.join(role);
            let secrets: Api<Secret> = system.api();
            let only = watcher::Config::default().fields(&format!("metadata.name={secret}"));
            tasks.spawn(async move {
                let mut events = watcher(secrets, only).default_backoff().boxed();
                while let Some(event) = events.next().await {
                    // The watcher recovers from errors by itself.
                    let Ok(Event::Apply(secret) | Event::InitApply(secret)) = event else {
                        continue;
                    };
                    update(&volume, &secret).expect("cannot write the volume");
                }
            });
        }
        Self { folder, _tasks: tasks }
    }

    /// Waits until all volumes have content, because no container starts before its volumes are
    /// mounted.
    ///
    /// # Errors
    /// Fails if a volume is still empty after `MOUNTED_WITHIN`.
    pub async fn await_mounted(&self) -> anyhow::Result<()> {
        await_condition("the certificates in all volumes", MOUNTED_WITHIN, async || {
            for role in ROLES {
                ensure!(
                    self.volume(role).join(DATA).is_dir(),
                    "the volume for the {role} is empty"
                );
            }
            Ok(())
        })
        .await
    }

    fn volume(&self, role: &str) -> PathBuf {
        self.folder.join(role)
    }
}

impl Transport<'_> {
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls(_) => "https",
        }
    }

    /// Adds the argument that names the directory of the process's certificate.
    pub(crate) fn configure(self, role: &str, command: &mut Command) {
        if let Self::Tls(volumes) = self {
            command.arg("--tls-dir").arg(volumes.volume(role));
        }
    }

    pub(crate) fn configure_operator(self, command: &mut Command) {
        if let Self::Tls(_) = self {
            command.args(OPERATOR);
        }
    }
}

/// Replaces a volume's content with the Secret's, atomically.
fn update(volume: &Path, secret: &Secret) -> anyhow::Result<()> {
    let version =
        format!("..{}", secret.resource_version().context("the Secret has no resource version")?);
    let version_folder = volume.join(&version);
    // The volume already has this version.
    if version_folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(&version_folder)?;
    for (file, content) in secret.data.iter().flatten() {
        fs::write(version_folder.join(file), &content.0)?;
        let link = volume.join(file);
        if !link.is_symlink() {
            symlink(Path::new(DATA).join(file), link)?;
        }
    }
    symlink(&version, volume.join("..new"))?;
    Ok(fs::rename(volume.join("..new"), volume.join(DATA))?)
}
