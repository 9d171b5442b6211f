//! References to objects in other namespaces. A ReferenceGrant in the other namespace permits such
//! a reference. This module is pure.

use std::collections::{BTreeMap, HashMap};

use crate::objects::{GROUP, ReferenceGrantSpec};

/// The grants of the cluster, by namespace and name.
#[derive(Default)]
pub struct ReferenceGrants(HashMap<String, BTreeMap<String, ReferenceGrantSpec>>);

/// The kind of the referring object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referrer {
    Gateway,
    HttpRoute,
}

impl Referrer {
    const fn kind(self) -> &'static str {
        match self {
            Self::Gateway => "Gateway",
            Self::HttpRoute => "HTTPRoute",
        }
    }
}

/// An object to which a reference points.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl ReferenceGrants {
    /// Sets a grant, or removes it.
    pub fn set(&mut self, namespace: &str, name: &str, grant: Option<ReferenceGrantSpec>) {
        let grants = self.0.entry(namespace.to_owned()).or_default();
        match grant {
            Some(grant) => _ = grants.insert(name.to_owned(), grant),
            None => _ = grants.remove(name),
        }
        if grants.is_empty() {
            self.0.remove(namespace);
        }
    }

    /// Returns whether an object of a namespace may refer to another object.
    pub fn permit(&self, referrer: Referrer, namespace: &str, target: Target<'_>) -> bool {
        if namespace == target.namespace {
            return true;
        }
        let mut grants = self.0.get(target.namespace).into_iter().flat_map(BTreeMap::values);
        grants.any(|grant| {
            let is_from = grant.from.iter().any(|from| {
                from.group == GROUP && from.kind == referrer.kind() && from.namespace == namespace
            });
            is_from
                && grant.to.iter().any(|to| {
                    let name = to.name.as_deref().filter(|name| !name.is_empty());
                    to.group == target.group
                        && to.kind == target.kind
                        && name.is_none_or(|name| name == target.name)
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grants(from: &str, to: serde_json::Value) -> ReferenceGrants {
        let grant = json!({
            "from": [{"group": GROUP, "kind": from, "namespace": "web"}],
            "to": [to],
        });
        let mut grants = ReferenceGrants::default();
        grants.set("api", "from-web", Some(serde_json::from_value(grant).unwrap()));
        grants
    }

    const WORKER: Target<'_> =
        Target { group: "tenon.dev", kind: "Worker", namespace: "api", name: "cart" };

    #[test]
    fn a_reference_within_a_namespace_needs_no_grant() {
        assert!(ReferenceGrants::default().permit(Referrer::HttpRoute, "api", WORKER));
        assert!(!ReferenceGrants::default().permit(Referrer::HttpRoute, "web", WORKER));
    }

    #[test]
    fn a_grant_permits_references_of_its_kinds_from_its_namespaces() {
        let all = grants("HTTPRoute", json!({"group": "tenon.dev", "kind": "Worker"}));
        assert!(all.permit(Referrer::HttpRoute, "web", WORKER));
        assert!(!all.permit(Referrer::Gateway, "web", WORKER));
        assert!(!all.permit(Referrer::HttpRoute, "other", WORKER));
        assert!(!all.permit(Referrer::HttpRoute, "web", Target { namespace: "third", ..WORKER }));
        assert!(!all.permit(
            Referrer::HttpRoute,
            "web",
            Target { group: "", kind: "Secret", ..WORKER }
        ));
        let of = |name: &str| {
            grants("HTTPRoute", json!({"group": "tenon.dev", "kind": "Worker", "name": name}))
        };
        assert!(of("cart").permit(Referrer::HttpRoute, "web", WORKER));
        assert!(!of("menu").permit(Referrer::HttpRoute, "web", WORKER));
    }

    #[test]
    fn a_withdrawn_grant_permits_nothing() {
        let mut grants = grants("HTTPRoute", json!({"group": "tenon.dev", "kind": "Worker"}));
        grants.set("api", "from-web", None);
        assert!(!grants.permit(Referrer::HttpRoute, "web", WORKER));
        assert!(grants.0.is_empty());
    }
}
