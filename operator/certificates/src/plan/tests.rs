//! Simulates years of certificates, and checks at each change that all processes trust one another.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use proptest::prelude::*;
use tenon_lifecycle::tls::identity::UnixTime;
use tenon_lifecycle::tls::{Bundle, Identity};

use super::*;
use crate::secrets::{self, SecretScope, Secrets};

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

/// An installation with an operator that runs at the times that its plans state.
struct Installation {
    now: Timestamp,
    stored: Secrets,
    /// The content that processes of each role may have read: the current content of the Secret,
    /// and earlier content with the time of its replacement.
    read: [VecDeque<(Bundle, Option<Timestamp>)>; Role::ALL.len()],
    authorities: BTreeSet<Authority>,
    /// Number of certificates that have replaced others.
    issued: usize,
}

impl Installation {
    fn new() -> Self {
        let read = [VecDeque::new(), VecDeque::new(), VecDeque::new()];
        Self {
            now: start(),
            stored: Secrets::default(),
            read,
            authorities: BTreeSet::new(),
            issued: 0,
        }
    }

    /// Returns the plan that an operator would make now.
    fn plan(&self) -> Plan {
        plan(&self.stored.state(self.now), &TERMS, self.now)
    }

    /// Runs an operator that ends after it has written `ends_after` Secrets. Returns the time of
    /// its next run.
    fn reconcile(&mut self, ends_after: usize) -> Timestamp {
        let plan = self.plan();
        let scope = SecretScope { namespace: "tenon-system".to_owned(), owner: None };
        let written = self.stored.carry_out(&plan, &TERMS, &scope, self.now).unwrap();
        assert!(plan.make_authority || !written.is_empty() || plan.steps == [Step::Keep; 3]);
        for secret in written.into_iter().take(ends_after) {
            self.store(secret);
        }
        plan.next_run
    }

    fn store(&mut self, secret: Secret) {
        let Some(role) =
            Role::ALL.into_iter().find(|role| secrets::name(*role) == secret.name_any())
        else {
            self.stored.authority = Some(secret);
            self.authorities.extend(self.stored.state(self.now).newest.map(|(newest, _)| newest));
            return;
        };
        let read = &mut self.read[role as usize];
        let bundle = secrets::bundle(&secret);
        if let Some((before, until)) = read.back_mut() {
            *until = Some(self.now);
            self.issued += usize::from(before.certificate != bundle.certificate);
        }
        read.push_back((bundle, None));
        self.stored.roles[role as usize] = Some(secret);
    }

    /// Asserts that all processes trust one another with any content that they may have read.
    fn assert_mutual_trust(&mut self) {
        let propagated_at = self.now - TERMS.propagation;
        for read in &mut self.read {
            read.retain(|(_, until)| until.is_none_or(|until| until > propagated_at));
        }
        let now = UnixTime::since_unix_epoch(Duration::from_secs(
            self.now.as_second().try_into().unwrap(),
        ));
        let processes = || {
            Role::ALL
                .into_iter()
                .zip(&self.read)
                .flat_map(|(role, read)| read.iter().map(move |(bundle, _)| (role, bundle)))
        };
        for (role, presented) in processes() {
            for (other, trusts) in processes().filter(|(other, _)| *other != role) {
                let bundle =
                    Bundle { authorities: trusts.authorities.clone(), ..presented.clone() };
                let trusted = Identity::of(&bundle, role, now);
                assert!(
                    trusted.is_ok(),
                    "at {} a {other} does not trust a {role}: {trusted:?}",
                    self.now
                );
            }
        }
    }

