//! Derives the nodes from the EndpointSlices of the pools' headless Services, and the routers from
//! those of the routers' Service. This module is pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt;
use tenon_crds::POOL_LABEL;
use tenon_proto::catalog::{Node, node::State};

/// Returns the nodes in `slice`. Endpoints that are neither ready nor draining are left out.
pub fn nodes(slice: &EndpointSlice) -> Vec<Node> {
    let Some(pool) = slice.labels().get(POOL_LABEL) else { return Vec::new() };
    let [shard_ports, lane_ports] = ["shard", "lane"].map(|kind| ports(slice, kind));
    if shard_ports.is_empty() {
        return Vec::new();
    }
    let nodes = slice.endpoints.iter().flatten().filter_map(|endpoint| {
        let address = endpoint.addresses.first()?.clone();
        Some(Node {
            name: name(endpoint).unwrap_or_else(|| address.clone()),
            pool: pool.clone(),
            address,
            shard_ports: shard_ports.clone(),
            lane_ports: lane_ports.clone(),
            state: state(endpoint)?.into(),
        })
    });
    nodes.collect()
}

/// The internal listener of each ready router by the name of its Pod, or `None` if its address is
/// not known.
pub type Routers = BTreeMap<String, Option<SocketAddr>>;

/// The name of the port of a router's internal listener.
const INTERNAL_PORT: &str = "inner";

/// Returns the ready routers in a slice. A Pod can be in several slices, such as one for each
/// version of IP.
pub fn routers(slice: &EndpointSlice) -> Routers {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let port = match ports {
        [only] => Some(only),
        _ => ports.iter().find(|port| port.name.as_deref() == Some(INTERNAL_PORT)),
    };
    let port = port.and_then(|port| u16::try_from(port.port?).ok());
    let endpoints = slice.endpoints.iter().flatten();
    let ready = endpoints.filter(|endpoint| state(endpoint) == Some(State::Ready));
    let router = |endpoint: &Endpoint| {
        let address = endpoint.addresses.first()?;
        let listener = address.parse::<IpAddr>().ok().zip(port).map(SocketAddr::from);
        Some((name(endpoint).unwrap_or_else(|| address.clone()), listener))
    };
    ready.filter_map(router).collect()
}

/// Returns the ports of shards or lanes. They are named `shard-0`, `shard-1` and so on, and the
/// result ends before the first number without a port.
fn ports(slice: &EndpointSlice, kind: &str) -> Vec<u32> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let numbered = |i: usize| {
        let name = format!("{kind}-{i}");
        let port = ports.iter().find(|port| port.name.as_deref() == Some(&name))?.port?;
        u32::try_from(port).ok()
    };
    (0..ports.len()).map_while(numbered).collect()
}

fn name(endpoint: &Endpoint) -> Option<String> {
    let target = endpoint.target_ref.as_ref().and_then(|target| target.name.clone());
    target.or_else(|| endpoint.hostname.clone())
}

fn state(endpoint: &Endpoint) -> Option<State> {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    // An absent condition counts as true for ready and serving, and as false for terminating.
    if conditions.terminating == Some(true) {
        (conditions.serving != Some(false)).then_some(State::Draining)
    } else {
        (conditions.ready != Some(false)).then_some(State::Ready)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::EndpointPort;
    use serde_json::json;

    use super::*;

    fn slice(endpoints: serde_json::Value) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {"name": "default-1", "labels": {"tenon.dev/pool": "default"}},
            "addressType": "IPv4",
            "ports": [
                {"name": "lane-0", "port": 7102}, {"name": "shard-1", "port": 7101},
                {"name": "shard-0", "port": 7100}, {"name": "lane-1", "port": 7103},
                {"name": "lane-3", "port": 7105}, {"name": "admin", "port": 9090},
            ],
            "endpoints": endpoints,
        }))
        .unwrap()
    }

    #[test]
    fn a_ready_pod_is_a_node_with_its_shards_and_lanes_in_order() {
        let nodes = nodes(&slice(
            json!([{"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "name": "node-a"}}]),
        ));
        assert_eq!(nodes.len(), 1);
        assert_eq!((nodes[0].name.as_str(), nodes[0].state()), ("node-a", State::Ready));
        assert_eq!(nodes[0].shard_ports, [7100, 7101]);
        // Lane 2 is missing.
        assert_eq!(nodes[0].lane_ports, [7102, 7103]);
    }

    #[test]
    fn a_node_may_lack_lanes_but_not_shards() {
        let mut slice = slice(json!([{"addresses": ["10.0.0.1"]}]));
        let ports = slice.ports.as_mut().unwrap();
        ports.retain(|port| !port.name.as_ref().unwrap().starts_with("lane"));
        assert_eq!(nodes(&slice)[0].lane_ports, [0_u32; 0]);
        let lane = EndpointPort {
            name: Some("lane-0".to_owned()),
            port: Some(7100),
            ..EndpointPort::default()
        };
        slice.ports = Some(vec![lane]);
        assert!(nodes(&slice).is_empty());
    }

    #[test]
    fn a_terminating_pod_is_draining_while_it_serves() {
        let endpoint = |serving| {
            let conditions = json!({"ready": false, "serving": serving, "terminating": true});
            json!([{"addresses": ["10.0.0.1"], "conditions": conditions}])
        };
        assert_eq!(nodes(&slice(endpoint(true)))[0].state(), State::Draining);
        assert!(nodes(&slice(endpoint(false))).is_empty());
    }

    #[test]
    fn a_pod_that_is_not_ready_is_not_a_node() {
        assert!(
            nodes(&slice(json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}])))
                .is_empty()
        );
    }

    #[test]
    fn a_ready_router_has_the_address_of_its_internal_listener() {
        let slice = |ports: serde_json::Value| {
            let slice = json!({
                "addressType": "IPv6",
                "ports": ports,
                "endpoints": [
                    {"addresses": ["fd00::1"], "targetRef": {"kind": "Pod", "name": "router-a"}},
                    {"addresses": ["fd00::2"], "conditions": {"ready": false}},
                ],
            });
            routers(&serde_json::from_value(slice).unwrap())
        };
        let of = |address: &str| [("router-a".to_owned(), address.parse().ok())].into();
        let http = json!({"name": "http", "port": 8080});
        let internal = json!({"name": "inner", "port": 8081});
        assert_eq!(slice(json!([internal])), of("[fd00::1]:8081"));
        assert_eq!(slice(json!([http, internal])), of("[fd00::1]:8081"));
        assert_eq!(slice(json!([http, http])), of("no address"));
    }

    #[test]
    fn slices_of_other_services_have_no_nodes() {
        let mut slice = slice(json!([{"addresses": ["10.0.0.1"]}]));
        slice.metadata.labels = None;
        assert!(nodes(&slice).is_empty());
    }
}
