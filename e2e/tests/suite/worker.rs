//! Tests of the life cycle of a Worker, from its first apply to its deletion.

use anyhow::{Context, ensure};
use kube::api::{DeleteParams, ListParams};
use tenon_crds::{
    ConditionStatus, ConfigMapRef, Route, Secret, SecretKeyRef, Source, Worker, WorkerRevision,
};
use tenon_e2e::{Load, Prober, SOON, Scenario, answering, await_condition, worker};

use crate::pool::COLLECTED;

pub async fn an_applied_worker_answers(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply(&worker("greeter", &answering("hello"))).await?;
    let host = scenario.namespace.host("greeter");
    scenario.await_answer(&host, "hello", SOON).await?;

    scenario.namespace.await_ready("greeter", ConditionStatus::True).await?;
    let status =
        scenario.namespace.worker("greeter").await?.status.context("the Worker has no status")?;
    ensure!(
        status.url.as_deref().is_some_and(|url| url.contains(&host)),
        "the URL {:?} does not contain {host}",
        status.url
    );
    ensure!(
        status.address.map(|address| address.url) == status.url,
        "status.address differs from status.url"
    );
    let holds: Vec<_> =
        status.conditions.iter().filter(|c| c.status == ConditionStatus::True).collect();
    ensure!(
        holds.len() == 4,
        "{} conditions are true, not 4: {:?}",
        holds.len(),
        status.conditions
    );
    Ok(())
}

pub async fn an_update_switches_without_a_failed_request(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply(&worker("switch", &answering("old"))).await?;
    let host = scenario.namespace.host("switch");
    scenario.await_answer(&host, "old", SOON).await?;

    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    prober.await_served(50).await?;
    scenario.namespace.apply(&worker("switch", &answering("new"))).await?;
    scenario.await_answer(&host, "new", SOON).await?;
    prober.await_served(50).await?;
    let report = prober.stop().await?;

    report.ensure_no_failure()?;
    let bodies = report.bodies();
    ensure!(
        bodies.keys().eq(&["new", "old"]),
        "requests were not served by the two revisions: {bodies:?}"
    );
    Ok(())
}

pub async fn a_change_of_its_config_map_is_served(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply_config_map("code", &[("worker.js", &answering("one"))]).await?;
    scenario.namespace.apply(&from_config_map("mapped", "code")).await?;
    let host = scenario.namespace.host("mapped");
    scenario.await_answer(&host, "one", SOON).await?;

    scenario.namespace.apply_config_map("code", &[("worker.js", &answering("two"))]).await?;
    scenario.await_answer(&host, "two", SOON).await?;
    Ok(())
}

pub async fn a_change_of_its_secret_is_served(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply_secret("credentials", &[("token", "first")]).await?;
    scenario.namespace.apply(&returning_secret("keeper")).await?;
    let host = scenario.namespace.host("keeper");
    scenario.await_answer(&host, "first", SOON).await?;

    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    scenario.namespace.apply_secret("credentials", &[("token", "second")]).await?;
    scenario.await_answer(&host, "second", SOON).await?;
    prober.stop().await?.ensure_no_failure()
}

pub async fn a_worker_waits_for_its_config_map_and_secret(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let mut early = returning_secret("early");
    early.spec.source = Source {
        config_map_ref: Some(ConfigMapRef { name: "code".to_owned() }),
        ..Source::default()
    };
    scenario.namespace.apply(&early).await?;
    let ready = scenario.namespace.await_ready("early", ConditionStatus::False).await?;
    ensure!(
        ready.message.contains("\"code\""),
        "the message does not name the ConfigMap: {ready:?}"
    );

    scenario.namespace.apply_config_map("code", &[("worker.js", RETURN_SECRET)]).await?;
    scenario.namespace.apply_secret("credentials", &[("token", "there")]).await?;
    scenario.namespace.await_ready("early", ConditionStatus::True).await?;
    scenario.await_answer(&scenario.namespace.host("early"), "there", SOON).await?;
    Ok(())
}

pub async fn a_bad_update_names_the_position_while_the_last_good_revision_serves(
    scenario: Scenario,
) -> anyhow::Result<()> {
    scenario.namespace.apply(&worker("careful", &answering("good"))).await?;
    let host = scenario.namespace.host("careful");
    scenario.await_answer(&host, "good", SOON).await?;
    scenario.namespace.await_ready("careful", ConditionStatus::True).await?;
    let good = scenario
        .namespace
        .worker("careful")
        .await?
        .status
        .context("the Worker has no status")?
        .latest_revision;

    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    let bad = "export default {\n  fetch() {\n    return new Response(;\n  },\n};\n";
    scenario.namespace.apply(&worker("careful", bad)).await?;
    let ready = scenario.namespace.await_ready("careful", ConditionStatus::False).await?;
    ensure!(
        ready.message.contains("worker.js:3:25"),
        "the message does not name file, line and column: {ready:?}"
    );
    prober.await_served(50).await?;
    let report = prober.stop().await?;
    report.ensure_no_failure()?;
    ensure!(
        report.bodies().keys().eq(&["good"]),
        "the outcomes are not the expected ones: {report}"
    );
    let status =
        scenario.namespace.worker("careful").await?.status.context("the Worker has no status")?;
    ensure!(
        status.latest_revision == good,
        "the latest revision is {:?}, not the good one, {good:?}",
        status.latest_revision
    );

    scenario.namespace.apply(&worker("careful", &answering("fixed"))).await?;
    scenario.await_answer(&host, "fixed", SOON).await?;
    scenario.namespace.await_ready("careful", ConditionStatus::True).await?;
    Ok(())
}

