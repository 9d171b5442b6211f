//! Credentials of registries, from a Docker configuration. This module is pure.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// What a client presents to a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Anonymous,
    Basic {
        username: String,
        password: String,
    },
    /// A token that the registry takes as it is.
    Bearer(String),
}

/// The reason why a Docker configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCredentials {
    #[error("it is not a Docker configuration in JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the field auth of {0:?} is not USERNAME:PASSWORD in Base64")]
    Auth(String),
    #[error(
        "it has nothing for {0}; add the registry with docker login, or with kubectl create secret docker-registry"
    )]
    NoRegistry(String),
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase", default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

impl Credentials {
    /// Returns the credentials of a registry in a Docker configuration, which is also the content
    /// of a Secret of type `kubernetes.io/dockerconfigjson`.
    ///
    /// # Arguments
    /// * `registry` - as in a reference: `ghcr.io`.
    ///
    /// # Errors
    /// Fails if the configuration is malformed, or has none for the registry.
    pub fn from_docker_config(json: &[u8], registry: &str) -> Result<Self, InvalidCredentials> {
        let DockerConfig { auths } = serde_json::from_slice(json)?;
        let found = auths.into_iter().find(|(key, _)| host(key) == host(registry));
        let (key, auth) =
            found.ok_or_else(|| InvalidCredentials::NoRegistry(registry.to_owned()))?;
        if let Some(token) = auth.registrytoken.filter(|token| !token.is_empty()) {
            return Ok(Self::Bearer(token));
        }
        let encoded = auth.auth.filter(|auth| !auth.is_empty());
        let (username, password) = match (encoded, auth.username, auth.password) {
            (_, Some(username), Some(password)) => (username, password),
            (Some(encoded), _, _) => {
                decode(&encoded).ok_or_else(|| InvalidCredentials::Auth(key.clone()))?
            }
            _ => return Err(InvalidCredentials::NoRegistry(registry.to_owned())),
        };
        // An identity token takes the place of the password.
        let password = auth.identitytoken.filter(|token| !token.is_empty()).unwrap_or(password);
        Ok(Self::Basic { username, password })
    }
}

/// Passwords do not appear in logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Basic { .. } => "Basic",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// Returns the registry's host and port of a key, which may be a URL.
fn host(key: &str) -> &str {
    let authority = key.trim_start_matches("https://").trim_start_matches("http://");
    match authority.split('/').next().unwrap_or_default() {
        // The names under which Docker Hub has been known.
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    }
}

fn decode(auth: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (username, password) = text.split_once(':')?;
    Some((username.to_owned(), password.trim_end_matches('\0').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(username: &str, password: &str) -> Credentials {
        Credentials::Basic { username: username.to_owned(), password: password.to_owned() }
    }

    fn of(json: &str, registry: &str) -> Result<Credentials, InvalidCredentials> {
        Credentials::from_docker_config(json.as_bytes(), registry)
    }

    #[test]
    fn a_registry_is_found_by_any_of_its_forms() {
        let config = format!(
            r#"{{"auths": {{
                "https://index.docker.io/v1/": {{"auth": "{}"}},
                "ghcr.io": {{"username": "me", "password": "word"}},
                "http://registry.example.com:5000/v2/": {{"auth": "{}", "identitytoken": "token"}}
            }}}}"#,
            STANDARD.encode("hub:se:cret"),
            STANDARD.encode("you:"),
        );
        assert_eq!(of(&config, "docker.io").unwrap(), basic("hub", "se:cret"));
        assert_eq!(of(&config, "ghcr.io").unwrap(), basic("me", "word"));
        assert_eq!(of(&config, "registry.example.com:5000").unwrap(), basic("you", "token"));
        assert!(matches!(of(&config, "quay.io"), Err(InvalidCredentials::NoRegistry(_))));
    }

    #[test]
    fn a_token_of_the_registry_is_presented_as_it_is() {
        let config = r#"{"auths": {"ghcr.io": {"registrytoken": "abc"}}}"#;
        assert_eq!(of(config, "ghcr.io").unwrap(), Credentials::Bearer("abc".to_owned()));
    }

    #[test]
    fn a_malformed_configuration_is_named() {
        assert!(matches!(of("{", "ghcr.io"), Err(InvalidCredentials::Json(_))));
        let auth = r#"{"auths": {"ghcr.io": {"auth": "%"}}}"#;
        assert!(matches!(of(auth, "ghcr.io"), Err(InvalidCredentials::Auth(_))));
    }

    #[test]
    fn passwords_are_not_printed() {
        assert_eq!(format!("{:?}", basic("me", "word")), "Basic");
    }
}
