//! Reads the state of the installed Tenon: the address of its routers, the exits of its nodes'
//! processes, and the restarts of its containers.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tenon_e2e::{Cluster, SYSTEM_NAMESPACE, await_condition};

use crate::metrics::Metrics;

/// Label selector of the nodes' Pods.
const NODES: &str = "app.kubernetes.io/component=runtime-node";
const ADMIN_PORT: u16 = 9090;

/// Time limit for all processes to serve again. The successor of a process that has exited usually
/// serves much sooner.
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Installation {
    pub(super) cluster: Cluster,
    pub(super) routers: SocketAddr,
}

/// Number of unplanned exits of the nodes' processes, by the names of the Pod and of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Exits(BTreeMap<(String, String), u64>);

/// Numbers of processes that were lost during a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) shards: u64,
    pub(super) lanes: u64,
}

impl Installation {
    pub(super) async fn find(cluster: &Cluster) -> anyhow::Result<Self> {
        Ok(Self { cluster: cluster.clone(), routers: cluster.routers().await? })
    }

    /// Returns the number of times that containers of Tenon's Pods have been restarted, for any
    /// reason.
    pub(super) async fn restarts(&self) -> anyhow::Result<i32> {
        let pods = self.pods(&ListParams::default()).await?;
        let statuses = pods
            .iter()
            .filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref())
            .flatten();
        Ok(statuses.map(|status| status.restart_count).sum())
    }

    pub(super) async fn exits(&self) -> anyhow::Result<Exits> {
        let mut exits = BTreeMap::new();
        for (node, metrics) in self.metrics().await? {
            let of_node = metrics.by("tenon_node_process_exits_total", "process").into_iter();
            exits.extend(of_node.map(|(process, count)| ((node.clone(), process), count)));
        }
        Ok(Exits(exits))
    }

    /// Waits until every process of every node serves.
    pub(super) async fn await_all_serving(&self) -> anyhow::Result<()> {
        await_condition("every process to serve", RESTART_TIMEOUT, async || {
            for (node, metrics) in self.metrics().await? {
                let up = metrics.by("tenon_node_process_up", "process");
                ensure!(
                    !up.is_empty() && up.values().all(|up| *up == 1),
                    "not every process of {node} serves: {up:?}"
                );
            }
            Ok(())
        })
        .await
    }

    async fn metrics(&self) -> anyhow::Result<Vec<(String, Metrics)>> {
        let mut all = Vec::new();
        for pod in self.pods(&ListParams::default().labels(NODES)).await? {
            let node = pod.name_any();
            let ip: IpAddr = pod
                .status
                .as_ref()
                .and_then(|status| status.pod_ip.as_ref())
                .with_context(|| format!("the Pod {node} has no IP address"))?
                .parse()?;
            all.push((node, Metrics::of(SocketAddr::new(ip, ADMIN_PORT)).await?));
        }
        Ok(all)
    }

    async fn pods(&self, which: &ListParams) -> anyhow::Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), SYSTEM_NAMESPACE);
        Ok(pods.list(which).await?.items)
    }
}

impl Exits {
    /// Returns the numbers of processes that have exited since `before` was read.
    pub(super) fn since(&self, before: &Self) -> Lost {
        let mut lost = Lost::default();
        for (key, count) in &self.0 {
            let new = count.saturating_sub(before.0.get(key).copied().unwrap_or(0));
            match key.1.starts_with("lane") {
                true => lost.lanes += new,
                false => lost.shards += new,
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_ended_between_two_reads_are_counted_as_lost() {
        let exits = |all: &[(&str, u64)]| {
            Exits(
                all.iter()
                    .map(|(process, count)| (("node".to_owned(), (*process).to_owned()), *count))
                    .collect(),
            )
        };
        let before = exits(&[("lane-0", 2), ("shard-0", 1)]);
        let after = exits(&[("lane-0", 4), ("lane-1", 1), ("shard-0", 2)]);
        assert_eq!(after.since(&before), Lost { shards: 1, lanes: 3 });
    }
}
