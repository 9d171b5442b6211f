//! The permits for transfers from registries.

use std::sync::Arc;
use std::time::Duration;

use tenon_compiler::process::NamespaceSemaphores;
use tokio::sync::Semaphore;

use super::{ArtifactError, Source};

/// The permits for transfers. Their total number is limited, and each namespace has one permit.
#[derive(Clone)]
pub(super) struct Pulls {
    permits: Arc<Semaphore>,
    by_namespace: NamespaceSemaphores,
    limit: Duration,
}

impl Pulls {
    /// Creates permits.
    ///
    /// # Arguments
    /// * `permits` - the maximum number of concurrent transfers.
    /// * `limit` - the time limit of a transfer. The wait for permits does not count.
    pub(super) fn new(permits: usize, limit: Duration) -> Self {
        let (permits, by_namespace) = (Arc::new(Semaphore::new(permits)), Default::default());
        Self { permits, by_namespace, limit }
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
        let _permit = self.by_namespace.acquire(&source.namespace).await;
        let _pull = self.permits.acquire().await.expect("the semaphore is never closed");
        match tokio::time::timeout(self.limit, transfer).await {
            Ok(result) => result.map_err(Into::into),
            Err(_) => {
                Err(ArtifactError::TimedOut { image: source.image.clone(), limit: self.limit })
            }
        }
    }
}
