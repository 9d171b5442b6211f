//! Tests of the certificates that the operator issues, on a separate platform whose processes speak
//! only TLS.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::ListParams;
use tenon_crds::{ConditionStatus, ServiceBinding};
use tenon_e2e::{
    Account, Load, Namespace, Node, Operator, Prober, Router, SOON, Scenario, Service, Transport,
    Volumes, answering, await_condition, worker,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Time limit for the replacement of all certificates. The first authority is replaced after about
/// 30 seconds, and dropped when every process has read the new one.
const REPLACED: Duration = Duration::from_secs(90);

/// The Secrets with certificates, in alphabetical order.
const SECRETS: [&str; 5] = [
    "tenon-ca",
    "tenon-operator-tls",
    "tenon-pool-tls-tls",
    "tenon-router-tls",
    "tenon-runtime-node-tls",
];

/// The content type of a TLS alert record. Servers send only such records before they close the
/// connection.
const ALERT: u8 = 21;

pub async fn certificates_are_issued_and_renewed_without_a_failed_request(
    scenario: Scenario,
) -> anyhow::Result<()> {
    // Two leading operators would write the same status.
    let mut shared = scenario.operator().await;
    shared.take().context("no operator is running")?.terminate().await?;
    let outcome = issue_and_renew(&scenario).await;
    // Later tests need an operator, regardless of the outcome of this test.
    let successor = scenario.start_operator().await?;
    scenario.route_catalog(&[&successor]);
    *shared = Some(successor);
    outcome
}

async fn issue_and_renew(scenario: &Scenario) -> anyhow::Result<()> {
    let system = Namespace::create(&scenario.cluster, "tenon-tls").await?;
    let logs = scenario.logs().to_owned();
    let volumes = Volumes::of(&system, "tls", logs.join(system.name()));
    let transport = Transport::Tls(&volumes);
    let (catalog, router_service) = (Service::start(7070).await?, Service::start(8081).await?);
    let (cluster, internal) = (&scenario.cluster, router_service.address());
    let account = Account::create(cluster, &system, &logs).await?;
    // The operator starts without a certificate and issues one for itself.
    let operator = Operator::start(
        "operator-tls",
        account.kubeconfig(),
        transport,
        internal,
        system.name(),
        &logs,
    )
    .await?;
    catalog.set_backends(vec![operator.catalog()]);
    scenario.cluster.apply_pool("tls").await?;
    let first = await_secrets(&system, |_| true).await?;
    volumes.await_mounted().await?;

    let address = catalog.address();
    let start_node = async |name: &str| {
        Node::start(name, "tls", transport, address, internal, &system, &logs).await
    };
    let node = start_node("tls-a").await?;
    let router = Router::start("router-tls", transport, address, &logs).await?;
    router_service.set_backends(vec![router.internal_address()]);

    let mut hello = worker("hello", &answering("hello"));
    hello.spec.pool = "tls".to_owned();
    scenario.namespace.apply(&hello).await?;
    let mut caller = worker(
        "caller",
        "export default { fetch(request, env) { return env.HELLO.fetch(request) } };",
    );
    caller.spec.pool = "tls".to_owned();
    caller.spec.services = vec![ServiceBinding {
        name: "HELLO".to_owned(),
        worker: "hello".to_owned(),
        entrypoint: None,
    }];
    scenario.namespace.apply(&caller).await?;
    scenario.namespace.await_ready("caller", ConditionStatus::True).await?;
    let hosts = ["hello", "caller"].map(|name| scenario.namespace.host(name));
    for host in &hosts {
        let mut connection = router.connection();
        await_condition(&format!("{host} to answer"), SOON, async || {
            let answer = connection.get(host, "/").await?;
            ensure!(
                answer.status == 200 && answer.body == "hello",
                "the response is {} {}",
                answer.status,
                answer.body
            );
            Ok(())
        })
        .await?;
    }
    for (server, address) in [
        ("operator", operator.catalog()),
        ("router", router.internal_address()),
        ("node", node.shard(0)),
    ] {
        ensure!(is_refused(address).await?, "the {server} admits a client without a certificate");
    }

    let prober = Prober::start(&router, Load::get(&hosts));
    prober.await_served(100).await?;
    // True once no Secret contains its first certificate or the first authority.
    let replaced = |now: &BTreeMap<String, Secret>| {
        let has = |name: &String, key, text: &[u8]| {
            value(&now[name], key).windows(text.len()).any(|window| window == text)
        };
        let authority = value(&first["tenon-ca"], "tls.crt");
        first.iter().all(|(name, before)| {
            !has(name, "tls.crt", value(before, "tls.crt")) && !has(name, "ca.crt", authority)
        })
    };
    await_secrets(&system, replaced).await?;
    prober.await_served(100).await?;
    // A node and a router that start now communicate with the older processes.
    let another = start_node("tls-b").await?;
    await_condition("the router to know the new node", SOON, async || {
        let nodes = router.nodes().await?;
        ensure!(nodes == 2, "the router knows {nodes} nodes");
        Ok(())
    })
    .await?;
    let ended = node.delete().await?;
    ensure!(ended.success(), "the node ended with {ended}");
    prober.await_served(100).await?;
    prober.stop().await?.ensure_no_failure()?;
    let late = Router::start("router-tls-late", transport, address, &logs).await?;
    let answer = late.connection().get(&hosts[1], "/").await?;
    ensure!(
        answer.status == 200 && answer.body == "hello",
        "the response is {} {}",
        answer.status,
        answer.body
    );

    another.delete().await?;
    operator.terminate().await?;
    system.delete().await?;
    Ok(())
}

/// Waits until all Secrets with certificates exist and `holds` returns true for them. Returns the
/// Secrets by name.
async fn await_secrets(
    system: &Namespace,
    holds: impl Fn(&BTreeMap<String, Secret>) -> bool,
) -> anyhow::Result<BTreeMap<String, Secret>> {
    await_condition("the expected certificates", REPLACED, async || {
        let secrets = system.api::<Secret>().list(&ListParams::default()).await?;
        let mut secrets: BTreeMap<_, _> =
            secrets.into_iter().map(|secret| (secret.name_any(), secret)).collect();
        // Other pools of the cluster have Secrets too.
        secrets.retain(|name, _| SECRETS.contains(&name.as_str()));
        let names: Vec<_> = secrets.keys().collect();
        ensure!(names == SECRETS, "the Secrets are {names:?}");
        ensure!(holds(&secrets), "the first certificates are still in use");
        Ok(secrets)
    })
    .await
}

fn value<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    secret.data.as_ref().and_then(|data| data.get(key)).map_or(&[], |value| &value.0)
}

/// Returns whether a client that speaks HTTP/2 without TLS receives nothing but a TLS alert.
async fn is_refused(address: std::net::SocketAddr) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    let mut answer = Vec::new();
    // A connection reset is also a refusal.
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await?;
    Ok(answer.first().is_none_or(|first| *first == ALERT))
}
