//! Tests which bundles are refused, and with which messages.

use super::*;
use crate::tls::fixtures::{Authority, BOTH};

fn refusal(bundle: &Bundle, role: Role) -> String {
    let error =
        Identity::of(bundle, role, UnixTime::now()).expect_err("an invalid bundle was accepted");
    error.to_string()
}

#[test]
fn an_error_names_the_file_and_the_remedy() {
    let role = Role::Router;
    let (one, another) = (Authority::new("one"), Authority::new("another"));
    let good = one.bundle(role);
    let wrong = |bundle: Bundle| refusal(&bundle, role);

    assert!(
        wrong(Bundle { certificate: Vec::new(), ..good.clone() })
            .starts_with("tls.crt contains no certificate")
    );
    assert!(
        wrong(Bundle { authorities: Vec::new(), ..good.clone() })
            .starts_with("ca.crt contains no certificate")
    );
    assert!(
        wrong(Bundle { key: Vec::new(), ..good.clone() })
            .starts_with("tls.key contains no private key")
    );
    let damaged = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    assert!(
        wrong(Bundle { authorities: damaged, ..good.clone() })
            .starts_with("ca.crt contains a malformed certificate")
    );
    assert!(
        wrong(Bundle { key: one.bundle(role).key, ..good.clone() })
            .starts_with("tls.key is not the key of tls.crt")
    );
    let untrusted = wrong(Bundle { authorities: another.pem().into(), ..good.clone() });
    assert!(
        untrusted.starts_with("tls.crt is not issued by an authority in ca.crt"),
        "{untrusted}"
    );
    let other_role = refusal(&one.bundle(Role::RuntimeNode), role);
    assert!(other_role.contains("issue it for the DNS name router.tenon.internal"), "{other_role}");
    let expired = one.issue(role, |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    assert!(wrong(expired).starts_with("tls.crt has expired"));
    let early = one.issue(role, |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1));
    assert!(wrong(early).starts_with("tls.crt is not valid yet"));
    for usage in BOTH {
        let one_sided = one.issue(role, |params| params.extended_key_usages = vec![usage]);
        assert!(wrong(one_sided).contains("\"server auth\" and \"client auth\""));
    }
}

#[test]
fn the_issuer_is_found_among_several_authorities() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let bundle =
        Bundle { authorities: (old.pem() + &new.pem()).into(), ..new.bundle(Role::Router) };
    let identity = Identity::of(&bundle, Role::Router, UnixTime::now()).unwrap();
    assert_eq!(identity.issuer(), new.0.der());
}
