//! Tests pulls from registries that are public, private, unavailable or hostile.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tenon_artifact::archive::{self, Packed};
use tenon_artifact::{
    ASSETS_TYPE, BUNDLE_TYPE, Bundle, CONFIG_TYPE, Credentials, Reference, Registry,
    RegistryConfig, RegistryError,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A registry that serves fixed bodies by path.
struct FakeRegistry {
    address: SocketAddr,
    /// The paths that have been requested.
    paths: Arc<Mutex<Vec<String>>>,
}

impl FakeRegistry {
    /// Starts a registry.
    ///
    /// # Arguments
    /// * `bodies` - the body of the response for each path.
    /// * `password` - the password of the only user, `me`. If `None`, the registry is public.
    async fn start(bodies: BTreeMap<String, Vec<u8>>, password: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("cannot bind a port");
        let address = listener.local_addr().expect("the listener has no address");
        let paths = Arc::<Mutex<Vec<String>>>::default();
        let (bodies, log) = (Arc::new(bodies), Arc::clone(&paths));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&bodies), password, Arc::clone(&log)));
            }
        });
        Self { address, paths }
    }

    fn image(&self, digest: &str) -> Reference {
        format!("{}/shop/cart@{digest}", self.address).parse().expect("the reference is invalid")
    }

    async fn pull(&self, digest: &str, user: &Credentials) -> Result<Bundle, RegistryError> {
        client(self.address).pull(&self.image(digest), user).await.map(|pulled| pulled.bundle)
    }
}

