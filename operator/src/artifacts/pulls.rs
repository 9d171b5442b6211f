//! The permits for transfers from registries.

use std::sync::Arc;
use std::time::Duration;

use tenon_compiler::process::NamespaceSemaphores;
use tokio::sync::Semaphore;

use super::{ArtifactError, Source};

/// Permits for transfers: a number in total, and one for each namespace.
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
    /// * `limit` - the time limit of a transfer, once it has its permits.
    pub(super) fn new(permits: usize, limit: Duration) -> Self {
        let (permits, by_namespace) = (Arc::new(Semaphore::new(permits)), Default::default());
        Self { permits, by_namespace, limit }
    }

    /// Performs a transfer when it has its permits, within the time limit.
    ///
    /// # Errors
    /// Fails if the transfer does, or takes too long.
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
