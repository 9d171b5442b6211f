//! Decides which certificates to issue, keep and trust. This module is pure.
//!
//! Processes see a change late: the kubelet updates a Secret's volume within a minute or two, at
//! different times in different Pods. Until all processes have seen a change, each process must
//! accept the certificates of the processes that have not seen it. Therefore no authority signs,
//! with the exception below, before all processes trust it, and no process stops trusting an
//! authority while certificates from that authority may be in use:
//!
//! ```text
//!  authority   A ──────────── B is made ─────────────────────────────────────────► B signs
//!  trusted     A              A and B in every Secret │                  │  B alone
//!  signed by   A              A       all have seen B │ B                │  B
//!                             └──── propagation ─────►└── propagation ──►┘
//! ```
//!
//! Every decision follows from the Secrets' content and their write times, so if an operator stops
//! halfway, the next operator continues its work. Only the key of the newest authority is kept. In
//! the short time before the newest authority may sign, a missing or unusable Secret of a role gets
//! a certificate from the newest authority immediately, because processes of that role may already
//! be without one. The Secret of a new pool waits, because no node of the pool runs yet.
//!
//! A certificate that does not name its holder, because an earlier version issued it, is replaced
//! as if it were due for renewal.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use tenon_lifecycle::tls::identity::Validity;

use crate::subject::Subject;

/// The lifetimes of certificates, and the delay until processes have read a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub authority: SignedDuration,
    pub certificate: SignedDuration,
    /// The time after which every process has read a Secret's new content.
    pub propagation: SignedDuration,
}

/// The DER certificate of an authority, which identifies it.
pub type Authority = Vec<u8>;

/// The content of the Secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The authority whose key is stored.
    pub newest: Option<(Authority, Validity)>,
    /// All authorities that processes must trust, according to the last decision.
    pub trusted: BTreeSet<Authority>,
    /// The Secret of each holder; `None` if it is missing or unusable.
    pub issued: BTreeMap<Subject, Option<Issued>>,
}

/// The content of a holder's Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub by: Authority,
    pub validity: Validity,
    pub trusts: BTreeSet<Authority>,
    /// Whether the certificate names its holder.
    pub is_named: bool,
    /// Time of the last write, if the Secret states it.
    pub written: Option<Timestamp>,
}

/// The Secrets to write, and the time of the next run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whether to make an authority, which becomes the newest.
    pub make_authority: bool,
    /// The authorities to trust. An authority that the plan makes is trusted in addition.
    pub trust: BTreeSet<Authority>,
    /// The step of each holder.
    pub steps: BTreeMap<Subject, Step>,
    /// The next time at which a Secret may have to change.
    pub next_run: Timestamp,
}

/// The action on a holder's Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Keep,
    /// Issue the first certificate later, when all processes trust the newest authority.
    Wait,
    /// Keep the certificate, and write the trusted authorities and the time of the write again.
    UpdateTrust,
    /// Issue a new certificate from the newest authority.
    Issue,
}

