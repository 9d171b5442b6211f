//! Nodes and their shards: the load of each thread, its queues, and its memory. A lane is a shard
//! called `lane-0`.

use super::{installation, process};
use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    let budget = |labels: &str| format!("tenon_memory_budget_bytes{{namespace=~\"$installation\"{labels}}}");
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
    .row("Invocations and what waits", invocations())
    .row("Isolates", isolates())
    .row("Cold starts", cold_starts())
    .row("Memory and buffers", memory())
    .row("What Workers fetch, and their WebSockets", egress())
    .row("Process", process("runtime-node"))
}

fn shards() -> [Panel; 4] {
    [
        Panel::lines(
            "Busy",
            Unit::Share,
            "Share of time that each shard has something to do. A shard is one thread: at 100 % all that is more waits.",
            &[("rate(tenon_shard_busy_seconds_total{@}[$__rate_interval])", "{{pod}} shard {{shard}}")],
        )
        .up_to(1.0)
        .wide(6),
        Panel::lines(
            "JavaScript",
            Unit::Share,
            "Share of time that each shard runs JavaScript. What is missing to Busy is the platform's own work.",
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
            "How late a shard comes to what is due, 99 times of 100: what a request waits that comes at any time.",
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
            "Processes that run",
            Unit::Count,
            "1 while a shard's or a lane's process runs. The node starts one that ends anew within 100 ms.",
            &[("min by (pod, process) (tenon_node_process_up{@})", "{{pod}} {{process}}")],
        )
        .up_to(1.0),
        Panel::lines(
            "Processes that ended",
            Unit::PerSecond,
            "Other than by a drain, by what ended them: they crashed or ended themselves, did not answer, or were killed.",
            &[(
                "sum by (process, cause) (rate(tenon_node_process_exits_total{@}[$__rate_interval]))",
                "{{process}} {{cause}}",
            )],
        ),
        Panel::lines(
            "Memory of processes",
            Unit::Share,
            "What each process uses of its own limit. One that goes over it ends, and no other.",
            &[(
                "max by (pod, process) (tenon_node_process_memory_bytes{@} / tenon_node_process_memory_limit_bytes{@})",
                "{{pod}} {{process}}",
            )],
        )
        .up_to(1.0),
        Panel::lines(
            "Revisions by place",
            Unit::Count,
            "Revisions that each node knows, by where they run: in a lane while they are new or heavy, else on a shard.",
            &[("sum by (pod, place) (tenon_node_placements{@})", "{{pod}} {{place}}")],
        ),
        Panel::lines(
            "Quarantined revisions",
            Unit::Count,
            "Revisions that each node refuses, because they ended processes here or on another node.",
            &[("sum by (pod) (tenon_node_quarantined_revisions{@})", "{{pod}}")],
        ),
        Panel::lines(
            "Quarantines",
            Unit::PerSecond,
            "Revisions that ended a process, by how; those that ran when its memory ended, and are forgiven once, apart.",
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
            "By how they ended.",
            &[("sum by (code) (rate(tenon_invocations_total{@}[$__rate_interval])) > 0", "{{code}}")],
        ),
        Panel::quantiles(
            "Latency",
            Unit::Seconds,
            "From a request to the head of its response on the node, cold starts and waits included, by quantile.",
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
            "Invocations that wait for room, or for a start.",
            &[("tenon_shard_waiting{@}", "{{pod}} shard {{shard}}")],
        ),
        Panel::areas(
            "Shed",
            Unit::Requests,
            "Invocations refused for want of room, by what there was none of.",
            &[("sum by (reason) (rate(tenon_shed_total{@}[$__rate_interval]))", "{{reason}}")],
        ),
        Panel::lines(
            "Crash loops",
            Unit::Count,
            "Revisions that are left alone for a while because their code fails again and again.",
            &[("sum by (pod) (tenon_worker_crash_loops{@})", "{{pod}}")],
        ),
    ]
}

