//! Tests of the Gateway API, whose kinds the first of these tests installs while the operator runs.

use anyhow::{Context, ensure};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tenon_crds::{Condition, ConditionStatus, Route};
use tenon_e2e::{SOON, Scenario, answering, await_condition, worker};
use tenon_gateway::objects::{Gateway, GatewayClass, HttpRoute};

const VERSION: &str = "gateway.networking.k8s.io/v1";

fn apply() -> PatchParams {
    PatchParams::apply("tenon-e2e").force()
}

/// Applies the GatewayClass `tenon`, and a Gateway of the scenario's namespace.
async fn apply_gateway(scenario: &Scenario) -> anyhow::Result<()> {
    scenario.cluster.install_gateway_api().await?;
    let classes: Api<GatewayClass> = Api::all(scenario.cluster.client());
    let class = json!({
        "apiVersion": VERSION,
        "kind": "GatewayClass",
        "metadata": {"name": "tenon"},
        "spec": {"controllerName": "tenon.dev/router"},
    });
    classes.patch("tenon", &apply(), &Patch::Apply(class)).await?;
    let gateway = json!({
        "apiVersion": VERSION,
        "kind": "Gateway",
        "metadata": {"name": "gate"},
        "spec": {"gatewayClassName": "tenon", "listeners": [
            {"name": "http", "port": 80, "protocol": "HTTP"},
            {"name": "other", "port": 81, "protocol": "HTTP"},
        ]},
    });
    let gateways = scenario.namespace.api::<Gateway>();
    gateways.patch("gate", &apply(), &Patch::Apply(gateway)).await?;
    Ok(())
}

/// Applies an HTTPRoute with these rules.
async fn apply_route(
    scenario: &Scenario,
    name: &str,
    hosts: &[&str],
    rules: Value,
) -> anyhow::Result<Api<HttpRoute>> {
    let routes = scenario.namespace.api::<HttpRoute>();
    let route = json!({
        "apiVersion": VERSION,
        "kind": "HTTPRoute",
        "metadata": {"name": name},
        "spec": {
            "parentRefs": [{"name": "gate", "sectionName": "http"}],
            "hostnames": hosts,
            "rules": rules,
        },
    });
    routes.patch(name, &apply(), &Patch::Apply(route)).await?;
    Ok(routes)
}

fn to(worker: &str) -> Value {
    json!([{"group": "tenon.dev", "kind": "Worker", "name": worker}])
}

