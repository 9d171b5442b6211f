//! Keeps the static files of Workers on disk, in one pack for each site.
//!
//! ```text
//!  request ─► Sites: open? ─► disk ─► fetch from an operator ─► disk
//!                       └──────┴──────────────────────────────────► Site ─► read, compressed
//! ```
//!
//! All threads share the sites. A request for an open site takes no lock. Sites are fetched on the
//! catalog's thread and opened on threads for blocking work, even if the request that waits for
//! them ends.
//!
//! - [`fetch`]: fetches a pack from an operator.
//! - [`read`]: reads contents without blocking the thread.
//! - [`compressed`]: contents in the codings that clients accept, each compressed once.
//! - [`metrics`]: the metrics of static files.
//!
//! Of the router's other modules, these depend only on [`server`](crate::server).

pub(crate) mod compressed;
mod fetch;
pub(crate) mod metrics;
pub(crate) mod read;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::future::Cache;
use tenon_assets::Site;
use tenon_lifecycle::disk_cache::DiskCache;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, SiteId};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::server::Server;
use crate::sites::compressed::Compressed;
use crate::sites::fetch::FetchError;
use crate::sites::metrics::SiteMetrics;

/// The maximum memory for the indexes of open sites, in bytes.
const MAX_INDEX_MEMORY: u64 = 64 << 20;

/// The minimum memory that an open site is charged, in bytes, because it also takes a file
/// descriptor.
const MIN_SITE_MEMORY: usize = 64 << 10;

/// The maximum number of packs that are fetched concurrently. Each pack may take half a gibibyte on
/// disk in addition to the capacity.
const MAX_FETCHES: usize = 3;

/// The maximum time for which a request waits for a site.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// The place where sites are kept.
#[derive(Clone, Debug)]
pub struct SitesConfig {
    /// A directory that no other process uses.
    pub directory: PathBuf,
    /// The capacity, in bytes.
    pub capacity: usize,
}

impl Default for SitesConfig {
    /// Returns a temporary directory with room for a gibibyte.
    fn default() -> Self {
        let name = format!("tenon-sites-{}-{:08x}", std::process::id(), fastrand::u32(..));
        Self { directory: std::env::temp_dir().join(name), capacity: 1 << 30 }
    }
}

/// The sites of a router, shared by all clones.
#[derive(Clone)]
pub(crate) struct Sites {
    open: Cache<SiteId, Arc<Site>>,
    pub(crate) compressed: Compressed,
    disk: Arc<Mutex<DiskCache<SiteId>>>,
    server: Arc<Server>,
    fetches: Arc<Semaphore>,
    pub(crate) metrics: SiteMetrics,
    /// The runtime of the catalog's thread.
    runtime: Handle,
}

impl Sites {
    /// Opens the directory.
    ///
    /// # Arguments
    /// * `server` - the server from which packs are fetched.
    /// * `runtime` - the runtime that fetches and opens packs.
    ///
    /// # Errors
    /// Fails if the directory cannot be created or read.
    pub(crate) fn new(
        config: SitesConfig,
        server: Arc<Server>,
        metrics: SiteMetrics,
        runtime: Handle,
    ) -> io::Result<Self> {
        let disk = DiskCache::open(config.directory, config.capacity)?;
        let weight = |_: &SiteId, site: &Arc<Site>| {
            u32::try_from(site.memory().max(MIN_SITE_MEMORY)).unwrap_or(u32::MAX)
        };
        Ok(Self {
            open: Cache::builder().weigher(weight).max_capacity(MAX_INDEX_MEMORY).build(),
            compressed: Compressed::default(),
            disk: Arc::new(Mutex::new(disk)),
            server,
            fetches: Arc::new(Semaphore::new(MAX_FETCHES)),
            metrics,
            runtime,
        })
    }

    /// Returns a site, which is fetched if this router does not have it.
    ///
    /// # Arguments
    /// * `revision` - a revision that serves the site.
    ///
    /// # Errors
    /// Fails if the site cannot be fetched and opened within [`LONGEST_WAIT`].
    pub(crate) async fn get(
        &self,
        site: SiteId,
        revision: RevisionDigest,
    ) -> Result<Arc<Site>, Failure> {
        if let Some(open) = self.open.get(&site).await {
            return Ok(open);
        }
        let sites = self.clone();
        let opening = self.runtime.spawn(async move { sites.open(site, revision).await });
        match tokio::time::timeout(LONGEST_WAIT, opening).await {
            Ok(Ok(Ok(open))) => Ok(open),
            Ok(Ok(Err(error))) => Err(unavailable(&error.to_string())),
            Ok(Err(_)) => Err(unavailable("the router is shutting down")),
            Err(_) => Err(unavailable("the files are still being fetched")),
        }
    }

    /// Fetches and opens a site that will soon be requested.
    pub(crate) fn prepare(&self, site: SiteId, revision: RevisionDigest) {
        let sites = self.clone();
        self.runtime.spawn(async move { sites.open(site, revision).await.is_ok() });
    }

    async fn open(
        &self,
        site: SiteId,
        revision: RevisionDigest,
    ) -> Result<Arc<Site>, Arc<FetchError>> {
        let found = async {
            let kept = lock(&self.disk).open_file(site);
            if let Some(file) = kept {
                match spawn_blocking(|| Site::of(file)).await.map_err(io::Error::from).flatten() {
                    Ok(open) => return Ok(Arc::new(open)),
                    Err(error) => {
                        tracing::warn!(%site, %error, "a pack is damaged; fetching it again")
                    }
                }
            }
            let _fetch = self.fetches.acquire().await.expect("the semaphore was closed");
            let fetched = fetch::fetch(&self.server, &self.disk, site, revision).await;
            self.metrics.record_fetch(fetched.is_ok());
            fetched.map(Arc::new).inspect_err(|error| {
                tracing::warn!(%site, %revision, %error, "cannot fetch static files");
            })
        };
        self.open.try_get_with(site, found).await
    }
}

fn lock(disk: &Mutex<DiskCache<SiteId>>) -> MutexGuard<'_, DiskCache<SiteId>> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unavailable(why: &str) -> Failure {
    Failure::new(
        FailureCode::AssetsUnavailable,
        Phase::Admission,
        format!("the Worker's static files cannot be served now: {why}"),
    )
}
