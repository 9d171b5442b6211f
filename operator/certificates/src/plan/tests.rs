//! Simulates years of certificates, and checks at each change that all processes trust one another.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use proptest::prelude::*;
use tenon_crds::POOL_LABEL;
use tenon_lifecycle::tls::identity::{CERTIFICATE, UnixTime, certificates};
use tenon_lifecycle::tls::{Bundle, Identity, Principal, Role};

use super::*;
use crate::issue;
use crate::secrets::{self, Pools, SecretScope, Secrets};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);
const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The defaults of the operator's flags.
const TERMS: Terms = Terms {
    authority: SignedDuration::from_hours(24 * 3650),
    certificate: SignedDuration::from_hours(24 * 90),
    propagation: SignedDuration::from_mins(10),
};

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

const NAMESPACE: &str = "tenon-system";

/// An installation with an operator that runs at the times that its plans state.
struct Installation {
    now: Timestamp,
    stored: Secrets,
    pools: Pools,
    /// The content that processes of each holder may have read: the current content of the Secret,
    /// and earlier content with the time of its replacement.
    read: BTreeMap<Subject, VecDeque<(Bundle, Option<Timestamp>)>>,
    authorities: BTreeSet<Authority>,
    /// Number of certificates that have replaced others.
    issued: usize,
}

fn pool(name: &str) -> Subject {
    Subject::Pool(name.to_owned())
}

impl Installation {
    /// Returns an installation with the pool `default`.
    fn new() -> Self {
        let mut installation = Self {
            now: start(),
            stored: Secrets::default(),
            pools: Pools::new(),
            read: BTreeMap::new(),
            authorities: BTreeSet::new(),
            issued: 0,
        };
        installation.stored.issued = Subject::fixed().map(|subject| (subject, None)).collect();
        installation.create_pool("default");
        installation
    }

    fn create_pool(&mut self, name: &str) {
        let uid = format!("uid-of-{name}");
        self.pools.insert(name.to_owned(), OwnerReference { uid, ..OwnerReference::default() });
        self.stored.issued.entry(pool(name)).or_insert(None);
    }

    /// Deletes a pool with its nodes and, by garbage collection, its Secret.
    fn delete_pool(&mut self, name: &str) {
        self.pools.remove(name);
        self.stored.issued.remove(&pool(name));
        self.read.remove(&pool(name));
    }

    /// Deletes the Secrets of all holders, and replaces all processes.
    fn lose_certificates(&mut self) {
        self.stored.issued.values_mut().for_each(|secret| *secret = None);
        self.read.clear();
    }

    /// Returns the plan that an operator would make now.
    fn plan(&self) -> Plan {
        plan(&self.stored.state(NAMESPACE, self.now), &TERMS, self.now)
    }

