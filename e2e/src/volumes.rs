//! How processes speak to one another, and the kubelet's part in it: directories that follow Secrets.

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

/// How processes speak to one another.
#[derive(Clone, Copy, Debug)]
pub enum Speaks<'a> {
    Plain,
    /// With certificates that the operator makes, and that change every minute.
    Tls(&'a Volumes),
}

/// The volumes of Pods with certificates, for as long as this lives.
#[derive(Debug)]
pub struct Volumes {
    folder: PathBuf,
    _tasks: JoinSet<()>,
}

/// What the operator is told about certificates: to make them, and to renew them within a test.
const OPERATOR: [&str; 4] = [
    "--self-signed",
    "--authority-lifetime=50s",
    "--certificate-lifetime=46s",
    // Processes look at their files every two seconds.
    "--certificate-propagation=5s",
];

/// Whose certificates come by a volume. The operator takes its own from its Secret.
const ROLES: [&str; 2] = ["router", "runtime-node"];

const MOUNTED_WITHIN: Duration = Duration::from_secs(15);

/// What the kubelet turns when a volume changes.
const DATA: &str = "..data";

impl Volumes {
    /// Brings the certificates of routers and nodes from the operator's namespace, now and whenever they change.
    ///
    /// # Arguments
    /// * `folder` - where the volumes are to be.
    pub fn of(system: &Namespace, folder: PathBuf) -> Self {
        let mut tasks = JoinSet::new();
        for role in ROLES {
            let volume = folder.join(role);
            let secrets: Api<Secret> = system.api();
            let only = watcher::Config::default().fields(&format!("metadata.name=tenon-{role}-tls"));
            tasks.spawn(async move {
                let mut events = watcher(secrets, only).default_backoff().boxed();
                while let Some(event) = events.next().await {
                    // A watch that was interrupted goes on by itself.
                    let Ok(Event::Apply(secret) | Event::InitApply(secret)) = event else { continue };
                    turn(&volume, &secret).expect("the volume can be written");
                }
            });
        }
        Self { folder, _tasks: tasks }
    }

    /// Waits until there is something in all of them: no container starts before its volumes are there.
    pub async fn mounted(&self) -> anyhow::Result<()> {
        await_condition("the volumes with certificates", MOUNTED_WITHIN, async || {
            for role in ROLES {
                ensure!(self.of_role(role).join(DATA).is_dir(), "there is none for the {role}");
            }
            Ok(())
        })
        .await
    }

    fn of_role(&self, role: &str) -> PathBuf {
        self.folder.join(role)
    }
}

impl Speaks<'_> {
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls(_) => "https",
        }
    }

    /// Tells a process where its certificate is.
    pub(crate) fn tell(self, role: &str, command: &mut Command) {
        if let Self::Tls(volumes) = self {
            command.arg("--tls-dir").arg(volumes.of_role(role));
        }
    }

    pub(crate) fn tell_operator(self, command: &mut Command) {
        if let Self::Tls(_) = self {
            command.args(OPERATOR);
        }
    }
}

/// Makes a volume what the Secret is, at one blow.
fn turn(volume: &Path, secret: &Secret) -> anyhow::Result<()> {
    let version = format!("..{}", secret.resource_version().context("it is stored")?);
    let place = volume.join(&version);
    // Told again.
    if place.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(&place)?;
    for (file, content) in secret.data.iter().flatten() {
        fs::write(place.join(file), &content.0)?;
        let link = volume.join(file);
        if !link.is_symlink() {
            symlink(Path::new(DATA).join(file), link)?;
        }
    }
    symlink(&version, volume.join("..new"))?;
    Ok(fs::rename(volume.join("..new"), volume.join(DATA))?)
}
