//! The reason why an artifact cannot be used.

use std::time::Duration;

use tenon_artifact::RegistryError;
use tenon_artifact::sites::SiteError;
use tenon_compiler::CompileError;
use tenon_compiler::process::CompilerError;

use super::DOCKER_CONFIG;
use crate::revision::SnapshotError;

/// The reason why an artifact cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error(
        "spec.source.oci.image: the operator may not pull from {0}; use an allowed registry, or \
         have an administrator add the registry to operator.registries of the chart"
    )]
    NotAllowed(String),
    #[error("spec.source.oci.image: {0}")]
    Reference(String),
    #[error(
        "spec.source.oci.pullSecretRef: Secret {name:?} has no usable {DOCKER_CONFIG}: {cause}"
    )]
    Credentials { name: String, cause: String },
    #[error("spec.source.oci.image: {0}")]
    Registry(#[from] RegistryError),
    #[error("spec.source.oci.image: {image} was not pulled within {} s; retrying", limit.as_secs())]
    TimedOut { image: String, limit: Duration },
    #[error(
        "spec.assets: {image} has no static files; push them with tenon deploy --registry, or \
         remove spec.assets"
    )]
    NoAssets { image: String },
    #[error(transparent)]
    Site(#[from] SiteError),
    #[error(transparent)]
    Entrypoint(#[from] SnapshotError),
    #[error("cannot compile the modules: {0}")]
    Compiler(#[from] CompilerError),
    #[error("{}", tenon_compiler::report(errors))]
    Invalid { errors: Vec<CompileError> },
}

impl ArtifactError {
    /// Returns whether another attempt may succeed without a change in the cluster.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Registry(error) => error.is_transient(),
            Self::TimedOut { .. } | Self::Compiler(_) | Self::Site(SiteError::Disk(_)) => true,
            _ => false,
        }
    }

    /// Returns whether the registry may answer differently later, for example because a missing tag
    /// is pushed.
    pub fn is_from_registry(&self) -> bool {
        matches!(self, Self::Registry(_) | Self::TimedOut { .. })
    }
}
