//! Bundles of Workers as OCI artifacts.
//!
//! ```text
//!  Bundle ─► archive: config, layer ─► Registry: push ─┐
//!                                                      ▼  any registry
//!  Bundle ◄─ archive: bounded       ◄─ Registry: pull ─┘
//! ```
//!
//! An artifact is an OCI image manifest with a JSON config, which names the entrypoint, and one
//! layer, a tar archive of the modules that is compressed by zstd. Tools that know OCI artifacts,
//! such as crane, oras and cosign, can copy, list and sign it.
//!
//! - [`archive`]: from a bundle to the bytes of an artifact and back. Pure.
//! - [`Credentials`]: what a Docker configuration holds for a registry. Pure.
//! - [`Registry`]: a client of registries.
//!
//! The content of an artifact comes from a tenant: nothing is unpacked beyond the limits of
//! [`archive`].

pub mod archive;
mod credentials;
mod registry;

use std::collections::BTreeMap;

use bytes::Bytes;

pub use credentials::{Credentials, InvalidCredentials, TOKEN_USER};
pub use oci_client::Reference;
pub use registry::{Registry, RegistryConfig, RegistryError};

/// Media type of a Worker's config, and the artifact type of its manifest.
pub const CONFIG_TYPE: &str = "application/vnd.tenon.worker.config.v1+json";

/// Media type of the layer with a Worker's modules.
pub const BUNDLE_TYPE: &str = "application/vnd.tenon.worker.bundle.v1.tar+zstd";

/// The code of a Worker, as its author wrote or bundled it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Name of the module whose default export handles events, if the bundle names one.
    pub entrypoint: Option<String>,
    /// Source text by module name.
    pub modules: BTreeMap<String, Bytes>,
}
