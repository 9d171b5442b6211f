//! Tests of nodes that stop under load, and of pools without nodes.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::Method;
use tenon_crds::{ConditionStatus, Worker};
use tenon_e2e::{Load, Node, Outcome, Probe, Prober, SOON, Scenario, await_condition, worker};
use tokio::time::Instant;

/// Number of Workers, large enough that each of two nodes serves some. In one of about 30,000 runs,
/// a node serves none.
const WORKERS: usize = 16;

/// The source of a Worker that takes 50 ms for each request, so that some requests are always in
/// flight.
const SLOW: &str = "export default {
    async fetch() {
        await new Promise((resolve) => setTimeout(resolve, 50));
        return new Response('done');
    },
};";

pub async fn a_killed_node_fails_only_the_invocations_that_it_had_begun(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let pool = scenario.namespace.name();
    let nodes = vec![scenario.start_node(pool, "a").await?, scenario.start_node(pool, "b").await?];
    scenario.namespace.apply(&in_pool("slow", pool)).await?;
    let host = scenario.namespace.host("slow");
    let serving = scenario
        .await_answer(&host, "done", SOON)
        .await?
        .node
        .context("the response names no node")?;
    let (victims, others): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| node.name() == serving);
    let victim = victims
        .into_iter()
        .next()
        .with_context(|| format!("{serving} is not a node of this pool"))?;

    let reads = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    let writes = Prober::start(&scenario.router, Load::post(std::slice::from_ref(&host)));
    writes.await_served(30).await?;
    let before_kill = Instant::now();
    let lost = victim.kill().await?;
    let after_kill = Instant::now();
    reads.await_served(100).await?;
    writes.await_served(100).await?;
    let (reads, writes) = (reads.stop().await?, writes.stop().await?);

    reads.ensure_no_failure().context("a GET failed, although the router can repeat it")?;
    let in_flight = |probe: &Probe| probe.began <= after_kill && probe.ended >= before_kill;
    let is_excused = |probe: &Probe| in_flight(probe) && is_node_lost(&probe.outcome);
    ensure!(
        writes.failures().all(is_excused),
        "POSTs failed for another reason than the loss of the node: {writes}"
    );
    let survivor = others.first().context("no node is left")?.name();
    let served_by = serving_after(&writes.probes, after_kill);
    ensure!(
        served_by == BTreeSet::from([survivor]),
        "{served_by:?} served after the kill, not only {survivor}"
    );

    lost.forget().await?;
    delete_all(others).await
}

/// The source of a Worker, one line of which makes V8 abort or never return.
const KILLER: &str = "export default { fetch() { for (const key in new Uint8Array(2 ** 26)) return new Response(key); } };";

