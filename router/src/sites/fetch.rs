//! Fetches a pack from an operator.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use tenon_assets::Site;
use tenon_assets::pack::MAX_PACK_BYTES;
use tenon_lifecycle::disk_cache::DiskCache;
use tenon_proto::catalog::GetAssetsRequest;
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::id::{RevisionDigest, SiteId};
use tokio::task::spawn_blocking;
use tonic::{Code, Status};

use crate::server::Server;
use crate::sites::lock;

/// The pauses after failed attempts. An operator that is starting, or whose registry is
/// unreachable, may have the pack soon.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// The reason why a router does not have a site.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("the operator did not send the files: {0}")]
    Server(#[from] Box<Status>),
    #[error("the files cannot be stored: {0}")]
    Disk(#[from] io::Error),
}

/// Fetches a pack, keeps it on disk and opens it.
///
/// # Errors
/// Fails if no operator sends the pack, or the pack cannot be stored or opened.
pub(super) async fn fetch(
    server: &Server,
    disk: &Mutex<DiskCache<SiteId>>,
    site: SiteId,
    revision: RevisionDigest,
) -> Result<Site, FetchError> {
    let mut pauses = PAUSES.into_iter();
    let partial = loop {
        let partial = lock(disk).create_partial()?;
        let failed = match download(server, partial.file()?, revision).await {
            Ok(()) => break partial,
            Err(error) => error,
        };
        let may_succeed = |status: &Status| {
            !matches!(status.code(), Code::NotFound | Code::PermissionDenied | Code::Unimplemented)
        };
        match (&failed, pauses.next()) {
            (FetchError::Server(status), Some(pause)) if may_succeed(status) => {
                tokio::time::sleep(pause).await;
            }
            _ => return Err(failed),
        }
    };
    let file = partial.file()?;
    let opened = spawn_blocking(|| Site::of(file)).await.map_err(io::Error::from).flatten()?;
    lock(disk).adopt(site, &partial)?;
    Ok(opened)
}

async fn download(
    server: &Server,
    mut file: File,
    revision: RevisionDigest,
) -> Result<(), FetchError> {
    let channel = server.connect().await;
    let channel = channel.map_err(|error| Box::new(Status::from_error(error.into())))?;
    let request = GetAssetsRequest { digest: revision.as_bytes().to_vec() };
    let mut messages =
        CatalogClient::new(channel).get_assets(request).await.map_err(Box::new)?.into_inner();
    let mut room = MAX_PACK_BYTES;
    while let Some(message) = messages.message().await.map_err(Box::new)? {
        room = room.checked_sub(message.data.len() as u64).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the pack exceeds the maximum size")
        })?;
        let written = spawn_blocking(move || file.write_all(&message.data).map(|()| file)).await;
        file = written.map_err(io::Error::from).flatten()?;
    }
    Ok(())
}
