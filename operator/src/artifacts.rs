//! Pulls and compiles the code of Workers in OCI artifacts, and caches the compiled modules.
//!
//! ```text
//!  plan of the leader:  image ─► resolve ─► digest ─► pull ─► bundle ─► entrypoint ─┐
//!  request of a node:   WorkerRevision: digest, entrypoint ─────────────────────────┤
//!                                                                                   ▼
//!                            compiled: memory ─► disk ─► pull and compile ─► modules
//! ```
//!
//! Compiled modules follow from the artifact and the compiler, so no object stores them: every
//! replica compiles them again when no cache has them. A plan uses only what was pulled with the
//! credentials of its own namespace: knowing the digest of another tenant's artifact is not enough.
//!
//! A tenant chooses the name of a registry, so a registry is contacted only if the administrator
//! allows it. A namespace pulls one artifact at a time, so a slow registry does not delay other
//! namespaces while fewer than `PULLS` namespaces use it.
//!
//! - [`error`]: the reasons why an artifact cannot be used.
//! - [`pulls`]: the permits of transfers.

mod error;
mod pulls;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use moka::future::Cache;
use tenon_artifact::sites::Sites;
use tenon_artifact::store::{CodeKey, Store};
use tenon_artifact::{Credentials, Pulled, Reference, Registry};
use tenon_catalog::Modules;
use tenon_compiler::process::{Compiler, Job};
use tenon_proto::egress::HostPattern;
use tenon_proto::id::{ArtifactDigest, SiteId};
use tenon_proto::revision::CompatibilityFlag;

use crate::revision;
pub use error::ArtifactError;
use pulls::Pulls;

/// Maximum number of artifacts whose code is pulled concurrently. Each artifact takes up to 35 MiB
/// while it is unpacked: 10 MiB of compressed and 25 MiB of unpacked modules.
const PULLS: usize = 4;

/// Maximum number of sites that are pulled and packed concurrently. Each site takes up to a
/// gibibyte on disk.
const ASSET_PULLS: usize = 2;

/// Time limit of a pull of code.
const PULL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of a pull of static files, which may be large.
const ASSETS_TIMEOUT: Duration = Duration::from_secs(300);

/// Capacity of the cache of bundles, in bytes.
const BUNDLES: u64 = 64 << 20;
/// Lifetime of a cached bundle: the duration of a deployment of many Workers that share the bundle.
const BUNDLE_LIFETIME: Duration = Duration::from_secs(60);

/// Capacity of the cache of compiled modules, in bytes.
const COMPILED: u64 = 64 << 20;

/// The key in a pull Secret, which is the key that the kubelet reads.
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// A reference to an artifact in a Worker or WorkerRevision.
#[derive(Clone)]
pub struct Source {
    /// Namespace of the Worker.
    pub namespace: String,
    /// Reference of the artifact, with a tag or a digest.
    pub image: String,
    /// The digest to which the reference was resolved, if it has been resolved.
    pub digest: Option<ArtifactDigest>,
    /// The Secret with the credentials of the registry, if the Worker names one.
    pub pull_secret: Option<Arc<Secret>>,
    /// The flags, which determine the built-in modules that can be imported.
    pub flags: BTreeSet<CompatibilityFlag>,
    /// Whether the Worker serves the artifact's static files.
    pub assets: bool,
}

/// An artifact whose modules have been compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    pub digest: ArtifactDigest,
    pub entrypoint: String,
    /// Digest of the layer with the static files, if there is one.
    pub assets: Option<ArtifactDigest>,
}

/// The identity of a pulled bundle and of the credentials with which it was pulled.
#[derive(Clone, PartialEq, Eq, Hash)]
struct BundleKey {
    namespace: String,
    repository: String,
    digest: ArtifactDigest,
    /// Uid and version of the Secret.
    secret: Option<(String, String)>,
}

/// A handle to the artifacts, whose caches and permits all clones share.
#[derive(Clone)]
pub struct Artifacts {
    registry: Registry,
    allowed: Arc<[HostPattern]>,
    compiler: Compiler,
    bundles: Cache<BundleKey, Arc<Pulled>>,
    compiled: Cache<CodeKey, Modules>,
    store: Store,
    sites: Sites,
    pulls: Pulls,
    /// The permits for static files, which must not delay code.
    asset_pulls: Pulls,
}

