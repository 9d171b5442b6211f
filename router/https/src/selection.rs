//! Selects a certificate by the name that a client requests. This module is pure.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::certificate::Certificate;

/// Certificates by name.
#[derive(Debug, Default)]
pub(super) struct Selection {
    exact: HashMap<String, Certificate>,
    /// Wildcard certificates, by the name after `*.`.
    below: HashMap<String, Certificate>,
    default: Option<Arc<CertifiedKey>>,
}

impl Selection {
    /// Indexes certificates. If several certificates have the same name, the one that expires last
    /// is used.
    ///
    /// # Arguments
    /// * `certificates` - the certificates, of which the first is the default.
    pub(super) fn new<'a>(certificates: impl Iterator<Item = &'a Certificate> + Clone) -> Self {
        let default = certificates.clone().next();
        let mut selection =
            Self { default: default.map(|first| first.certified.clone()), ..Self::default() };
        for certificate in certificates {
            for name in &certificate.names {
                let (index, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut selection.below, parent),
                    None => (&mut selection.exact, name.as_str()),
                };
                let known = index.get(name);
                if known.is_none_or(|known| known.not_after < certificate.not_after) {
                    index.insert(name.to_owned(), certificate.clone());
                }
            }
        }
        selection
    }

    pub(super) fn is_empty(&self) -> bool {
        self.default.is_none()
    }

    /// Returns the certificate that was issued for a name, or `None` if there is none.
    ///
    /// # Arguments
    /// * `name` - a name in lower case.
    pub(super) fn named(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        // A wildcard stands for one label (RFC 9525, section 6.3).
        let parent = name.split_once('.').map(|(_, parent)| parent);
        let found = self.exact.get(name).or_else(|| self.below.get(parent?));
        found.map(|found| found.certified.clone())
    }

    /// Returns the default certificate, or `None` if there are no certificates. A client that
    /// requests no name, or an unknown one, gets the default certificate; the client's error
    /// message then shows which server it has reached.
    pub(super) fn fallback(&self) -> Option<Arc<CertifiedKey>> {
        self.default.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Files;

    fn certificates(names: &[&[&str]]) -> Vec<Certificate> {
        let parse = |names: &&[&str]| {
            let files = Files::issued_for(names);
            Certificate::parse(&files.certificate, &files.key).unwrap()
        };
        names.iter().map(parse).collect()
    }

    #[test]
    fn an_exact_name_precedes_a_wildcard_which_precedes_the_default() {
        let all = certificates(&[
            &["default.example.org"],
            &["*.example.com"],
            &["shop.example.com", "example.com"],
        ]);
        let selection = Selection::new(all.iter());
        for (name, expected) in [
            (Some("shop.example.com"), 2),
            (Some("SHOP.example.com"), 2),
            (Some("example.com"), 2),
            (Some("api.example.com"), 1),
            (Some("a.b.example.com"), 0),
            (Some("elsewhere"), 0),
            (None, 0),
        ] {
            let found = name.and_then(|name| selection.named(&name.to_lowercase()));
            let found = found.or_else(|| selection.fallback()).unwrap();
            assert!(Arc::ptr_eq(&found, &all[expected].certified), "{name:?}");
        }
        let empty = Selection::default();
        assert!(empty.named("a").is_none() && empty.fallback().is_none());
    }

    #[test]
    fn of_two_certificates_for_a_name_the_one_that_expires_last_is_used() {
        let mut all = certificates(&[&["a"], &["a"]]);
        for longer in [0, 1] {
            all[longer].not_after = 2;
            all[1 - longer].not_after = 1;
            let found = Selection::new(all.iter()).named("a").unwrap();
            assert!(Arc::ptr_eq(&found, &all[longer].certified));
        }
    }
}