async fn answer(
    stream: TcpStream,
    bodies: Arc<BTreeMap<String, Vec<u8>>>,
    password: Option<&str>,
    log: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut line, mut authorization) = (String::new(), None);
    stream.read_line(&mut line).await?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        match line.trim().split_once(": ") {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                authorization = Some(value.to_owned());
            }
            Some(_) => {}
        }
    }
    log.lock().expect("the lock is never poisoned").push(path.clone());
    let expected = password.map(|word| format!("Basic {}", STANDARD.encode(format!("me:{word}"))));
    let (status, body) = match bodies.get(&path) {
        _ if expected.is_some() && authorization != expected => ("401 Unauthorized", &b""[..]),
        Some(body) => ("200 OK", &body[..]),
        None if path == "/v2/" => ("200 OK", &b"{}"[..]),
        None => ("404 Not Found", &b"{\"errors\": [{\"code\": \"BLOB_UNKNOWN\"}]}"[..]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nwww-authenticate: Basic realm=\"test\"\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.shutdown().await
}

fn client(address: SocketAddr) -> Registry {
    let plain_http = vec![address.to_string()];
    Registry::new(RegistryConfig { plain_http, ..RegistryConfig::default() })
        .expect("cannot create a client without extra authorities")
}

fn bundle() -> Bundle {
    let modules = [("worker.js".to_owned(), Bytes::from("export default {}"))].into();
    Bundle { entrypoint: Some("worker.js".to_owned()), modules }
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn manifest(Packed { config, layer }: &Packed) -> Value {
    let descriptor = |type_: &str, blob: &[u8]| {
        let (digest, size) = (digest(blob), blob.len());
        json!({"mediaType": type_, "digest": digest, "size": size})
    };
    json!({
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "artifactType": CONFIG_TYPE,
        "config": descriptor(CONFIG_TYPE, config),
        "layers": [descriptor(BUNDLE_TYPE, layer)],
    })
}

/// Returns the bodies of a registry with one artifact, and the digest of its manifest.
fn bodies(manifest: &Value, packed: &Packed) -> (BTreeMap<String, Vec<u8>>, String) {
    let manifest = serde_json::to_vec(manifest).expect("cannot serialize the manifest");
    let manifest_digest = digest(&manifest);
    let blob = |blob: &Bytes| (blob_path(&digest(blob)), blob.to_vec());
    let path = format!("/v2/shop/cart/manifests/{manifest_digest}");
    ([(path, manifest), blob(&packed.config), blob(&packed.layer)].into(), manifest_digest)
}

fn blob_path(digest: &str) -> String {
    format!("/v2/shop/cart/blobs/{digest}")
}

#[tokio::test]
async fn an_artifact_is_pulled_by_its_digest() {
    let packed = archive::pack(&bundle()).unwrap();
    let (bodies, digest) = bodies(&manifest(&packed), &packed);
    let registry = FakeRegistry::start(bodies, None).await;
    assert_eq!(registry.pull(&digest, &Credentials::Anonymous).await.unwrap(), bundle());
    let missing = format!("sha256:{}", "0".repeat(64));
    let error = registry.pull(&missing, &Credentials::Anonymous).await.unwrap_err();
    assert!(matches!(error, RegistryError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn static_files_are_pulled_as_a_separate_layer() {
    let (packed, files) = (archive::pack(&bundle()).unwrap(), b"any bytes".to_vec());
    let layer = digest(&files);
    let mut with_files = manifest(&packed);
    let descriptor = json!({"mediaType": ASSETS_TYPE, "digest": layer, "size": files.len()});
    with_files["layers"].as_array_mut().unwrap().push(descriptor);
    let (mut bodies, manifest_digest) = bodies(&with_files, &packed);
    bodies.insert(blob_path(&layer), files.clone());
    let registry = FakeRegistry::start(bodies.clone(), None).await;
    let (client, image) = (client(registry.address), registry.image(&manifest_digest));
    let anonymous = Credentials::Anonymous;
    let pulled = client.pull(&image, &anonymous).await.unwrap();
    assert_eq!((pulled.bundle, pulled.assets.as_ref()), (bundle(), Some(&layer)));
    let mut output = Vec::new();
    client.pull_assets(&image, &anonymous, &layer, &mut output).await.unwrap();
    assert_eq!(output, files);
    let other = digest(b"other");
    let error = client.pull_assets(&image, &anonymous, &other, &mut output).await.unwrap_err();
    assert!(matches!(error, RegistryError::NoAssets { .. }), "{error}");

    bodies.insert(blob_path(&layer), b"ANY BYTES".to_vec());
    let registry = FakeRegistry::start(bodies, None).await;
    let (client, image) = (self::client(registry.address), registry.image(&manifest_digest));
    let error = client.pull_assets(&image, &anonymous, &layer, &mut output).await.unwrap_err();
    assert!(matches!(error, RegistryError::WrongDigest { .. }), "{error}");
}

#[tokio::test]
async fn a_private_registry_serves_only_its_user() {
    let packed = archive::pack(&bundle()).unwrap();
    let (bodies, digest) = bodies(&manifest(&packed), &packed);
    let registry = FakeRegistry::start(bodies, Some("word")).await;
    let user = |password: &str| Credentials::Basic {
        username: "me".to_owned(),
        password: password.to_owned(),
    };
    assert_eq!(registry.pull(&digest, &user("word")).await.unwrap(), bundle());
    for wrong in [user("other"), Credentials::Anonymous] {
        let error = registry.pull(&digest, &wrong).await.unwrap_err();
        assert!(matches!(error, RegistryError::Unauthorized { .. }), "{error}");
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn bytes_that_do_not_match_their_digest_are_refused() {
    let packed = archive::pack(&bundle()).unwrap();
    let (good, digest) = bodies(&manifest(&packed), &packed);
    for path in good.keys() {
        let mut changed = good.clone();
        changed.get_mut(path).unwrap()[0] ^= 1;
        let registry = FakeRegistry::start(changed, None).await;
        let error = registry.pull(&digest, &Credentials::Anonymous).await.unwrap_err();
        assert!(matches!(error, RegistryError::WrongDigest { .. }), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_container_image_is_not_a_worker() {
    let packed = archive::pack(&bundle()).unwrap();
    let mut image = manifest(&packed);
    image["config"]["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [],
    });
    for manifest in [image, index] {
        let (bodies, digest) = bodies(&manifest, &packed);
        let registry = FakeRegistry::start(bodies, None).await;
        let error = registry.pull(&digest, &Credentials::Anonymous).await.unwrap_err();
        assert!(matches!(error, RegistryError::NotAWorker { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_blob_is_not_read_beyond_its_size() {
    let packed = archive::pack(&bundle()).unwrap();
    let (mut bodies, digest) = bodies(&manifest(&packed), &packed);
    bodies.get_mut(&blob_path(&self::digest(&packed.layer))).unwrap().extend(vec![0; 1 << 20]);
    let registry = FakeRegistry::start(bodies, None).await;
    let error = registry.pull(&digest, &Credentials::Anonymous).await.unwrap_err();
    assert!(matches!(error, RegistryError::WrongDigest { .. }), "{error}");
    assert!(!error.is_transient());
}

/// A tenant writes the manifest, and the operator can reach addresses that the tenant cannot.
#[tokio::test]
async fn urls_in_a_manifest_are_not_requested() {
    let packed = archive::pack(&bundle()).unwrap();
    let elsewhere =
        FakeRegistry::start([("/layer".to_owned(), packed.layer.to_vec())].into(), None).await;
    let mut manifest = manifest(&packed);
    manifest["layers"][0]["urls"] = json!([format!("http://{}/layer", elsewhere.address)]);
    let (mut bodies, digest) = bodies(&manifest, &packed);
    bodies.remove(&blob_path(&self::digest(&packed.layer)));
    let registry = FakeRegistry::start(bodies, None).await;
    let outcome = registry.pull(&digest, &Credentials::Anonymous).await;
    assert_eq!(*elsewhere.paths.lock().unwrap(), [] as [&str; 0]);
    assert!(matches!(outcome, Err(RegistryError::NotFound { .. })), "{outcome:?}");
}

#[tokio::test]
async fn an_unreachable_registry_is_a_transient_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let image = format!("{address}/shop/cart:v1").parse().unwrap();
    let error = client(address).resolve(&image, &Credentials::Anonymous).await.unwrap_err();
    assert!(matches!(error, RegistryError::Unreachable { .. }), "{error}");
    assert!(error.is_transient());
}
