//! The dashboard of nodes and their shards, with the load, the queues and the memory of each. Lanes
//! are shown as shards that are called `lane-0` and so on.

use super::{installation, process};
use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    let budget =
        |labels: &str| format!("tenon_memory_budget_bytes{{namespace=~\"$installation\"{labels}}}");
    Dashboard::new(
        "node",
        "Node & shards",
        "Load, queues, isolates and memory of the nodes and of each of their shards.",
    )
    .with(installation())
    .with(Variable::any("pool", "Pool", &budget(""), "pool"))
    .with(Variable::any("pod", "Node", &budget(",pool=~\"$pool\""), "pod"))
    .selecting("namespace=~\"$installation\",pool=~\"$pool\",pod=~\"$pod\"")
    .row("Shards", shards())
    .row("Processes, lanes and quarantine", processes())
    .row("Invocations and queues", invocations())
    .row("Isolates", isolates())
    .row("Cold starts", cold_starts())
    .row("Memory and buffers", memory())
    .row("Egress and WebSockets", egress())
    .row("Process", process("runtime-node"))
}

fn shards() -> [Panel; 4] {
    [
        Panel::lines(
            "Busy",
            Unit::Share,
            "Share of the time in which each shard has work. A shard is one thread: at 100 %, further work queues.",
            &[("rate(tenon_shard_busy_seconds_total{@}[$__rate_interval])", "{{pod}} shard {{shard}}")],
        )
        .up_to(1.0)
        .wide(6),
        Panel::lines(
            "JavaScript",
            Unit::Share,
            "Share of the time in which each shard runs JavaScript. The difference from Busy is the platform's own work.",
            &[("rate(tenon_shard_turn_cpu_seconds_total{@}[$__rate_interval])", "{{pod}} shard {{shard}}")],
        )
        .up_to(1.0)
        .wide(6),
        Panel::lines(
            "Turns",
            Unit::PerSecond,
            "Uninterrupted stretches of JavaScript.",
            &[("rate(tenon_shard_turns_total{@}[$__rate_interval])", "{{pod}} shard {{shard}}")],
        )
        .wide(6),
        Panel::lines(
            "Event-loop lag",
            Unit::Seconds,
            "99th percentile of the delay of due tasks, which every arriving request incurs.",
            &[(
                "histogram_quantile(0.99, sum by (le, pod, shard) (rate(tenon_shard_event_loop_lag_seconds_bucket{@}[$__rate_interval])))",
                "{{pod}} shard {{shard}}",
            )],
        )
        .wide(6),
    ]
}

fn processes() -> [Panel; 6] {
    [
        Panel::lines(
            "Processes up",
            Unit::Count,
            "1 while the process of a shard or lane serves. When a process ends, the node restarts it within 100 ms, or after up to 5 s if it has often ended soon after its start.",
            &[("min by (pod, process) (tenon_node_process_up{@})", "{{pod}} {{process}}")],
        )
        .up_to(1.0),
        Panel::lines(
            "Processes that ended",
            Unit::PerSecond,
            "Processes that ended other than by a drain, by cause: they crashed, exited by themselves, hung, or were killed.",
            &[(
                "sum by (process, cause) (rate(tenon_node_process_exits_total{@}[$__rate_interval]))",
                "{{process}} {{cause}}",
            )],
        ),
        Panel::lines(
            "Memory of processes",
            Unit::Share,
            "Memory use of each process, relative to its own limit. A process that exceeds its limit ends, and no other does.",
            &[(
                "max by (pod, process) (tenon_node_process_memory_bytes{@} / tenon_node_process_memory_limit_bytes{@})",
                "{{pod}} {{process}}",
            )],
        )
        .up_to(1.0),
        Panel::lines(
            "Revisions by placement",
            Unit::Count,
            "Revisions that each node knows, by placement: in a lane while they are new or heavy, otherwise on a shard.",
            &[("sum by (pod, place) (tenon_node_placements{@})", "{{pod}} {{place}}")],
        ),
        Panel::lines(
            "Quarantined revisions",
            Unit::Count,
            "Revisions that each node refuses, because they ended processes on this or another node.",
            &[("sum by (pod) (tenon_node_quarantined_revisions{@})", "{{pod}}")],
        ),
        Panel::lines(
            "Quarantines",
            Unit::PerSecond,
            "Quarantined revisions, by how they ended a process; and process exits with little memory left, which are forgiven once.",
            &[
                ("sum by (cause) (rate(tenon_node_quarantines_total{@}[$__rate_interval]))", "{{cause}}"),
                ("sum(rate(tenon_node_forgiven_exits_total{@}[$__rate_interval]))", "forgiven"),
            ],
        ),
    ]
}

