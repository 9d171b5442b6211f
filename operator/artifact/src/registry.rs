//! A client of OCI registries, for artifacts of Workers only.
//!
//! Every call has a connection and a store of tokens of its own, because a token is kept by the
//! name of its registry: another tenant's call must not find it.

use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use std::io;

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
use crate::{BUNDLE_TYPE, Bundle, CONFIG_TYPE, Credentials};

/// Time limits of a connection: until it is established, and between two pieces of a response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// The largest manifest, in bytes.
const MAX_MANIFEST_BYTES: usize = 256 * 1024;

/// The longest message of a registry that an error repeats, in bytes.
const MAX_MESSAGE: usize = 300;

/// How to reach registries.
#[derive(Clone, Debug, Default)]
pub struct RegistryConfig {
    /// Certificates of authorities in PEM, trusted besides those of the system.
    pub extra_roots: Vec<Vec<u8>>,
    /// Registries that are reached without TLS.
    pub plain_http: Vec<String>,
}

/// A client of registries. Cheap to clone.
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
    #[error("the registry does not let this client use {image}; check the credentials")]
    Unauthorized { image: String },
    #[error("{image} is not a Worker but {found}; push a Worker with tenon deploy --registry")]
    NotAWorker { image: String, found: String },
    #[error("{image} has a blob of {bytes} bytes, more than a Worker's may have")]
    TooLarge { image: String, bytes: i64 },
    #[error("{image} cannot be unpacked: {source}")]
    Unpack { image: String, source: UnpackError },
    #[error("the registry sent other bytes than those of {image}: {cause}")]
    WrongDigest { image: String, cause: String },
    #[error("the registry cannot be reached for {image}: {cause}")]
    Unreachable { image: String, cause: String },
    #[error("the registry refuses {image}: {cause}")]
    Refused { image: String, cause: String },
    #[error(transparent)]
    Pack(#[from] PackError),
}

impl RegistryError {
    /// Returns whether the same call may succeed later, although nothing was changed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    fn of(image: &Reference, error: OciDistributionError) -> Self {
        use OciDistributionError as E;
        let image = image.to_string();
        let cause = shortened(&error);
        match error {
            E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => {
                Self::Unauthorized { image }
            }
            E::ImageManifestNotFoundError(_) => Self::NotFound { image },
            E::UnsupportedMediaTypeError(found) => {
                Self::NotAWorker { image, found: shortened(&found) }
            }
            // From [`Bounded`]; those of the network are of another kind.
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
            // Failures of the network, of the server, and of a proxy in between.
            _ => Self::Unreachable { image, cause },
        }
    }
}

impl Registry {
    /// Creates a client. Nothing is connected before the first call.
    ///
    /// # Errors
    /// Fails if an authority is not a certificate.
    pub fn new(config: RegistryConfig) -> Result<Self, RegistryError> {
        let registry = Self { config };
        // Without any, a machine that has no authorities at all fails only when it pulls.
        if !registry.config.extra_roots.is_empty() {
            registry.client()?;
        }
        Ok(registry)
    }

    /// Returns the digest of an artifact's manifest, `sha256:` and hexadecimal.
    ///
    /// # Errors
    /// Fails if the registry does not know the artifact, or cannot be asked.
    pub async fn resolve(
        &self,
        image: &Reference,
        credentials: &Credentials,
    ) -> Result<String, RegistryError> {
        let digest = self.client()?.fetch_manifest_digest(image, &auth(credentials)).await;
        digest.map_err(|error| RegistryError::of(image, error))
    }

    /// Pulls an artifact, and verifies every byte against the digest.
    ///
    /// # Arguments
    /// * `image` - with a digest.
    ///
    /// # Errors
    /// Fails if the artifact is not a Worker's, exceeds a limit, or cannot be pulled now.
    pub async fn pull(
        &self,
        image: &Reference,
        credentials: &Credentials,
    ) -> Result<Bundle, RegistryError> {
        let (client, auth) = (self.client()?, auth(credentials));
        let failed = |error| RegistryError::of(image, error);
        let (manifest, _) = client
            .pull_manifest_raw(image, &auth, &[OCI_IMAGE_MEDIA_TYPE])
            .await
            .map_err(failed)?;
        let (config, layer) = descriptors(image, &manifest)?;
        let config = blob(&client, image, &config, MAX_CONFIG_BYTES).await?;
        let layer = blob(&client, image, &layer, MAX_PACKED_BYTES).await?;
        // Milliseconds for a large bundle.
        let unpacked = spawn_blocking(move || archive::unpack(&config, &layer)).await;
        unpacked
            .expect("unpacking does not panic")
            .map_err(|source| RegistryError::Unpack { image: image.to_string(), source })
    }

