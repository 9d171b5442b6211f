//! The cluster of a command, from kubectl's configuration.

use anyhow::anyhow;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

#[derive(clap::Args)]
pub(crate) struct ClusterArgs {
    /// Context of the kubeconfig. Defaults to the current one.
    #[arg(long)]
    context: Option<String>,

    /// Namespace of objects that name none. Defaults to the context's.
    #[arg(long, short)]
    namespace: Option<String>,
}

/// A client of the cluster's API server.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Namespace of objects that name none.
    pub(crate) namespace: String,
}

impl ClusterArgs {
    /// Returns a client, which does not connect before its first request.
    ///
    /// # Errors
    /// Fails if there is no configuration, or no such context.
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
