//! The dashboard of the operator, with its progress on applied objects, and the lag of the routers
//! that watch its catalog.

use super::{installation, process};
use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    let leaders = "tenon_operator_leader{namespace=~\"$installation\"}";
    Dashboard::new(
        "operator",
        "Operator",
        "Reconciles, queues, the catalog and the time from apply to ready.",
    )
    .with(installation())
    .with(Variable::any("pod", "Operator", leaders, "pod"))
    .selecting("namespace=~\"$installation\",pod=~\"$pod\"")
    .row("Workers", workers())
    .row("Reconciles", reconciles())
    .row("Catalog", catalog())
    .row("Schedules and node reports", schedules())
    .row("Certificates of all processes", certificates())
    .row("The API server", api_server())
    .row("Process", process("operator"))
}

fn workers() -> [Panel; 3] {
    [
        Panel::quantiles(
            "Apply to ready",
            Unit::Seconds,
            "Time from the observation of a spec until its status is ready, by quantile. The objective is one second.",
            "tenon_operator_worker_ready_duration_seconds",
            &[0.5, 0.99],
        ),
        Panel::lines(
            "Specs that became ready",
            Unit::PerSecond,
            "Specs of new and changed Workers that became ready.",
            &[(
                "max(sum by (pod) (rate(tenon_operator_worker_ready_duration_seconds_count{@}[$__rate_interval])))",
                "ready",
            )],
        ),
        Panel::areas(
            "Workers",
            Unit::Count,
            "Workers by the status of their newest spec: ready, failing, or none yet.",
            &[("max by (stage) (tenon_operator_workers{@})", "{{stage}}")],
        ),
    ]
}

