//! Finds the node to which routers send a Worker's requests. This module is pure.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tenon_proto::id::{ShardId, WorkerId};
use tenon_table::ring::{Key, Ring, Seed};

/// Returns the name of the Pod that has the shard that is the first candidate for the Worker's
/// requests, or `None` if no Pod is ready. Routers send requests to other nodes only if the node of
/// this Pod does not take them, or if the Worker needs more than one shard.
///
/// # Arguments
/// * `pods` - the Pods of the Worker's pool.
pub(super) fn preferred(pods: &[Pod], worker: &WorkerId) -> Option<String> {
    let ready = pods.iter().filter(|pod| is_ready(pod));
    let mut nodes: Vec<_> = ready.map(|pod| (pod.name_any(), shards(pod))).collect();
    // The order breaks ties, and must be the order that routers use.
    nodes.sort_unstable();
    let shards =
        nodes.iter().flat_map(|(name, shards)| (0..*shards).map(move |i| (name, ShardId(i))));
    let (owners, seeds): (Vec<_>, Vec<_>) =
        shards.map(|(name, shard)| (name, Seed::of(name, shard))).unzip();
    let first = Ring::new(seeds).first(Key::of(worker))?;
    Some(owners[first.get()].clone())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = |(type_, status): (&str, &str)| type_ == "Ready" && status == "True";
    pod.metadata.deletion_timestamp.is_none()
        && conditions.map(|condition| (&*condition.type_, &*condition.status)).any(is_ready)
}

/// Returns the number of the node's shards, which have the ports `shard-0`, `shard-1` and so on.
fn shards(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let names = ports.filter_map(|port| port.name.as_deref());
    u16::try_from(names.filter(|name| name.starts_with("shard-")).count()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn pod(name: &str, is_ready: bool, shards: u16) -> Pod {
        let status = if is_ready { "True" } else { "False" };
        let ports: Vec<_> = (0..shards)
            .map(|i| json!({"name": format!("shard-{i}"), "containerPort": 7100 + i}))
            .chain([json!({"name": "admin", "containerPort": 9090})])
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "runtime-node", "ports": ports}]},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        }))
        .unwrap()
    }

    fn worker(i: usize) -> WorkerId {
        WorkerId::new("shop", &format!("worker-{i}"))
    }

    #[test]
    fn the_preferred_node_is_the_first_candidate_of_routers() {
        let pods = [pod("b", true, 2), pod("a", true, 2)];
        let shards = ["a", "b"].map(|name| [0, 1].map(|i| (name, ShardId(i))));
        let shards = shards.concat();
        let ring = Ring::new(shards.iter().map(|(name, shard)| Seed::of(name, *shard)));
        let nodes: Vec<_> = (0..50).map(|i| preferred(&pods, &worker(i)).unwrap()).collect();
        for (i, node) in nodes.iter().enumerate() {
            let first = ring.first(Key::of(&worker(i))).unwrap();
            assert_eq!(node, shards[first.get()].0, "of {}", worker(i));
        }
        assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), 2);
    }

    #[test]
    fn only_ready_pods_are_nodes() {
        let mut leaving = pod("leaving", true, 1);
        leaving.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-03-01T10:11:12Z")).unwrap();
        let pods = [pod("starting", false, 1), leaving, pod("ready", true, 1)];
        assert_eq!(preferred(&pods, &worker(0)).as_deref(), Some("ready"));
        assert_eq!(preferred(&pods[..2], &worker(0)), None);
    }
}
