//! Divides a Worker's requests among its revisions.
//!
//! ```text
//!  0            10                                                          100
//!  ├─ variant ──┼─ the Worker's own revision ───────────────────────────────┤
//!       ▲ position of a request: random, or a hash of its session
//! ```
//!
//! Here, a session is that of a client, which a cookie or a header names, and not one between
//! Workers. The first variant keeps its positions when its share grows, so that each session
//! changes its revision at most once during a rollout. The hash is the same in every router.
//!
//! This module is pure.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use tenon_proto::catalog;
use tenon_proto::catalog::session_affinity::Part;
use tenon_proto::id::RevisionDigest;

use crate::ring::Key;
use crate::route::Route;
use crate::{MalformedWorker, Worker};

/// The revisions that share a Worker's requests with the Worker's own revision.
#[derive(Debug, PartialEq)]
pub(crate) struct Traffic {
    variants: Box<[Variant]>,
    session_affinity: Option<SessionAffinity>,
}

/// A revision that serves a part of a Worker's requests.
#[derive(Debug)]
struct Variant {
    worker: Arc<Worker>,
    /// The position at which its share ends, in percent. The share begins where the previous one
    /// ends.
    end: u32,
    /// Routes of requests that only this revision serves.
    routes: Box<[Route]>,
}

impl PartialEq for Variant {
    fn eq(&self, other: &Self) -> bool {
        self.worker.is_same_revision(&other.worker)
            && (self.end, &self.routes) == (other.end, &other.routes)
    }
}

/// The part of a request that selects its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAffinity {
    /// The cookie of this name.
    Cookie(Box<str>),
    /// The header of this name.
    Header(http::HeaderName),
}

impl Traffic {
    /// Returns how the requests of a Worker are divided, or `None` if one revision serves all.
    ///
    /// # Arguments
    /// * `revision` - returns the Worker with a variant's revision.
    pub(crate) fn new(
        entry: &catalog::Worker,
        mut revision: impl FnMut(&catalog::Variant) -> Result<Worker, MalformedWorker>,
    ) -> Result<Option<Box<Self>>, MalformedWorker> {
        if entry.variants.is_empty() {
            return Ok(None);
        }
        let mut end = 0;
        let variants = entry.variants.iter().map(|variant| {
            end += variant.percent;
            let worker = Arc::new(revision(variant)?);
            let routes = variant.routes.iter().map(|route| Route::new(&route.host, &route.path));
            Ok(Variant { worker, end, routes: routes.collect() })
        });
        let variants = variants.collect::<Result<_, MalformedWorker>>()?;
        let part = entry.session_affinity.as_ref().and_then(|affinity| affinity.part.as_ref());
        // The schema refuses invalid names.
        let session_affinity = part.and_then(|part| match part {
            Part::Cookie(name) => Some(SessionAffinity::Cookie(name.as_str().into())),
            Part::Header(name) => name.parse().ok().map(SessionAffinity::Header),
        });
        Ok(Some(Box::new(Self { variants, session_affinity })))
    }

    /// Returns the variant at a position, or `None` if the Worker's own revision is there.
    fn at(&self, position: u32) -> Option<&Arc<Worker>> {
        let variant = self.variants.iter().find(|variant| position < variant.end)?;
        Some(&variant.worker)
    }
}