fn invocations() -> [Panel; 6] {
    [
        Panel::areas(
            "Invocations",
            Unit::Requests,
            "Ended invocations by result code.",
            &[(
                "sum by (code) (rate(tenon_invocations_total{@}[$__rate_interval])) > 0",
                "{{code}}",
            )],
        ),
        Panel::quantiles(
            "Latency",
            Unit::Seconds,
            "Time from a request to the head of its response on the node, including cold starts and queueing, by quantile.",
            "tenon_invocation_duration_seconds",
            &[0.5, 0.9, 0.99],
        ),
        Panel::lines(
            "In flight",
            Unit::Count,
            "Invocations that hold a permit of the shard.",
            &[("tenon_shard_inflight{@}", "{{pod}} shard {{shard}}")],
        ),
        Panel::lines(
            "Queue",
            Unit::Count,
            "Invocations that are queued for a permit or a start.",
            &[("tenon_shard_waiting{@}", "{{pod}} shard {{shard}}")],
        ),
        Panel::areas(
            "Shed",
            Unit::Requests,
            "Invocations that were shed, by the exhausted resource.",
            &[("sum by (reason) (rate(tenon_shed_total{@}[$__rate_interval]))", "{{reason}}")],
        ),
        Panel::lines(
            "Crash loops",
            Unit::Count,
            "Revisions in back-off because their code fails repeatedly.",
            &[("sum by (pod) (tenon_worker_crash_loops{@})", "{{pod}}")],
        ),
    ]
}

fn isolates() -> [Panel; 3] {
    [
        Panel::areas(
            "Isolates",
            Unit::Count,
            "Isolates by state: starting, warm, or evicted and finishing their invocations; and spare ones, which belong to no Worker yet.",
            &[
                ("sum by (state) (tenon_isolates{@})", "{{state}}"),
                ("sum(tenon_spare_isolates{@})", "spare"),
            ],
        ),
        Panel::areas(
            "Evictions",
            Unit::PerSecond,
            "Evicted isolates, by reason.",
            &[("sum by (reason) (rate(tenon_evictions_total{@}[$__rate_interval]))", "{{reason}}")],
        ),
        Panel::lines(
            "Warm isolates by shard",
            Unit::Count,
            "Distribution of warm isolates over the shards.",
            &[("tenon_isolates{@,state=\"warm\"}", "{{pod}} shard {{shard}}")],
        ),
    ]
}

fn cold_starts() -> [Panel; 4] {
    [
        Panel::areas(
            "Cold starts",
            Unit::PerSecond,
            "Revisions loaded because they had no warm isolate, by outcome.",
            &[("sum by (outcome) (rate(tenon_cold_starts_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::lines(
            "Time by phase",
            Unit::Seconds,
            "99th percentile of the duration of each phase of cold starts.",
            &[(
                "histogram_quantile(0.99, sum by (le, phase) (rate(tenon_cold_start_phase_duration_seconds_bucket{@}[$__rate_interval])))",
                "{{phase}}",
            )],
        )
        .wide(6),
        Panel::areas(
            "Spare isolates",
            Unit::PerSecond,
            "Starts that found a spare isolate, and starts that did not.",
            &[("sum by (outcome) (rate(tenon_spare_lookups_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::areas(
            "Bytecode",
            Unit::PerSecond,
            "Starts of large Workers that found compiled code, and starts that did not.",
            &[("sum by (outcome) (rate(tenon_bytecode_lookups_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
    ]
}

fn memory() -> [Panel; 4] {
    [
        Panel::lines(
            "Memory against budget",
            Unit::Bytes,
            "Memory use of each node, and its budget. Above 80 %, idle isolates are evicted; above 95 %, none is started.",
            &[
                ("sum by (pod) (tenon_memory_used_bytes{@})", "{{pod}} used"),
                ("sum by (pod) (tenon_memory_budget_bytes{@})", "{{pod}} budget"),
            ],
        )
        .wide(6),
        Panel::lines(
            "Forced collections",
            Unit::PerSecond,
            "Garbage collections of idle isolates that were forced because memory was short.",
            &[("sum by (pod) (rate(tenon_forced_collections_total{@}[$__rate_interval]))", "{{pod}}")],
        )
        .wide(6),
        Panel::lines(
            "Buffer pool",
            Unit::Share,
            "Blocks that hold responses in transit, relative to all blocks of a shard.",
            &[("tenon_buffer_pool_blocks_in_use{@} / tenon_buffer_pool_blocks{@}", "{{pod}} shard {{shard}}")],
        )
        .up_to(1.0)
        .wide(6),
        Panel::areas(
            "Buffer pool fallbacks",
            Unit::PerSecond,
            "Responses whose buffer came from the global allocator: too large for a block, or no block was free.",
            &[("sum by (reason) (rate(tenon_buffer_pool_fallbacks_total{@}[$__rate_interval]))", "{{reason}}")],
        )
        .wide(6),
    ]
}

fn egress() -> [Panel; 4] {
    [
        Panel::areas(
            "Fetches and sockets",
            Unit::Requests,
            "Fetches and sockets of Workers, by outcome: `ok`, or the stage at which they failed.",
            &[(
                "sum by (outcome) (rate(tenon_egress_requests_total{@}[$__rate_interval]))",
                "{{outcome}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "Connections to origins",
            Unit::Count,
            "Open connections, and the idle ones among them.",
            &[("sum by (pod, state) (tenon_egress_connections{@})", "{{pod}} {{state}}")],
        )
        .wide(6),
        Panel::lines(
            "Body and socket bytes",
            Unit::BytesPerSecond,
            "Bytes of bodies and sockets that Workers sent to origins and received from them.",
            &[(
                "sum by (direction) (rate(tenon_egress_bytes_total{@}[$__rate_interval]))",
                "{{direction}}",
            )],
        )
        .wide(6),
        Panel::lines(
            "WebSockets",
            Unit::Count,
            "Open WebSockets of clients.",
            &[("tenon_shard_tunnels{@}", "{{pod}} shard {{shard}}")],
        )
        .wide(6),
    ]
}