pub async fn a_missing_pool_is_named_while_the_accepted_revision_serves(
    scenario: Scenario,
) -> anyhow::Result<()> {
    scenario.namespace.apply(&worker("placed", &answering("good"))).await?;
    let host = scenario.namespace.host("placed");
    scenario.await_answer(&host, "good", SOON).await?;
    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    let mut misspelled = worker("placed", &answering("elsewhere"));
    misspelled.spec.pool = "defualt".to_owned();
    scenario.namespace.apply(&misspelled).await?;
    let ready = scenario.namespace.await_ready("placed", ConditionStatus::False).await?;
    ensure!(
        ready.reason == "PoolMissing" && ready.message.starts_with("spec.pool: "),
        "the condition Ready is {ready:?}"
    );
    prober.await_served(50).await?;
    let report = prober.stop().await?;
    report.ensure_no_failure()?;
    ensure!(
        report.bodies().keys().eq(&["good"]),
        "the outcomes are not the expected ones: {report}"
    );
    Ok(())
}

pub async fn a_deleted_worker_answers_404(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply(&worker("short-lived", &answering("hello"))).await?;
    let host = scenario.namespace.host("short-lived");
    scenario.await_answer(&host, "hello", SOON).await?;

    scenario.namespace.delete_worker("short-lived").await?;
    let mut connection = scenario.router.connection();
    await_condition("the route to be gone", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(
            answer.status == 404 && answer.body.contains("worker_not_found"),
            "the response is {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    })
    .await
}

pub async fn a_worker_deleted_in_the_foreground_leaves_no_revision(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    namespace.apply(&worker("owner", &answering("hello"))).await?;
    namespace.await_ready("owner", ConditionStatus::True).await?;
    let revisions = namespace.api::<WorkerRevision>();
    let owned = revisions.list(&ListParams::default()).await?.items;
    let blocks = owned.iter().all(|revision| {
        let owners = revision.metadata.owner_references.iter().flatten();
        owners.clone().count() == 1
            && owners.clone().all(|owner| owner.block_owner_deletion == Some(true))
    });
    ensure!(
        !owned.is_empty() && blocks,
        "there are no revisions, or one does not block the deletion of the Worker: {owned:?}"
    );
    namespace.api::<Worker>().delete("owner", &DeleteParams::foreground()).await?;
    // The garbage collector discovers a new kind late. Until then, it deletes the Worker before its
    // revisions.
    await_condition("the Worker and its revisions to be deleted", COLLECTED, async || {
        ensure!(
            namespace.api::<Worker>().get_opt("owner").await?.is_none(),
            "the Worker still exists"
        );
        let left = revisions.list(&ListParams::default()).await?.items;
        ensure!(left.is_empty(), "{} revisions are left", left.len());
        Ok(())
    })
    .await
}

pub async fn the_older_of_two_workers_keeps_a_shared_route(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let host = format!("shop.{}.example.com", scenario.namespace.name());
    let claiming = |name: &str, text: &str| {
        let mut worker = worker(name, &answering(text));
        worker.spec.routes = vec![Route { host: host.clone(), path: "/".to_owned() }];
        worker
    };
    // The names sort in the order of age: creation times have a resolution of one second, and the
    // name decides between Workers of the same time.
    scenario.namespace.apply(&claiming("a-first", "first")).await?;
    scenario.await_answer(&host, "first", SOON).await?;
    scenario.namespace.apply(&claiming("b-second", "second")).await?;
    let ready = scenario.namespace.await_ready("b-second", ConditionStatus::False).await?;
    ensure!(
        ready.reason == "RouteConflict" && ready.message.contains("a-first"),
        "the condition Ready is {ready:?}"
    );
    scenario.await_answer(&host, "first", SOON).await?;

    scenario.namespace.delete_worker("a-first").await?;
    scenario.await_answer(&host, "second", SOON).await?;
    scenario.namespace.await_ready("b-second", ConditionStatus::True).await?;
    Ok(())
}

pub async fn a_handler_that_throws_does_not_show_its_details_to_the_caller(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let source = "export default { fetch() { throw new Error('the password is swordfish'); } };";
    scenario.namespace.apply(&worker("thrower", source)).await?;
    let mut connection = scenario.router.connection();
    let host = scenario.namespace.host("thrower");
    let answer = await_condition("the Worker to throw", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(answer.status == 500, "the response is {} {}", answer.status, answer.body);
        Ok(answer)
    })
    .await?;
    ensure!(
        answer.body.contains("worker_exception") && !answer.body.contains("swordfish"),
        "the response has no code or shows details: {}",
        answer.body
    );
    Ok(())
}

const RETURN_SECRET: &str =
    "export default { fetch(request, env) { return new Response(env.TOKEN); } };";

fn returning_secret(name: &str) -> Worker {
    let mut worker = worker(name, RETURN_SECRET);
    let reference = SecretKeyRef { name: "credentials".to_owned(), key: "token".to_owned() };
    worker.spec.secrets = vec![Secret { name: "TOKEN".to_owned(), secret_key_ref: reference }];
    worker
}

fn from_config_map(name: &str, config_map: &str) -> Worker {
    let mut worker = worker(name, "");
    worker.spec.source = Source {
        config_map_ref: Some(ConfigMapRef { name: config_map.to_owned() }),
        ..Source::default()
    };
    worker
}