/// Applies a Gateway, and an HTTPRoute to a Worker that does not exist. Waits until the status of
/// the HTTPRoute says so, and deletes the HTTPRoute.
pub(crate) async fn report_missing_backend(
    scenario: &Scenario,
    name: &str,
    hosts: &[&str],
) -> anyhow::Result<()> {
    apply_gateway(scenario).await?;
    let routes = apply_route(scenario, name, hosts, json!([{"backendRefs": to(name)}])).await?;
    await_reason(&routes, name, "ResolvedRefs", "BackendNotFound").await?;
    routes.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

fn reason<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a str> {
    let found = conditions.iter().find(|condition| condition.type_ == type_);
    found.map(|condition| condition.reason.as_str())
}

/// Waits until a condition of the route's only parent has a reason, and returns its message.
async fn await_reason(
    routes: &Api<HttpRoute>,
    name: &str,
    type_: &str,
    expected: &str,
) -> anyhow::Result<String> {
    await_condition(&format!("{type_} of {name} to be {expected}"), SOON, async || {
        let route = routes.get(name).await?;
        let parents = route.status.as_ref().map(|status| &*status.parents).unwrap_or_default();
        let parent = parents.first().context("there is no status yet")?;
        let found = parent.conditions.iter().find(|condition| condition.type_ == type_);
        let found = found.with_context(|| format!("the conditions are {:?}", parent.conditions))?;
        ensure!(
            found.reason == expected && found.observed_generation == route.metadata.generation,
            "the condition is {found:?}"
        );
        Ok(found.message.clone())
    })
    .await
}

pub async fn an_http_route_serves_its_workers_and_reports_its_state(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    apply_gateway(&scenario).await?;
    for name in ["one", "two"] {
        namespace.apply(&worker(name, &answering(name))).await?;
        namespace.await_ready(name, ConditionStatus::True).await?;
    }
    let host = format!("routed.{}.example.com", namespace.name());
    let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}});
    let rules = json!([
        {"backendRefs": to("one")},
        {"matches": [{"path": {"type": "Exact", "value": "/two"}}], "backendRefs": to("two")},
        {"matches": [{"path": {"type": "PathPrefix", "value": "/old"}}], "filters": [redirect]},
    ]);
    let routes = apply_route(&scenario, "routed", &[&host], rules).await?;
    scenario.await_answer(&host, "one", SOON).await?;
    let mut connection = scenario.router.connection();
    for (path, expected) in [("/two", "two"), ("/two/more", "one"), ("/older", "one")] {
        let answer = connection.get(&host, path).await?;
        ensure!(answer.body == expected, "{path} answers {} {}", answer.status, answer.body);
    }
    let answer = connection.get(&host, "/old/x").await?;
    ensure!(answer.status == 302, "the redirect has the status {}", answer.status);
    await_reason(&routes, "routed", "Accepted", "Accepted").await?;
    await_reason(&routes, "routed", "ResolvedRefs", "ResolvedRefs").await?;

    let gateways = namespace.api::<Gateway>();
    await_condition("the status of the Gateway", SOON, async || {
        let status = gateways.get("gate").await?.status.unwrap_or_default();
        ensure!(
            reason(&status.conditions, "Programmed") == Some("Programmed")
                && reason(&status.conditions, "Accepted") == Some("ListenersNotValid")
                && !status.addresses.is_empty(),
            "the status is {status:?}"
        );
        let listeners = status.listeners.iter();
        let found: Vec<_> = listeners
            .map(|listener| {
                let reason = reason(&listener.conditions, "Accepted").unwrap_or_default();
                (listener.attached_routes, reason)
            })
            .collect();
        ensure!(found == [(1, "Accepted"), (0, "PortUnavailable")], "the listeners are {found:?}");
        Ok(())
    })
    .await?;

    // An unsupported value takes the route out of service, and the message names the field.
    let regex = json!([{"path": {"type": "RegularExpression", "value": "/.*"}}]);
    let rules = json!([{"matches": regex, "backendRefs": to("one")}]);
    apply_route(&scenario, "routed", &[&host], rules).await?;
    let message = await_reason(&routes, "routed", "Accepted", "UnsupportedValue").await?;
    ensure!(message.starts_with("spec.rules[0].matches[0].path.type: "), "{message}");
    routes.delete("routed", &DeleteParams::default()).await?;
    await_condition("the host not to be served", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(answer.status == 404, "the response is {} {}", answer.status, answer.body);
        Ok(())
    })
    .await
}

pub async fn the_older_of_a_worker_and_an_http_route_keeps_a_shared_host(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    apply_gateway(&scenario).await?;
    let host = format!("shared.{}.example.com", namespace.name());
    let mut first = worker("first", &answering("first"));
    first.spec.routes = vec![Route { host: host.clone(), path: "/".to_owned() }];
    namespace.apply(&first).await?;
    namespace.await_ready("first", ConditionStatus::True).await?;
    namespace.apply(&worker("second", &answering("second"))).await?;
    namespace.await_ready("second", ConditionStatus::True).await?;

    let rules = json!([{"backendRefs": to("second")}]);
    let routes = apply_route(&scenario, "late", &[&host], rules).await?;
    let message = await_reason(&routes, "late", "Accepted", "HostConflict").await?;
    ensure!(message.contains("first"), "{message}");
    scenario.await_answer(&host, "first", SOON).await?;

    namespace.delete_worker("first").await?;
    await_reason(&routes, "late", "Accepted", "Accepted").await?;
    scenario.await_answer(&host, "second", SOON).await?;

    namespace.apply(&first).await?;
    let ready = namespace.await_ready("first", ConditionStatus::False).await?;
    ensure!(
        ready.reason == "RouteConflict" && ready.message.contains("HTTPRoute late"),
        "the condition Ready is {ready:?}"
    );
    scenario.await_answer(&host, "second", SOON).await?;
    routes.delete("late", &DeleteParams::default()).await?;
    Ok(())
}
