//! A client of OCI registries, for artifacts of Workers only.
//!
//! Every call creates an [`oci_client::Client`], with its own connections and credentials. Such a
//! client finds credentials by the name of the registry alone, so a shared one could use those of
//! another tenant.

mod blob;

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use oci_client::client::{Certificate, CertificateEncoding, Client, ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageManifest};
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, RegistryOperation};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWrite;
use tokio::task::spawn_blocking;

use crate::archive::{self, MAX_CONFIG_BYTES, MAX_PACKED_BYTES, PackError, Packed, UnpackError};
use crate::files::MAX_PACKED_ASSETS;
use crate::{ASSETS_TYPE, BUNDLE_TYPE, Bundle, CONFIG_TYPE, Credentials, Pulled};
use blob::{blob, blob_into};

/// Time limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time between two pieces of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum size of a manifest, in bytes.
const MAX_MANIFEST_BYTES: usize = 256 * 1024;

/// Maximum length of a registry's message that an error repeats, in bytes.
const MAX_MESSAGE: usize = 300;

/// The settings of connections to registries.
#[derive(Clone, Debug, Default)]
pub struct RegistryConfig {
    /// Certificates of authorities, in PEM, to trust besides the authorities of the system.
    pub extra_roots: Vec<Vec<u8>>,
    /// Registries that are reached without TLS.
    pub plain_http: Vec<String>,
}

/// A client of registries. A client is cheap to clone.
#[derive(Clone)]
pub struct Registry {
    config: RegistryConfig,
}

/// The reason why an artifact cannot be pulled or pushed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("cannot use the certificates of authorities for registries: {0}")]
    Authorities(String),
    #[error("{image} does not exist; push it, or correct the reference")]
    NotFound { image: String },
    #[error("the registry denies access to {image}; check the credentials")]
    Unauthorized { image: String },
    #[error("{image} is not a Worker but {found}; push a Worker with tenon deploy --registry")]
    NotAWorker { image: String, found: String },
    #[error("{image} has no layer {digest} of static files")]
    NoAssets { image: String, digest: String },
    #[error("{image} has a blob of {bytes} bytes, more than the limit of a Worker allows")]
    TooLarge { image: String, bytes: i64 },
    #[error("{image} cannot be unpacked: {source}")]
    Unpack { image: String, source: UnpackError },
    #[error("the registry sent bytes that do not match {image}: {cause}")]
    WrongDigest { image: String, cause: String },
    #[error("cannot store the content of {image}: {cause}")]
    Store { image: String, cause: String },
    #[error("the registry of {image} is unavailable: {cause}")]
    Unreachable { image: String, cause: String },
    #[error("the registry refuses {image}: {cause}")]
    Refused { image: String, cause: String },
    #[error(transparent)]
    Pack(#[from] PackError),
}

impl RegistryError {
    /// Returns whether the same call may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Store { .. })
    }

    fn of(image: &Reference, error: OciDistributionError) -> Self {
        use OciDistributionError as E;
        let image = image.to_string();
        let cause = shorten(&error);
        match error {
            E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => {
                Self::Unauthorized { image }
            }
            E::ImageManifestNotFoundError(_) => Self::NotFound { image },
            E::UnsupportedMediaTypeError(found) => {
                Self::NotAWorker { image, found: shorten(&found) }
            }
            // An error of the network is not an `IoError`. An error of the disk has an OS error
            // number, and the error of [`blob::Bounded`] has none.
            E::IoError(error) if error.raw_os_error().is_some() => Self::Store { image, cause },
            E::DigestError(_) | E::IoError(_) => Self::WrongDigest { image, cause },
            E::ServerError { code: 404, .. } => Self::NotFound { image },
            E::ServerError { code: 401 | 403, .. } => Self::Unauthorized { image },
            E::ServerError { code: 400..=428 | 430..=499, .. } => Self::Refused { image, cause },
            E::RegistryError { envelope, .. } => {
                let is = |codes: &[OciErrorCode]| {
                    envelope.errors.iter().any(|error| codes.contains(&error.code))
                };
                if is(&[OciErrorCode::Unauthorized, OciErrorCode::Denied]) {
                    Self::Unauthorized { image }
                } else if is(&[
                    OciErrorCode::ManifestUnknown,
                    OciErrorCode::NameUnknown,
                    OciErrorCode::BlobUnknown,
                    OciErrorCode::NotFound,
                ]) {
                    Self::NotFound { image }
                } else if is(&[OciErrorCode::Toomanyrequests]) {
                    Self::Unreachable { image, cause }
                } else {
                    Self::Refused { image, cause }
                }
            }
            // The network, the server, or a proxy between them has failed.
            _ => Self::Unreachable { image, cause },
        }
    }
}

