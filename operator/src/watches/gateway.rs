//! Watches the objects of the Gateway API while their kinds exist.
//!
//! ```text
//!  discovery: no such kinds ─► synced, ask again in ten seconds
//!                ▼ ▲
//!  the kinds exist: watch each of them, and ask whether they still exist; after a minute without
//!                   them, they count as deleted
//! ```
//!
//! Most clusters that lack the kinds never get them, so their absence is not an error, and only
//! discovery is asked, which every account may use.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, SelectAll};
use futures::{FutureExt as _, StreamExt as _};
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::observe::{Observation, Observations, observe};
use crate::index::Change;
use crate::metrics::Metrics;

/// The name under which all kinds of the Gateway API together are reported as synced.
pub(super) const GATEWAY_API: &str = "GatewayAPI";

/// The version of the API that has the kinds, and the names of those that must exist.
const VERSION: &str = "gateway.networking.k8s.io/v1";
const RESOURCES: [&str; 3] = ["gatewayclasses", "gateways", "httproutes"];

/// Interval between two requests for discovery.
const INTERVAL: Duration = Duration::from_secs(10);

/// The number of consecutive requests that must not find the kinds before they count as deleted. An
/// API server that has just started may not list them yet, and the routes must survive its restart.
const ABSENCES: u32 = 6;

/// Watches the kinds of the Gateway API, and waits for them while they do not exist.
pub(super) fn observe_gateway_api(client: Client, metrics: Arc<Metrics>) -> Observations {
    let mut interval = interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watch = Watch {
        client,
        metrics,
        interval,
        kinds: None,
        unsynced: HashSet::new(),
        synced: false,
        absences: 0,
    };
    Box::pin(stream::unfold(watch, |mut watch| async {
        let observation = watch.next().await;
        Some((observation, watch))
    }))
}

struct Watch {
    client: Client,
    metrics: Arc<Metrics>,
    interval: Interval,
    /// The watches of all kinds, while the kinds exist.
    kinds: Option<SelectAll<Observations>>,
    /// The kinds that have not been listed yet.
    unsynced: HashSet<&'static str>,
    /// Whether [`GATEWAY_API`] has been reported as synced.
    synced: bool,
    /// The number of consecutive requests that did not find the kinds.
    absences: u32,
}

impl Watch {
    async fn next(&mut self) -> Observation {
        loop {
            let observed = match &mut self.kinds {
                Some(kinds) => tokio::select! {
                    observed = kinds.next() => observed,
                    _ = self.interval.tick() => None,
                },
                None => self.interval.tick().map(|_| None).await,
            };
            match observed {
                Some(Observation::Synced(kind)) => {
                    self.unsynced.remove(kind);
                    if self.unsynced.is_empty() && !std::mem::replace(&mut self.synced, true) {
                        return Observation::Synced(GATEWAY_API);
                    }
                }
                Some(observed) => return observed,
                None => match (exist(&self.client).await, self.kinds.is_some()) {
                    (Ok(true), false) => self.watch_kinds(),
                    (Ok(true), true) => self.absences = 0,
                    (Ok(false), true) if self.absences + 1 < ABSENCES => self.absences += 1,
                    (Ok(false), true) => {
                        self.absences = 0;
                        tracing::info!("the kinds of the Gateway API no longer exist");
                        self.kinds = None;
                        return Observation::Change(Box::new(Change::NoGatewayApi));
                    }
                    (Ok(false), false) if !std::mem::replace(&mut self.synced, true) => {
                        return Observation::Synced(GATEWAY_API);
                    }
                    (Ok(false), false) => {}
                    (Err(error), _) => {
                        tracing::debug!(%error, "cannot discover the Gateway API; retrying");
                    }
                },
            }
        }
    }

    fn watch_kinds(&mut self) {
        tracing::info!("the kinds of the Gateway API exist; watching them");
        let (client, any) = (&self.client, watcher::Config::default);
        let metrics = &self.metrics;
        let class = Change::GatewayClass;
        let grant = Change::ReferenceGrant;
        self.unsynced = HashSet::from(["GatewayClass", "Gateway", "HTTPRoute", "ReferenceGrant"]);
        self.kinds = Some(stream::select_all([
            observe(Api::all(client.clone()), "GatewayClass", any(), class, metrics),
            observe(Api::all(client.clone()), "Gateway", any(), Change::Gateway, metrics),
            observe(Api::all(client.clone()), "HTTPRoute", any(), Change::HttpRoute, metrics),
            observe(Api::all(client.clone()), "ReferenceGrant", any(), grant, metrics),
        ]));
    }
}

/// Returns whether the kinds of the Gateway API exist.
async fn exist(client: &Client) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(VERSION).await {
        Ok(list) => {
            Ok(RESOURCES.iter().all(|name| list.resources.iter().any(|found| found.name == *name)))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}
