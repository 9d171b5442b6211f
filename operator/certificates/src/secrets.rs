//! Reads the Secrets in which certificates are stored, and builds their new content.
//!
//! | Secret | `tls.crt`, `tls.key` | `ca.crt` |
//! | --- | --- | --- |
//! | `tenon-ca` | the newest authority | all trusted authorities |
//! | `tenon-operator-tls`, `tenon-router-tls`, `tenon-runtime-node-tls` | the role's certificate | the same |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use tenon_lifecycle::tls::identity::{self, AUTHORITIES, CERTIFICATE, KEY, UnixTime};
use tenon_lifecycle::tls::{Bundle, Identity, Role};

use crate::issue::{self, CertifiedKey, IssueError};
use crate::plan::{Authority, Issued, Plan, State, Step, Terms};

/// The Secret of the newest authority.
pub const AUTHORITY: &str = "tenon-ca";

/// The annotation of a role's Secret that contains the time of the last write.
pub const WRITTEN: &str = "tenon.dev/written";

/// Returns the name of the Secret with a role's certificate.
pub const fn name(role: Role) -> &'static str {
    match role {
        Role::Operator => "tenon-operator-tls",
        Role::Router => "tenon-router-tls",
        Role::RuntimeNode => "tenon-runtime-node-tls",
    }
}

/// Returns the names of all Secrets.
pub const fn names() -> [&'static str; 4] {
    [AUTHORITY, name(Role::Operator), name(Role::Router), name(Role::RuntimeNode)]
}

/// The stored Secrets.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    pub authority: Option<Secret>,
    /// The Secrets of the roles, in the order of [`Role::ALL`].
    pub roles: [Option<Secret>; Role::ALL.len()],
}

/// Namespace and owner of the Secrets.
#[derive(Clone, Debug)]
pub struct SecretScope {
    pub namespace: String,
    pub owner: Option<OwnerReference>,
}

impl Secrets {
    /// Returns the content of the Secrets. Unreadable content counts as missing.
    pub fn state(&self, now: Timestamp) -> State {
        let pair = self.authority.as_ref().and_then(|secret| authority(secret, now));
        let newest = pair.as_ref().and_then(|pair| {
            let certificate = identity::certificates(CERTIFICATE, pair.certificate.as_bytes())
                .ok()?
                .swap_remove(0);
            let validity = identity::validity(CERTIFICATE, &certificate).ok()?;
            Some((certificate.to_vec(), validity))
        });
        let mut role = Role::ALL.into_iter();
        let issued = self.roles.each_ref().map(|secret| {
            let role = role.next().expect("there are more Secrets than roles");
            secret.as_ref().and_then(|secret| issued(secret, role, now))
        });
        let mut trusted = match (&newest, &self.authority) {
            (Some(_), Some(secret)) => authorities_in(secret),
            // Without a readable authority, use the authorities that the remaining Secrets trust.
            _ => issued.iter().flatten().flat_map(|issued| issued.trusts.clone()).collect(),
        };
        // If the authority was replaced by hand, the issuers of certificates in use must stay
        // trusted, or connections would fail.
        trusted.extend(issued.iter().flatten().map(|issued| issued.by.clone()));
        State { newest, trusted, issued }
    }

