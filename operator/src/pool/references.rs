//! The objects to which a pool refers in the namespace of its nodes: certificates and credentials.
//!
//! ```text
//!  pool ─► references ─► read ─┬─ found ───► a digest in the Pod template: changes replace nodes
//!                              └─ missing ─► Ready=False names the field; existing nodes stay
//! ```
//!
//! Nodes read these objects when they start, from a volume and from their environment. Kubernetes
//! never restarts Pods whose ConfigMap has changed, and would start Pods that then wait for missing
//! objects. The two branches of the picture handle these cases.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};
use tenon_crds::{CaCertificates, KeyRef, RuntimePool};

/// A reference to one key that a pool needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Field of the pool that contains the reference.
    pub field: String,
    pub kind: Kind,
    pub name: String,
    pub key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
}

/// The error for a referenced object or key that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: key {:?} of {} {} does not exist in namespace {namespace}; create the key",
    .reference.field, .reference.key, .reference.kind, .reference.name
)]
pub struct Missing {
    pub reference: Reference,
    pub namespace: String,
}

/// The keys of a Secret with a proxy's credentials, each with the environment variable of a node
/// that contains the value.
pub const CREDENTIALS: [(&str, &str); 2] =
    [("username", "TENON_EGRESS_PROXY_USERNAME"), ("password", "TENON_EGRESS_PROXY_PASSWORD")];

/// Returns all references of a pool, in the order of its fields.
pub fn references(pool: &RuntimePool) -> Vec<Reference> {
    let egress = &pool.spec.egress;
    let certificates = egress.ca_certificates.iter().enumerate().filter_map(|(i, certificates)| {
        let (kind, KeyRef { name, key }) = authority(certificates)?;
        let field = format!("spec.egress.caCertificates[{i}]");
        Some(Reference { field, kind, name: name.clone(), key: key.clone() })
    });
    let credentials = egress.proxy.iter().filter_map(|proxy| proxy.credentials_secret_ref.as_ref());
    let credentials = credentials.flat_map(|secret| {
        CREDENTIALS.map(|(key, _)| Reference {
            field: "spec.egress.proxy.credentialsSecretRef".to_owned(),
            kind: Kind::Secret,
            name: secret.name.clone(),
            key: key.to_owned(),
        })
    });
    certificates.chain(credentials).collect()
}

/// Returns the kind of the object with certificates, and the reference to the key. Returns `None`
/// for a value that the schema would refuse.
pub fn authority(certificates: &CaCertificates) -> Option<(Kind, &KeyRef)> {
    match (&certificates.config_map_key_ref, &certificates.secret_key_ref) {
        (Some(key), None) => Some((Kind::ConfigMap, key)),
        (None, Some(key)) => Some((Kind::Secret, key)),
        _ => None,
    }
}

/// Reads the referenced keys and returns a digest of their values, or `None` if there are no
/// references.
///
/// # Errors
/// The outer error is a failed request to the API server, and the inner error is the first
/// reference whose key does not exist.
pub async fn read(
    client: &Client,
    namespace: &str,
    references: &[Reference],
) -> kube::Result<Result<Option<String>, Missing>> {
    let mut objects = Objects::new();
    for Reference { kind, name, .. } in references {
        if let Entry::Vacant(vacant) = objects.entry((*kind, name.clone())) {
            vacant.insert(object(client, namespace, *kind, name).await?);
        }
    }
    Ok(digest(namespace, references, &objects))
}

/// The content of each object by key.
type Objects = BTreeMap<(Kind, String), BTreeMap<String, Vec<u8>>>;

fn digest(
    namespace: &str,
    references: &[Reference],
    objects: &Objects,
) -> Result<Option<String>, Missing> {
    let mut digest = Sha256::new();
    for reference in references {
        let object = objects.get(&(reference.kind, reference.name.clone()));
        let missing = || Missing { reference: reference.clone(), namespace: namespace.to_owned() };
        let value = object.and_then(|object| object.get(&reference.key)).ok_or_else(missing)?;
        digest.update((value.len() as u64).to_le_bytes());
        digest.update(value);
    }
    Ok((!references.is_empty())
        .then(|| digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()))
}

/// Returns the content of an object, which is empty if the object does not exist.
async fn object(
    client: &Client,
    namespace: &str,
    kind: Kind,
    name: &str,
) -> kube::Result<BTreeMap<String, Vec<u8>>> {
    Ok(match kind {
        Kind::ConfigMap => {
            let found = Api::<ConfigMap>::namespaced(client.clone(), namespace)
                .get_opt(name)
                .await?
                .unwrap_or_default();
            let text = found.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
            text.chain(found.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0)))
                .collect()
        }
        Kind::Secret => {
            let found = Api::<Secret>::namespaced(client.clone(), namespace)
                .get_opt(name)
                .await?
                .unwrap_or_default();
            found.data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0)).collect()
        }
    })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool() -> RuntimePool {
        serde_json::from_value(json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "RuntimePool",
            "metadata": {"name": "default"},
            "spec": {"egress": {
                "caCertificates": [
                    {"configMapKeyRef": {"name": "authorities", "key": "all.pem"}},
                    {"secretKeyRef": {"name": "inner", "key": "ca.crt"}},
                ],
                "proxy": {
                    "url": "http://proxy.test:3128", "credentialsSecretRef": {"name": "proxy"},
                },
            }},
        }))
        .unwrap()
    }

    #[test]
    fn every_reference_has_the_field_that_contains_it() {
        let all: Vec<_> = references(&pool())
            .iter()
            .map(|Reference { field, kind, name, key }| format!("{field} {kind} {name} {key}"))
            .collect();
        assert_eq!(
            all,
            [
                "spec.egress.caCertificates[0] ConfigMap authorities all.pem",
                "spec.egress.caCertificates[1] Secret inner ca.crt",
                "spec.egress.proxy.credentialsSecretRef Secret proxy username",
                "spec.egress.proxy.credentialsSecretRef Secret proxy password",
            ]
        );
    }

    /// Returns objects in which each referenced key exists.
    fn with_every_key(references: &[Reference]) -> Objects {
        let mut objects = Objects::new();
        for Reference { kind, name, key, .. } in references {
            objects
                .entry((*kind, name.clone()))
                .or_default()
                .insert(key.clone(), b"there".to_vec());
        }
        objects
    }

    #[test]
    fn the_error_of_a_missing_key_names_the_field_and_the_namespace() {
        let references = references(&pool());
        let mut objects = with_every_key(&references);
        objects.insert((Kind::Secret, "inner".to_owned()), BTreeMap::new());
        let message = digest("tenon-system", &references, &objects).unwrap_err().to_string();
        let expected = "spec.egress.caCertificates[1]: key \"ca.crt\" of Secret inner does not \
                        exist in namespace tenon-system; create the key";
        assert_eq!(message, expected);
    }

    #[test]
    fn a_change_of_any_referenced_value_changes_the_digest() {
        let references = references(&pool());
        let before = digest("tenon-system", &references, &with_every_key(&references)).unwrap();
        for Reference { kind, name, key, .. } in &references {
            let mut changed = with_every_key(&references);
            let object = changed.get_mut(&(*kind, name.clone())).unwrap();
            object.insert(key.clone(), b"changed".to_vec());
            assert_ne!(
                digest("tenon-system", &references, &changed).unwrap(),
                before,
                "{name} {key}"
            );
        }
        assert_eq!(digest("tenon-system", &[], &Objects::new()).unwrap(), None);
    }
}
