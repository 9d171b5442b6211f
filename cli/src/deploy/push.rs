//! Pushes the code and static files of Workers to a registry, and makes the Workers' objects refer
//! to the pushed images.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{env, io};

use anyhow::{Context as _, anyhow, bail};
use docker_credential::{CredentialRetrievalError, DockerCredential};
use serde_json::json;
use tenon_artifact::{Bundle, Credentials, Reference, Registry, RegistryConfig, TOKEN_USER, files};
use tenon_proto::id::WorkerId;

use super::objects::{Kind, Object};
use crate::assets::Files;

/// The key of Docker Hub in a Docker configuration.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

#[derive(clap::Args)]
pub(crate) struct PushArgs {
    /// Push the code and static files of each Worker to PREFIX/<name of the Worker>, for example to
    /// ghcr.io/acme/shop, and have the cluster pull them from there. Without this option, the code
    /// is part of the objects, each of which holds at most 1 MiB. The credentials are those of
    /// `docker login`.
    #[arg(long, value_name = "PREFIX")]
    registry: Option<String>,

    /// Secret in the Worker's namespace with which the cluster pulls from a private registry.
    #[arg(long, value_name = "NAME", requires = "registry")]
    pull_secret: Option<String>,

    /// Reach the registry without TLS.
    #[arg(long, requires = "registry")]
    plain_http: bool,
}

impl PushArgs {
    /// Returns whether the code is to be pushed.
    pub(super) fn is_set(&self) -> bool {
        self.registry.is_some()
    }

    /// Pushes the bundles, and returns the objects to apply instead of the objects in the files.
    /// The returned Workers refer to the pushed images, and the ConfigMaps with the Workers'
    /// modules are left out. Without `--registry`, nothing is pushed, and the objects are returned
    /// unchanged.
    ///
    /// # Arguments
    /// * `bundles` - the code of Workers. Workers without a bundle are left as they are.
    /// * `assets` - the static files of Workers.
    /// * `dry_run` - if true, nothing is pushed, and the Workers refer to a digest of zeros.
    ///
    /// # Errors
    /// Fails if the prefix is invalid, the credentials cannot be read, or a bundle cannot be packed
    /// or pushed.
    pub(super) async fn push(
        &self,
        objects: Vec<Object>,
        bundles: &BTreeMap<WorkerId, Bundle>,
        assets: &BTreeMap<WorkerId, Files>,
        dry_run: bool,
    ) -> anyhow::Result<Vec<Object>> {
        let Some(prefix) = &self.registry else { return Ok(objects) };
        let mut images = BTreeMap::new();
        for (id, bundle) in bundles {
            let repository = repository(prefix, id)?;
            let image = if dry_run {
                repository.clone_with_digest(format!("sha256:{}", "0".repeat(64)))
            } else {
                let files = assets.get(id).map(Vec::as_slice);
                self.push_one(&repository, bundle, files)
                    .await
                    .with_context(|| format!("cannot push Worker {id}"))?
            };
            images.insert(id.clone(), image);
        }
        let replaced: Vec<_> = objects
            .iter()
            .filter(|object| object.worker.as_ref().is_some_and(|id| images.contains_key(id)))
            .filter_map(|object| Some((object.namespace.clone(), object.config_map.clone()?)))
            .collect();
        let objects = objects.into_iter().filter(|object| {
            object.kind != Kind::ConfigMap
                || !replaced.contains(&(object.namespace.clone(), object.name.clone()))
        });
        let use_image = |mut object: Object| {
            if let Some(image) = object.worker.as_ref().and_then(|id| images.get(id)) {
                let pull_secret = self.pull_secret.as_ref().map(|name| json!({ "name": name }));
                let mut oci = json!({ "image": image.to_string() });
                if let Some(reference) = pull_secret {
                    oci["pullSecretRef"] = reference;
                }
                object.body["spec"]["source"] = json!({ "oci": oci });
                object.config_map = None;
            }
            object
        };
        Ok(objects.map(use_image).collect())
    }

    async fn push_one(
        &self,
        repository: &Reference,
        bundle: &Bundle,
        files: Option<&[(String, PathBuf)]>,
    ) -> anyhow::Result<Reference> {
        let host = repository.registry().to_owned();
        let credentials = match docker_config() {
            Some(config) => credentials(&config, &host)?,
            None => Credentials::Anonymous,
        };
        let plain_http = if self.plain_http { vec![host] } else { Vec::new() };
        let registry = Registry::new(RegistryConfig { plain_http, ..RegistryConfig::default() })?;
        let layer = files.map(files::layer).transpose().context("spec.assets")?;
        Ok(registry.push(repository, &credentials, bundle, layer).await?)
    }
}

