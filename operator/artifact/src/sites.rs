//! Keeps static files for routers on the disk of the Pod, each site in one pack
//! ([`tenon_assets::pack`]).
//!
//! ```text
//!  layer ─► download: a partial file ─► pack: another file ─► entry of the disk cache
//! ```

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::future::Cache;
use tenon_assets::Packer;
use tenon_lifecycle::disk_cache::{DiskCache, Partial};
use tenon_proto::id::SiteId;
use tokio::io::AsyncWrite;
use tokio::task::spawn_blocking;

use crate::files::{self, AssetsError};

/// Maximum number of packs that stay open for further requests.
const MAX_OPEN: u64 = 64;
/// Time after the last request for which a pack stays open.
const OPEN_FOR: Duration = Duration::from_secs(60);

/// The reason why a site cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error("spec.assets: {0}")]
    Assets(#[from] AssetsError),
    #[error("cannot store the static files: {0}")]
    Disk(#[from] io::Error),
}

/// A handle to the sites of this process, which all clones of the handle share.
#[derive(Clone)]
pub struct Sites {
    disk: Arc<Mutex<DiskCache<SiteId>>>,
    open: Cache<SiteId, Arc<File>>,
}

/// A layer that is being downloaded. The file of the layer is removed when this value is dropped.
pub struct Download {
    file: tokio::fs::File,
    partial: Partial,
}

impl Download {
    /// Returns the writer for the layer.
    pub fn writer(&mut self) -> impl AsyncWrite + Unpin + Send {
        &mut self.file
    }
}

impl Sites {
    /// Opens the sites in a directory.
    ///
    /// # Arguments
    /// * `capacity` - the capacity of the directory, in bytes.
    ///
    /// # Errors
    /// Fails if the directory cannot be created or read.
    pub fn open(directory: PathBuf, capacity: usize) -> io::Result<Self> {
        let disk = Arc::new(Mutex::new(DiskCache::open(directory, capacity)?));
        let open = Cache::builder().max_capacity(MAX_OPEN).time_to_idle(OPEN_FOR).build();
        Ok(Self { disk, open })
    }

    /// Begins a download.
    ///
    /// # Errors
    /// Fails if the file of the download cannot be created.
    pub fn download(&self) -> Result<Download, SiteError> {
        let partial = lock(&self.disk).create_partial()?;
        Ok(Download { file: tokio::fs::File::from_std(partial.file()?), partial })
    }

    /// Returns the pack of a site. Concurrent callers wait for one download.
    ///
    /// # Arguments
    /// * `packed` - a future that downloads and packs the site. It runs only if the disk does not
    ///   have the pack.
    ///
    /// # Errors
    /// Fails if `packed` fails.
    pub async fn get_or<E: Send + Sync + 'static>(
        &self,
        id: SiteId,
        packed: impl Future<Output = Result<File, E>>,
    ) -> Result<Arc<File>, Arc<E>> {
        let found = async {
            let kept = lock(&self.disk).open_file(id);
            match kept {
                Some(file) => Ok(Arc::new(file)),
                None => packed.await.map(Arc::new),
            }
        };
        self.open.try_get_with(id, found).await
    }

    /// Packs a downloaded layer.
    ///
    /// # Errors
    /// Fails if the layer does not contain a site, or if the disk fails.
    pub async fn pack(&self, id: SiteId, layer: Download) -> Result<File, SiteError> {
        let Download { file, partial: download } = layer;
        let (mut layer, disk) = (file.into_std().await, self.disk.clone());
        // This takes seconds for a large site.
        let packed = spawn_blocking(move || {
            layer.rewind()?;
            let partial = lock(&disk).create_partial()?;
            files::pack(io::BufReader::new(layer), Packer::new(partial.file()?))?;
            lock(&disk).adopt(id, &partial)?;
            Ok(partial.file()?)
        });
        let packed = packed.await.expect("packing panicked");
        drop(download);
        packed
    }
}

fn lock(disk: &Mutex<DiskCache<SiteId>>) -> MutexGuard<'_, DiskCache<SiteId>> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tenon_assets::Site;
    use tenon_proto::id::ArtifactDigest;
    use tokio::io::AsyncWriteExt as _;

    fn layer(folder: &std::path::Path, content: &str) -> bytes::Bytes {
        let path = folder.join("index.html");
        fs::write(&path, content).unwrap();
        files::layer(&[("index.html".to_owned(), path)]).unwrap()
    }

    fn id(namespace: &str) -> SiteId {
        SiteId::of(namespace, &ArtifactDigest::new([1; 32]))
    }

    async fn download_and_pack(sites: &Sites, id: SiteId, layer: &[u8]) -> Result<File, SiteError> {
        let mut download = sites.download()?;
        download.writer().write_all(layer).await?;
        download.writer().flush().await?;
        sites.pack(id, download).await
    }

    #[tokio::test]
    async fn a_site_is_packed_once_and_survives_a_restart() {
        let (folder, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = || Sites::open(directory.path().join("sites"), 1 << 20).unwrap();
        let (sites, layer) = (open(), layer(folder.path(), "home"));
        let pack =
            sites.get_or(id("shop"), download_and_pack(&sites, id("shop"), &layer)).await.unwrap();
        let site = Site::of(pack.try_clone().unwrap()).unwrap();
        assert_eq!(site.file("index.html").unwrap().length, 4);

        let never =
            async { Err::<File, SiteError>(io::Error::other("the disk has the pack").into()) };
        assert!(open().get_or(id("shop"), never).await.is_ok());
        let missing = async { Err::<File, SiteError>(io::Error::other("gone").into()) };
        assert!(
            open().get_or(id("other"), missing).await.is_err(),
            "a namespace got the site of another namespace"
        );
    }

    #[tokio::test]
    async fn a_layer_that_is_not_a_site_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let sites = Sites::open(directory.path().to_owned(), 1 << 20).unwrap();
        let error = download_and_pack(&sites, id("shop"), b"no layer").await.unwrap_err();
        assert!(matches!(error, SiteError::Assets(_)), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
