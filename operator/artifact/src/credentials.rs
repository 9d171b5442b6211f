//! Reads the credentials of registries from a Docker configuration. This module is pure.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// The user name for an identity token at registries that accept one in place of a password.
pub const TOKEN_USER: &str = "00000000-0000-0000-0000-000000000000";

/// The credentials that a client presents to a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Anonymous,
    Basic {
        username: String,
        password: String,
    },
    /// A token that is presented unchanged.
    Bearer(String),
}

/// The reason why a Docker configuration gives no credentials.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCredentials {
    #[error("the content is not a Docker configuration in JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the field auth of {0:?} is not USERNAME:PASSWORD in Base64")]
    Auth(String),
    #[error(
        "the configuration has no credentials for {0}; add them with docker login, or with kubectl \
         create secret docker-registry"
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
    /// * `registry` - the registry as a reference names it, such as `ghcr.io`.
    ///
    /// # Errors
    /// Fails if the configuration is malformed, or has no credentials for the registry.
    pub fn from_docker_config(json: &[u8], registry: &str) -> Result<Self, InvalidCredentials> {
        let DockerConfig { auths } = serde_json::from_slice(json)?;
        let matching = auths.into_iter().filter(|(key, _)| host(key) == host(registry));
        // If other keys are for a part of the registry, the one with the shortest path is for the
        // whole registry.
        let found = matching.min_by_key(|(key, _)| split(key).1.len());
        let (key, auth) =
            found.ok_or_else(|| InvalidCredentials::NoRegistry(registry.to_owned()))?;
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        if let Some(token) = filled(auth.registrytoken) {
            return Ok(Self::Bearer(token));
        }
        let pair = match (filled(auth.username), filled(auth.password), filled(auth.auth)) {
            (Some(username), Some(password), _) => Some((username, password)),
            (_, _, Some(encoded)) => {
                Some(decode(&encoded).ok_or_else(|| InvalidCredentials::Auth(key.clone()))?)
            }
            _ => None,
        };
        // An identity token takes the place of the password.
        let token = filled(auth.identitytoken);
        let (username, password) = match (pair, token) {
            (Some((username, _)), Some(token)) => (username, token),
            (Some(pair), None) => pair,
            (None, Some(token)) => (TOKEN_USER.to_owned(), token),
            (None, None) => return Err(InvalidCredentials::NoRegistry(registry.to_owned())),
        };
        Ok(Self::Basic { username, password })
    }
}

/// Omits the secrets, which must not appear in logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Basic { .. } => "Basic",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// Returns the host of a registry, with the port if the key states one. The key is the name of the
/// registry or a URL.
fn host(key: &str) -> String {
    let host = split(key).0.to_ascii_lowercase();
    match host.as_str() {
        // These are other names of Docker Hub.
        "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        _ => host,
    }
}

/// Splits a registry into its authority and the path in it. The path is empty if the key is for the
/// whole registry, as in `https://index.docker.io/v1/`.
fn split(key: &str) -> (&str, &str) {
    let key = key.trim_start_matches("https://").trim_start_matches("http://");
    let (authority, path) = key.split_once('/').unwrap_or((key, ""));
    match path.trim_end_matches('/') {
        "v1" | "v2" => (authority, ""),
        path => (authority, path),
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

    fn parse(json: &str, registry: &str) -> Result<Credentials, InvalidCredentials> {
        Credentials::from_docker_config(json.as_bytes(), registry)
    }

    #[test]
    fn a_registry_is_found_by_its_name_and_by_its_url() {
        let config = format!(
            r#"{{"auths": {{
                "https://index.docker.io/v1/": {{"auth": "{}"}},
                "ghcr.io": {{"username": "me", "password": "word"}},
                "http://registry.example.com:5000/v2/": {{"auth": "{}", "identitytoken": "token"}}
            }}}}"#,
            STANDARD.encode("hub:se:cret"),
            STANDARD.encode("you:"),
        );
        assert_eq!(parse(&config, "docker.io").unwrap(), basic("hub", "se:cret"));
        assert_eq!(parse(&config, "ghcr.io").unwrap(), basic("me", "word"));
        assert_eq!(parse(&config, "registry.example.com:5000").unwrap(), basic("you", "token"));
        assert!(matches!(parse(&config, "quay.io"), Err(InvalidCredentials::NoRegistry(_))));
    }

    #[test]
    fn a_registry_token_is_presented_unchanged() {
        let config = r#"{"auths": {"ghcr.io": {"registrytoken": "abc"}}}"#;
        assert_eq!(parse(config, "ghcr.io").unwrap(), Credentials::Bearer("abc".to_owned()));
    }

    #[test]
    fn empty_fields_count_as_missing() {
        let auth = STANDARD.encode("me:word");
        let config = |fields: &str| format!(r#"{{"auths": {{"GHCR.io": {{{fields}}}}}}}"#);
        let empty = config(&format!(r#""username": "", "password": "", "auth": "{auth}""#));
        assert_eq!(parse(&empty, "ghcr.io").unwrap(), basic("me", "word"));
        let token = config(r#""auth": "", "identitytoken": "token""#);
        assert_eq!(parse(&token, "ghcr.io").unwrap(), basic(TOKEN_USER, "token"));
        assert!(parse(&config(""), "ghcr.io").is_err());
    }

    #[test]
    fn credentials_for_the_whole_registry_precede_those_for_a_part() {
        for whole in ["ghcr.io", "https://ghcr.io", "https://ghcr.io/v2/"] {
            let config = format!(
                r#"{{"auths": {{
                    "ghcr.io/a": {{"username": "part", "password": "1"}},
                    "{whole}": {{"username": "whole", "password": "2"}}
                }}}}"#
            );
            assert_eq!(parse(&config, "ghcr.io").unwrap(), basic("whole", "2"), "{whole}");
        }
    }

    #[test]
    fn a_malformed_configuration_is_reported() {
        assert!(matches!(parse("{", "ghcr.io"), Err(InvalidCredentials::Json(_))));
        let auth = r#"{"auths": {"ghcr.io": {"auth": "%"}}}"#;
        assert!(matches!(parse(auth, "ghcr.io"), Err(InvalidCredentials::Auth(_))));
    }

    #[test]
    fn passwords_are_not_printed() {
        assert_eq!(format!("{:?}", basic("me", "word")), "Basic");
    }
}
