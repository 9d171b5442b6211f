//! The labels of namespaces, and the namespaces that pools and grants select. This module is pure.

use std::collections::{BTreeMap, HashMap};

use kube::core::SelectorExt as _;
use tenon_crds::{AllowedNamespaces, GrantedNamespaces, NamespaceSelector, NamespacesFrom};

/// The labels of one namespace.
pub type Labels = BTreeMap<String, String>;

/// The labels of all namespaces.
#[derive(Default)]
pub struct Namespaces(HashMap<String, Labels>);

/// The decision on whether Workers of a namespace may choose a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Allowed,
    Refused,
    /// The labels of the namespace have not been seen yet.
    Unknown,
}

impl Namespaces {
    /// Sets the labels of a namespace, or removes it. Returns whether that changed its labels.
    pub fn set(&mut self, name: &str, labels: Option<Labels>) -> bool {
        let before = self.0.remove(name);
        let has_changed = before != labels;
        if let Some(labels) = labels {
            self.0.insert(name.to_owned(), labels);
        }
        has_changed
    }

    /// Returns the labels of a namespace, if it has been seen.
    pub fn labels(&self, name: &str) -> Option<&Labels> {
        self.0.get(name)
    }

    /// Decides whether Workers of a namespace may choose a pool.
    ///
    /// # Arguments
    /// * `platform` - the namespace in which the nodes run.
    pub fn access(&self, allowed: &AllowedNamespaces, name: &str, platform: &str) -> Access {
        let allows = |holds: bool| if holds { Access::Allowed } else { Access::Refused };
        match (allowed.from, &allowed.selector) {
            (NamespacesFrom::All, _) => Access::Allowed,
            (NamespacesFrom::Same, _) => allows(name == platform),
            (NamespacesFrom::Selector, Some(selector)) => match self.0.get(name) {
                Some(labels) => allows(matches(selector, labels)),
                None => Access::Unknown,
            },
            // The schema does not allow this.
            (NamespacesFrom::Selector, None) => Access::Refused,
        }
    }

    /// Returns whether a grant selects a namespace. The labels of a namespace that has not been
    /// seen yet match nothing.
    pub fn is_granted(&self, granted: &GrantedNamespaces, name: &str) -> bool {
        granted.names.iter().any(|granted| granted == name)
            || granted.selector.as_ref().is_some_and(|selector| {
                self.0.get(name).is_some_and(|labels| matches(selector, labels))
            })
    }
}

fn matches(selector: &NamespaceSelector, labels: &Labels) -> bool {
    selector.to_selector().is_ok_and(|selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn namespaces() -> Namespaces {
        let mut namespaces = Namespaces::default();
        let labels = Labels::from([("tier".to_owned(), "gold".to_owned())]);
        namespaces.set("shop", Some(labels));
        namespaces.set("blog", Some(Labels::new()));
        namespaces
    }

    #[test]
    fn a_pool_allows_all_namespaces_its_own_or_those_with_labels() {
        let namespaces = namespaces();
        let access = |allowed: serde_json::Value, name: &str| {
            let allowed = serde_json::from_value(allowed).unwrap();
            namespaces.access(&allowed, name, "tenon-system")
        };
        assert_eq!(access(json!({}), "unseen"), Access::Allowed);
        assert_eq!(access(json!({"from": "Same"}), "tenon-system"), Access::Allowed);
        assert_eq!(access(json!({"from": "Same"}), "shop"), Access::Refused);
        let gold = json!({"from": "Selector", "selector": {"matchLabels": {"tier": "gold"}}});
        assert_eq!(access(gold.clone(), "shop"), Access::Allowed);
        assert_eq!(access(gold.clone(), "blog"), Access::Refused);
        assert_eq!(access(gold, "unseen"), Access::Unknown);
        assert_eq!(access(json!({"from": "Selector"}), "shop"), Access::Refused);
    }

    #[test]
    fn a_grant_selects_namespaces_by_name_or_label() {
        let namespaces = namespaces();
        let is_granted = |granted: serde_json::Value, name: &str| {
            namespaces.is_granted(&serde_json::from_value(granted).unwrap(), name)
        };
        let either = json!({"names": ["blog"], "selector": {"matchLabels": {"tier": "gold"}}});
        for (name, expected) in [("blog", true), ("shop", true), ("unseen", false)] {
            assert_eq!(is_granted(either.clone(), name), expected, "{name}");
        }
        assert!(is_granted(json!({"names": ["unseen"]}), "unseen"));
        assert!(!is_granted(json!({}), "shop"));
    }

    #[test]
    fn only_a_change_of_labels_is_a_change() {
        let mut namespaces = namespaces();
        assert!(!namespaces.set("blog", Some(Labels::new())));
        assert!(namespaces.set("blog", None));
        assert!(!namespaces.set("blog", None));
    }
}
