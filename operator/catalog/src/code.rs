//! The modules of revisions whose code is in OCI artifacts. The catalog holds such revisions
//! without their modules, and gets the modules when a node requests them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use tenon_proto::revision::Revision;

use super::Catalog;

/// A function that returns the modules of a revision whose code is in an OCI artifact, or `None` if
/// they are unavailable. If an attempt to get them failed, the log says why.
pub type CodeSource =
    Arc<dyn Fn(Arc<Revision>) -> BoxFuture<'static, Option<Modules>> + Send + Sync>;

/// Modules by name, shared by their users.
pub type Modules = Arc<BTreeMap<String, Bytes>>;

impl Catalog {
    /// Sets the source of the modules of revisions whose code is in artifacts. Later calls have no
    /// effect.
    pub fn set_code_source(&self, source: CodeSource) {
        let _ = self.shared.code.set(source);
    }

    /// Starts to get the modules of a revision that nodes will soon request, if they are in an
    /// artifact.
    pub fn prepare(&self, revision: &Arc<Revision>) {
        if revision.artifact.is_some()
            && let Some(source) = self.shared.code.get()
        {
            tokio::spawn(source(Arc::clone(revision)));
        }
    }

    /// Returns the revision with its modules, or `None` if they are unavailable.
    pub(super) async fn with_modules(&self, revision: Arc<Revision>) -> Option<Arc<Revision>> {
        if revision.artifact.is_none() {
            return Some(revision);
        }
        // The source runs in a task of its own, so that it continues if the caller disconnects. The
        // caller will ask again, and then finds the modules in a cache.
        let source = self.shared.code.get()?(Arc::clone(&revision));
        let modules = tokio::spawn(source).await.ok().flatten()?;
        Some(Arc::new(Revision { modules: (*modules).clone(), ..(*revision).clone() }))
    }
}
