//! Writes the statuses of the Gateway API's objects, on the leader.
//!
//! [`tenon_gateway::status`] decides what a status says; the index of every replica takes in the
//! objects themselves. A status is written only if it has changed, with the resource version that
//! was read, because other controllers write to the status of an HTTPRoute too.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};
use tenon_gateway::Subject;
use tenon_gateway::objects::{Gateway, GatewayClass, HttpRoute};
use tokio::sync::{mpsc, watch};

use crate::index::{GatewayStatusUpdate, SharedIndex};
use crate::metrics::Metrics;
use crate::worker::MANAGER;
use crate::worker::queue::{self, Author, Order, Tenanted};

/// The dependencies of the writer.
pub struct Context {
    pub client: Client,
    pub index: SharedIndex,
    /// Receives the objects whose statuses may have changed.
    pub touched_rx: mpsc::UnboundedReceiver<Subject>,
    pub leading_rx: watch::Receiver<bool>,
    pub metrics: Arc<Metrics>,
}

/// The error for a status that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot set the status: {0}")]
pub struct StatusError(#[from] kube::Error);

impl Tenanted for Subject {
    fn tenant(&self) -> &str {
        match self {
            Self::Class(_) => "",
            Self::Gateway((namespace, _)) | Self::Route((namespace, _)) => namespace,
        }
    }
}

/// Writes the statuses whenever this replica leads, for the lifetime of the process.
pub async fn run(context: Context) {
    let Context { client, index, touched_rx, leading_rx, metrics } = context;
    let all = || index.with(|index| index.gateway_subjects());
    let write = |subject: Subject| {
        let (client, index, metrics) = (client.clone(), index.clone(), metrics.clone());
        async move {
            let status = index.with(|index| index.gateway_status(&subject, Timestamp::now()));
            let Some(status) = status else { return Ok(None) };
            let timer = metrics.reconcile("GatewayAPI");
            let result = set_status(&client, status).await;
            timer.ended(result.is_ok());
            result.map(|()| None::<Duration>)
        }
    };
    let (order, author) = (Order::OldestFirst, |_: &Subject| Author::default());
    queue::run(touched_rx, leading_rx, all, write, order, author, metrics.queue("GatewayAPI"))
        .await;
}

async fn set_status(client: &Client, status: GatewayStatusUpdate) -> Result<(), StatusError> {
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let client = client.clone();
    let result = match status {
        GatewayStatusUpdate::Class { name, version, status } => {
            let classes = Api::<GatewayClass>::all(client);
            classes.patch_status(&name, &params, &patch(version, status)).await.map(drop)
        }
        GatewayStatusUpdate::Gateway { key: (namespace, name), version, status } => {
            let gateways = Api::<Gateway>::namespaced(client, &namespace);
            gateways.patch_status(&name, &params, &patch(version, status)).await.map(drop)
        }
        GatewayStatusUpdate::Route { key: (namespace, name), version, status } => {
            let routes = Api::<HttpRoute>::namespaced(client, &namespace);
            routes.patch_status(&name, &params, &patch(version, status)).await.map(drop)
        }
    };
    match result {
        // The object was changed or deleted meanwhile, and its watch reports that.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        result => Ok(result?),
    }
}

fn patch(version: Option<String>, status: impl Serialize) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": status}))
}