impl Artifacts {
    /// Creates a handle. No registry is contacted before the first artifact is needed.
    ///
    /// # Arguments
    /// * `allowed` - the registries that may be contacted, by host.
    pub fn new(
        registry: Registry,
        allowed: impl Into<Arc<[HostPattern]>>,
        compiler: Compiler,
        store: Store,
        sites: Sites,
    ) -> Self {
        let weight = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        Self {
            registry,
            allowed: allowed.into(),
            compiler,
            bundles: Cache::builder()
                .weigher(move |_, pulled: &Arc<Pulled>| weight(size(&pulled.bundle.modules)))
                .max_capacity(BUNDLES)
                .time_to_live(BUNDLE_LIFETIME)
                .build(),
            compiled: Cache::builder()
                .weigher(move |_, modules: &Modules| weight(size(modules)))
                .max_capacity(COMPILED)
                .build(),
            store,
            sites,
            pulls: Pulls::new(PULLS, PULL_TIMEOUT),
            asset_pulls: Pulls::new(ASSET_PULLS, ASSETS_TIMEOUT),
        }
    }

    /// Resolves, pulls and compiles an artifact for the plan of a Worker.
    ///
    /// # Arguments
    /// * `entrypoint` - the entrypoint that the Worker names. If it names none, the entrypoint that
    ///   the artifact names is used, or else the default name of an entrypoint.
    ///
    /// # Errors
    /// Fails if the artifact cannot be pulled or compiled, or if the Worker serves static files and
    /// these cannot be pulled and packed.
    pub async fn compile(
        &self,
        source: &Source,
        entrypoint: Option<&str>,
    ) -> Result<Compiled, Arc<ArtifactError>> {
        let digest = match source.digest {
            Some(digest) => digest,
            None => self.resolve(source).await?,
        };
        let pulled = self.bundle(source, digest).await?;
        let requested = entrypoint.or(pulled.bundle.entrypoint.as_deref());
        let entrypoint = revision::entrypoint(requested, &pulled.bundle.modules)
            .map_err(|error| Arc::new(error.into()))?;
        let assets = self.assets_of(source, digest, pulled.assets.as_deref()).await?;
        self.compiled_or(source, digest, &entrypoint, async { Ok(pulled) }).await?;
        Ok(Compiled { digest, entrypoint, assets })
    }

    /// Pulls and packs the static files of an artifact, if the Worker serves them.
    async fn assets_of(
        &self,
        source: &Source,
        digest: ArtifactDigest,
        layer: Option<&str>,
    ) -> Result<Option<ArtifactDigest>, Arc<ArtifactError>> {
        if !source.assets {
            return Ok(None);
        }
        let none = || ArtifactError::NoAssets { image: source.image.clone() };
        let layer = layer.and_then(|layer| layer.parse().ok()).ok_or_else(none);
        let layer = layer.map_err(Arc::new)?;
        self.site(source, digest, layer).await?;
        Ok(Some(layer))
    }

    /// Returns the pack of an artifact's static files. If the disk does not have the pack, the
    /// files are pulled.
    ///
    /// # Arguments
    /// * `layer` - the digest of the layer with the files.
    ///
    /// # Errors
    /// Fails if the disk does not have the pack, and the layer cannot be pulled and packed again.
    pub async fn site(
        &self,
        source: &Source,
        digest: ArtifactDigest,
        layer: ArtifactDigest,
    ) -> Result<Arc<File>, Arc<ArtifactError>> {
        let id = SiteId::of(&source.namespace, &layer);
        let packed = async {
            let reference = self.reference(source)?;
            let pinned = reference.clone_with_digest(digest.to_string());
            let credentials = credentials(source, &reference)?;
            let layer = layer.to_string();
            let mut download = self.sites.download()?;
            let output = download.writer();
            self.registry.pull_assets(&pinned, &credentials, &layer, output).await?;
            Ok::<_, ArtifactError>(self.sites.pack(id, download).await?)
        };
        self.sites.get_or(id, self.asset_pulls.within(source, packed)).await
    }

    /// Returns the compiled modules of an accepted artifact.
    ///
    /// # Arguments
    /// * `source` - the reference to the artifact. `digest` is used in place of its tag.
    ///
    /// # Errors
    /// Fails if no cache has the modules, and the artifact cannot be pulled and compiled again.
    pub async fn modules(
        &self,
        source: &Source,
        digest: ArtifactDigest,
        entrypoint: &str,
    ) -> Result<Modules, Arc<ArtifactError>> {
        self.compiled_or(source, digest, entrypoint, self.bundle(source, digest)).await
    }

