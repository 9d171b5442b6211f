//! Records Events, and limits the number of Events of each object and of each namespace.
//!
//! A tenant can cause an Event with each change of an object, a failure can repeat, and a fault of
//! the platform concerns thousands of objects at once. Each object therefore has a bucket of
//! tokens, as in client-go's correlator, and so does each namespace: a burst of Events is recorded
//! without delay, and after the burst Events are recorded at the rate of the bucket. The status of
//! an object says what a dropped Event would have said.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, Recorder};
use prometheus::{IntCounterVec, Registry};
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{EnumCounters, EnumMap, Register as _};

/// The bucket of an object. Its burst is client-go's default.
const OF_OBJECT: Bucket = Bucket { burst: 25, refill: Duration::from_secs(60) };

/// The bucket of a namespace: enough for the failures of a hundred Workers at once, and far less
/// than what the API server can write.
const OF_NAMESPACE: Bucket = Bucket { burst: 100, refill: Duration::from_secs(1) };

/// Maximum number of objects, and of namespaces, whose buckets are not full. Events of further
/// objects and namespaces are dropped.
const MAX_BUCKETS: usize = 100_000;

label_values! {
    /// The outcome of an Event.
    pub enum EventOutcome {
        Recorded = "recorded",
        /// The object or its namespace has too many Events.
        Dropped = "dropped",
        /// The API server has not recorded the Event.
        Failed = "failed",
    }
}

/// Records Events. Clones share the limits.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    limits: Arc<Mutex<Limits>>,
    outcomes: Arc<EnumCounters<EventOutcome>>,
}

impl EventOutcome {
    /// Registers the counter of Events.
    ///
    /// # Errors
    /// Fails if the registry already has this counter.
    pub fn register(registry: &Registry) -> prometheus::Result<IntCounterVec> {
        registry.counters(
            "tenon_operator_events_total",
            "Events about objects, by outcome.",
            &["outcome"],
        )
    }
}

impl Events {
    pub fn new(recorder: Recorder, outcomes: &IntCounterVec) -> Self {
        let outcomes = Arc::new(EnumMap::of(outcomes, &[]));
        Self { recorder, limits: Arc::default(), outcomes }
    }

    /// Returns a handle that records through another recorder, with the same limits.
    pub fn with(&self, recorder: Recorder) -> Self {
        Self { recorder, ..self.clone() }
    }

    /// Records an Event about an object. An Event is only informative, so a failure is logged and
    /// has no other consequence.
    pub async fn publish(&self, event: &Event, object: &ObjectReference) {
        let is_allowed = {
            // A panic cannot leave the limits invalid, because each of their states is valid.
            let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
            limits.take(object, Instant::now())
        };
        if !is_allowed {
            self.outcomes.inc(EventOutcome::Dropped);
            tracing::debug!(
                reason = event.reason,
                ?object,
                "dropped an Event, because the object or its namespace has too many Events"
            );
            return;
        }
        match self.recorder.publish(event, object).await {
            Ok(()) => self.outcomes.inc(EventOutcome::Recorded),
            Err(error) => {
                self.outcomes.inc(EventOutcome::Failed);
                tracing::warn!(%error, reason = event.reason, "cannot record an Event");
            }
        }
    }
}

/// The size and the rate of a bucket of tokens.
#[derive(Clone, Copy)]
struct Bucket {
    burst: u32,
    /// Time after which a bucket gets one more token.
    refill: Duration,
}

/// The buckets of objects and of namespaces. This type is pure.
struct Limits {
    objects: Buckets<Object>,
    /// Objects without a namespace share one bucket.
    namespaces: Buckets<Option<String>>,
}

/// Kind, namespace and name of an object. An object that replaces a deleted object of the same name
/// shares the bucket of the deleted object.
type Object = (Option<String>, Option<String>, Option<String>);

/// The times at which buckets are full again.
struct Buckets<K> {
    bucket: Bucket,
    full_at: HashMap<K, Instant>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { objects: Buckets::of(OF_OBJECT), namespaces: Buckets::of(OF_NAMESPACE) }
    }
}

