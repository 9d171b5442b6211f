//! The dashboard of one Worker, with its requests, the resources that it uses, and the shards on
//! which it runs.

use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    let namespaced = "tenon_worker_invocations_total{namespace=\"$namespace\"}";
    Dashboard::new(
        "worker",
        "Worker",
        "Requests, CPU time, memory, limits, revisions and placement of one Worker.",
    )
    .with(Variable::one("namespace", "Namespace", "tenon_worker_invocations_total", "namespace"))
    .with(Variable::one("worker", "Worker", namespaced, "worker"))
    .selecting("namespace=\"$namespace\",worker=\"$worker\"")
    .row("Now", now())
    .row("Traffic", traffic())
    .row("Revisions", revisions())
    .row("Resources", resources())
    .row("Placement", placement())
    .row("Cold starts", cold_starts())
}

fn now() -> [Panel; 6] {
    [
        Panel::stat(
            "Invocations",
            Unit::Requests,
            "Ended invocations.",
            ("sum(rate(tenon_worker_invocations_total{@}[$__rate_interval]))", "invocations"),
        ),
        Panel::stat(
            "Failed",
            Unit::Share,
            "Share of invocations that ended in a failure of the Worker. A 5xx response of the Worker itself is not a failure, and neither is a request that the node shed.",
            (
                "sum(rate(tenon_worker_invocations_total{@,code!~\"ok|cancelled|overloaded|draining\"}[$__rate_interval])) / sum(rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "failed",
            ),
        ),
        Panel::stat(
            "p99",
            Unit::Seconds,
            "99th percentile of the time from a request to the head of its response, on the node.",
            (
                "histogram_quantile(0.99, sum by (le) (rate(tenon_worker_invocation_duration_seconds_bucket{@}[$__rate_interval])))",
                "p99",
            ),
        ),
        Panel::stat(
            "CPU",
            Unit::Cores,
            "CPU time of the Worker's turns.",
            ("sum(rate(tenon_worker_cpu_seconds_total{@}[$__rate_interval]))", "CPU"),
        ),
        Panel::stat(
            "Memory",
            Unit::Bytes,
            "Heap and buffers of all of the Worker's warm isolates.",
            ("sum(tenon_worker_memory_bytes{@})", "memory"),
        ),
        Panel::stat(
            "Warm isolates",
            Unit::Count,
            "Number of shards on which the Worker is warm. One is usual; there are more after a change of nodes, and for a new revision.",
            ("count(tenon_worker_memory_bytes{@})", "warm"),
        ),
    ]
}

fn traffic() -> [Panel; 2] {
    [
        Panel::areas(
            "Invocations",
            Unit::Requests,
            "Ended invocations by result code.",
            &[(
                "sum by (code) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "{{code}}",
            )],
        ),
        Panel::quantiles(
            "Latency",
            Unit::Seconds,
            "Time from a request to the head of its response on the node, including cold starts and queueing, by quantile.",
            "tenon_worker_invocation_duration_seconds",
            &[0.5, 0.9, 0.99],
        ),
    ]
}

fn revisions() -> [Panel; 3] {
    [
        Panel::areas(
            "Invocations by revision",
            Unit::Requests,
            "Ended invocations by revision. spec.traffic divides requests among revisions.",
            &[(
                "sum by (revision) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "{{revision}}",
            )],
        ),
        Panel::lines(
            "Failed by revision",
            Unit::Share,
            "Share of each revision's invocations that ended in a failure.",
            &[(
                "sum by (revision) (rate(tenon_worker_invocations_total{@,code!~\"ok|cancelled|overloaded|draining\"}[$__rate_interval])) / sum by (revision) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "{{revision}}",
            )],
        ),
        Panel::lines(
            "p99 by revision",
            Unit::Seconds,
            "99th percentile of the time from a request to the head of its response, on the node.",
            &[(
                "histogram_quantile(0.99, sum by (revision, le) (rate(tenon_worker_invocation_duration_seconds_bucket{@}[$__rate_interval])))",
                "{{revision}}",
            )],
        ),
    ]
}

fn resources() -> [Panel; 4] {
    [
        Panel::lines(
            "CPU",
            Unit::Cores,
            "CPU time of the Worker's turns, by shard.",
            &[(
                "sum by (pod, shard) (rate(tenon_worker_cpu_seconds_total{@}[$__rate_interval]))",
                "{{pod}} shard {{shard}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "CPU time of an invocation",
            Unit::Seconds,
            "Mean CPU time of an invocation. The CPU limit applies to each invocation.",
            &[(
                "sum(rate(tenon_worker_cpu_seconds_total{@}[$__rate_interval])) / sum(rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "mean",
            )],
        )
        .wide(6),
        Panel::lines(
            "Memory",
            Unit::Bytes,
            "Heap and buffers of each warm isolate. The memory limit applies to each isolate.",
            &[("tenon_worker_memory_bytes{@}", "{{pod}} shard {{shard}} {{revision}}")],
        )
        .wide(6),
        Panel::areas(
            "Limits hit",
            Unit::Requests,
            "Invocations that were stopped by a limit (CPU time, wall-clock time, memory) or shed, by code.",
            &[(
                "sum by (code) (rate(tenon_worker_invocations_total{@,code=~\".*_limit_exceeded|overloaded\"}[$__rate_interval]))",
                "{{code}}",
            )],
        )
        .wide(6),
    ]
}

fn placement() -> [Panel; 2] {
    [
        Panel::bars(
            "Pinned to",
            Unit::Requests,
            "Invocations by the shard that runs them.",
            (
                "sum by (pod, shard) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "{{pod}} shard {{shard}}",
            ),
        )
        .wide(12),
        Panel::areas(
            "Pinned to, over time",
            Unit::Requests,
            "Invocations by shard. A Worker moves when its node is removed, and partly while its shard is overloaded.",
            &[(
                "sum by (pod, shard) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "{{pod}} shard {{shard}}",
            )],
        )
        .wide(12),
    ]
}

fn cold_starts() -> [Panel; 2] {
    [
        Panel::lines(
            "Cold starts",
            Unit::Count,
            "Starts of the Worker's isolates, since each shard began to count them.",
            &[(
                "sum by (pod, shard, revision) (tenon_worker_cold_starts_total{@})",
                "{{pod}} shard {{shard}} {{revision}}",
            )],
        )
        .wide(12),
        Panel::areas(
            "Latest start",
            Unit::Seconds,
            "Duration of the latest start of the isolates that are warm now: the maximum of each phase.",
            &[("max by (phase) (tenon_worker_cold_start_seconds{@})", "{{phase}}")],
        )
        .wide(12),
    ]
}