fn isolates() -> [Panel; 3] {
    [
        Panel::areas(
            "Isolates",
            Unit::Count,
            "By state: starting, warm, or let go and still finishing what they began; and spare ones, which are nobody's yet.",
            &[("sum by (state) (tenon_isolates{@})", "{{state}}"), ("sum(tenon_spare_isolates{@})", "spare")],
        ),
        Panel::areas(
            "Evictions",
            Unit::PerSecond,
            "Isolates that were let go, by why.",
            &[("sum by (reason) (rate(tenon_evictions_total{@}[$__rate_interval]))", "{{reason}}")],
        ),
        Panel::lines(
            "Warm isolates by shard",
            Unit::Count,
            "How evenly Workers are dealt out.",
            &[("tenon_isolates{@,state=\"warm\"}", "{{pod}} shard {{shard}}")],
        ),
    ]
}

fn cold_starts() -> [Panel; 4] {
    [
        Panel::areas(
            "Cold starts",
            Unit::PerSecond,
            "Revisions loaded because no isolate of theirs was warm, by outcome.",
            &[("sum by (outcome) (rate(tenon_cold_starts_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::lines(
            "Time by phase",
            Unit::Seconds,
            "What 99 of 100 cold starts spend at most on each phase.",
            &[(
                "histogram_quantile(0.99, sum by (le, phase) (rate(tenon_cold_start_phase_duration_seconds_bucket{@}[$__rate_interval])))",
                "{{phase}}",
            )],
        )
        .wide(6),
        Panel::areas(
            "Spare isolates",
            Unit::PerSecond,
            "Starts that found an isolate made ahead, and those that had to make theirs.",
            &[("sum by (outcome) (rate(tenon_spare_lookups_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::areas(
            "Bytecode",
            Unit::PerSecond,
            "Starts of large Workers that found compiled code, and those that did not.",
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
            "What each node uses of its container's limit. Idle isolates go above 80 %, above 95 % none is started.",
            &[
                ("sum by (pod) (tenon_memory_used_bytes{@})", "{{pod}} used"),
                ("sum by (pod) (tenon_memory_budget_bytes{@})", "{{pod}} budget"),
            ],
        )
        .wide(6),
        Panel::lines(
            "Forced collections",
            Unit::PerSecond,
            "Idle isolates whose garbage was collected for want of memory.",
            &[("sum by (pod) (rate(tenon_forced_collections_total{@}[$__rate_interval]))", "{{pod}}")],
        )
        .wide(6),
        Panel::lines(
            "Buffer pool",
            Unit::Share,
            "Blocks that hold answers on their way, of those that a shard has.",
            &[("tenon_buffer_pool_blocks_in_use{@} / tenon_buffer_pool_blocks{@}", "{{pod}} shard {{shard}}")],
        )
        .up_to(1.0)
        .wide(6),
        Panel::areas(
            "Buffers from elsewhere",
            Unit::PerSecond,
            "Answers whose buffer came from the global allocator: too large for a block, or no block was free.",
            &[("sum by (reason) (rate(tenon_buffer_pool_fallbacks_total{@}[$__rate_interval]))", "{{reason}}")],
        )
        .wide(6),
    ]
}

fn egress() -> [Panel; 4] {
    [
        Panel::areas(
            "Fetches",
            Unit::Requests,
            "By Workers, by how they ended or at which stage they failed.",
            &[("sum by (outcome) (rate(tenon_egress_requests_total{@}[$__rate_interval]))", "{{outcome}}")],
        )
        .wide(6),
        Panel::lines(
            "Connections to origins",
            Unit::Count,
            "Those that are open, and those of them that nobody uses just now.",
            &[("sum by (pod, state) (tenon_egress_connections{@})", "{{pod}} {{state}}")],
        )
        .wide(6),
        Panel::lines(
            "Bytes of bodies",
            Unit::BytesPerSecond,
            "That Workers sent to origins and received from them.",
            &[("sum by (direction) (rate(tenon_egress_bytes_total{@}[$__rate_interval]))", "{{direction}}")],
        )
        .wide(6),
        Panel::lines(
            "WebSockets",
            Unit::Count,
            "Of clients, that are open.",
            &[("tenon_shard_tunnels{@}", "{{pod}} shard {{shard}}")],
        )
        .wide(6),
    ]
}