impl Limits {
    /// Takes a token of an object and one of its namespace. Returns whether both had one; otherwise
    /// both keep what they have.
    fn take(&mut self, object: &ObjectReference, now: Instant) -> bool {
        let ObjectReference { kind, namespace, name, .. } = object;
        let key = (kind.clone(), namespace.clone(), name.clone());
        let after = self.objects.after(&key, now).zip(self.namespaces.after(namespace, now));
        if let Some((of_object, of_namespace)) = after {
            self.objects.full_at.insert(key, of_object);
            self.namespaces.full_at.insert(namespace.clone(), of_namespace);
        }
        after.is_some()
    }
}

impl<K: Eq + Hash> Buckets<K> {
    fn of(bucket: Bucket) -> Self {
        Self { bucket, full_at: HashMap::new() }
    }

    /// Returns the time at which the bucket of `key` is full again if a token is taken now, or
    /// `None` if the bucket is empty or there are too many buckets.
    fn after(&mut self, key: &K, now: Instant) -> Option<Instant> {
        if self.full_at.len() >= MAX_BUCKETS && !self.full_at.contains_key(key) {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= MAX_BUCKETS {
                return None;
            }
        }
        let Bucket { burst, refill } = self.bucket;
        let after = self.full_at.get(key).map_or(now, |full_at| (*full_at).max(now)) + refill;
        (after.duration_since(now) <= refill * burst).then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(namespace: &str, name: &str) -> ObjectReference {
        ObjectReference {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        }
    }

    #[test]
    fn an_object_has_a_burst_of_events_and_then_one_each_minute() {
        let (mut limits, now, refill) = (Limits::default(), Instant::now(), OF_OBJECT.refill);
        let mut taken =
            |name: &str, at| (0..99).take_while(|_| limits.take(&object("a", name), at)).count();
        assert_eq!(taken("a", now), 25);
        assert_eq!(taken("b", now), 25, "objects share a bucket");
        assert_eq!(taken("a", now + refill / 2), 0);
        assert_eq!(taken("a", now + refill), 1);
        assert_eq!(taken("a", now + refill * 4), 3);
        assert_eq!(taken("a", now + refill * 100), 25);
    }

    #[test]
    fn a_namespace_has_a_burst_of_events_and_then_one_each_second() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        let mut names = 0..;
        let mut taken = |namespace: &str, at| {
            let mut take =
                || limits.take(&object(namespace, &names.next().unwrap().to_string()), at);
            (0..1_000).take_while(|_| take()).count()
        };
        assert_eq!(taken("a", now), 100);
        assert_eq!(taken("b", now), 100, "namespaces share a bucket");
        assert_eq!(taken("a", now + OF_NAMESPACE.refill * 3), 3);
    }

    #[test]
    fn an_event_that_is_dropped_takes_no_token() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        while limits.take(&object("a", "noisy"), now) {}
        for number in 0..75 {
            assert!(limits.take(&object("a", &number.to_string()), now), "{number}");
        }
        assert!(!limits.take(&object("a", "quiet"), now), "the namespace has more than its burst");
        let later = now + OF_NAMESPACE.refill * 25;
        assert!((0..25).all(|_| limits.take(&object("a", "quiet"), later)));
    }

    #[test]
    fn the_number_of_limited_objects_is_bounded() {
        let (mut buckets, now) = (Buckets::of(OF_OBJECT), Instant::now());
        for number in 0..MAX_BUCKETS {
            let after = buckets.after(&number, now).unwrap();
            buckets.full_at.insert(number, after);
        }
        assert!(buckets.after(&MAX_BUCKETS, now).is_none());
        assert!(buckets.after(&1, now).is_some());
        assert!(buckets.after(&MAX_BUCKETS, now + OF_OBJECT.refill).is_some());
        assert!(buckets.full_at.len() < MAX_BUCKETS);
    }
}
