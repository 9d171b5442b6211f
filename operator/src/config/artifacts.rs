//! The arguments for OCI artifacts.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use tenon_proto::egress::HostPattern;

/// Public registries, which give no access to a private network.
const PUBLIC: &str =
    "docker.io,gcr.io,ghcr.io,public.ecr.aws,quay.io,registry.gitlab.com,*.azurecr.io,*.pkg.dev";

/// Arguments for the artifacts that Workers name as their source.
#[derive(ClapArgs, Clone, Debug)]
pub struct ArtifactArgs {
    /// Hosts of the registries from which artifacts may be pulled, each a name such as ghcr.io or
    /// registry.example.com:5000, or a pattern such as *.pkg.dev. An empty list allows none.
    #[arg(
        long,
        env = "TENON_REGISTRY",
        value_delimiter = ',',
        value_name = "HOST",
        default_value = PUBLIC
    )]
    pub registry: Vec<String>,
    /// Allowed registries that are reached without TLS.
    #[arg(long, env = "TENON_PLAIN_HTTP_REGISTRY", value_delimiter = ',', value_name = "HOST")]
    pub plain_http_registry: Vec<String>,
    /// File with certificates, in PEM, of authorities to trust for registries besides the
    /// authorities of the system.
    #[arg(long, env = "TENON_REGISTRY_CA", value_name = "FILE")]
    pub registry_ca: Option<PathBuf>,
    /// Directory in which the compiled code of artifacts survives a restart. No other process may
    /// use it.
    #[arg(long, env = "TENON_CODE_CACHE_DIR", value_name = "DIRECTORY")]
    pub code_cache_dir: Option<PathBuf>,
    /// Capacity of --code-cache-dir, in MiB.
    #[arg(
        long,
        env = "TENON_CODE_CACHE_MIB",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(32..)
    )]
    pub code_cache_mib: u32,
    /// Directory for the static files of Workers. No other process may use it. Defaults to a
    /// temporary directory.
    #[arg(long, env = "TENON_ASSETS_CACHE_DIR", value_name = "DIRECTORY")]
    pub assets_cache_dir: Option<PathBuf>,
    /// Capacity of --assets-cache-dir, in MiB. While a site is packed, up to twice 512 MiB more are
    /// in use.
    #[arg(
        long,
        env = "TENON_ASSETS_CACHE_MIB",
        default_value_t = 4096,
        value_parser = clap::value_parser!(u32).range(32..)
    )]
    pub assets_cache_mib: u32,
}

/// An invalid argument for artifacts.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactArgsError {
    #[error("--registry {0}")]
    Registry(#[from] tenon_proto::egress::InvalidHostPattern),
    #[error("--registry-ca: cannot read {}: {source}", path.display())]
    Authority { path: PathBuf, source: std::io::Error },
}

/// The validated configuration of artifacts.
#[derive(Clone, Debug)]
pub struct ArtifactConfig {
    pub allowed: Vec<HostPattern>,
    pub plain_http: Vec<String>,
    /// Certificates of further authorities, in PEM.
    pub authorities: Vec<Vec<u8>>,
    /// The directory of compiled code and its capacity, in bytes. If `None`, no code is stored on
    /// disk.
    pub cache: Option<(PathBuf, usize)>,
    /// The directory of static files and its capacity, in bytes.
    pub sites: (PathBuf, usize),
}

impl Default for ArtifactConfig {
    /// Allows no registry.
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            plain_http: Vec::new(),
            authorities: Vec::new(),
            cache: None,
            sites: (temporary_sites(), 1 << 30),
        }
    }
}

/// Returns a directory that no other process uses.
fn temporary_sites() -> PathBuf {
    std::env::temp_dir().join(format!("tenon-assets-{}", std::process::id()))
}

impl ArtifactArgs {
    /// Validates the arguments.
    ///
    /// # Errors
    /// Fails if a host is not a valid pattern, or the file cannot be read.
    pub(super) fn check(self) -> Result<ArtifactConfig, ArtifactArgsError> {
        let hosts = self.registry.iter().filter(|host| !host.is_empty());
        let capacity = (self.code_cache_mib as usize) << 20;
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|source| ArtifactArgsError::Authority { path: path.to_owned(), source })
        };
        Ok(ArtifactConfig {
            allowed: hosts.map(|host| host.parse()).collect::<Result<_, _>>()?,
            plain_http: self.plain_http_registry,
            authorities: self.registry_ca.as_deref().map(read).transpose()?.into_iter().collect(),
            cache: self.code_cache_dir.map(|directory| (directory, capacity)),
            sites: (
                self.assets_cache_dir.unwrap_or_else(temporary_sites),
                (self.assets_cache_mib as usize) << 20,
            ),
        })
    }
}
