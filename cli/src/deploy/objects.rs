//! The objects in the files, in the order in which they are applied: a Worker comes after the
//! ConfigMaps and Secrets that it refers to. This module is pure.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ObjectMeta;
use kube::discovery::ApiResource;
use serde::Serialize;
use serde_json::Value;
use tenon_crds::Worker;
use tenon_proto::id::WorkerId;

use crate::manifest::Manifests;

/// Maximum size of a ConfigMap's data, in bytes, which the API server enforces.
const MAX_DATA: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ConfigMap,
    Secret,
    Worker,
}

impl Kind {
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::Worker => ApiResource::erase::<Worker>(&()),
        }
    }
}

/// An object to apply.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// The namespace, if the files name one.
    pub(super) namespace: Option<String>,
    pub(super) body: Value,
    /// The id of the Worker, if the object is a Worker.
    pub(super) worker: Option<WorkerId>,
    /// Name of the ConfigMap with the Worker's modules, if the object is a Worker that has one.
    pub(super) config_map: Option<String>,
    /// Size of the data of a ConfigMap, in bytes. 0 for the other kinds.
    size: usize,
}

impl Object {
    fn new(kind: Kind, metadata: &ObjectMeta, object: &impl Serialize, size: usize) -> Self {
        let mut body =
            serde_json::to_value(object).expect("a Kubernetes object cannot be serialized as JSON");
        // Only the operator writes the status.
        body.as_object_mut().and_then(|body| body.remove("status"));
        Self {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone(),
            body,
            worker: None,
            config_map: None,
            size,
        }
    }
}

/// Returns the objects in the files. If a folder takes the place of a Worker's ConfigMap, the
/// folder's files become that ConfigMap.
pub(super) fn of(manifests: &Manifests) -> Vec<Object> {
    let config_maps = manifests.config_maps.iter().map(|((namespace, name), config_map)| {
        let mut config_map = config_map.clone();
        if config_map.metadata.name.is_none() {
            let worker = manifests.workers.iter().find(|(id, (_, worker))| {
                let reference = worker.spec.source.config_map_ref.as_ref();
                id.namespace() == namespace
                    && reference.is_some_and(|reference| reference.name == *name)
            });
            config_map.metadata.name = Some(name.clone());
            config_map.metadata.namespace =
                worker.and_then(|(_, (_, worker))| worker.metadata.namespace.clone());
        }
        let size = drop_maps_if_too_large(&mut config_map);
        Object::new(Kind::ConfigMap, &config_map.metadata, &config_map, size)
    });
    let secrets = manifests
        .secrets
        .values()
        .map(|secret| Object::new(Kind::Secret, &secret.metadata, secret, 0));
    let workers = manifests.workers.iter().map(|(id, (_, worker))| Object {
        worker: Some(id.clone()),
        config_map: worker.spec.source.config_map_ref.as_ref().map(|map| map.name.clone()),
        ..Object::new(Kind::Worker, &worker.metadata, worker, 0)
    });
    config_maps.chain(secrets).chain(workers).collect()
}

/// Removes the source maps if the modules do not fit into a ConfigMap together with the maps.
/// Returns the size of the remaining data, in bytes.
fn drop_maps_if_too_large(config_map: &mut ConfigMap) -> usize {
    let size = size_of(config_map);
    if size <= MAX_DATA {
        return size;
    }
    config_map.data.iter_mut().for_each(|data| data.retain(|name, _| !name.ends_with(".map")));
    size_of(config_map)
}

fn size_of(config_map: &ConfigMap) -> usize {
    let text = config_map.data.iter().flatten().map(|(key, value)| key.len() + value.len());
    let binary = config_map.binary_data.iter().flatten();
    text.chain(binary.map(|(key, value)| key.len() + value.0.len())).sum()
}

/// Returns an error for each ConfigMap that is too large for an API server.
pub(super) fn too_large(objects: &[Object]) -> impl Iterator<Item = String> {
    objects.iter().filter(|object| object.size > MAX_DATA).map(|object| {
        format!(
            "ConfigMap {}: its modules have {} bytes, but a ConfigMap can hold {MAX_DATA}; push \
             the code with --registry, minify the code, or leave source maps out",
            object.name, object.size
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Vec<Object> {
        let mut manifests = Manifests::default();
        manifests.add_file(Path::new("worker.yaml"), text);
        of(&manifests)
    }

    const WORKER: &str = "
apiVersion: tenon.dev/v1alpha1
kind: Worker
metadata: {name: hello}
spec: {source: {configMapRef: {name: code}}}
---
";

    #[test]
    fn the_objects_that_a_worker_refers_to_are_applied_before_it() {
        let config_map =
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: code}, data: {a.js: a}}";
        let objects = read(&format!("{WORKER}{config_map}"));
        let kinds: Vec<_> = objects.iter().map(|object| object.kind).collect();
        assert_eq!(kinds, [Kind::ConfigMap, Kind::Worker]);
        assert_eq!(objects[1].body["kind"], "Worker");
        assert!(objects.iter().all(|object| object.namespace.is_none()));
    }

    #[test]
    fn a_folder_in_place_of_a_config_map_goes_into_its_workers_namespace() {
        let mut manifests = Manifests::default();
        let worker = WORKER.replace("{name: hello}", "{name: hello, namespace: shop}");
        manifests.add_file(Path::new("worker.yaml"), &worker);
        manifests.config_maps.insert(("shop".into(), "code".into()), ConfigMap::default());
        let objects = of(&manifests);
        assert_eq!((&*objects[0].name, objects[0].namespace.as_deref()), ("code", Some("shop")));
    }

    #[test]
    fn a_config_map_that_is_too_large_is_named_with_its_size() {
        let data = "x".repeat(MAX_DATA);
        let text = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: code}}, data: {{a.js: {data}}}}}"
        );
        let errors: Vec<_> = too_large(&read(&text)).collect();
        assert_eq!(errors.len(), 1);
        assert!(
            errors[0].starts_with("ConfigMap code: its modules have 1048580 bytes"),
            "{errors:?}"
        );
    }
}
