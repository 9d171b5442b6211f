//! The static files of revisions. The catalog gets their packs when a router requests them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, Stream};
use tenon_proto::catalog::GetAssetsResponse;
use tenon_proto::revision::Revision;
use tokio::task::spawn_blocking;
use tonic::Status;

use super::Catalog;

/// A function that returns the pack of a revision's static files, or `None` if it is unavailable;
/// the log then says why.
pub type AssetsSource =
    Arc<dyn Fn(Arc<Revision>) -> BoxFuture<'static, Option<Arc<File>>> + Send + Sync>;

/// Maximum size of the part of a pack in one message, in bytes.
const PIECE: usize = 256 * 1024;

impl Catalog {
    /// Sets the source of the packs of static files. Later calls have no effect.
    pub fn set_assets_source(&self, source: AssetsSource) {
        let _ = self.shared.assets.set(source);
    }

    /// Returns the pack of a revision's static files, or `None` if it is unavailable.
    pub(super) async fn pack(&self, revision: Arc<Revision>) -> Option<Arc<File>> {
        // This runs in a task of its own, because a caller that disconnects will ask again, and the
        // work is then done.
        tokio::spawn(self.shared.assets.get()?(revision)).await.ok().flatten()
    }
}

/// Returns the messages that carry a pack.
pub(super) fn messages(
    pack: Arc<File>,
) -> impl Stream<Item = Result<GetAssetsResponse, Status>> + Send {
    stream::unfold(Some((pack, 0)), |state| async {
        let (pack, offset) = state?;
        let read = spawn_blocking(move || read(&pack, offset).map(|data| (data, pack))).await;
        match read.map_err(io::Error::from).flatten() {
            Ok((data, _)) if data.is_empty() => None,
            Ok((data, pack)) => {
                let next = offset + data.len() as u64;
                Some((Ok(GetAssetsResponse { data: data.into() }), Some((pack, next))))
            }
            Err(error) => Some((Err(Status::data_loss(error.to_string())), None)),
        }
    })
}

/// Reads the next piece, which is empty at the end.
fn read(pack: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut data = vec![0; PIECE];
    let read = pack.read_at(&mut data, offset)?;
    data.truncate(read);
    Ok(data)
}