impl Registry {
    /// Creates a client. The client does not connect before the first call.
    ///
    /// # Errors
    /// Fails if one of the extra roots is not a certificate in PEM.
    pub fn new(config: RegistryConfig) -> Result<Self, RegistryError> {
        let registry = Self { config };
        // Without extra roots, a machine that has no authorities is accepted until the first call.
        if !registry.config.extra_roots.is_empty() {
            registry.client()?;
        }
        Ok(registry)
    }

    /// Returns the digest of an artifact's manifest, as `sha256:` and hexadecimal digits.
    ///
    /// # Errors
    /// Fails if the registry does not know the artifact, denies access to it, or cannot be reached.
    pub async fn resolve(
        &self,
        image: &Reference,
        credentials: &Credentials,
    ) -> Result<String, RegistryError> {
        let digest = self.client()?.fetch_manifest_digest(image, &auth(credentials)).await;
        digest.map_err(|error| RegistryError::of(image, error))
    }

    /// Pulls an artifact without its static files, and verifies every byte against the digest.
    ///
    /// # Arguments
    /// * `image` - a reference with a digest.
    ///
    /// # Errors
    /// Fails if the artifact is not that of a Worker, exceeds a limit, or cannot be pulled.
    pub async fn pull(
        &self,
        image: &Reference,
        credentials: &Credentials,
    ) -> Result<Pulled, RegistryError> {
        let client = self.client()?;
        let Descriptors { config, layer, assets } =
            fetch_descriptors(&client, image, credentials).await?;
        let config = blob(&client, image, &config, MAX_CONFIG_BYTES).await?;
        let layer = blob(&client, image, &layer, MAX_PACKED_BYTES).await?;
        // This takes milliseconds for a large bundle.
        let unpacked = spawn_blocking(move || archive::unpack(&config, &layer)).await;
        let bundle = unpacked
            .expect("unpacking panicked")
            .map_err(|source| RegistryError::Unpack { image: image.to_string(), source })?;
        Ok(Pulled { bundle, assets: assets.map(|assets| assets.digest) })
    }

    /// Pulls the layer with the static files of an artifact, and verifies it against its digest.
    ///
    /// # Arguments
    /// * `image` - a reference with a digest.
    /// * `digest` - the digest of the layer.
    /// * `output` - receives the compressed layer, or a part of it if the call fails.
    ///
    /// # Errors
    /// Fails if the artifact has no such layer, or the layer cannot be pulled.
    pub async fn pull_assets(
        &self,
        image: &Reference,
        credentials: &Credentials,
        digest: &str,
        output: impl AsyncWrite + Unpin,
    ) -> Result<(), RegistryError> {
        let client = self.client()?;
        let Descriptors { assets, .. } = fetch_descriptors(&client, image, credentials).await?;
        let no_assets =
            || RegistryError::NoAssets { image: image.to_string(), digest: digest.to_owned() };
        let assets = assets.filter(|assets| assets.digest == digest).ok_or_else(no_assets)?;
        blob_into(&client, image, &assets, MAX_PACKED_ASSETS, output).await
    }

    /// Pushes a bundle, and returns the reference of the artifact, with the digest. The artifact
    /// gets a tag that follows from its content, because some registries delete untagged artifacts.
    ///
    /// # Arguments
    /// * `repository` - the repository to push to. The tag of the reference is ignored.
    /// * `assets` - the layer with the static files, if the Worker has any.
    ///
    /// # Errors
    /// Fails if the bundle cannot be packed, or the registry does not accept the artifact or cannot
    /// be reached.
    pub async fn push(
        &self,
        repository: &Reference,
        credentials: &Credentials,
        bundle: &Bundle,
        assets: Option<Bytes>,
    ) -> Result<Reference, RegistryError> {
        let Packed { config, layer } = archive::pack(bundle)?;
        let (client, auth) = (self.client()?, auth(credentials));
        let manifest = manifest(&config, &layer, assets.as_ref());
        let digest = sha256(&manifest);
        let hex = digest.trim_start_matches("sha256:");
        let (registry, name) = (repository.registry(), repository.repository());
        let tagged =
            Reference::with_tag(registry.to_owned(), name.to_owned(), hex[..12].to_owned());
        let failed = |error| RegistryError::of(&tagged, error);
        client.auth(&tagged, &auth, RegistryOperation::Push).await.map_err(failed)?;
        for blob in [Some(config), Some(layer), assets].into_iter().flatten() {
            let digest = sha256(&blob);
            if !client.blob_exists(&tagged, &digest).await.map_err(failed)? {
                client.push_blob(&tagged, blob, &digest).await.map_err(failed)?;
            }
        }
        let type_ = OCI_IMAGE_MEDIA_TYPE.parse().expect("a media type is a header value");
        client.push_manifest_raw(&tagged, manifest, type_).await.map_err(failed)?;
        Ok(Reference::with_digest(registry.to_owned(), name.to_owned(), digest))
    }

