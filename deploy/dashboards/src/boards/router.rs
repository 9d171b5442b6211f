//! Routers: the load of their threads, the destinations of their requests, and the failures on the
//! way.

use super::{installation, process};
use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    let routes = "tenon_router_routes{namespace=~\"$installation\"}";
    Dashboard::new("router", "Router", "Load by core, the ring, spills, retries and ejections of the routers.")
        .with(installation())
        .with(Variable::any("pod", "Router", routes, "pod"))
        .selecting("namespace=~\"$installation\",pod=~\"$pod\"")
        .row("Traffic", traffic())
        .row("Threads", threads())
        .row("Ring", ring())
        .row("Elsewhere than where Workers are pinned", elsewhere())
        .row("Clients", clients())
        .row("Catalog", catalog())
        .row("Process", process("router"))
}

fn traffic() -> [Panel; 4] {
    [
        Panel::areas(
            "Requests",
            Unit::Requests,
            "By the class of the Worker's status, or the code of the failure.",
            &[("sum by (code) (rate(tenon_router_requests_total{@}[$__rate_interval])) > 0", "{{code}}")],
        )
        .wide(6),
        Panel::quantiles(
            "Latency",
            Unit::Seconds,
            "From a request's head to the head of its answer, by quantile.",
            "tenon_router_request_duration_seconds",
            &[0.5, 0.9, 0.99],
        )
        .wide(6),
        Panel::lines(
            "WebSockets",
            Unit::Count,
            "That are open or asked for.",
            &[("tenon_router_tunnels{@}", "{{pod}}")],
        )
        .wide(6),
        Panel::lines(
            "Bytes of WebSockets",
            Unit::BytesPerSecond,
            "Carried, by whither.",
            &[("sum by (to) (rate(tenon_router_tunnel_bytes_total{@}[$__rate_interval]))", "to {{to}}")],
        )
        .wide(6),
    ]
}

fn threads() -> [Panel; 6] {
    [
        Panel::lines(
            "Busy",
            Unit::Share,
            "Share of time that each thread has something to do. There is one for each core.",
            &[("rate(tenon_router_lane_busy_seconds_total{@}[$__rate_interval])", "{{pod}} lane {{lane}}")],
        )
        .up_to(1.0),
        Panel::lines(
            "Requests",
            Unit::Requests,
            "By thread. The kernel deals connections out, so a few busy ones may all be on one.",
            &[("rate(tenon_router_lane_requests_total{@}[$__rate_interval])", "{{pod}} lane {{lane}}")],
        ),
        Panel::lines(
            "Event-loop lag",
            Unit::Seconds,
            "How late a thread comes to what is due, 99 times of 100.",
            &[(
                "histogram_quantile(0.99, sum by (le, pod, lane) (rate(tenon_router_event_loop_lag_seconds_bucket{@}[$__rate_interval])))",
                "{{pod}} lane {{lane}}",
            )],
        ),
        Panel::lines(
            "In flight",
            Unit::Count,
            "Requests in hand, by thread.",
            &[("tenon_router_inflight{@}", "{{pod}} lane {{lane}}")],
        ),
        Panel::lines(
            "Connections",
            Unit::Count,
            "Of clients, nodes and the operator, by thread.",
            &[("tenon_router_connections{@}", "{{pod}} lane {{lane}}")],
        ),
        Panel::lines(
            "Connections to shards",
            Unit::Count,
            "By thread: one for each shard that it has sent something to.",
            &[("tenon_router_shard_connections{@}", "{{pod}} lane {{lane}}")],
        ),
    ]
}

fn ring() -> [Panel; 3] {
    [
        Panel::bars(
            "Share by slot",
            Unit::Share,
            "The share of all Workers that is pinned to each shard, as every router has it. The ring's promise is at most 1.1 times the mean.",
            ("max by (pool, node, shard) (tenon_router_ring_share{@})", "{{pool}} {{node}} shard {{shard}}"),
        ),
        Panel::lines(
            "Share by node",
            Unit::Share,
            "Over time: it changes when nodes come and go.",
            &[("max by (pool, node) (sum by (pool, node, pod) (tenon_router_ring_share{@}))", "{{pool}} {{node}}")],
        ),
        Panel::lines(
            "Largest share over the mean",
            Unit::Count,
            "Of all slots of a pool: 1 is even.",
            &[("max by (pool) (tenon_router_ring_imbalance{@})", "{{pool}}")],
        ),
    ]
}

fn elsewhere() -> [Panel; 5] {
    [
        Panel::areas(
            "Spills",
            Unit::Requests,
            "Requests sent elsewhere than to the shard that their Worker is pinned to, by why: it cannot be reached, drains, has no room, or has failed the request.",
            &[("sum by (reason) (rate(tenon_router_spills_total{@}[$__rate_interval]))", "{{reason}}")],
        )
        .wide(8),
        Panel::areas(
            "Retries",
            Unit::Requests,
            "Attempts made again, by what had happened.",
            &[("sum by (reason) (rate(tenon_router_retries_total{@}[$__rate_interval]))", "{{reason}}")],
        )
        .wide(8),
        Panel::lines(
            "Moves",
            Unit::PerSecond,
            "Workers that a node has sent to another place, by which: a new or heavy one to a lane, one that proved light to its shard.",
            &[("sum by (to) (rate(tenon_router_moves_total{@}[$__rate_interval]))", "to {{to}}")],
        )
        .wide(8),
        Panel::lines(
            "Ejections",
            Unit::PerSecond,
            "Shards found unreachable, once for each thread.",
            &[("sum by (pod) (rate(tenon_router_ejections_total{@}[$__rate_interval]))", "{{pod}}")],
        )
        .wide(12),
        Panel::lines(
            "Ejected now",
            Unit::Count,
            "Shards that a thread passes by until it can connect to them again.",
            &[("tenon_router_ejected_shards{@}", "{{pod}} lane {{lane}}")],
        )
        .wide(12),
    ]
}

fn clients() -> [Panel; 2] {
    [
        Panel::lines(
            "Memory held by clients",
            Unit::Bytes,
            "Connections, unfinished heads and bodies, and answers that wait to be read, by thread. Half of the container's limit is shared out; a client address may hold three times what is free.",
            &[("tenon_router_client_memory_bytes{@}", "{{pod}} lane {{lane}}")],
        )
        .wide(12),
        Panel::lines(
            "Connections shed",
            Unit::PerSecond,
            "Connections ended or refused because clients held all the memory that they may.",
            &[("sum by (pod) (rate(tenon_router_connections_shed_total{@}[$__rate_interval]))", "{{pod}}")],
        )
        .wide(12),
    ]
}

fn catalog() -> [Panel; 4] {
    [
        Panel::lines(
            "Catalog watched",
            Unit::Count,
            "1 while an operator tells the router of changes. At 0 it serves what it knows.",
            &[("tenon_router_catalog_connected{@}", "{{pod}}")],
        )
        .up_to(1.0)
        .wide(6),
        Panel::lines("Workers", Unit::Count, "In the table of each.", &[("tenon_router_workers{@}", "{{pod}}")])
            .wide(6),
        Panel::lines("Routes", Unit::Count, "In the table of each.", &[("tenon_router_routes{@}", "{{pod}}")]).wide(6),
        Panel::lines(
            "Nodes and slots",
            Unit::Count,
            "Nodes in the table of each, and shards that take Workers, by pool.",
            &[("tenon_router_nodes{@}", "{{pod}} nodes"), ("tenon_router_ring_slots{@}", "{{pod}} {{pool}} slots")],
        )
        .wide(6),
    ]
}