    /// Pushes a bundle, and returns its reference with the digest. The artifact gets a tag that
    /// follows from its content, so that a registry that deletes untagged artifacts keeps it.
    ///
    /// # Arguments
    /// * `repository` - its tag is ignored.
    ///
    /// # Errors
    /// Fails if the bundle exceeds a limit, or the registry does not take it.
    pub async fn push(
        &self,
        repository: &Reference,
        credentials: &Credentials,
        bundle: &Bundle,
    ) -> Result<Reference, RegistryError> {
        let Packed { config, layer } = archive::pack(bundle)?;
        let (client, auth) = (self.client()?, auth(credentials));
        let manifest = manifest(&config, &layer);
        let digest = sha256(&manifest);
        let hex = digest.trim_start_matches("sha256:");
        let (registry, name) = (repository.registry(), repository.repository());
        let tagged =
            Reference::with_tag(registry.to_owned(), name.to_owned(), hex[..12].to_owned());
        let failed = |error| RegistryError::of(&tagged, error);
        client.auth(&tagged, &auth, RegistryOperation::Push).await.map_err(failed)?;
        for blob in [config, layer] {
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

/// Returns the descriptors of a manifest's config and of its only layer.
fn descriptors(
    image: &Reference,
    manifest: &[u8],
) -> Result<(OciDescriptor, OciDescriptor), RegistryError> {
    let not_a_worker = |found: &str| RegistryError::NotAWorker {
        image: image.to_string(),
        found: shortened(&found),
    };
    if manifest.len() > MAX_MANIFEST_BYTES {
        return Err(not_a_worker("something with a manifest that is too large"));
    }
    let manifest: OciImageManifest = serde_json::from_slice(manifest)
        .map_err(|_| not_a_worker("something without an image manifest"))?;
    // The client would request them, and a tenant could name any address in the cluster.
    let without_urls = |descriptor| OciDescriptor { urls: None, ..descriptor };
    if manifest.config.media_type != CONFIG_TYPE {
        return Err(not_a_worker(&manifest.config.media_type));
    }
    let mut layers = manifest.layers.into_iter().filter(|layer| layer.media_type == BUNDLE_TYPE);
    match (layers.next(), layers.next()) {
        (Some(layer), None) => Ok((without_urls(manifest.config), without_urls(layer))),
        _ => Err(not_a_worker("an artifact without exactly one bundle")),
    }
}

/// Returns a manifest's bytes, which are the same for the same blobs.
fn manifest(config: &Bytes, layer: &Bytes) -> Vec<u8> {
    let descriptor = |media_type: &str, blob: &Bytes| OciDescriptor {
        media_type: media_type.to_owned(),
        digest: sha256(blob),
        size: i64::try_from(blob.len()).expect("blobs are small"),
        ..OciDescriptor::default()
    };
    let manifest = OciImageManifest {
        schema_version: 2,
        media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
        artifact_type: Some(CONFIG_TYPE.to_owned()),
        config: descriptor(CONFIG_TYPE, config),
        layers: vec![descriptor(BUNDLE_TYPE, layer)],
        subject: None,
        annotations: None,
    };
    serde_json::to_vec(&manifest).expect("a manifest has string keys only")
}

/// Pulls a blob, and no more of it than its descriptor says.
async fn blob(
    client: &Client,
    image: &Reference,
    descriptor: &OciDescriptor,
    limit: usize,
) -> Result<Vec<u8>, RegistryError> {
    let size = usize::try_from(descriptor.size).ok().filter(|size| *size <= limit);
    let too_large = || RegistryError::TooLarge { image: image.to_string(), bytes: descriptor.size };
    let mut bounded = Bounded { bytes: Vec::new(), room: size.ok_or_else(too_large)? };
    let pulled = client.pull_blob(image, descriptor, &mut bounded).await;
    pulled.map_err(|error| RegistryError::of(image, error))?;
    Ok(bounded.bytes)
}

/// Collects a stream of bytes up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    room: usize,
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(room) = self.room.checked_sub(piece.len()) else {
            return Poll::Ready(Err(io::Error::other("a blob is longer than its descriptor says")));
        };
        self.room = room;
        self.bytes.extend_from_slice(piece);
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Returns the text of an error, which may contain a page of a proxy.
fn shortened(error: &impl Display) -> String {
    let mut text = error.to_string();
    text.truncate(text.floor_char_boundary(MAX_MESSAGE));
    text
}
