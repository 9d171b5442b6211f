//! Records Events, and limits the number of Events of each object.
//!
//! A tenant can cause an Event with each change of an object, and a failure can repeat. Each object
//! therefore has a bucket of tokens, as in client-go's correlator: a burst of Events is recorded
//! without delay, and after the burst one Event is recorded each minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, Recorder};

/// Number of Events in a burst of one object. This is client-go's default.
const BURST: u32 = 25;

/// Time after which an object gets one more token.
const REFILL: Duration = Duration::from_secs(60);

/// Maximum number of objects with fewer tokens than [`BURST`]. Events of further objects are
/// dropped.
const OBJECTS: usize = 100_000;

/// Records Events. Clones share the limits.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    limits: Arc<Mutex<Limits>>,
}

impl Events {
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, limits: Arc::default() }
    }

    /// Returns a handle that records through another recorder, with the same limits.
    pub fn with(&self, recorder: Recorder) -> Self {
        Self { recorder, limits: self.limits.clone() }
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
            tracing::debug!(
                reason = event.reason,
                ?object,
                "dropped an Event, because the object has too many Events"
            );
            return;
        }
        if let Err(error) = self.recorder.publish(event, object).await {
            tracing::warn!(%error, reason = event.reason, "cannot record an Event");
        }
    }
}

/// The times at which the buckets of objects are full again. This type is pure.
#[derive(Default)]
struct Limits {
    full_at: HashMap<Object, Instant>,
}

/// Kind, namespace and name of an object. An object that replaces a deleted object of the same name
/// shares the bucket of the deleted object.
type Object = (Option<String>, Option<String>, Option<String>);

impl Limits {
    /// Takes a token of an object. Returns whether the object had one.
    fn take(&mut self, object: &ObjectReference, now: Instant) -> bool {
        let ObjectReference { kind, namespace, name, .. } = object;
        let key = (kind.clone(), namespace.clone(), name.clone());
        if self.full_at.len() >= OBJECTS && !self.full_at.contains_key(&key) {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= OBJECTS {
                return false;
            }
        }
        let full_at = self.full_at.entry(key).or_insert(now);
        let after = (*full_at).max(now) + REFILL;
        let is_allowed = after.duration_since(now) <= REFILL * BURST;
        if is_allowed {
            *full_at = after;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectReference {
        ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() }
    }

    #[test]
    fn an_object_has_a_burst_of_events_and_then_one_each_minute() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        let mut taken =
            |name: &str, at| (0..100).take_while(|_| limits.take(&object(name), at)).count();
        assert_eq!(taken("a", now), 25);
        assert_eq!(taken("b", now), 25, "objects share a bucket");
        assert_eq!(taken("a", now + REFILL / 2), 0);
        assert_eq!(taken("a", now + REFILL), 1);
        assert_eq!(taken("a", now + REFILL * 4), 3);
        assert_eq!(taken("a", now + REFILL * 100), 25);
    }

    #[test]
    fn the_number_of_limited_objects_is_bounded() {
        let (mut limits, now) = (Limits::default(), Instant::now());
        for number in 0..OBJECTS {
            assert!(limits.take(&object(&number.to_string()), now));
        }
        assert!(!limits.take(&object("one more"), now));
        assert!(limits.take(&object("1"), now));
        assert!(limits.take(&object("one more"), now + REFILL));
        assert!(limits.full_at.len() < OBJECTS);
    }
}
