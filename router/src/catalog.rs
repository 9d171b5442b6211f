//! The catalog's client: one long-running watch, on a thread of its own. The figures of rollouts go
//! to the operator that is watched, on the same connection.
//!
//! ```text
//!  Watch(resume) ─► SNAPSHOT … SNAPSHOT_END ─► replace the table     DELTA ─► change the table
//!        ▲                                                                        │
//!        └──────────── pause (grows, jittered) ◄── the stream ended ◄─────────────┘
//! ```
//!
//! If the operator fails, the router continues to use its last table. A snapshot replaces the table
//! only when it is complete, so a stream that breaks in the middle of one changes nothing.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use prometheus::{IntGauge, Registry};
use tenon_https::Https;
use tenon_lifecycle::metrics::Register as _;
use tenon_lifecycle::readiness;
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::watch_response::Kind;
use tenon_proto::catalog::{Cursor, GatewayCertificate, WatchRequest, WatchResponse, Worker};
use tenon_proto::id::{RevisionDigest, SiteId};
use tenon_table::{Published, Table};
use tokio::sync::watch;
use tonic::Streaming;

use crate::figures::Reporter;
use crate::server::Server;
use crate::sites::Sites;

/// The first and the longest pause after a lost stream.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The maximum size of a message, in bytes. Operators send a snapshot in parts of a few thousand
/// entries; the limit leaves room for the longest possible entries.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// The place where the table is published.
pub(crate) struct Publisher {
    pub(crate) published: Published,
    /// Wakes the tasks that wait for a change.
    pub(crate) changes_tx: watch::Sender<()>,
}

/// Keeps the published table up to date with the catalog.
pub(crate) struct Client {
    /// The name of this router in the operator's log.
    name: String,
    server: Arc<Server>,
    state: State,
    /// The certificates of Gateways that belong to a snapshot which is still incomplete.
    arriving_certificates: Vec<GatewayCertificate>,
    /// TLS with clients, which gets the certificates of Gateways.
    https: Option<Https>,
    publisher: Publisher,
    sites: Sites,
    /// Held until the first table has been published.
    ready: Option<readiness::Handle>,
    metrics: CatalogMetrics,
}

/// The metrics of the catalog.
pub(crate) struct CatalogMetrics {
    workers: IntGauge,
    routes: IntGauge,
    nodes: IntGauge,
    /// 1 while the catalog is watched.
    connected: IntGauge,
}

impl CatalogMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            workers: registry.gauge("tenon_router_workers", "Workers in the table.")?,
            routes: registry.gauge("tenon_router_routes", "Routes in the table.")?,
            nodes: registry.gauge("tenon_router_nodes", "Nodes in the table.")?,
            connected: registry.gauge(
                "tenon_router_catalog_connected",
                "1 while the catalog is watched, 0 otherwise.",
            )?,
        })
    }
}

/// The state that the messages build up.
#[derive(Default)]
struct State {
    table: Table,
    cursor: Option<Cursor>,
    /// A snapshot that is still incomplete.
    arriving: Option<Table>,
}

impl State {
    /// Applies a message. Returns whether the table has changed.
    fn apply(&mut self, mut message: WatchResponse) -> bool {
        let cursor = message.cursor.take();
        match message.kind() {
            Kind::Snapshot | Kind::SnapshotEnd => {
                let is_last = message.kind() == Kind::SnapshotEnd;
                let mut table = self.arriving.take().unwrap_or_else(|| self.table.begin_snapshot());
                table.apply(message);
                if !is_last {
                    self.arriving = Some(table);
                    return false;
                }
                self.table = table;
            }
            Kind::Delta => self.table.apply(message),
            Kind::Unspecified => {
                tracing::error!("received a catalog message of an unknown kind");
                return false;
            }
        }
        self.cursor = cursor;
        true
    }

    /// Discards an incomplete snapshot after its stream has ended: the next stream begins a new
    /// one.
    fn forget_arriving(&mut self) {
        self.arriving = None;
    }
}

impl Client {
    pub(crate) fn new(
        name: String,
        server: Arc<Server>,
        publisher: Publisher,
        sites: Sites,
        https: Option<Https>,
        ready: readiness::Handle,
        metrics: CatalogMetrics,
    ) -> Self {
        let (state, ready, arriving_certificates) = (State::default(), Some(ready), Vec::new());
        Self { name, server, state, arriving_certificates, https, publisher, sites, ready, metrics }
    }