pub async fn a_worker_that_ends_its_process_does_not_fail_its_neighbors(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let (namespace, pool) = (&scenario.namespace, scenario.namespace.name());
    let nodes = vec![scenario.start_node(pool, "a").await?, scenario.start_node(pool, "b").await?];
    let mut hosts = Vec::new();
    for i in 0..WORKERS {
        let name = format!("neighbor-{i}");
        namespace.apply(&in_pool(&name, pool)).await?;
        hosts.push(namespace.host(&name));
    }
    let mut killer = worker("killer", KILLER);
    killer.spec.pool = pool.to_owned();
    namespace.apply(&killer).await?;
    for host in &hosts {
        scenario.await_answer(host, "done", SOON).await?;
    }
    namespace.await_ready("killer", ConditionStatus::True).await?;

    let neighbors = Prober::start(&scenario.router, Load::get(&hosts));
    neighbors.await_served(100).await?;
    let (mut connection, host) = (scenario.router.connection(), namespace.host("killer"));
    await_condition("the killer to be refused", SOON, async || {
        // A POST is not retried, so it does not end a second process.
        let answer = connection.send(Method::POST, &host, "/", Bytes::new()).await?;
        ensure!(answer.status >= 500, "the response is {} {}", answer.status, answer.body);
        ensure!(
            answer.body.contains("worker_quarantined"),
            "the response is {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    })
    .await?;
    neighbors.await_served(300).await?;
    let neighbors = neighbors.stop().await?;
    neighbors.ensure_no_failure().context("requests to the neighbors failed")?;
    await_condition("the status to report the quarantine", SOON, async || {
        let killer: Worker = namespace.api().get("killer").await?;
        let quarantine = killer
            .status
            .and_then(|status| status.quarantine)
            .context("the status has no quarantine")?;
        ensure!(
            nodes.iter().any(|node| node.name() == quarantine.node),
            "the status names another node: {quarantine:?}"
        );
        Ok(())
    })
    .await?;
    delete_all(nodes).await
}

pub async fn no_request_fails_while_a_node_is_replaced(scenario: Scenario) -> anyhow::Result<()> {
    let pool = scenario.namespace.name();
    let old = scenario.start_node(pool, "old").await?;
    let mut hosts = Vec::new();
    for i in 0..WORKERS {
        let name = format!("slow-{i}");
        scenario.namespace.apply(&in_pool(&name, pool)).await?;
        hosts.push(scenario.namespace.host(&name));
    }
    for host in &hosts {
        scenario.await_answer(host, "done", SOON).await?;
    }

    let reads = Prober::start(&scenario.router, Load::get(&hosts));
    let writes = Prober::start(&scenario.router, Load::post(&hosts));
    writes.await_served(30).await?;
    let new = scenario.start_node(pool, "new").await?;
    await_serving(&scenario, &hosts, new.name()).await?;
    // This is harsher than on Kubernetes, where the Pod's preStop hook delays SIGTERM until routers
    // know that the node terminates.
    let ended = old.delete().await?;
    let ended_at = Instant::now();
    reads.await_served(100).await?;
    writes.await_served(100).await?;
    let (reads, writes) = (reads.stop().await?, writes.stop().await?);

    ensure!(ended.success(), "the old node ended with {ended}");
    reads.ensure_no_failure().context("GETs failed")?;
    writes.ensure_no_failure().context("POSTs failed")?;
    let served_by = serving_after(&writes.probes, ended_at);
    ensure!(
        served_by == BTreeSet::from([new.name()]),
        "{served_by:?} served after the old node had ended, not only {}",
        new.name()
    );
    delete_all(vec![new]).await
}

pub async fn an_endpoint_slice_of_a_tenant_adds_no_node(scenario: Scenario) -> anyhow::Result<()> {
    let pool = scenario.namespace.name();
    let stray = scenario.start_node_in(&scenario.namespace, pool, "stray").await?;
    scenario.namespace.apply(&in_pool("private", pool)).await?;
    scenario.namespace.await_ready("private", ConditionStatus::True).await?;
    await_no_node(&scenario, "private").await?;
    // The router uses a node of the operator's namespace immediately. When that node serves, the
    // router has also seen the stray node's EndpointSlice.
    let own = scenario.start_node(pool, "own").await?;
    let host = scenario.namespace.host("private");
    let server = scenario.await_answer(&host, "done", SOON).await?.node;
    ensure!(server.as_deref() == Some(own.name()), "{server:?} served, not {}", own.name());
    delete_all(vec![own]).await?;
    await_no_node(&scenario, "private").await?;
    delete_all(vec![stray]).await
}

pub async fn requests_to_a_pool_without_nodes_are_refused_with_no_node(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let pool = scenario.namespace.name();
    scenario.cluster.apply_pool(pool).await?;
    scenario.namespace.apply(&in_pool("homeless", pool)).await?;
    await_no_node(&scenario, "homeless").await
}

async fn await_no_node(scenario: &Scenario, worker: &str) -> anyhow::Result<()> {
    let host = scenario.namespace.host(worker);
    let mut connection = scenario.router.connection();
    await_condition("a refusal with no_node", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(
            answer.status == 503 && answer.body.contains("no_node"),
            "the response is {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    })
    .await
}

/// Waits until a node serves some of the Workers.
async fn await_serving(scenario: &Scenario, hosts: &[String], node: &str) -> anyhow::Result<()> {
    let mut connection = scenario.router.connection();
    await_condition(&format!("{node} to serve"), SOON, async || {
        for host in hosts {
            if connection.get(host, "/").await?.node.as_deref() == Some(node) {
                return Ok(());
            }
        }
        bail!("other nodes serve all Workers")
    })
    .await
}

fn in_pool(name: &str, pool: &str) -> Worker {
    let mut worker = worker(name, SLOW);
    worker.spec.pool = pool.to_owned();
    worker
}

fn is_node_lost(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused { body, .. } if body.contains("node_lost"))
}

/// Returns the names of the nodes that served requests that began after `since`.
fn serving_after(probes: &[Probe], since: Instant) -> BTreeSet<&str> {
    let later = probes.iter().filter(|probe| probe.began > since);
    later
        .filter_map(|probe| match &probe.outcome {
            Outcome::Served { node, .. } => node.as_deref(),
            _ => None,
        })
        .collect()
}

async fn delete_all(nodes: Vec<Node>) -> anyhow::Result<()> {
    for node in nodes {
        node.delete().await?;
    }
    Ok(())
}
