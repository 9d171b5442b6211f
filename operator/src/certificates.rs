//! Issues the certificates with which the platform's processes authenticate one another.
//!
//! ```text
//!  stored Secrets, pools, now ─► plan (pure) ─► keys, certificates ─► Secrets  (the leader)
//!                                                                 ├─► volumes of routers, nodes
//!                                                                 └─► this process's own identity
//!                                                                              (every replica)
//! ```
//!
//! [`Certificates`] is the task that carries out the plan. The decisions, the creation of keys and
//! the content of the Secrets have a crate of their own, [`tenon_certificates`].
//!
//! An operator reads its own certificate directly from its Secret and not from a volume: a Pod that
//! is created before its Secret would wait a minute for the volume.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use tenon_certificates::issue::IssueError;
use tenon_certificates::plan::{self, Terms};
use tenon_certificates::secrets::{self, Pools, SecretScope, Secrets};
use tenon_certificates::subject::{Subject, role_secret};
use tenon_crds::POOL_LABEL;
use tenon_lifecycle::readiness::Handle;
use tenon_lifecycle::tls::{Bundle, IdentityError, Role, Tls};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::metrics::Metrics;

/// The field manager of the Secrets.
const MANAGER: &str = "tenon-operator-certificates";

/// Delay before a failed operation is retried.
const RETRY: Duration = Duration::from_secs(2);

/// Maximum time between two runs, because the machine's clock may be set forward meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// Issues certificates and renews them.
pub struct Certificates {
    pub client: Client,
    pub namespace: String,
    /// The operator's own Deployment. It owns the Secrets except those of pools, so that these
    /// Secrets are deleted with the Deployment. If it is not set, they have no owner.
    pub deployment: Option<String>,
    pub terms: Terms,
    /// The TLS state of this process.
    pub tls: Tls,
    pub leading_rx: watch::Receiver<bool>,
    /// The existing pools. All of them are known when this replica leads.
    pub pools_rx: watch::Receiver<Pools>,
    pub metrics: Arc<Metrics>,
}

/// The reason why certificates could not be brought up to date. The operation is retried.
#[derive(Debug, thiserror::Error)]
enum CertificateError {
    #[error("cannot read Secret {0}: {1}")]
    Read(String, kube::Error),
    #[error("cannot write Secret {0}: {1}")]
    Write(String, kube::Error),
    #[error("cannot read Deployment {0}: {1}")]
    Owner(String, kube::Error),
    #[error(
        "there is no Deployment {deployment} in namespace {namespace}; set --deployment to the \
         operator's own Deployment"
    )]
    NoOwner { deployment: String, namespace: String },
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("Secret {}: {}", role_secret(Role::Operator), .0)]
    Own(#[from] IdentityError),
}

impl Certificates {
    /// Runs for the lifetime of the process.
    ///
    /// # Arguments
    /// * `ready` - a handle that is dropped once this process has a certificate.
    pub async fn run(mut self, ready: Handle) {
        let mut changes = self.changes();
        let mut ready = Some(ready);
        let mut own = None;
        loop {
            let leads = *self.leading_rx.borrow_and_update();
            let pools = self.pools_rx.borrow_and_update().clone();
            let renewed = if leads { self.renew(pools).await } else { Ok(LONGEST_SLEEP) };
            let pause = renewed.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot renew certificates; retrying");
                RETRY
            });
            let installed = self.install_own(&mut own).await;
            match &installed {
                Ok(true) => ready = None,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot load the operator's own certificate; retrying")
                }
            }
            // If this process has no certificate, another replica may be about to write one. The
            // watch event of the write may be lost, so the Secret is read again soon.
            let pause =
                if ready.is_some() || installed.is_err() { pause.min(RETRY) } else { pause };
            tokio::select! {
                Some(()) = changes.next() => {
                    while let Some(Some(())) = changes.next().now_or_never() {}
                }
                changed = self.leading_rx.changed() => if changed.is_err() { return },
                changed = self.pools_rx.changed() => if changed.is_err() { return },
                () = sleep(pause) => {}
            }
        }
    }

    /// Returns a stream with an item for every change of any of the Secrets.
    fn changes(&self) -> impl Stream<Item = ()> + Unpin + use<> {
        let secrets: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let only = |name| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let of_pools = watcher::Config::default().labels(POOL_LABEL);
        let selections = secrets::names().map(only).into_iter().chain([of_pools]);
        stream::select_all(selections.map(|selection| {
            watcher(secrets.clone(), selection).default_backoff().map(|_| ()).boxed()
        }))
    }

    /// Writes the Secrets that the plan changes, and returns the time until the next run.
    async fn renew(&self, pools: Pools) -> Result<Duration, CertificateError> {
        let timer = self.metrics.reconcile("Certificates");
        let renewed = self.apply(pools).await;
        timer.ended(renewed.is_ok());
        renewed
    }

    async fn apply(&self, pools: Pools) -> Result<Duration, CertificateError> {
        let mut stored =
            Secrets { authority: self.read(secrets::AUTHORITY).await?, issued: BTreeMap::new() };
        for subject in Subject::fixed().chain(pools.keys().cloned().map(Subject::Pool)) {
            let secret = self.read(&subject.secret()).await?;
            stored.issued.insert(subject, secret);
        }
        let now = Timestamp::now();
        let plan = plan::plan(&stored.state(&self.namespace, now), &self.terms, now);
        if plan.make_authority || !plan.keeps_all() {
            let (namespace, owner) = (self.namespace.clone(), self.owner().await?);
            let scope = SecretScope { namespace, owner, pools };
            for secret in stored.secrets_to_write(&plan, &self.terms, &scope, now)? {
                self.write(&secret).await?;
            }
        }
        let until = Duration::try_from(plan.next_run.duration_since(now)).unwrap_or_default();
        Ok(until.min(LONGEST_SLEEP))
    }

    /// Installs the content of the operator's own Secret if it has changed. Returns whether this
    /// process has a certificate.
    async fn install_own(&self, own: &mut Option<Bundle>) -> Result<bool, CertificateError> {
        let Some(secret) = self.read(role_secret(Role::Operator)).await? else {
            return Ok(own.is_some());
        };
        let bundle = secrets::bundle(&secret);
        if own.as_ref() != Some(&bundle) {
            self.tls.install(&bundle)?;
            *own = Some(bundle);
        }
        Ok(true)
    }

    async fn read(&self, name: &str) -> Result<Option<Secret>, CertificateError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        secrets.get_opt(name).await.map_err(|error| CertificateError::Read(name.to_owned(), error))
    }

    async fn write(&self, secret: &Secret) -> Result<(), CertificateError> {
        let (secrets, name) =
            (Api::<Secret>::namespaced(self.client.clone(), &self.namespace), secret.name_any());
        let params = PatchParams::apply(MANAGER).force();
        let written = secrets.patch(&name, &params, &Patch::Apply(secret)).await;
        written.map_err(|error| CertificateError::Write(name.clone(), error))?;
        tracing::info!(secret = name, "wrote certificates");
        Ok(())
    }

    async fn owner(&self) -> Result<Option<OwnerReference>, CertificateError> {
        let Some(deployment) = &self.deployment else { return Ok(None) };
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = deployments.get_opt(deployment).await;
        let found = found.map_err(|error| CertificateError::Owner(deployment.clone(), error))?;
        let no_owner = || CertificateError::NoOwner {
            deployment: deployment.clone(),
            namespace: self.namespace.clone(),
        };
        found.ok_or_else(no_owner).map(|found| found.owner_ref(&()))
    }
}
