//! One tenant's Worker: its requests, the resources that it uses, and the shards on which it runs.

use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    let namespaced = "tenon_worker_invocations_total{namespace=\"$namespace\"}";
    Dashboard::new("worker", "Worker", "Requests, CPU time, memory, limits, revisions and place of one Worker.")
        .with(Variable::one("namespace", "Namespace", "tenon_worker_invocations_total", "namespace"))
        .with(Variable::one("worker", "Worker", namespaced, "worker"))
        .selecting("namespace=\"$namespace\",worker=\"$worker\"")
        .row("Now", now())
        .row("Traffic", traffic())
        .row("What it uses", uses())
        .row("Where it runs", place())
        .row("Cold starts", starts())
}

fn now() -> [Panel; 6] {
    [
        Panel::stat(
            "Invocations",
            Unit::Requests,
            "Invocations that have ended.",
            ("sum(rate(tenon_worker_invocations_total{@}[$__rate_interval]))", "invocations"),
        ),
        Panel::stat(
            "Failed",
            Unit::Share,
            "Share of invocations that ended in a failure. A 5xx that the Worker itself answers is an answer.",
            (
                "sum(rate(tenon_worker_invocations_total{@,code!~\"ok|cancelled\"}[$__rate_interval])) / sum(rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "failed",
            ),
        ),
        Panel::stat(
            "p99",
            Unit::Seconds,
            "The time within which 99 of 100 invocations had the head of their response, on the node.",
            (
                "histogram_quantile(0.99, sum by (le) (rate(tenon_worker_invocation_duration_seconds_bucket{@}[$__rate_interval])))",
                "p99",
            ),
        ),
        Panel::stat(
            "CPU",
            Unit::Cores,
            "CPU time of its turns.",
            ("sum(rate(tenon_worker_cpu_seconds_total{@}[$__rate_interval]))", "CPU"),
        ),
        Panel::stat(
            "Memory",
            Unit::Bytes,
            "Heap and buffers of its warm isolates together.",
            ("sum(tenon_worker_memory_bytes{@})", "memory"),
        ),
        Panel::stat(
            "Warm isolates",
            Unit::Count,
            "On as many shards it is warm. One is usual: more are there after a node has come or gone, and at a new revision.",
            ("count(tenon_worker_memory_bytes{@})", "warm"),
        ),
    ]
}

fn traffic() -> [Panel; 3] {
    [
        Panel::areas(
            "Invocations",
            Unit::Requests,
            "By how they ended.",
            &[("sum by (code) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))", "{{code}}")],
        ),
        Panel::quantiles(
            "Latency",
            Unit::Seconds,
            "From a request to the head of its response on the node, cold starts and waits included, by quantile.",
            "tenon_worker_invocation_duration_seconds",
            &[0.5, 0.9, 0.99],
        ),
        Panel::areas(
            "Revisions",
            Unit::Requests,
            "Which revision serves how much of the traffic.",
            &[("sum by (revision) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))", "{{revision}}")],
        ),
    ]
}

fn uses() -> [Panel; 4] {
    [
        Panel::lines(
            "CPU",
            Unit::Cores,
            "CPU time of its turns, by shard.",
            &[(
                "sum by (pod, shard) (rate(tenon_worker_cpu_seconds_total{@}[$__rate_interval]))",
                "{{pod}} shard {{shard}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "CPU time of an invocation",
            Unit::Seconds,
            "The mean: what its CPU limit is held against.",
            &[(
                "sum(rate(tenon_worker_cpu_seconds_total{@}[$__rate_interval])) / sum(rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "mean",
            )],
        )
        .wide(6),
        Panel::lines(
            "Memory",
            Unit::Bytes,
            "Heap and buffers of each warm isolate: what its memory limit is held against.",
            &[("tenon_worker_memory_bytes{@}", "{{pod}} shard {{shard}} {{revision}}")],
        )
        .wide(6),
        Panel::areas(
            "Limits hit",
            Unit::Requests,
            "Invocations that a limit stopped, by which: CPU time, wall-clock time, memory; and those there was no room for.",
            &[(
                "sum by (code) (rate(tenon_worker_invocations_total{@,code=~\".*_limit_exceeded|overloaded\"}[$__rate_interval]))",
                "{{code}}",
            )],
        )
        .wide(6),
    ]
}

fn place() -> [Panel; 2] {
    [
        Panel::bars(
            "Pinned to",
            Unit::Requests,
            "The shards that run it, and how much of its traffic each has.",
            (
                "sum by (pod, shard) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "{{pod}} shard {{shard}}",
            ),
        )
        .wide(12),
        Panel::areas(
            "Pinned to, over time",
            Unit::Requests,
            "A Worker moves when the node that it is pinned to goes, and part of it while that has no room.",
            &[(
                "sum by (pod, shard) (rate(tenon_worker_invocations_total{@}[$__rate_interval]))",
                "{{pod}} shard {{shard}}",
            )],
        )
        .wide(12),
    ]
}

fn starts() -> [Panel; 2] {
    [
        Panel::lines(
            "Cold starts",
            Unit::Count,
            "Starts of its isolates, since each shard began to count it.",
            &[(
                "sum by (pod, shard, revision) (tenon_worker_cold_starts_total{@})",
                "{{pod}} shard {{shard}} {{revision}}",
            )],
        )
        .wide(12),
        Panel::areas(
            "Latest start",
            Unit::Seconds,
            "What the start of each isolate that is warm now spent its time on: the longest of each phase.",
            &[("max by (phase) (tenon_worker_cold_start_seconds{@})", "{{phase}}")],
        )
        .wide(12),
    ]
}