    /// Returns the steps that an operator would take now, by holder, without adjacent repetitions.
    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<_> = self.plan().steps.into_values().collect();
        steps.dedup();
        steps
    }

    /// Runs an operator that stops after it has written `stops_after` Secrets. Returns the time of
    /// its next run.
    fn reconcile(&mut self, stops_after: usize) -> Timestamp {
        let plan = self.plan();
        let (namespace, pools) = (NAMESPACE.to_owned(), self.pools.clone());
        let scope = SecretScope { namespace, owner: None, pools };
        let written = self.stored.secrets_to_write(&plan, &TERMS, &scope, self.now).unwrap();
        let waits = plan.steps.values().any(|step| *step == Step::Wait);
        assert!(plan.make_authority || !written.is_empty() || plan.keeps_all() || waits);
        for secret in written.into_iter().take(stops_after) {
            self.store(secret);
        }
        plan.next_run
    }

    fn store(&mut self, secret: Secret) {
        let mut subjects = self.stored.issued.keys();
        let subject = subjects.find(|subject| subject.secret() == secret.name_any()).cloned();
        let Some(subject) = subject else {
            self.stored.authority = Some(secret);
            let state = self.stored.state(NAMESPACE, self.now);
            self.authorities.extend(state.newest.map(|(newest, _)| newest));
            return;
        };
        let read = self.read.entry(subject.clone()).or_default();
        let bundle = secrets::bundle(&secret);
        if let Some((before, until)) = read.back_mut() {
            *until = Some(self.now);
            self.issued += usize::from(before.certificate != bundle.certificate);
        }
        read.push_back((bundle, None));
        self.stored.issued.insert(subject, Some(secret));
    }

    /// Asserts that all processes trust one another with any content that they may have read.
    fn assert_mutual_trust(&mut self) {
        let propagated_at = self.now - TERMS.propagation;
        for read in self.read.values_mut() {
            read.retain(|(_, until)| until.is_none_or(|until| until > propagated_at));
        }
        let now = UnixTime::since_unix_epoch(Duration::from_secs(
            self.now.as_second().try_into().unwrap(),
        ));
        let processes = || {
            self.read
                .iter()
                .flat_map(|(subject, read)| read.iter().map(move |(bundle, _)| (subject, bundle)))
        };
        for (subject, presented) in processes() {
            let role = subject.role();
            for (other, trusts) in processes().filter(|(other, _)| other.role() != role) {
                let bundle =
                    Bundle { authorities: trusts.authorities.clone(), ..presented.clone() };
                let trusted = Identity::of(&bundle, role, now);
                assert!(
                    trusted.is_ok(),
                    "at {} {other:?} does not trust {subject:?}: {trusted:?}",
                    self.now
                );
            }
        }
    }

    /// Advances the time to `until`, and checks mutual trust at every change in between.
    fn advance_to(&mut self, until: Timestamp) {
        // The trust changes when replaced content expires. The last check is at `until`.
        let replaced_at: Vec<_> =
            self.read.values().flatten().filter_map(|(_, until)| *until).collect();
        let mut changes: Vec<_> =
            replaced_at.iter().map(|until| *until + TERMS.propagation).chain([until]).collect();
        changes.retain(|change| *change > self.now && *change <= until);
        changes.sort_unstable();
        for change in changes {
            self.now = change;
            self.assert_mutual_trust();
        }
    }
}

#[test]
fn a_new_installation_gets_all_certificates_in_one_run() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    installation.assert_mutual_trust();
    assert!(installation.read.len() == 4 && installation.read.values().all(|read| read.len() == 1));
    // After the propagation delay, nothing changes until the first renewal.
    installation.now += TERMS.propagation;
    let plan = installation.plan();
    assert!(plan.keeps_all());
    let in_days = plan.next_run.duration_since(start()).as_hours() / 24;
    assert!((59..=60).contains(&in_days), "{}", plan.next_run);
}

#[test]
fn processes_trust_each_other_for_thirty_years() {
    let mut installation = Installation::new();
    while installation.now.duration_since(start()) < YEAR * 30 {
        let next_run = installation.reconcile(usize::MAX);
        installation.assert_mutual_trust();
        assert!(next_run > installation.now);
        installation.advance_to(next_run);
    }
    // An authority signs for two thirds of ten years, and a certificate is used for two thirds of
    // ninety days.
    assert_eq!(installation.authorities.len(), 5);
    assert!((4 * 180..4 * 200).contains(&installation.issued), "{}", installation.issued);
}

#[test]
fn a_new_authority_signs_once_it_is_trusted_and_an_unused_one_is_no_longer_trusted() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    // All Secrets but the authority's are as in a new installation.
    installation.lose_certificates();
    let old = installation.authorities.first().cloned().unwrap();
    let steps = Installation::steps;

    installation.now = start() + TERMS.authority * 2 / 3 - DAY;
    installation.reconcile(usize::MAX);
    installation.now += DAY * 2;
    assert!(installation.plan().make_authority);
    assert_eq!(steps(&installation), [Step::UpdateTrust]);
    installation.reconcile(usize::MAX);
    assert_eq!(installation.plan().trust.len(), 2);
    installation.now += TERMS.propagation - MINUTE;
    assert_eq!(steps(&installation), [Step::Keep]);
    installation.now += MINUTE;
    assert_eq!(steps(&installation), [Step::Issue]);
    installation.reconcile(usize::MAX);
    assert!(installation.plan().trust.contains(&old));
    installation.now += TERMS.propagation;
    assert!(!installation.plan().trust.contains(&old));
    assert_eq!(steps(&installation), [Step::UpdateTrust]);
    installation.reconcile(usize::MAX);
    assert_eq!(steps(&installation), [Step::Keep]);
}