    /// Returns the Secrets to write, in the order in which they must be written: the authority
    /// before the Secrets that depend on it.
    ///
    /// # Errors
    /// Fails if a key or certificate cannot be made.
    pub fn carry_out(
        &self,
        plan: &Plan,
        terms: &Terms,
        scope: &SecretScope,
        now: Timestamp,
    ) -> Result<Vec<Secret>, IssueError> {
        let kept = self
            .authority
            .as_ref()
            .filter(|_| !plan.make_authority)
            .and_then(|secret| authority(secret, now));
        let authority = match kept {
            Some(kept) => kept,
            None => issue::authority(now, terms.authority)?,
        };
        let mut trusted = plan.trust.clone();
        let newest = identity::certificates(CERTIFICATE, authority.certificate.as_bytes())
            .unwrap_or_default();
        trusted.extend(newest.first().map(|certificate| certificate.to_vec()));
        let trusted_pem: String = trusted.iter().map(|der| pem(der)).collect();

        let mut written = Vec::new();
        let is_listed =
            self.authority.as_ref().is_some_and(|secret| authorities_in(secret) == trusted);
        if plan.make_authority || !is_listed {
            let data = data(&authority, &trusted_pem);
            written.push(secret(AUTHORITY, data, self.authority.as_ref(), scope, None));
        }
        for ((role, stored), step) in Role::ALL.into_iter().zip(&self.roles).zip(plan.steps) {
            let pair = match (step, stored) {
                (Step::Keep, _) => continue,
                (Step::UpdateTrust, Some(stored)) => {
                    CertifiedKey { certificate: text(stored, CERTIFICATE), key: text(stored, KEY) }
                }
                (Step::UpdateTrust | Step::Issue, _) => {
                    issue::certificate(&authority, role, now, terms.certificate)?
                }
            };
            written.push(secret(
                name(role),
                data(&pair, &trusted_pem),
                stored.as_ref(),
                scope,
                Some(now),
            ));
        }
        Ok(written)
    }
}

/// Returns a Secret's content as a process would read it from its volume.
pub fn bundle(secret: &Secret) -> Bundle {
    let [certificate, key, authorities] =
        [CERTIFICATE, KEY, AUTHORITIES].map(|key| text(secret, key).into_bytes());
    Bundle { certificate, key, authorities }
}

/// Returns the authority in a Secret, if the authority is complete and verifies a certificate that
/// it signs.
fn authority(secret: &Secret, now: Timestamp) -> Option<CertifiedKey> {
    let pair = CertifiedKey { certificate: text(secret, CERTIFICATE), key: text(secret, KEY) };
    let signed =
        issue::certificate(&pair, Role::Operator, now, SignedDuration::from_hours(1)).ok()?;
    let bundle = Bundle {
        certificate: signed.certificate.into(),
        key: signed.key.into(),
        authorities: pair.certificate.clone().into(),
    };
    Identity::of(&bundle, Role::Operator, unix_time(now)?).is_ok().then_some(pair)
}

fn unix_time(at: Timestamp) -> Option<UnixTime> {
    Some(UnixTime::since_unix_epoch(Duration::from_secs(at.as_second().try_into().ok()?)))
}

fn issued(secret: &Secret, role: Role, now: Timestamp) -> Option<Issued> {
    let identity = Identity::of(&bundle(secret), role, unix_time(now)?).ok()?;
    Some(Issued {
        by: identity.issuer().to_vec(),
        validity: identity.validity(),
        trusts: authorities_in(secret),
        written: secret.annotations().get(WRITTEN).and_then(|at| at.parse().ok()),
    })
}

fn authorities_in(secret: &Secret) -> BTreeSet<Authority> {
    let authorities = identity::certificates(AUTHORITIES, text(secret, AUTHORITIES).as_bytes());
    authorities.unwrap_or_default().iter().map(|der| der.to_vec()).collect()
}

fn text(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
}

fn data(pair: &CertifiedKey, trusted: &str) -> BTreeMap<String, ByteString> {
    let entry = |key: &str, text: &str| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
    [entry(CERTIFICATE, &pair.certificate), entry(KEY, &pair.key), entry(AUTHORITIES, trusted)]
        .into()
}

fn secret(
    name: &str,
    data: BTreeMap<String, ByteString>,
    stored: Option<&Secret>,
    scope: &SecretScope,
    written: Option<Timestamp>,
) -> Secret {
    let labels =
        [("app.kubernetes.io/managed-by", "tenon"), ("app.kubernetes.io/part-of", "tenon")];
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(scope.namespace.clone()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        annotations: written.map(|at| [(WRITTEN.to_owned(), at.to_string())].into()),
        owner_references: scope.owner.clone().map(|owner| vec![owner]),
        // The write fails if the Secret has been changed meanwhile.
        resource_version: stored.and_then(ResourceExt::resource_version),
        ..ObjectMeta::default()
    };
    // The type of a Secret is immutable.
    let type_ =
        stored.map_or_else(|| Some("kubernetes.io/tls".to_owned()), |stored| stored.type_.clone());
    Secret { metadata, data: Some(data), type_, ..Secret::default() }
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