impl Worker {
    /// Returns the Worker with the revision that serves a request.
    ///
    /// # Arguments
    /// * `session` - returns the value that selects the request's revision, if the request has it.
    /// * `random` - returns a random number.
    pub fn draw<'r>(
        &self,
        session: impl FnOnce(&SessionAffinity) -> Option<&'r [u8]>,
        random: impl FnOnce() -> u64,
    ) -> &Self {
        let Some(traffic) = &self.traffic else { return self };
        let number = match traffic.session_affinity.as_ref().and_then(session) {
            Some(session) => Key::of_session(&self.id, session).get(),
            None => random(),
        };
        // A remainder is biased by less than 100 in 2^64.
        let position = u32::try_from(number % 100).expect("a remainder of 100 is below 100");
        traffic.at(position).map_or(self, |worker| &**worker)
    }

    /// Returns the other revisions that serve requests of the Worker.
    pub fn variants(&self) -> impl Iterator<Item = &Self> {
        let variants = self.traffic.iter().flat_map(|traffic| &traffic.variants);
        variants.map(|variant| &*variant.worker)
    }

    /// Returns whether the session of a request selects the revision.
    pub fn has_sessions(&self) -> bool {
        self.traffic.as_ref().is_some_and(|traffic| traffic.session_affinity.is_some())
    }

    /// Returns the Worker with the revision of this digest, if the entry has that revision.
    pub fn with_digest(&self, digest: &[u8]) -> Option<&Self> {
        let mut revisions = std::iter::once(self).chain(self.variants());
        revisions.find(|worker| worker.digest.as_bytes() == digest)
    }

    /// Returns the routes of requests for the variants alone, each with its variant.
    pub(crate) fn previews(&self) -> impl Iterator<Item = (&Route, &Arc<Worker>)> {
        let variants = self.traffic.iter().flat_map(|traffic| &traffic.variants);
        variants.flat_map(|variant| variant.routes.iter().map(|route| (route, &variant.worker)))
    }

    /// Calls a function with each variant of a new entry, which nothing shares yet.
    pub(crate) fn for_each_variant(&mut self, change: impl FnMut(&mut Self)) {
        let variants = self.traffic.iter_mut().flat_map(|traffic| &mut traffic.variants);
        variants.filter_map(|variant| Arc::get_mut(&mut variant.worker)).for_each(change);
    }

    /// Sets the measurement of the Worker and its variants.
    pub(crate) fn set_measurement(&mut self, measurement: Option<NonZeroU64>) {
        self.for_each_variant(|variant| variant.measurement = measurement);
        self.measurement = measurement;
    }

    /// Sets the time at which each revision was announced.
    ///
    /// # Arguments
    /// * `last` - the previous entry, whose revisions were announced earlier.
    /// * `now` - the current time, or `None` if the entry came with a snapshot of the catalog.
    pub fn announce(&mut self, last: Option<&Self>, now: Option<Instant>) {
        let known = |digest: &RevisionDigest| {
            let last = last.and_then(|last| last.with_digest(digest.as_bytes()));
            last.map_or(now, |last| last.announced)
        };
        self.announced = known(&self.digest);
        self.for_each_variant(|variant| variant.announced = known(&variant.digest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a Worker with variants of these percentages. The digest of a variant repeats its
    /// number.
    fn worker(percents: &[u32], part: Option<Part>) -> Worker {
        let variants = percents.iter().zip(1..).map(|(&percent, number)| catalog::Variant {
            digest: vec![number; 32],
            percent,
            ..catalog::Variant::default()
        });
        Worker::new(catalog::Worker {
            id: "shop/cart".into(),
            digest: vec![0; 32],
            variants: variants.collect(),
            session_affinity: part.map(|part| catalog::SessionAffinity { part: Some(part) }),
            ..catalog::Worker::default()
        })
        .unwrap()
    }

    fn number(worker: &Worker) -> u8 {
        worker.digest.as_bytes()[0]
    }

    #[test]
    fn requests_are_divided_by_the_percentages_of_the_catalog() {
        let worker = worker(&[10, 0, 30], None);
        let mut counts = [0; 4];
        for position in 0..100 {
            counts[usize::from(number(worker.draw(|_| None, || position)))] += 1;
        }
        assert_eq!(counts, [60, 10, 0, 30]);
    }

    #[test]
    fn a_worker_without_variants_serves_every_request_itself() {
        let worker = worker(&[], None);
        assert_eq!(number(worker.draw(|_| panic!("session read"), || panic!("number drawn"))), 0);
        assert_eq!(worker.variants().count(), 0);
    }

    #[test]
    fn a_variant_can_serve_every_request() {
        let worker = worker(&[100], None);
        assert!((0..100).all(|position| number(worker.draw(|_| None, || position)) == 1));
    }

    #[test]
    fn a_session_keeps_its_revision_and_moves_only_to_the_one_that_grows() {
        let drawn = |percent: u32, session: u32| {
            let worker = worker(&[percent], Some(Part::Cookie("sid".into())));
            let session = session.to_string();
            number(worker.draw(
                |affinity| {
                    assert_eq!(*affinity, SessionAffinity::Cookie("sid".into()));
                    Some(session.as_bytes())
                },
                || panic!("a session is drawn at random"),
            ))
        };
        let mut moved = 0;
        for session in 0..1_000 {
            let (before, after) = (drawn(10, session), drawn(20, session));
            assert_eq!(before, drawn(10, session));
            assert!(after >= before, "a session left the revision whose share grew");
            moved += u32::from(after != before);
        }
        assert!((50..200).contains(&moved), "{moved} of 1,000 sessions moved for 10 %");
    }

    #[test]
    fn a_request_without_a_session_is_drawn_at_random() {
        let worker = worker(&[50], Some(Part::Header("X-User".into())));
        let header = SessionAffinity::Header("x-user".parse().unwrap());
        let session = |affinity: &SessionAffinity| {
            assert_eq!(*affinity, header);
            None
        };
        assert_eq!(number(worker.draw(session, || 0)), 1);
        assert_eq!(number(worker.draw(session, || 99)), 0);
    }

    #[test]
    fn a_malformed_variant_makes_the_entry_malformed() {
        let variants = vec![catalog::Variant { digest: vec![1], ..Default::default() }];
        let entry = catalog::Worker {
            id: "shop/cart".into(),
            digest: vec![0; 32],
            variants,
            ..Default::default()
        };
        assert!(Worker::new(entry).is_err());
    }
}