#[test]
fn a_lost_secret_is_issued_again_in_the_next_run() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    installation.now += DAY;
    installation.stored.issued.insert(Subject::Role(Role::Router), None);
    installation.stored.issued.insert(pool("default"), None);
    assert_eq!(installation.steps(), [Step::Keep, Step::Issue, Step::Keep, Step::Issue]);
    installation.reconcile(usize::MAX);
    installation.assert_mutual_trust();
}

#[test]
fn an_authority_can_be_lost_or_replaced_without_interruption() {
    let theirs = crate::issue::authority(start(), TERMS.authority).unwrap();
    let theirs = serde_json::json!({
        "metadata": {"name": secrets::AUTHORITY},
        "stringData": {},
        "data": {
            "tls.crt": k8s_openapi::ByteString(theirs.certificate.clone().into()),
            "tls.key": k8s_openapi::ByteString(theirs.key.into()),
            "ca.crt": k8s_openapi::ByteString(theirs.certificate.into()),
        },
    });
    for replaced in [None, Some(serde_json::from_value::<Secret>(theirs).unwrap())] {
        let mut installation = Installation::new();
        installation.reconcile(usize::MAX);
        let lost = installation.authorities.first().cloned().unwrap();
        installation.now += DAY;
        installation.stored.authority = replaced;
        for _ in 0..4 {
            let next_run = installation.reconcile(usize::MAX);
            installation.advance_to(next_run.min(installation.now + TERMS.propagation));
        }
        let state = installation.stored.state(NAMESPACE, installation.now);
        assert_eq!(state.trusted.len(), 1);
        assert!(!state.trusted.contains(&lost));
        assert!(installation.plan().keeps_all());
    }
}

#[test]
fn a_secret_without_a_valid_write_time_is_updated() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    let written = |at: &str| [(secrets::WRITTEN.to_owned(), at.to_owned())].into();
    for at in ["yesterday", "2099-01-01T00:00:00Z"] {
        let operator = Subject::Role(Role::Operator);
        let secret = installation.stored.issued.get_mut(&operator).and_then(Option::as_mut);
        secret.unwrap().metadata.annotations = Some(written(at));
        assert_eq!(installation.plan().steps[&operator], Step::UpdateTrust, "{at}");
    }
}

#[test]
fn the_certificate_of_each_holder_names_it_and_its_pool_owns_the_secret() {
    let mut installation = Installation::new();
    installation.create_pool("gpu");
    installation.reconcile(usize::MAX);
    for (subject, secret) in &installation.stored.issued {
        let secret = secret.as_ref().unwrap();
        let chain = certificates(CERTIFICATE, &secrets::bundle(secret).certificate).unwrap();
        assert_eq!(Principal::of(&chain[0], NAMESPACE), Ok(subject.principal()), "{subject:?}");
        let owners: Vec<_> = secret.owner_references().iter().map(|owner| &owner.uid).collect();
        let label = secret.labels().get(POOL_LABEL).map(String::as_str);
        match subject {
            Subject::Pool(name) => {
                assert_eq!((owners, label), (vec![&format!("uid-of-{name}")], Some(name.as_str())));
            }
            Subject::Role(_) => assert_eq!((owners.len(), label), (0, None)),
        }
    }
}