fn reconciles() -> [Panel; 6] {
    [
        Panel::lines(
            "Reconciles",
            Unit::PerSecond,
            "Reconciles by kind and result. Errors are retried with back-off.",
            &[("sum by (kind, result) (rate(tenon_operator_reconciles_total{@}[$__rate_interval]))", "{{kind}} {{result}}")],
        )
        .wide(6),
        Panel::lines(
            "Reconcile duration",
            Unit::Seconds,
            "99th percentile of the duration of reconciles, by kind.",
            &[(
                "histogram_quantile(0.99, sum by (le, kind) (rate(tenon_operator_reconcile_duration_seconds_bucket{@}[$__rate_interval])))",
                "{{kind}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Queue",
            Unit::Count,
            "Items that wait, are processed, or have failed and are retried later.",
            &[("sum by (queue, state) (tenon_operator_queue_depth{@})", "{{queue}} {{state}}")],
        )
        .wide(6),
        Panel::lines(
            "Leader",
            Unit::Count,
            "1 on the replica that writes. There is one leader, except for seconds during a change.",
            &[("tenon_operator_leader{@}", "{{pod}}")],
        )
        .up_to(1.0)
        .wide(6),
        Panel::lines(
            "Time in the queue",
            Unit::Seconds,
            "Median and 99th percentile of the time that items waited. During an import, the median is that of fresh changes, and the 99th percentile that of the backlog.",
            &[
                (
                    "histogram_quantile(0.5, sum by (le, queue) (rate(tenon_operator_queue_wait_duration_seconds_bucket{@}[$__rate_interval])))",
                    "{{queue}} p50",
                ),
                (
                    "histogram_quantile(0.99, sum by (le, queue) (rate(tenon_operator_queue_wait_duration_seconds_bucket{@}[$__rate_interval])))",
                    "{{queue}} p99",
                ),
            ],
        )
        .wide(12),
        Panel::lines(
            "Events",
            Unit::PerSecond,
            "Events about objects, by outcome. An Event is dropped if its object or namespace has too many; the status has the same text.",
            &[("sum by (outcome) (rate(tenon_operator_events_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(12),
    ]
}

fn catalog() -> [Panel; 5] {
    [
        Panel::lines(
            "Catalog lag",
            Unit::Count,
            "Changes that the slowest watcher of each replica has not received yet.",
            &[("tenon_operator_catalog_lag_versions{@}", "{{pod}}")],
        )
        .wide(6),
        Panel::lines(
            "Catalog delivery",
            Unit::Seconds,
            "99th percentile of the time from a change of the catalog until it is sent to a router.",
            &[(
                "histogram_quantile(0.99, sum by (le, pod) (rate(tenon_operator_catalog_delivery_duration_seconds_bucket{@}[$__rate_interval])))",
                "{{pod}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Watchers",
            Unit::Count,
            "Routers that watch the catalog of each replica.",
            &[("tenon_operator_catalog_watchers{@}", "{{pod}}")],
        )
        .wide(4),
        Panel::lines(
            "Changes",
            Unit::PerSecond,
            "Changes of the catalog: Workers and nodes that were added, changed or removed.",
            &[("rate(tenon_operator_catalog_version{@}[$__rate_interval])", "{{pod}}")],
        )
        .wide(4),
        Panel::lines(
            "Refused calls",
            Unit::PerSecond,
            "Calls of routers and nodes that the catalog refused, by call. A node gets only what its pool needs; the log names the pools.",
            &[("sum by (call) (rate(tenon_operator_catalog_denied_total{@}[$__rate_interval]))", "{{call}}")],
        )
        .wide(4),
    ]
}

fn schedules() -> [Panel; 4] {
    [
        Panel::lines(
            "Scheduled calls",
            Unit::PerSecond,
            "Due times of Workers' schedules, by outcome.",
            &[("sum by (outcome) (rate(tenon_operator_scheduled_calls_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::lines(
            "Schedule delay",
            Unit::Seconds,
            "Mean time from a schedule's due time to the call.",
            &[(
                "sum(rate(tenon_operator_schedule_delay_seconds_sum{@}[$__rate_interval])) / sum(rate(tenon_operator_schedule_delay_seconds_count{@}[$__rate_interval]))",
                "mean",
            )],
        )
        .wide(6),
        Panel::lines(
            "Node reports",
            Unit::PerSecond,
            "Nodes' reports of Workers whose code fails repeatedly, by outcome.",
            &[("sum by (outcome) (rate(tenon_operator_worker_reports_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::lines(
            "Nodes",
            Unit::Count,
            "Nodes in the catalog, by pool and by whether they take new work.",
            &[("max by (pool, state) (tenon_operator_nodes{@})", "{{pool}} {{state}}")],
        )
        .wide(6),
    ]
}

fn certificates() -> [Panel; 4] {
    [
        Panel::lines(
            "Certificates expire in",
            Unit::Seconds,
            "Time until the certificates of each process and of its authority expire. They are renewed long before.",
            &[(
                "min by (component, certificate) (tenon_certificate_expiry_timestamp_seconds{namespace=~\"$installation\"}) - time()",
                "{{component}} {{certificate}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Certificate reloads",
            Unit::PerSecond,
            "Reloads of certificates, by outcome. After a failed reload, a process keeps its current certificate.",
            &[(
                "sum by (component, outcome) (rate(tenon_tls_reloads_total{namespace=~\"$installation\"}[$__rate_interval]))",
                "{{component}} {{outcome}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Handshakes",
            Unit::PerSecond,
            "TLS handshakes between processes, full or resumed.",
            &[(
                "sum by (component, kind) (rate(tenon_tls_handshakes_total{namespace=~\"$installation\"}[$__rate_interval]))",
                "{{component}} {{kind}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Failed handshakes",
            Unit::PerSecond,
            "Failed TLS handshakes, by reason: a peer without a certificate, or with one of another authority or role, is refused.",
            &[(
                "sum by (component, reason) (rate(tenon_tls_handshake_failures_total{namespace=~\"$installation\"}[$__rate_interval]))",
                "{{component}} {{reason}}",
            )],
        )
        .wide(6),
    ]
}

fn api_server() -> [Panel; 2] {
    [
        Panel::lines(
            "Interrupted watches",
            Unit::PerSecond,
            "Interrupted watches of the API server, by kind. They resume automatically.",
            &[("sum by (kind) (rate(tenon_operator_watch_interruptions_total{@}[$__rate_interval]))", "{{kind}}")],
        )
        .wide(12),
        Panel::lines(
            "Malformed objects",
            Unit::Count,
            "Stored objects that are skipped because they do not match their schema, by kind.",
            &[("max by (kind) (tenon_operator_malformed_objects{@})", "{{kind}}")],
        )
        .wide(12),
    ]
}
