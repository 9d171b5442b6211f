//! What is to become of the certificates. Pure.
//!
//! Processes hear of a change late: the kubelet brings a Secret's new content within a minute or two, to one Pod before the
//! other. Until all have heard, each must be believed by those that have not. So nothing is signed by an authority before all
//! believe it, and nobody stops believing one while its certificates may be about:
//!
//! ```text
//!  authority   A ──────────── B is made ──────────────────────────────────────────────────────────► B signs
//!  believed    A              A and B in every Secret              │                    │  B alone
//!  signed by   A              A                     all have heard │ B                  │  B
//!                             └──────── propagation ──────────────►└── propagation ────►┘
//! ```
//!
//! Everything follows from what the Secrets hold and when they were written, so an operator that ends in the middle of it is
//! followed by one that goes on. The key of an authority is kept for as long as it is the newest, and no longer: in the short
//! time in which the newest may not sign yet, nothing has to be signed. Only a Secret that is missing, or cannot be used, gets
//! a certificate at once.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tenon_lifecycle::tls::Role;
use tenon_lifecycle::tls::identity::Validity;

/// How long things are good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub authority: SignedDuration,
    pub certificate: SignedDuration,
    /// After so long every process has read what a Secret has held since.
    pub propagation: SignedDuration,
}

/// An authority's certificate, as DER: what it is known by.
pub type Authority = Vec<u8>;

/// What the Secrets hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The one whose key is there.
    pub newest: Option<(Authority, Validity)>,
    /// All that are to be believed, as it was last decided.
    pub believed: BTreeSet<Authority>,
    /// In the order of [`Role::ALL`]. `None` is one that is missing, or of no use to its process.
    pub issued: [Option<Issued>; Role::ALL.len()],
}

/// What the Secret of a role holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub by: Authority,
    pub validity: Validity,
    pub believes: BTreeSet<Authority>,
    /// When it was written last, if it says so.
    pub written: Option<Timestamp>,
}

/// What is to be written, and when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Make an authority, which is then the newest.
    pub make_authority: bool,
    /// Believe these, and the newest.
    pub believe: BTreeSet<Authority>,
    /// In the order of [`Role::ALL`].
    pub steps: [Step; Role::ALL.len()],
    /// The next time at which there may be something to do.
    pub again: Timestamp,
}

/// What is to become of the Secret of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Keep,
    /// The certificate stays; who is believed changes.
    Tell,
    /// A new certificate, by the newest authority.
    Issue,
}

pub fn plan(state: &State, terms: &Terms, now: Timestamp) -> Plan {
    let newest = state.newest.as_ref().filter(|(_, validity)| now < renewal(validity));
    let heard = heard(state, terms, now);
    // Whoever has a certificate believes the newest authority, and has had the time to hear of it.
    let may_sign =
        newest.is_some_and(|(newest, _)| heard && held(state).all(|issued| issued.believes.contains(newest)));
    // Nobody has a certificate of any other any more.
    let is_alone = newest.is_some_and(|(newest, _)| {
        heard && state.issued.iter().all(|issued| issued.as_ref().is_some_and(|issued| issued.by == *newest))
    });
    let mut believe = if is_alone { BTreeSet::new() } else { state.believed.clone() };
    believe.extend(newest.map(|(newest, _)| newest.clone()));

    let step = |issued: &Option<Issued>| {
        let Some(issued) = issued.as_ref().filter(|issued| now.as_second() < issued.validity.not_after) else {
            return Step::Issue;
        };
        let is_of_newest = newest.is_some_and(|(newest, _)| issued.by == *newest);
        if may_sign && (!is_of_newest || now >= renewal(&issued.validity)) {
            Step::Issue
        } else if newest.is_none() || issued.believes != believe || written(issued, now).is_none() {
            Step::Tell
        } else {
            Step::Keep
        }
    };
    let steps = state.issued.each_ref().map(step);
    let plan = Plan { make_authority: newest.is_none(), believe, steps, again: now };
    let is_settled = is_alone && plan.steps == [Step::Keep; Role::ALL.len()];
    Plan { again: again(state, terms, now, is_settled), ..plan }
}

/// When a certificate is to be renewed: when two thirds of its time are over.
pub fn renewal(validity: &Validity) -> Timestamp {
    let third = (validity.not_after - validity.not_before) / 3;
    Timestamp::from_second(validity.not_after.saturating_sub(third)).unwrap_or(Timestamp::MIN)
}

fn held(state: &State) -> impl Iterator<Item = &Issued> {
    state.issued.iter().flatten()
}

/// Whether every process has read what its Secret holds.
fn heard(state: &State, terms: &Terms, now: Timestamp) -> bool {
    held(state).all(|issued| written(issued, now).is_some_and(|written| after(written, terms.propagation) <= now))
}

/// When it was written. A time that is still to come is none: a clock was wrong.
fn written(issued: &Issued, now: Timestamp) -> Option<Timestamp> {
    issued.written.filter(|written| *written <= now)
}

fn again(state: &State, terms: &Terms, now: Timestamp, is_settled: bool) -> Timestamp {
    // What is written now is to be looked at when it has been heard of.
    let latest = held(state).filter_map(|issued| written(issued, now)).max();
    let told = if is_settled { None } else { Some(latest.map_or(now, |at| after(at, terms.propagation))) };
    let told = told.map(|at| if at > now { at } else { after(now, terms.propagation) });
    let of_newest = state.newest.iter().map(|(_, validity)| renewal(validity));
    let renewals = held(state).map(|issued| renewal(&issued.validity)).chain(of_newest);
    let next = told.into_iter().chain(renewals).filter(|at| *at > now).min();
    next.unwrap_or_else(|| after(now, terms.propagation))
}

fn after(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