/// Decides how to change the Secrets at `now`.
pub fn plan(state: &State, terms: &Terms, now: Timestamp) -> Plan {
    let newest = state.newest.as_ref().filter(|(_, validity)| now < renewal(validity));
    let has_propagated = has_propagated(state, terms, now);
    // Every Secret trusts the newest authority, and every process has had time to read its Secret.
    let may_sign = newest.is_some_and(|(newest, _)| {
        has_propagated && held(state).all(|issued| issued.trusts.contains(newest))
    });
    let is_trusted = held(state).next().is_none()
        || newest.is_some_and(|(newest, _)| is_trusted(state, newest, terms, now));
    // No certificate from any other authority is left.
    let is_alone = newest.is_some_and(|(newest, _)| {
        has_propagated
            && state
                .issued
                .values()
                .all(|issued| issued.as_ref().is_some_and(|issued| issued.by == *newest))
    });
    let mut trust = if is_alone { BTreeSet::new() } else { state.trusted.clone() };
    trust.extend(newest.map(|(newest, _)| newest.clone()));

    let step = |subject: &Subject, issued: &Option<Issued>| {
        let Some(issued) =
            issued.as_ref().filter(|issued| now.as_second() < issued.validity.not_after)
        else {
            return match subject {
                Subject::Pool(_) if !is_trusted => Step::Wait,
                Subject::Pool(_) | Subject::Role(_) => Step::Issue,
            };
        };
        let is_from_newest = newest.is_some_and(|(newest, _)| issued.by == *newest);
        let is_due = !issued.is_named || now >= renewal(&issued.validity);
        if may_sign && (!is_from_newest || is_due) {
            Step::Issue
        } else if newest.is_none() || issued.trusts != trust || write_time(issued, now).is_none() {
            Step::UpdateTrust
        } else {
            Step::Keep
        }
    };
    let steps =
        state.issued.iter().map(|(subject, issued)| (subject.clone(), step(subject, issued)));
    let steps = steps.collect();
    let plan = Plan { make_authority: newest.is_none(), trust, steps, next_run: now };
    let is_settled = is_alone && plan.keeps_all();
    Plan { next_run: next_run(state, terms, now, is_settled), ..plan }
}

impl Plan {
    /// Returns whether every holder keeps its Secret: none is written now, and none waits for its
    /// first certificate.
    pub fn keeps_all(&self) -> bool {
        self.steps.values().all(|step| *step == Step::Keep)
    }
}

/// Returns the time at which a certificate is renewed: after two thirds of its lifetime.
pub fn renewal(validity: &Validity) -> Timestamp {
    let third = (validity.not_after - validity.not_before) / 3;
    Timestamp::from_second(validity.not_after.saturating_sub(third)).unwrap_or(Timestamp::MIN)
}

fn held(state: &State) -> impl Iterator<Item = &Issued> {
    state.issued.values().flatten()
}

/// Returns whether every process trusts the newest authority: its Secret lists the authority, and
/// either the Secret's certificate comes from the authority, which signs only once it is trusted,
/// or the process has had time to read the Secret.
fn is_trusted(state: &State, newest: &[u8], terms: &Terms, now: Timestamp) -> bool {
    held(state).all(|issued| {
        issued.trusts.contains(newest)
            && (issued.by == *newest || has_been_read(issued, terms, now))
    })
}

/// Returns whether every process has read its Secret's content.
fn has_propagated(state: &State, terms: &Terms, now: Timestamp) -> bool {
    held(state).all(|issued| has_been_read(issued, terms, now))
}

/// Returns whether every process of the holder has read its Secret's content.
fn has_been_read(issued: &Issued, terms: &Terms, now: Timestamp) -> bool {
    write_time(issued, now).is_some_and(|written| after(written, terms.propagation) <= now)
}

/// Returns the time of the last write. A time in the future is ignored, because it comes from a
/// wrong clock.
fn write_time(issued: &Issued, now: Timestamp) -> Option<Timestamp> {
    issued.written.filter(|written| *written <= now)
}

fn next_run(state: &State, terms: &Terms, now: Timestamp, is_settled: bool) -> Timestamp {
    // The Secrets written now are checked again once all processes have read them.
    let latest = held(state).filter_map(|issued| write_time(issued, now)).max();
    let recheck =
        if is_settled { None } else { Some(latest.map_or(now, |at| after(at, terms.propagation))) };
    let recheck = recheck.map(|at| if at > now { at } else { after(now, terms.propagation) });
    let authority_renewal = state.newest.iter().map(|(_, validity)| renewal(validity));
    let renewals = held(state).map(|issued| renewal(&issued.validity)).chain(authority_renewal);
    let next = recheck.into_iter().chain(renewals).filter(|at| *at > now).min();
    next.unwrap_or_else(|| after(now, terms.propagation))
}

fn after(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
