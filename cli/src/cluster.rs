//! Connects commands to the cluster of kubectl's configuration, and reads its Workers and
//! revisions.

use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use anyhow::{anyhow, bail};
use futures::StreamExt as _;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, Config};
use tenon_crds::{Worker, WorkerRevision};
use tenon_operator::worker::plan::WORKER_LABEL;

#[derive(Default, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Context of the kubeconfig. Defaults to the current one.
    #[arg(long)]
    context: Option<String>,

    /// Namespace of objects that do not name one. Defaults to the context's.
    #[arg(long, short)]
    namespace: Option<String>,
}

/// A client of the cluster's API server.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// The namespace of objects whose manifest names none.
    pub(crate) namespace: String,
}

impl ClusterArgs {
    /// Returns a client, which does not connect before its first request.
    ///
    /// # Errors
    /// Fails if there is no valid configuration, or no such context.
    pub(crate) async fn connect(&self) -> anyhow::Result<Cluster> {
        let options = KubeConfigOptions { context: self.context.clone(), ..Default::default() };
        let config = match &self.context {
            None => Config::infer().await.map_err(|error| error.to_string()),
            Some(_) => match Kubeconfig::read() {
                Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
                Err(error) => Err(error),
            }
            .map_err(|error| error.to_string()),
        };
        // These errors contain their causes.
        let config = config.map_err(|error| {
            anyhow!("cannot find a cluster; set KUBECONFIG, or choose a --context: {error}")
        })?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Cluster { client: Client::try_from(config)?, namespace })
    }
}

impl Cluster {
    /// Returns a Worker of the namespace.
    ///
    /// # Errors
    /// Fails if the Worker does not exist or cannot be read. The error says which.
    pub(crate) async fn worker(&self, name: &str) -> anyhow::Result<Worker> {
        let workers: Api<Worker> = Api::namespaced(self.client.clone(), &self.namespace);
        let what = format!("Worker {}/{name}", self.namespace);
        let found = workers.get_opt(name).await;
        let found = found.map_err(|error| anyhow!("cannot read {what}: {error}"))?;
        found.ok_or_else(|| anyhow!("{what} does not exist; choose another name or --namespace"))
    }

    /// Watches a Worker until `judge` breaks with a result. `judge` continues with the reason why
    /// the command has to wait.
    ///
    /// # Arguments
    /// * `limit` - the maximum time to wait.
    /// * `failure` - the predicate of the error after `limit`, such as "is not serving requests".
    ///
    /// # Errors
    /// Fails as `judge` does, if the Worker is deleted, or after `limit`.
    pub(crate) async fn await_worker<T>(
        &self,
        (namespace, name): (&str, &str),
        limit: Duration,
        failure: &str,
        judge: impl Fn(&Worker) -> ControlFlow<anyhow::Result<T>, String>,
    ) -> anyhow::Result<T> {
        let workers: Api<Worker> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("Worker {namespace}/{name}");
        let mut last = "the status is not known".to_owned();
        let settled = async {
            let mut states = pin!(watch_object(workers, name).default_backoff());
            loop {
                match states.next().await {
                    Some(Ok(Some(worker))) => match judge(&worker) {
                        ControlFlow::Break(result) => return result,
                        ControlFlow::Continue(why) => last = why,
                    },
                    Some(Ok(None)) => bail!("{what} was deleted while waiting"),
                    Some(Err(error)) => last = format!("cannot watch the Worker: {error}"),
                    None => bail!("the watch of {what} ended"),
                }
            }
        };
        let settled = tokio::time::timeout(limit, settled).await;
        settled.unwrap_or_else(|_| {
            Err(anyhow!("{what} {failure} after {} s: {last}", limit.as_secs()))
        })
    }

    /// Returns the revisions of a Worker, in no particular order.
    ///
    /// # Errors
    /// Fails if they cannot be listed.
    pub(crate) async fn revisions(&self, worker: &str) -> anyhow::Result<Vec<WorkerRevision>> {
        let revisions: Api<WorkerRevision> = Api::namespaced(self.client.clone(), &self.namespace);
        let of_worker = ListParams::default().labels(&format!("{WORKER_LABEL}={worker}"));
        let listed = revisions.list(&of_worker).await;
        let listed = listed.map_err(|error| {
            anyhow!("cannot list the WorkerRevisions of namespace {}: {error}", self.namespace)
        })?;
        Ok(listed.items)
    }
}
