//! The permits for transfers from registries.

use std::time::Duration;

use tenon_lifecycle::permits::NamespacePermits;

use super::{ArtifactError, Source};

/// The permits for transfers. Their total number is limited, and each namespace has one permit.
#[derive(Clone)]
pub(super) struct Pulls {
    permits: NamespacePermits,
    limit: Duration,
}

impl Pulls {
    /// Creates permits.
    ///
    /// # Arguments
    /// * `permits` - the maximum number of concurrent transfers.
    /// * `limit` - the time limit of a transfer. The wait for permits does not count.
    pub(super) fn new(permits: usize, limit: Duration) -> Self {
        Self { permits: NamespacePermits::new(permits, 1), limit }
    }

    /// Waits for the permits of a transfer, and then performs the transfer.
    ///
    /// # Errors
    /// Fails if the transfer fails or exceeds the time limit.
    pub(super) async fn within<T>(
        &self,
        source: &Source,
        transfer: impl Future<Output = Result<T, impl Into<ArtifactError>>>,
    ) -> Result<T, ArtifactError> {
        let _permit = self.permits.acquire(&source.namespace).await;
        match tokio::time::timeout(self.limit, transfer).await {
            Ok(result) => result.map_err(Into::into),
            Err(_) => {
                Err(ArtifactError::TimedOut { image: source.image.clone(), limit: self.limit })
            }
        }
    }
}
