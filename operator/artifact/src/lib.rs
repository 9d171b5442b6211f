//! Bundles of Workers as OCI artifacts.
//!
//! ```text
//!  Bundle ─► archive: config, layer ─► Registry: push ─┐
//!                                                      ▼  any registry
//!  Bundle ◄─ archive: bounded       ◄─ Registry: pull ─┘
//! ```
//!
//! An artifact is an OCI image manifest with a JSON config, which names the entrypoint, and one
//! layer, a zstd-compressed tar archive of the modules. A second layer of the same form has the
//! static files, if there are any. Tools that know OCI artifacts, such as crane, oras and cosign,
//! can copy, list and sign such an artifact.
//!
//! - [`archive`]: the conversion of a bundle into the bytes of an artifact, and back. Pure.
//! - [`files`]: the conversion of static files into a layer, and of a layer into a pack.
//! - [`Credentials`]: the credentials of a registry, from a Docker configuration. Pure.
//! - [`Registry`]: a client of registries.
//! - [`store`]: compiled modules of artifacts, on disk.
//! - [`sites`]: static files of artifacts, on disk.
//!
//! The content of an artifact comes from a tenant: nothing is unpacked beyond the limits of
//! [`archive`] and [`files`].

pub mod archive;
mod credentials;
pub mod files;
mod registry;
pub mod sites;
pub mod store;

use std::collections::BTreeMap;

use bytes::Bytes;

pub use credentials::{Credentials, InvalidCredentials, TOKEN_USER};
pub use oci_client::Reference;
pub use registry::{Registry, RegistryConfig, RegistryError};

/// Media type of a Worker's config, and the artifact type of its manifest.
pub const CONFIG_TYPE: &str = "application/vnd.tenon.worker.config.v1+json";

/// Media type of the layer with a Worker's modules.
pub const BUNDLE_TYPE: &str = "application/vnd.tenon.worker.bundle.v1.tar+zstd";

/// Media type of the layer with a Worker's static files.
pub const ASSETS_TYPE: &str = "application/vnd.tenon.worker.assets.v1.tar+zstd";

/// The code of a Worker, as its author wrote or bundled it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Name of the module whose default export handles events, if the bundle names one.
    pub entrypoint: Option<String>,
    /// Content of each module, by its name.
    pub modules: BTreeMap<String, Bytes>,
}

/// An artifact without its static files, which may be large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    pub bundle: Bundle,
    /// Digest of the layer with the static files, as `sha256:` and hexadecimal digits, if the
    /// artifact has such a layer.
    pub assets: Option<String>,
}