    /// Watches the catalog forever.
    ///
    /// # Arguments
    /// * `reporter` - reports to each operator while it is watched.
    pub(crate) async fn run(mut self, mut reporter: Reporter) -> std::convert::Infallible {
        let mut pause = PAUSE_MIN;
        loop {
            match self.watch(&mut pause, &mut reporter).await {
                Ok(()) => tracing::info!("the catalog's stream ended"),
                Err(status) => {
                    let (code, message) = (status.code(), status.message());
                    tracing::warn!(?code, message, "cannot watch the catalog");
                }
            }
            self.metrics.connected.set(0);
            self.state.forget_arriving();
            self.arriving_certificates.clear();
            // The pause is jittered in its upper half, so that many routers that lost one operator
            // do not reconnect at the same time.
            tokio::time::sleep(pause.mul_f64(fastrand::f64() / 2.0 + 0.5)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn watch(
        &mut self,
        pause: &mut Duration,
        reporter: &mut Reporter,
    ) -> Result<(), tonic::Status> {
        let channel = self.server.connect().await;
        let channel = channel.map_err(|error| tonic::Status::from_error(error.into()))?;
        let mut client = CatalogClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        let request = WatchRequest { client: self.name.clone(), resume: self.state.cursor.clone() };
        let stream = client.watch(request).await?.into_inner();
        self.metrics.connected.set(1);
        tokio::select! {
            ended = self.follow(stream, pause) => ended,
            never = reporter.run(client) => match never {},
        }
    }

    async fn follow(
        &mut self,
        mut stream: Streaming<WatchResponse>,
        pause: &mut Duration,
    ) -> Result<(), tonic::Status> {
        while let Some(mut message) = stream.message().await? {
            // The stream works, so the backoff starts over.
            *pause = PAUSE_MIN;
            self.install_certificates(&mut message);
            let changed = changed_assets(&message);
            if self.state.apply(message) {
                self.publish();
                for (site, revision) in changed {
                    self.sites.prepare(site, revision);
                }
            }
        }
        Ok(())
    }

    /// Installs the certificates of Gateways. Those of a snapshot replace all others once the
    /// snapshot is complete.
    fn install_certificates(&mut self, message: &mut WatchResponse) {
        let arrived = mem::take(&mut message.certificates);
        let removed = mem::take(&mut message.removed_certificates);
        let Some(https) = &self.https else { return };
        let is_delta = message.kind() == Kind::Delta;
        if is_delta && arrived.is_empty() && removed.is_empty() {
            return;
        }
        self.arriving_certificates.retain(|known| !removed.contains(&known.host));
        self.arriving_certificates.extend(arrived);
        if message.kind() == Kind::Snapshot {
            return;
        }
        let all = mem::take(&mut self.arriving_certificates);
        let set = all.iter().map(|GatewayCertificate { host, certificate, key }| {
            (host.as_str(), Some((&**certificate, &**key)))
        });
        let removed = removed.iter().map(|host| (host.as_str(), None));
        https.set_gateways(!is_delta, removed.chain(set));
    }

    fn publish(&mut self) {
        self.publisher.published.store(Arc::new(self.state.table.clone()));
        self.publisher.changes_tx.send_replace(());
        self.metrics.workers.set(self.state.table.worker_count() as i64);
        self.metrics.routes.set(self.state.table.route_count() as i64);
        self.metrics.nodes.set(self.state.table.node_count() as i64);
        if self.ready.take().is_some() {
            let table = &self.state.table;
            tracing::info!(
                workers = table.worker_count(),
                nodes = table.node_count(),
                "received the catalog"
            );
        }
    }
}

/// Returns the static files of the Workers that a delta announces, each with a revision that serves
/// them. The static files of a snapshot's Workers are fetched when they are requested.
fn changed_assets(message: &WatchResponse) -> Vec<(SiteId, RevisionDigest)> {
    if message.kind() != Kind::Delta {
        return Vec::new();
    }
    let sites_of = |worker: &Worker| {
        let variants = worker.variants.iter().map(|variant| (&variant.assets, &variant.digest));
        let all = std::iter::once((&worker.assets, &worker.digest)).chain(variants);
        let sites = all.filter_map(|(assets, digest)| {
            let site = SiteId::try_from(&assets.as_ref()?.site[..]).ok()?;
            Some((site, RevisionDigest::try_from(&digest[..]).ok()?))
        });
        sites.collect::<Vec<_>>()
    };
    message.workers.iter().flat_map(sites_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_proto::catalog::Route;

    fn message(kind: Kind, version: u64, names: &[&str]) -> WatchResponse {
        let worker = |name: &&str| Worker {
            id: format!("a/{name}"),
            digest: vec![1; 32],
            routes: vec![Route { host: name.to_string(), path: "/".into() }],
            ..Default::default()
        };
        WatchResponse {
            kind: kind.into(),
            cursor: Some(Cursor { epoch: "e".into(), version }),
            workers: names.iter().map(worker).collect(),
            ..Default::default()
        }
    }

    fn serves(state: &State, host: &str) -> bool {
        state.table.route(host, "/").is_some()
    }

    #[test]
    fn a_snapshot_replaces_the_table_when_it_is_complete() {
        let mut state = State::default();
        assert!(state.apply(message(Kind::SnapshotEnd, 1, &["old"])));
        assert!(!state.apply(message(Kind::Snapshot, 2, &["new"])));
        assert!(serves(&state, "old") && !serves(&state, "new"));
        assert!(state.apply(message(Kind::SnapshotEnd, 2, &["newer"])));
        assert!(!serves(&state, "old") && serves(&state, "new") && serves(&state, "newer"));
        assert_eq!(state.cursor.unwrap().version, 2);
    }

    #[test]
    fn an_incomplete_snapshot_leaves_the_table_unchanged() {
        let mut state = State::default();
        state.apply(message(Kind::SnapshotEnd, 1, &["old"]));
        state.apply(message(Kind::Snapshot, 2, &["half"]));
        state.forget_arriving();
        assert_eq!(
            state.cursor.as_ref().unwrap().version,
            1,
            "the watch would resume from an incomplete snapshot"
        );
        state.apply(message(Kind::Delta, 2, &["more"]));
        assert!(serves(&state, "old") && serves(&state, "more") && !serves(&state, "half"));
    }

    #[test]
    fn a_message_of_an_unknown_kind_changes_nothing() {
        let mut state = State::default();
        assert!(!state.apply(message(Kind::Unspecified, 9, &["x"])));
        assert!(state.cursor.is_none() && !serves(&state, "x"));
    }
}
