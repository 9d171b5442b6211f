//! The operator: its progress on applied objects, and how far its catalog's subscribers are behind.

use super::{installation, process};
use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    let leaders = "tenon_operator_leader{namespace=~\"$installation\"}";
    Dashboard::new("operator", "Operator", "Reconciles, queues, the catalog and the way from apply to ready.")
        .with(installation())
        .with(Variable::any("pod", "Operator", leaders, "pod"))
        .selecting("namespace=~\"$installation\",pod=~\"$pod\"")
        .row("Workers", workers())
        .row("Reconciles", reconciles())
        .row("Catalog", catalog())
        .row("Schedules and what nodes report", schedules())
        .row("Certificates of all processes", certificates())
        .row("The API server", edges())
        .row("Process", process("operator"))
}

fn workers() -> [Panel; 3] {
    [
        Panel::quantiles(
            "Apply to ready",
            Unit::Seconds,
            "From when a spec was seen to when its status said that it is ready, by quantile. The promise is one second.",
            "tenon_operator_worker_ready_duration_seconds",
            &[0.5, 0.99],
        ),
        Panel::lines(
            "Specs that became ready",
            Unit::PerSecond,
            "New Workers and changed ones.",
            &[(
                "max(sum by (pod) (rate(tenon_operator_worker_ready_duration_seconds_count{@}[$__rate_interval])))",
                "ready",
            )],
        ),
        Panel::areas(
            "Workers",
            Unit::Count,
            "By what their status says of their newest spec: ready, failing, or nothing yet.",
            &[("max by (stage) (tenon_operator_workers{@})", "{{stage}}")],
        ),
    ]
}

fn reconciles() -> [Panel; 4] {
    [
        Panel::lines(
            "Reconciles",
            Unit::PerSecond,
            "By kind and result. Errors are tried again, later each time.",
            &[("sum by (kind, result) (rate(tenon_operator_reconciles_total{@}[$__rate_interval]))", "{{kind}} {{result}}")],
        )
        .wide(6),
        Panel::lines(
            "Time of a reconcile",
            Unit::Seconds,
            "What 99 of 100 take at most, by kind.",
            &[(
                "histogram_quantile(0.99, sum by (le, kind) (rate(tenon_operator_reconcile_duration_seconds_bucket{@}[$__rate_interval])))",
                "{{kind}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Queue",
            Unit::Count,
            "What waits, runs, or has failed and is tried again later.",
            &[("sum by (queue, state) (tenon_operator_queue_depth{@})", "{{queue}} {{state}}")],
        )
        .wide(6),
        Panel::lines(
            "Leader",
            Unit::Count,
            "1 on the replica that writes. There is one, but for seconds while it changes.",
            &[("tenon_operator_leader{@}", "{{pod}}")],
        )
        .up_to(1.0)
        .wide(6),
    ]
}

fn catalog() -> [Panel; 4] {
    [
        Panel::lines(
            "Catalog lag",
            Unit::Count,
            "Changes that the slowest watcher of each replica has not been told of.",
            &[("tenon_operator_catalog_lag_versions{@}", "{{pod}}")],
        )
        .wide(6),
        Panel::lines(
            "Time to tell",
            Unit::Seconds,
            "From a change of the catalog to a router's being told, 99 times of 100.",
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
        .wide(6),
        Panel::lines(
            "Changes",
            Unit::PerSecond,
            "Of the catalog: Workers and nodes that came, changed or went.",
            &[("rate(tenon_operator_catalog_version{@}[$__rate_interval])", "{{pod}}")],
        )
        .wide(6),
    ]
}

fn schedules() -> [Panel; 4] {
    [
        Panel::lines(
            "Scheduled calls",
            Unit::PerSecond,
            "Times of Workers' schedules, by what became of them.",
            &[("sum by (outcome) (rate(tenon_operator_scheduled_calls_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::lines(
            "Delay of schedules",
            Unit::Seconds,
            "The mean time from a schedule's time to the call.",
            &[(
                "sum(rate(tenon_operator_schedule_delay_seconds_sum{@}[$__rate_interval])) / sum(rate(tenon_operator_schedule_delay_seconds_count{@}[$__rate_interval]))",
                "mean",
            )],
        )
        .wide(6),
        Panel::lines(
            "Reports of nodes",
            Unit::PerSecond,
            "What nodes said of Workers whose code fails again and again, by what became of it.",
            &[("sum by (outcome) (rate(tenon_operator_worker_reports_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::lines(
            "Nodes",
            Unit::Count,
            "In the catalog, by pool and whether they take new work.",
            &[("max by (pool, state) (tenon_operator_nodes{@})", "{{pool}} {{state}}")],
        )
        .wide(6),
    ]
}

fn certificates() -> [Panel; 4] {
    [
        Panel::lines(
            "Certificates end in",
            Unit::Seconds,
            "Time until each process's certificate and its authority's run out. They are made anew long before.",
            &[(
                "min by (component, certificate) (tenon_certificate_expiry_timestamp_seconds{namespace=~\"$installation\"}) - time()",
                "{{component}} {{certificate}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Certificates read anew",
            Unit::PerSecond,
            "By how that went: after a bad change a process goes on with what it has.",
            &[(
                "sum by (component, outcome) (rate(tenon_tls_reloads_total{namespace=~\"$installation\"}[$__rate_interval]))",
                "{{component}} {{outcome}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Handshakes",
            Unit::PerSecond,
            "Connections between processes that began, in full or resumed from an earlier one.",
            &[(
                "sum by (component, kind) (rate(tenon_tls_handshakes_total{namespace=~\"$installation\"}[$__rate_interval]))",
                "{{component}} {{kind}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Handshakes that failed",
            Unit::PerSecond,
            "By why: who has no certificate, one of another authority, or one for another role is refused.",
            &[(
                "sum by (component, reason) (rate(tenon_tls_handshake_failures_total{namespace=~\"$installation\"}[$__rate_interval]))",
                "{{component}} {{reason}}",
            )],
        )
        .wide(6),
    ]
}

fn edges() -> [Panel; 2] {
    [
        Panel::lines(
            "Watches that broke",
            Unit::PerSecond,
            "Watches of the API server, by kind. They go on by themselves.",
            &[("sum by (kind) (rate(tenon_operator_watch_interruptions_total{@}[$__rate_interval]))", "{{kind}}")],
        )
        .wide(12),
        Panel::lines(
            "Malformed objects",
            Unit::Count,
            "Stored objects that are skipped because they do not fit their schema.",
            &[("max by (kind) (tenon_operator_malformed_objects{@})", "{{kind}}")],
        )
        .wide(12),
    ]
}