    /// Advances the time to `until`, and checks mutual trust at every change in between.
    fn advance_to(&mut self, until: Timestamp) {
        // The trust changes when replaced content expires. The last check is at `until`.
        let replaced_at: Vec<_> =
            self.read.iter().flatten().filter_map(|(_, until)| *until).collect();
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
    assert!(installation.read.iter().all(|read| read.len() == 1));
    // After the propagation delay, nothing changes until the first renewal.
    installation.now += TERMS.propagation;
    let plan = installation.plan();
    assert_eq!(plan.steps, [Step::Keep; 3]);
    let in_days = plan.next_run.duration_since(start()).as_hours() / 24;
    assert!((59..=60).contains(&in_days), "{}", plan.next_run);
}

#[test]
fn processes_trust_each_other_for_thirty_years() {
    let mut installation = Installation::new();
    while installation.now.duration_since(start()) < YEAR * 30 {
        let again = installation.reconcile(usize::MAX);
        installation.assert_mutual_trust();
        assert!(again > installation.now);
        installation.advance_to(again);
    }
    // An authority signs for two thirds of ten years, and a certificate is used for two thirds of
    // ninety days.
    assert_eq!(installation.authorities.len(), 5);
    assert!((3 * 180..3 * 200).contains(&installation.issued), "{}", installation.issued);
}

#[test]
fn a_new_authority_signs_once_it_is_trusted_and_an_unused_one_is_no_longer_trusted() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    installation.now += TERMS.authority;
    // All Secrets but the authority's are as in a new installation.
    installation.stored.roles = Default::default();
    installation.read = Installation::new().read;
    let old = installation.authorities.first().cloned().unwrap();
    let steps = |installation: &Installation| installation.plan().steps;

    installation.now = start() + TERMS.authority * 2 / 3 - DAY;
    installation.reconcile(usize::MAX);
    installation.now += DAY * 2;
    assert!(installation.plan().make_authority);
    assert_eq!(steps(&installation), [Step::UpdateTrust; 3]);
    installation.reconcile(usize::MAX);
    assert_eq!(installation.plan().trust.len(), 2);
    installation.now += TERMS.propagation - MINUTE;
    assert_eq!(steps(&installation), [Step::Keep; 3]);
    installation.now += MINUTE;
    assert_eq!(steps(&installation), [Step::Issue; 3]);
    installation.reconcile(usize::MAX);
    assert!(installation.plan().trust.contains(&old));
    installation.now += TERMS.propagation;
    assert!(!installation.plan().trust.contains(&old));
    assert_eq!(steps(&installation), [Step::UpdateTrust; 3]);
    installation.reconcile(usize::MAX);
    assert_eq!(steps(&installation), [Step::Keep; 3]);
}

#[test]
fn a_lost_secret_is_issued_again_in_the_next_run() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    installation.now += DAY;
    installation.stored.roles[Role::Router as usize] = None;
    assert_eq!(installation.plan().steps, [Step::Keep, Step::Issue, Step::Keep]);
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
            let again = installation.reconcile(usize::MAX);
            installation.advance_to(again.min(installation.now + TERMS.propagation));
        }
        let state = installation.stored.state(installation.now);
        assert_eq!(state.trusted.len(), 1);
        assert!(!state.trusted.contains(&lost));
        assert_eq!(installation.plan().steps, [Step::Keep; 3]);
    }
}

#[test]
fn a_secret_without_a_valid_write_time_is_updated() {
    let mut installation = Installation::new();
    installation.reconcile(usize::MAX);
    let written = |at: &str| [(secrets::WRITTEN.to_owned(), at.to_owned())].into();
    for at in ["yesterday", "2099-01-01T00:00:00Z"] {
        installation.stored.roles[0].as_mut().unwrap().metadata.annotations = Some(written(at));
        assert_eq!(installation.plan().steps[0], Step::UpdateTrust, "{at}");
    }
}

/// Returns interruptions of an operator: the number of Secrets after which the operator ends, and
/// the delay of the next run in minutes, up to a week.
fn interruptions() -> impl Strategy<Value = Vec<(usize, i32)>> {
    let ends = (0_usize..4, 0_i32..20);
    let late = (Just(usize::MAX), prop_oneof![Just(0), 0_i32..20, 0_i32..7 * 24 * 60]);
    prop::collection::vec(prop_oneof![ends, late], 60..100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn processes_trust_each_other_despite_absent_operators(interruptions in interruptions()) {
        let mut installation = Installation::new();
        installation.reconcile(usize::MAX);
        // The simulation begins 61 days before the authority's renewal.
        installation.now = start() + TERMS.authority * 2 / 3 - DAY * 61;
        let state = installation.stored.state(installation.now);
        prop_assert!(state.newest.is_some());
        installation.stored.roles = Default::default();
        installation.read = Installation::new().read;
        installation.reconcile(usize::MAX);
        for (ends_after, late) in interruptions {
            let again = installation.reconcile(ends_after);
            installation.assert_mutual_trust();
            // The successor of an operator that ended runs within a minute.
            let next = if ends_after == usize::MAX { again } else { again.min(installation.now + MINUTE) };
            installation.advance_to(next + MINUTE * late);
        }
    }
}
