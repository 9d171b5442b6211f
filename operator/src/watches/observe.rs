//! The watch of one kind of object: its changes, and the objects that do not match its schema.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::DeserializeGuard;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{DefaultBackoff, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::index::{Change, Key, Watched, key};
use crate::metrics::Metrics;

/// An item of a watch of any kind.
pub(super) enum Observation {
    Change(Box<Change>),
    /// All existing objects of the kind have been listed.
    Synced(&'static str),
    /// A stored object that does not match its schema, and why.
    Malformed(Box<ObjectReference>, String),
}

/// The delays between attempts to restore a broken watch: kube's own, which grow to half a minute,
/// capped at [`MAX_BACKOFF`]. Once the API server is back, the watches and the changes made then
/// should not wait that long.
#[derive(Default)]
struct CappedBackoff(DefaultBackoff);

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

/// Watches one kind, and counts its malformed objects. An object is no longer malformed when it has
/// been replaced or deleted.
pub(super) fn watch<K>(
    api: Api<DeserializeGuard<K>>,
    kind: &'static str,
    config: watcher::Config,
    change: fn(Watched<K>) -> Change,
    metrics: &Metrics,
) -> std::pin::Pin<Box<dyn Stream<Item = Observation> + Send>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    // To find deletions in a new listing: `listed` holds the objects of the listing so far.
    let (mut seen, mut listed) = (Seen::default(), HashSet::new());
    // Creates the series with value 0, so that "no malformed objects" is distinct from "no data".
    let malformed = metrics.watches.malformed.with_label_values(&[kind]);
    malformed.set(0);
    let interruptions = metrics.watches.interruptions.with_label_values(&[kind]);
    let events = watcher(api, config).backoff(CappedBackoff::default()).flat_map(move |event| {
        let mut observed = Vec::new();
        match event {
            Ok(Event::Apply(object)) => observed.push(parsed(kind, object, change, &mut seen)),
            Ok(Event::InitApply(object)) => {
                listed.insert(key(&object));
                observed.push(parsed(kind, object, change, &mut seen));
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
    Box::pin(events)
}

/// The existing objects of a kind.
#[derive(Default)]
struct Seen {
    /// Those that were reported to the index, some of which may be malformed by now.
    known: HashSet<Key>,
    malformed: HashSet<Key>,
}

impl Seen {
    fn remove(&mut self, key: &Key) {
        self.known.remove(key);
        self.malformed.remove(key);
    }
}

fn parsed<K>(
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
            // Managed fields are not used, and are often the largest part of an object.
            object.managed_fields_mut().clear();
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