    fn client(&self) -> Result<Client, RegistryError> {
        let RegistryConfig { extra_roots, plain_http } = &self.config;
        let certificate =
            |pem: &Vec<u8>| Certificate { encoding: CertificateEncoding::Pem, data: pem.clone() };
        let config = ClientConfig {
            protocol: ClientProtocol::HttpsExcept(plain_http.clone()),
            extra_root_certificates: extra_roots.iter().map(certificate).collect(),
            // An index of images for several platforms is not a Worker.
            platform_resolver: None,
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(READ_TIMEOUT),
            user_agent: concat!("tenon/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        Client::try_from(config).map_err(|error| RegistryError::Authorities(error.to_string()))
    }
}

fn auth(credentials: &Credentials) -> RegistryAuth {
    match credentials {
        Credentials::Anonymous => RegistryAuth::Anonymous,
        Credentials::Basic { username, password } => {
            RegistryAuth::Basic(username.clone(), password.clone())
        }
        Credentials::Bearer(token) => RegistryAuth::Bearer(token.clone()),
    }
}

/// The descriptors of an artifact's parts.
struct Descriptors {
    config: OciDescriptor,
    layer: OciDescriptor,
    assets: Option<OciDescriptor>,
}

async fn fetch_descriptors(
    client: &Client,
    image: &Reference,
    credentials: &Credentials,
) -> Result<Descriptors, RegistryError> {
    let manifest =
        client.pull_manifest_raw(image, &auth(credentials), &[OCI_IMAGE_MEDIA_TYPE]).await;
    parse_descriptors(image, &manifest.map_err(|error| RegistryError::of(image, error))?.0)
}

fn parse_descriptors(image: &Reference, manifest: &[u8]) -> Result<Descriptors, RegistryError> {
    let not_a_worker = |found: &str| RegistryError::NotAWorker {
        image: image.to_string(),
        found: shorten(&found),
    };
    if manifest.len() > MAX_MANIFEST_BYTES {
        return Err(not_a_worker("an artifact whose manifest is too large"));
    }
    let manifest: OciImageManifest = serde_json::from_slice(manifest)
        .map_err(|_| not_a_worker("an artifact without an image manifest"))?;
    // The client would request these URLs, and a tenant could name any address in the cluster.
    let without_urls = |descriptor| OciDescriptor { urls: None, ..descriptor };
    if manifest.config.media_type != CONFIG_TYPE {
        return Err(not_a_worker(&manifest.config.media_type));
    }
    let of_type = |media_type| {
        let mut layers = manifest.layers.iter().filter(move |layer| layer.media_type == media_type);
        (layers.next().cloned(), layers.next().is_some())
    };
    let (Some(layer), false) = of_type(BUNDLE_TYPE) else {
        return Err(not_a_worker("an artifact without exactly one bundle"));
    };
    let (assets, false) = of_type(ASSETS_TYPE) else {
        return Err(not_a_worker("an artifact with several layers of static files"));
    };
    Ok(Descriptors {
        config: without_urls(manifest.config),
        layer: without_urls(layer),
        assets: assets.map(without_urls),
    })
}

/// Returns the bytes of a manifest. Equal blobs have equal manifests.
fn manifest(config: &Bytes, layer: &Bytes, assets: Option<&Bytes>) -> Vec<u8> {
    let descriptor = |media_type: &str, blob: &Bytes| OciDescriptor {
        media_type: media_type.to_owned(),
        digest: sha256(blob),
        size: i64::try_from(blob.len()).expect("the size of a blob does not fit into an i64"),
        ..OciDescriptor::default()
    };
    let manifest = OciImageManifest {
        schema_version: 2,
        media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
        artifact_type: Some(CONFIG_TYPE.to_owned()),
        config: descriptor(CONFIG_TYPE, config),
        layers: [
            Some(descriptor(BUNDLE_TYPE, layer)),
            assets.map(|assets| descriptor(ASSETS_TYPE, assets)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        subject: None,
        annotations: None,
    };
    serde_json::to_vec(&manifest).expect("a manifest has string keys only")
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Returns the beginning of an error's text, which may contain the error page of a proxy.
fn shorten(error: &impl Display) -> String {
    let mut text = error.to_string();
    text.truncate(text.floor_char_boundary(MAX_MESSAGE));
    text
}