    /// Returns compiled modules, and compiles them from `bundle` if no cache has them.
    async fn compiled_or(
        &self,
        source: &Source,
        digest: ArtifactDigest,
        entrypoint: &str,
        bundle: impl Future<Output = Result<Arc<Pulled>, Arc<ArtifactError>>>,
    ) -> Result<Modules, Arc<ArtifactError>> {
        let key = CodeKey::new(digest, entrypoint, &source.flags);
        let made = async {
            if let Some(modules) = self.store.read(key).await {
                return Ok(Arc::new(modules));
            }
            let job = Job {
                modules: bundle.await?.bundle.modules.clone(),
                entrypoint: entrypoint.to_owned(),
                flags: source.flags.clone(),
            };
            let outcome = self.compiler.compile(&source.namespace, &job).await;
            let modules = outcome
                .map_err(ArtifactError::from)
                .and_then(|outcome| outcome.map_err(|errors| ArtifactError::Invalid { errors }))
                .map_err(Arc::new)?;
            self.store.write(key, &modules);
            Ok(Arc::new(modules))
        };
        self.compiled
            .try_get_with(key, made)
            .await
            .map_err(|error: Arc<Arc<ArtifactError>>| Arc::clone(&*error))
    }

    /// Returns the bundle with this digest. The bundle is pulled once for all concurrent callers.
    async fn bundle(
        &self,
        source: &Source,
        digest: ArtifactDigest,
    ) -> Result<Arc<Pulled>, Arc<ArtifactError>> {
        let reference = self.reference(source).map_err(Arc::new)?;
        let pinned = reference.clone_with_digest(digest.to_string());
        let secret = source.pull_secret.as_ref().map(|secret| {
            let metadata = &secret.metadata;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (text(&metadata.uid), text(&metadata.resource_version))
        });
        let bundle = BundleKey {
            namespace: source.namespace.clone(),
            repository: format!("{}/{}", reference.registry(), reference.repository()),
            digest,
            secret,
        };
        let pulled = async {
            let credentials = credentials(source, &reference)?;
            let pull = self.registry.pull(&pinned, &credentials);
            self.pulls.within(source, pull).await.map(Arc::new)
        };
        self.bundles.try_get_with(bundle, pulled).await
    }

    async fn resolve(&self, source: &Source) -> Result<ArtifactDigest, Arc<ArtifactError>> {
        let resolved = async {
            let reference = self.reference(source)?;
            let credentials = credentials(source, &reference)?;
            let resolved = self.registry.resolve(&reference, &credentials);
            let digest = self.pulls.within(source, resolved).await?;
            digest.parse().map_err(|error| {
                ArtifactError::Reference(format!(
                    "{} has digest {digest:?}: {error}; push the artifact with a SHA-256 digest",
                    source.image
                ))
            })
        };
        resolved.await.map_err(Arc::new)
    }

    /// Parses the reference of an artifact in an allowed registry.
    fn reference(&self, source: &Source) -> Result<Reference, ArtifactError> {
        let reference: Reference = source.image.parse().map_err(|error| {
            ArtifactError::Reference(format!(
                "{:?} is not an image reference: {error}",
                source.image
            ))
        })?;
        let registry = reference.registry();
        let (host, port) = match registry.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().unwrap_or_default()),
            None => (registry, HTTPS),
        };
        if self.allowed.iter().any(|pattern| pattern.matches(host, port)) {
            Ok(reference)
        } else {
            Err(ArtifactError::NotAllowed(registry.to_owned()))
        }
    }
}

/// The port of a registry whose name contains none.
const HTTPS: u16 = 443;

fn credentials(source: &Source, reference: &Reference) -> Result<Credentials, ArtifactError> {
    let Some(secret) = &source.pull_secret else { return Ok(Credentials::Anonymous) };
    let unusable = |cause: String| ArtifactError::Credentials { name: secret.name_any(), cause };
    let config = secret.data.as_ref().and_then(|data| data.get(DOCKER_CONFIG));
    let config = config.ok_or_else(|| {
        unusable(
            "the key is missing; create the Secret with kubectl create secret docker-registry"
                .to_owned(),
        )
    })?;
    Credentials::from_docker_config(&config.0, reference.registry())
        .map_err(|error| unusable(error.to_string()))
}

/// Returns the size of modules and their names, in bytes.
fn size(modules: &BTreeMap<String, Bytes>) -> usize {
    modules.iter().map(|(name, content)| name.len() + content.len()).sum()
}
