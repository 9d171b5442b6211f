//! Follows the operator's list of revisions that no node of the pool may run now.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::{QuarantinedRevision, WatchQuarantineRequest};
use tenon_proto::id::RevisionDigest;
use tonic::{Code, Status};

use super::quarantine::AnnouncedQuarantine;
use super::{Shared, lock};
use crate::config::Config;
use crate::source;

/// First and longest pause between attempts to reach the operator; the pause doubles after each
/// attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Follows the operator's list forever. While the operator is unreachable, a node refuses only the
/// revisions that an earlier list contained or that the node has judged itself.
pub(super) async fn follow(shared: Arc<Shared>, config: Config) {
    let mut client = CatalogClient::new(source::connect(config.catalog.ready, config.tls));
    let mut pause = FIRST_PAUSE;
    loop {
        let request = WatchQuarantineRequest { client: format!("node/{}", config.name) };
        let status = match client.watch_quarantine(request).await {
            Ok(answer) => {
                pause = FIRST_PAUSE;
                let mut lists = answer.into_inner();
                loop {
                    match lists.message().await {
                        Ok(Some(list)) => handle_list(&shared, list.revisions),
                        Ok(None) => break Status::unavailable("the operator ended the stream"),
                        Err(status) => break status,
                    }
                }
            }
            Err(status) => status,
        };
        // An older operator does not serve this list.
        if status.code() == Code::Unimplemented {
            pause = LONGEST_PAUSE;
        }
        tracing::debug!(%status, "cannot watch the quarantines of other nodes; retrying");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn handle_list(shared: &Shared, revisions: Vec<QuarantinedRevision>) {
    let announced = revisions.into_iter().filter_map(|revision| {
        let digest = RevisionDigest::try_from(&revision.digest[..]).ok()?;
        Some(AnnouncedQuarantine {
            digest,
            remaining: Duration::from_millis(revision.remaining_ms),
            times: revision.times,
        })
    });
    let fresh = lock(&shared.placement).quarantines.merge(announced.collect(), Instant::now());
    fresh.iter().for_each(|digest| shared.send_release(digest, true, |_| true));
}
