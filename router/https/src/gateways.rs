//! The certificates of Gateways, by the hostnames of their listeners. This module is pure.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::certificate::Certificate;

/// The certificates of all hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct GatewayCertificates {
    /// The certificates by host: `shop.example.com`, `*.example.com`, or `*` for every host.
    by_host: HashMap<String, Arc<CertifiedKey>>,
}

impl GatewayCertificates {
    /// Sets the certificate of a host, or removes it. If a certificate cannot be used, the previous
    /// one of the host stays in use.
    pub(super) fn set(&mut self, host: &str, files: Option<(&[u8], &[u8])>) {
        let Some((certificate, key)) = files else {
            self.by_host.remove(host);
            return;
        };
        match Certificate::parse(certificate, key) {
            Ok(certificate) => {
                self.by_host.insert(host.to_owned(), certificate.certified);
            }
            Err(error) => {
                let keeps_current = self.by_host.contains_key(host);
                tracing::error!(host, %error, keeps_current, "cannot use a Gateway's certificate");
            }
        }
    }

    /// Removes the certificates of all hosts for which `keeps` returns false.
    pub(super) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.by_host.retain(|host, _| keeps(host));
    }

    /// Returns the certificate of the most specific host that covers a name.
    ///
    /// # Arguments
    /// * `name` - a name in lower case; `None` if the client requests no name.
    pub(super) fn of(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        if self.by_host.is_empty() {
            return None;
        }
        let named = name.and_then(|name| {
            let above = name.match_indices('.').map(|(dot, _)| format!("*{}", &name[dot..]));
            let mut above = above.filter_map(|wildcard| self.by_host.get(&wildcard));
            self.by_host.get(name).or_else(|| above.next())
        });
        named.or_else(|| self.by_host.get("*")).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Files;

    #[test]
    fn a_client_gets_the_certificate_of_the_most_specific_listener() {
        let mut certificates = GatewayCertificates::default();
        for host in ["shop.example.com", "*.example.com", "*"] {
            // The listener decides, and not the name in the certificate.
            let files = Files::issued_for(&["a.example"]);
            certificates.set(host, Some((&files.certificate, &files.key)));
        }
        let all = certificates.by_host.clone();
        for (name, expected) in [
            (Some("shop.example.com"), "shop.example.com"),
            (Some("a.example.com"), "*.example.com"),
            (Some("a.b.example.com"), "*.example.com"),
            (Some("example.com"), "*"),
            (None, "*"),
        ] {
            let found = certificates.of(name).unwrap();
            assert!(Arc::ptr_eq(&found, &all[expected]), "{name:?}");
        }
        certificates.set("*", None);
        assert!(certificates.of(Some("example.com")).is_none());
    }

    #[test]
    fn a_certificate_that_cannot_be_used_does_not_replace_the_previous_one() {
        let mut certificates = GatewayCertificates::default();
        let files = Files::issued_for(&["a"]);
        certificates.set("a", Some((&files.certificate, &files.key)));
        certificates.set("a", Some((b"", &files.key)));
        assert!(certificates.of(Some("a")).is_some());
    }
}
