//! Watches one kind of object, and reports changes and the objects that do not match the schema.

use std::collections::HashSet;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{DefaultBackoff, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::author;
use crate::index::{Change, Key, Watched, key};
use crate::metrics::Metrics;

/// An item of a watch of any kind.
pub(super) enum Observation {
    Change(Box<Change>),
    /// All existing objects of the kind have been listed.
    Synced(&'static str),
    /// A stored object that does not match its schema, and the reason.
    Malformed(Box<ObjectReference>, String),
}

/// The delays between attempts to restore a broken watch. They are kube's default delays, which
/// grow to half a minute, but capped at [`MAX_BACKOFF`], so that changes are soon seen once the API
/// server is back.
#[derive(Default)]
struct CappedBackoff(DefaultBackoff);

/// Maximum delay between attempts to restore a watch.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

impl Iterator for CappedBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|delay| delay.min(MAX_BACKOFF))
    }
}

impl Backoff for CappedBackoff {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// The observations of one kind.
pub(super) type Observations = Pin<Box<dyn Stream<Item = Observation> + Send>>;

/// Watches one kind, and counts its malformed objects. An object is no longer malformed when it has
/// been replaced or deleted.
pub(super) fn observe<K>(
    api: Api<DeserializeGuard<K>>,
    kind: &'static str,
    config: watcher::Config,
    change: fn(Watched<K>) -> Change,
    metrics: &Metrics,
) -> Observations
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    observations(watcher(api, config), kind, change, metrics)
}

/// Watches the metadata of one kind, which always matches its schema.
pub(super) fn observe_metadata<K>(
    api: Api<PartialObjectMeta<K>>,
    kind: &'static str,
    change: fn(Watched<PartialObjectMeta<K>>) -> Change,
    metrics: &Metrics,
) -> Observations
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let events = watcher(api, watcher::Config::default()).map_ok(|event| {
        let valid = |object| DeserializeGuard(Ok(object));
        match event {
            Event::Apply(object) => Event::Apply(valid(object)),
            Event::InitApply(object) => Event::InitApply(valid(object)),
            Event::Delete(object) => Event::Delete(valid(object)),
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
        }
    });
    observations(events, kind, change, metrics)
}

/// Converts the events of one kind.
fn observations<K>(
    events: impl Stream<Item = watcher::Result<Event<DeserializeGuard<K>>>> + Send + 'static,
    kind: &'static str,
    change: fn(Watched<K>) -> Change,
    metrics: &Metrics,
) -> Observations
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    // `listed` contains the objects of the current listing so far. A seen object that a complete
    // listing lacks has been deleted.
    let (mut seen, mut listed) = (Seen::default(), HashSet::new());
    // The series exists from the start, so that "no malformed objects" is distinct from "no data".
    let malformed = metrics.watches.malformed.with_label_values(&[kind]);
    malformed.set(0);
    let interruptions = metrics.watches.interruptions.with_label_values(&[kind]);
    let observed = events.backoff(CappedBackoff::default()).flat_map(move |event| {
        let mut observed = Vec::new();
        match event {
            Ok(Event::Apply(object)) => observed.push(parse(kind, object, change, &mut seen)),
            Ok(Event::InitApply(object)) => {
                listed.insert(key(&object));
                observed.push(parse(kind, object, change, &mut seen));
            }
            Ok(Event::Delete(object)) => {
                let key = key(&object);
                seen.remove(&key);
                observed.push(Observation::Change(Box::new(change(Watched::Deleted(key)))));
            }
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitDone) => {
                seen.malformed.retain(|key| listed.contains(key));
                for key in seen.known.extract_if(|key| !listed.contains(key)) {
                    observed.push(Observation::Change(Box::new(change(Watched::Deleted(key)))));
                }
                observed.push(Observation::Synced(kind));
            }
            Err(error) => {
                interruptions.inc();
                tracing::warn!(kind, %error, "a watch was interrupted; retrying");
            }
        }
        malformed.set(seen.malformed.len() as i64);
        stream::iter(observed)
    });
    Box::pin(observed)
}

/// The existing objects of a kind.
#[derive(Default)]
struct Seen {
    /// The objects that were reported to the index. Some of them may have become malformed.
    known: HashSet<Key>,
    /// The objects that do not match their schema.
    malformed: HashSet<Key>,
}

impl Seen {
    fn remove(&mut self, key: &Key) {
        self.known.remove(key);
        self.malformed.remove(key);
    }
}

fn parse<K>(
    kind: &'static str,
    object: DeserializeGuard<K>,
    change: fn(Watched<K>) -> Change,
    seen: &mut Seen,
) -> Observation
where
    K: Resource<DynamicType = ()> + Clone,
{
    let key = key(&object);
    match object.0 {
        Ok(mut object) => {
            // Managed fields are often the largest part of an object. Only the author of a Worker
            // is used.
            match kind {
                "Worker" => author::keep(object.managed_fields_mut()),
                _ => object.managed_fields_mut().clear(),
            }
            seen.malformed.remove(&key);
            seen.known.insert(key);
            Observation::Change(Box::new(change(Watched::Applied(Arc::new(object)))))
        }
        Err(invalid) => {
            let reference = ObjectReference {
                api_version: Some(K::api_version(&()).into_owned()),
                kind: Some(K::kind(&()).into_owned()),
                namespace: invalid.metadata.namespace.clone(),
                name: invalid.metadata.name.clone(),
                uid: invalid.metadata.uid.clone(),
                ..Default::default()
            };
            let (namespace, name) = &key;
            tracing::warn!(
                kind,
                namespace,
                name,
                error = invalid.error,
                "skipping a malformed object"
            );
            seen.malformed.insert(key);
            Observation::Malformed(Box::new(reference), invalid.error)
        }
    }
}