fn repository(prefix: &str, id: &WorkerId) -> anyhow::Result<Reference> {
    let prefix = prefix.trim_end_matches('/');
    let text = format!("{prefix}/{}", id.name());
    match text.parse::<Reference>() {
        Ok(reference) if prefix.split('/').next() == Some(reference.registry()) => Ok(reference),
        Ok(_) => bail!(
            "--registry: {prefix:?} does not begin with the host of a registry; use a prefix such as ghcr.io/acme"
        ),
        Err(error) => Err(anyhow!(
            "--registry: {text:?} cannot be a repository: {error}; use a prefix such as ghcr.io/acme"
        )),
    }
}

/// Returns the path of the configuration in which `docker login` stores credentials. Returns `None`
/// if the user has no home directory.
fn docker_config() -> Option<PathBuf> {
    let set = env::var_os("DOCKER_CONFIG").filter(|directory| !directory.is_empty());
    let directory = set.map(PathBuf::from);
    let directory = directory.or_else(|| Some(env::home_dir()?.join(".docker")));
    directory.map(|directory| directory.join("config.json"))
}

/// Returns the credentials that a Docker configuration has for a registry. They are anonymous if
/// there are none, or if the configuration does not exist.
///
/// # Errors
/// Fails if the configuration cannot be read or is damaged, or if a credential helper fails.
fn credentials(config: &Path, host: &str) -> anyhow::Result<Credentials> {
    let server = if host == "docker.io" { DOCKER_HUB } else { host };
    let file = match File::open(config) {
        Ok(file) => io::BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Credentials::Anonymous),
        Err(error) => return Err(error).with_context(|| config.display().to_string()),
    };
    match docker_credential::get_credential_from_reader(file, server) {
        Ok(DockerCredential::UsernamePassword(username, password)) => {
            Ok(Credentials::Basic { username, password })
        }
        Ok(DockerCredential::IdentityToken(password)) => {
            Ok(Credentials::Basic { username: TOKEN_USER.to_owned(), password })
        }
        Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(Credentials::Anonymous),
        Err(error) => Err(anyhow!(
            "{}: cannot get the credentials of {host}: {error}; run docker login {host} again",
            config.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository_of(prefix: &str) -> Result<String, String> {
        let id = WorkerId::new("shop", "cart");
        repository(prefix, &id)
            .map(|reference| format!("{}/{}", reference.registry(), reference.repository()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_worker_has_a_repository_below_the_prefix() {
        assert_eq!(repository_of("ghcr.io/acme").unwrap(), "ghcr.io/acme/cart");
        assert_eq!(repository_of("registry:5000/").unwrap(), "registry:5000/cart");
    }

    #[test]
    fn a_prefix_without_a_registry_is_refused() {
        for prefix in ["acme", "Acme/Shop", "https://ghcr.io/acme"] {
            let error = repository_of(prefix).unwrap_err();
            assert!(error.contains("use a prefix such as ghcr.io/acme"), "{error}");
        }
    }

    #[test]
    fn credentials_come_from_the_docker_configuration_if_there_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config.json");
        assert!(matches!(credentials(&config, "ghcr.io"), Ok(Credentials::Anonymous)));
        std::fs::write(&config, r#"{"auths": {"ghcr.io": {"auth": "YWRhOnNlY3JldA=="}}}"#).unwrap();
        let Ok(Credentials::Basic { username, password }) = credentials(&config, "ghcr.io") else {
            panic!("there are no credentials");
        };
        assert_eq!((username.as_str(), password.as_str()), ("ada", "secret"));
        assert!(matches!(credentials(&config, "quay.io"), Ok(Credentials::Anonymous)));
        std::fs::write(&config, "{").unwrap();
        let error = credentials(&config, "ghcr.io").unwrap_err().to_string();
        assert!(error.contains("config.json") && error.contains("docker login ghcr.io"), "{error}");
    }

    #[tokio::test]
    async fn a_pushed_worker_refers_to_its_image_and_its_config_map_is_left_out() {
        let text = "
apiVersion: tenon.dev/v1alpha1
kind: Worker
metadata: {name: hello}
spec: {source: {configMapRef: {name: code}}, entrypoint: a.js}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: code}, data: {a.js: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {b.js: b}}";
        let mut manifests = crate::manifest::Manifests::default();
        manifests.add_file(std::path::Path::new("worker.yaml"), text);
        let id = manifests.workers.keys().next().unwrap().clone();
        let args = PushArgs {
            registry: Some("ghcr.io/acme".to_owned()),
            pull_secret: Some("pull".to_owned()),
            plain_http: false,
        };
        let bundles = [(id, Bundle::default())].into();
        let objects = args
            .push(super::super::objects::of(&manifests), &bundles, &BTreeMap::new(), true)
            .await
            .unwrap();
        let names: Vec<_> = objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["other", "hello"]);
        let spec = &objects[1].body["spec"];
        let image = format!("ghcr.io/acme/hello@sha256:{}", "0".repeat(64));
        let oci = json!({"image": image, "pullSecretRef": {"name": "pull"}});
        assert_eq!(spec["source"], json!({ "oci": oci }));
        assert_eq!(spec["entrypoint"], "a.js");
    }
}
