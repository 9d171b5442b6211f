//! The overview, which shows the health of the whole installation at a glance.

use super::installation;
use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    Dashboard::new(
        "overview",
        "Overview",
        "Requests, errors, latency, cold starts and Workers of an installation.",
    )
    .with(installation())
    .with(Variable::any(
        "pool",
        "Pool",
        "tenon_memory_budget_bytes{namespace=~\"$installation\"}",
        "pool",
    ))
    .selecting("namespace=~\"$installation\"")
    .row("Now", now())
    .row("Traffic", traffic())
    .row("Workers", workers())
    .selecting("namespace=~\"$installation\",pool=~\"$pool\"")
    .row("Cold starts", cold_starts())
    .row("Capacity", capacity())
}

fn now() -> [Panel; 6] {
    [
        Panel::stat(
            "Requests",
            Unit::Requests,
            "Requests that routers answered.",
            ("sum(rate(tenon_router_requests_total{@}[$__rate_interval]))", "requests"),
        ),
        Panel::stat(
            "Errors",
            Unit::Share,
            "Share of requests that failed: 5xx responses of Workers, and failures that the caller did not cause.",
            (
                "sum(rate(tenon_router_requests_total{@,code!~\"[1-4]xx|worker_not_found|bad_request|request_too_large|upgrade_required\"}[$__rate_interval])) / sum(rate(tenon_router_requests_total{@}[$__rate_interval]))",
                "errors",
            ),
        ),
        Panel::stat(
            "p99",
            Unit::Seconds,
            "99th percentile of the time from a request's head to the head of its response.",
            (
                "histogram_quantile(0.99, sum by (le) (rate(tenon_router_request_duration_seconds_bucket{@}[$__rate_interval])))",
                "p99",
            ),
        ),
        Panel::stat(
            "Workers ready",
            Unit::Count,
            "Workers whose newest spec is deployed.",
            ("max(tenon_operator_workers{@,stage=\"ready\"})", "ready"),
        ),
        Panel::stat(
            "Nodes ready",
            Unit::Count,
            "Nodes that take new work.",
            ("sum(max by (pool) (tenon_operator_nodes{@,state=\"ready\"}))", "ready"),
        ),
        Panel::stat(
            "Fullest node",
            Unit::Share,
            "Memory use relative to the budget, of the node with the least memory left.",
            ("max(tenon_memory_used_bytes{@} / tenon_memory_budget_bytes{@})", "used"),
        ),
    ]
}

fn traffic() -> [Panel; 3] {
    [
        Panel::areas(
            "Requests",
            Unit::Requests,
            "Requests by status class of the Worker's response, or by failure code.",
            &[(
                "sum by (code) (rate(tenon_router_requests_total{@}[$__rate_interval])) > 0",
                "{{code}}",
            )],
        ),
        Panel::areas(
            "Errors",
            Unit::Requests,
            "5xx responses of Workers, and failures that the caller did not cause, by code.",
            &[(
                "sum by (code) (rate(tenon_router_requests_total{@,code!~\"[1-4]xx|worker_not_found|bad_request|request_too_large|upgrade_required\"}[$__rate_interval]))",
                "{{code}}",
            )],
        ),
        Panel::quantiles(
            "Latency",
            Unit::Seconds,
            "Time from a request's head to the head of its response, measured by routers, by quantile.",
            "tenon_router_request_duration_seconds",
            &[0.5, 0.9, 0.99, 0.999],
        ),
    ]
}

fn workers() -> [Panel; 4] {
    [
        Panel::areas(
            "Workers",
            Unit::Count,
            "Workers by the status of their newest spec: ready, failing, or none yet.",
            &[("max by (stage) (tenon_operator_workers{@})", "{{stage}}")],
        )
        .wide(6),
        Panel::lines(
            "Crash loops and quarantine",
            Unit::Count,
            "Revisions in back-off on a node because their code fails repeatedly, and revisions that every node refuses because they crashed or hung a process.",
            &[
                ("sum by (pod) (tenon_worker_crash_loops{@})", "{{pod}}"),
                ("max(tenon_operator_quarantined_revisions{@})", "in quarantine"),
            ],
        )
        .wide(6),
        Panel::lines(
            "Busiest Workers",
            Unit::Requests,
            "The ten Workers of all tenants with the most invocations.",
            &[(
                "topk(10, sum by (namespace, worker) (rate(tenon_worker_invocations_total[$__rate_interval])))",
                "{{namespace}}/{{worker}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Workers with the most CPU time",
            Unit::Cores,
            "The ten Workers of all tenants with the most CPU time.",
            &[(
                "topk(10, sum by (namespace, worker) (rate(tenon_worker_cpu_seconds_total[$__rate_interval])))",
                "{{namespace}}/{{worker}}",
            )],
        )
        .wide(6),
    ]
}

fn cold_starts() -> [Panel; 3] {
    [
        Panel::areas(
            "Cold starts",
            Unit::PerSecond,
            "Revisions loaded because they had no warm isolate, by outcome.",
            &[(
                "sum by (outcome) (rate(tenon_cold_starts_total{@}[$__rate_interval]))",
                "{{outcome}}",
            )],
        ),
        Panel::areas(
            "Cold start phases",
            Unit::Seconds,
            "Mean duration of the phases of a cold start: fetching the code from the catalog, making the isolate, evaluating the modules.",
            &[(
                "sum by (phase) (rate(tenon_cold_start_phase_duration_seconds_sum{@}[$__rate_interval])) / sum by (phase) (rate(tenon_cold_start_phase_duration_seconds_count{@}[$__rate_interval]))",
                "{{phase}}",
            )],
        ),
        Panel::quantiles(
            "Cold start duration",
            Unit::Seconds,
            "Duration of cold starts, by quantile.",
            "tenon_cold_start_duration_seconds",
            &[0.5, 0.99],
        ),
    ]
}

fn capacity() -> [Panel; 3] {
    [
        Panel::lines(
            "Busy shards",
            Unit::Share,
            "Share of the time in which shards have work: the mean and the busiest shard of each pool. Lanes are not counted.",
            &[
                (
                    "avg by (pool) (rate(tenon_shard_busy_seconds_total{@,shard!~\"lane-.*\"}[$__rate_interval]))",
                    "{{pool}} mean",
                ),
                (
                    "max by (pool) (rate(tenon_shard_busy_seconds_total{@,shard!~\"lane-.*\"}[$__rate_interval]))",
                    "{{pool}} busiest",
                ),
            ],
        )
        .up_to(1.0),
        Panel::lines(
            "Memory",
            Unit::Share,
            "Memory use of each node, relative to its budget. Above 80 %, idle isolates are evicted; above 95 %, no isolate is started.",
            &[("max by (pod) (tenon_memory_used_bytes{@} / tenon_memory_budget_bytes{@})", "{{pod}}")],
        )
        .up_to(1.0),
        Panel::areas(
            "Shed",
            Unit::Requests,
            "Invocations that nodes shed, by the exhausted resource.",
            &[("sum by (reason) (rate(tenon_shed_total{@}[$__rate_interval]))", "{{reason}}")],
        ),
    ]
}
