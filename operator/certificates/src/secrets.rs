//! Reads the Secrets in which certificates are stored, and builds their new content.
//!
//! | Secret | `tls.crt`, `tls.key` | `ca.crt` |
//! | --- | --- | --- |
//! | `tenon-ca` | the newest authority | all trusted authorities |
//! | one for each [`Subject`] | the holder's certificate | the same |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use tenon_crds::POOL_LABEL;
use tenon_lifecycle::tls::identity::{self, AUTHORITIES, CERTIFICATE, KEY, UnixTime};
use tenon_lifecycle::tls::{Bundle, Identity, Principal, Role};

use crate::issue::{self, CertifiedKey, IssueError};
use crate::plan::{Authority, Issued, Plan, State, Step, Terms};
use crate::subject::{Subject, role_secret};

/// The Secret of the newest authority.
pub const AUTHORITY: &str = "tenon-ca";

/// The annotation of a holder's Secret that contains the time of the last write.
pub const WRITTEN: &str = "tenon.dev/written";

/// Returns the names of the Secrets that every installation has.
pub const fn names() -> [&'static str; 4] {
    [
        AUTHORITY,
        role_secret(Role::Operator),
        role_secret(Role::Router),
        role_secret(Role::RuntimeNode),
    ]
}

/// The stored Secrets.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    pub authority: Option<Secret>,
    /// The Secret of each holder, if it exists.
    pub issued: BTreeMap<Subject, Option<Secret>>,
}

/// The RuntimePools by name. Each owns the Secret of its nodes.
pub type Pools = BTreeMap<String, OwnerReference>;

/// Namespace and owners of the Secrets.
#[derive(Clone, Debug)]
pub struct SecretScope {
    pub namespace: String,
    /// The owner of all Secrets but those of pools, if they have one.
    pub owner: Option<OwnerReference>,
    pub pools: Pools,
}

impl Secrets {
    /// Returns the content of the Secrets. Unreadable content counts as missing.
    ///
    /// # Arguments
    /// * `namespace` - the namespace of the Secrets.
    pub fn state(&self, namespace: &str, now: Timestamp) -> State {
        let pair = self.authority.as_ref().and_then(|secret| authority(secret, now));
        let newest = pair.as_ref().and_then(|pair| {
            let certificate = identity::certificates(CERTIFICATE, pair.certificate.as_bytes())
                .ok()?
                .swap_remove(0);
            let validity = identity::validity(CERTIFICATE, &certificate).ok()?;
            Some((certificate.to_vec(), validity))
        });
        let issued = self.issued.iter().map(|(subject, secret)| {
            let issued = secret.as_ref().and_then(|secret| issued(secret, subject, namespace, now));
            (subject.clone(), issued)
        });
        let issued: BTreeMap<_, _> = issued.collect();
        let mut trusted = match (&newest, &self.authority) {
            (Some(_), Some(secret)) => authorities_in(secret),
            // Without a readable authority, use the authorities that the remaining Secrets trust.
            _ => issued.values().flatten().flat_map(|issued| issued.trusts.clone()).collect(),
        };
        // If the authority was replaced by hand, the issuers of certificates in use must stay
        // trusted, or connections would fail.
        trusted.extend(issued.values().flatten().map(|issued| issued.by.clone()));
        State { newest, trusted, issued }
    }

    /// Returns the Secrets to write, in the order in which they must be written: the authority
    /// before the Secrets that depend on it.
    ///
    /// # Errors
    /// Fails if a key or certificate cannot be made.
    pub fn secrets_to_write(
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

        let mut to_write = Vec::new();
        let is_listed =
            self.authority.as_ref().is_some_and(|secret| authorities_in(secret) == trusted);
        if plan.make_authority || !is_listed {
            let data = data(&authority, &trusted_pem);
            to_write.push(secret(None, data, self.authority.as_ref(), scope, None));
        }
        for (subject, stored) in &self.issued {
            let step = plan.steps.get(subject).copied().unwrap_or(Step::Keep);
            let pair = match (step, stored) {
                (Step::Keep | Step::Wait, _) => continue,
                (Step::UpdateTrust, Some(stored)) => {
                    CertifiedKey { certificate: text(stored, CERTIFICATE), key: text(stored, KEY) }
                }
                (Step::UpdateTrust | Step::Issue, _) => {
                    let uri = subject.principal().map(|principal| principal.uri(&scope.namespace));
                    let (role, lifetime) = (subject.role(), terms.certificate);
                    issue::certificate(&authority, role, uri.as_deref(), now, lifetime)?
                }
            };
            let data = data(&pair, &trusted_pem);
            to_write.push(secret(Some(subject), data, stored.as_ref(), scope, Some(now)));
        }
        Ok(to_write)
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
        issue::certificate(&pair, Role::Operator, None, now, SignedDuration::from_hours(1)).ok()?;
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

fn issued(secret: &Secret, subject: &Subject, namespace: &str, now: Timestamp) -> Option<Issued> {
    let bundle = bundle(secret);
    let identity = Identity::of(&bundle, subject.role(), unix_time(now)?).ok()?;
    let certificate = identity::certificates(CERTIFICATE, &bundle.certificate).ok()?.swap_remove(0);
    let is_named = Principal::of(&certificate, namespace) == Ok(subject.principal());
    // With the certificate of another pool, a pool's nodes would get the code of that other pool.
    if !is_named && matches!(subject, Subject::Pool(_)) {
        return None;
    }
    Some(Issued {
        is_named,
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

/// Builds a Secret.
///
/// # Arguments
/// * `subject` - the holder of the certificate; `None` for the authority.
fn secret(
    subject: Option<&Subject>,
    data: BTreeMap<String, ByteString>,
    stored: Option<&Secret>,
    scope: &SecretScope,
    written: Option<Timestamp>,
) -> Secret {
    let pool = match subject {
        Some(Subject::Pool(name)) => Some(name.as_str()),
        Some(Subject::Role(_)) | None => None,
    };
    let labels =
        [("app.kubernetes.io/managed-by", "tenon"), ("app.kubernetes.io/part-of", "tenon")];
    let labels = labels.into_iter().chain(pool.map(|pool| (POOL_LABEL, pool)));
    let owner = match pool {
        Some(pool) => scope.pools.get(pool),
        None => scope.owner.as_ref(),
    };
    let metadata = ObjectMeta {
        name: Some(subject.map_or_else(|| AUTHORITY.to_owned(), Subject::secret)),
        namespace: Some(scope.namespace.clone()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
        annotations: written.map(|at| [(WRITTEN.to_owned(), at.to_string())].into()),
        owner_references: owner.cloned().map(|owner| vec![owner]),
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