#[test]
fn a_new_pool_gets_a_certificate_at_once_unless_its_authority_is_not_trusted_yet() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    // The other Secrets were written just now, by the same authority.
    installation.create_pool("second");
    assert_eq!(installation.plan().steps[&pool("second")], Step::Issue);
    installation.reconcile(usize::MAX);
    installation.assert_mutual_trust();
    installation.now = start() + TERMS.authority * 2 / 3 - DAY;
    installation.lose_certificates();
    installation.reconcile(usize::MAX);
    installation.now += DAY * 2;
    installation.reconcile(usize::MAX);
    installation.now += MINUTE;
    installation.create_pool("third");
    assert_eq!(installation.plan().steps[&pool("third")], Step::Wait);
    let next_run = installation.reconcile(usize::MAX);
    installation.advance_to(next_run);
    assert_eq!(installation.plan().steps[&pool("third")], Step::Issue);
    installation.reconcile(usize::MAX);
    installation.assert_mutual_trust();
    assert!(installation.read.contains_key(&pool("third")));
}

#[test]
fn the_certificate_of_another_pool_is_replaced() {
    let mut installation = Installation::new();
    installation.create_pool("gpu");
    installation.reconcile(usize::MAX);
    installation.now += TERMS.propagation;
    let mut copied = installation.stored.issued[&pool("gpu")].clone().unwrap();
    copied.metadata.name = Some(pool("default").secret());
    installation.stored.issued.insert(pool("default"), Some(copied));
    assert_eq!(installation.plan().steps[&pool("default")], Step::Issue);
    assert_eq!(installation.plan().steps[&pool("gpu")], Step::Keep);
}

/// An earlier version issued a certificate for each role, without a URI, and none for pools.
#[test]
fn an_upgrade_issues_named_certificates_from_the_same_authority() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    installation.delete_pool("default");
    let authority = installation.stored.authority.as_ref().unwrap();
    let bundle = secrets::bundle(authority);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let pair = issue::CertifiedKey { certificate: text(bundle.certificate), key: text(bundle.key) };
    installation.now += DAY;
    for subject in Subject::fixed() {
        let secret = installation.stored.issued.get_mut(&subject).unwrap().as_mut().unwrap();
        let (role, lifetime) = (subject.role(), TERMS.certificate);
        let unnamed = issue::certificate(&pair, role, None, installation.now, lifetime).unwrap();
        let data = secret.data.as_mut().unwrap();
        data.get_mut("tls.crt").unwrap().0 = unnamed.certificate.into();
        data.get_mut("tls.key").unwrap().0 = unnamed.key.into();
    }
    installation.create_pool("default");
    let steps = installation.plan().steps.into_values().collect::<Vec<_>>();
    assert_eq!(steps, [Step::Issue, Step::Issue, Step::Keep, Step::Issue]);
    installation.reconcile(usize::MAX);
    installation.assert_mutual_trust();
    installation.now += TERMS.propagation;
    assert!(installation.plan().keeps_all());
    assert_eq!(installation.authorities.len(), 1);
}

/// Returns interruptions of an operator: the number of Secrets after which the operator stops, and
/// the delay of the next run in minutes, up to a week.
fn interruptions() -> impl Strategy<Value = Vec<(usize, i32)>> {
    let stops = (0_usize..6, 0_i32..20);
    let late = (Just(usize::MAX), prop_oneof![Just(0), 0_i32..20, 0_i32..7 * 24 * 60]);
    prop::collection::vec(prop_oneof![stops, late], 60..100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn processes_trust_each_other_despite_absent_operators(interruptions in interruptions()) {
        let mut installation = Installation::new();
        installation.reconcile(usize::MAX);
        // The simulation begins 61 days before the authority's renewal.
        installation.now = start() + TERMS.authority * 2 / 3 - DAY * 61;
        let state = installation.stored.state(NAMESPACE, installation.now);
        prop_assert!(state.newest.is_some());
        installation.lose_certificates();
        installation.reconcile(usize::MAX);
        for (stops_after, late) in interruptions {
            // Pools come and go while the operator is interrupted.
            match late % 3 {
                0 => installation.create_pool("brief"),
                1 => installation.delete_pool("brief"),
                _ => {}
            }
            let next_run = installation.reconcile(stops_after);
            installation.assert_mutual_trust();
            // The successor of an operator that stopped runs within a minute.
            let successor = installation.now + MINUTE;
            let next = if stops_after == usize::MAX { next_run } else { next_run.min(successor) };
            installation.advance_to(next + MINUTE * late);
        }
    }
}
