//! The dashboard of routers, with the load of their threads, the destinations of requests, and the
//! failures on the way to them.

use super::{installation, process};
use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

pub(super) fn dashboard() -> Dashboard {
    let routes = "tenon_router_routes{namespace=~\"$installation\"}";
    Dashboard::new(
        "router",
        "Router",
        "Load by core, the ring, spills, retries and ejections of the routers.",
    )
    .with(installation())
    .with(Variable::any("pod", "Router", routes, "pod"))
    .selecting("namespace=~\"$installation\",pod=~\"$pod\"")
    .row("Traffic", traffic())
    .row("Threads", threads())
    .row("Ring", ring())
    .row("Spills, retries and ejections", redirected())
    .row("Clients", clients())
    .row("Compression", compression())
    .row("Static files", assets())
    .row("Spans", spans())
    .row("Catalog", catalog())
    .row("Process", process("router"))
}

fn traffic() -> [Panel; 4] {
    [
        Panel::areas(
            "Requests",
            Unit::Requests,
            "Requests by status class of the Worker's response, or by failure code.",
            &[(
                "sum by (code) (rate(tenon_router_requests_total{@}[$__rate_interval])) > 0",
                "{{code}}",
            )],
        )
        .wide(6),
        Panel::quantiles(
            "Latency",
            Unit::Seconds,
            "Time from a request's head to the head of its response, by quantile.",
            "tenon_router_request_duration_seconds",
            &[0.5, 0.9, 0.99],
        )
        .wide(6),
        Panel::lines(
            "WebSockets",
            Unit::Count,
            "WebSockets that are open or being opened.",
            &[("tenon_router_tunnels{@}", "{{pod}}")],
        )
        .wide(6),
        Panel::lines(
            "WebSocket bytes",
            Unit::BytesPerSecond,
            "Bytes carried by WebSockets, by destination.",
            &[(
                "sum by (to) (rate(tenon_router_tunnel_bytes_total{@}[$__rate_interval]))",
                "to {{to}}",
            )],
        )
        .wide(6),
    ]
}

fn threads() -> [Panel; 6] {
    [
        Panel::lines(
            "Busy",
            Unit::Share,
            "Share of the time in which each thread has work. There is one thread for each core.",
            &[(
                "rate(tenon_router_thread_busy_seconds_total{@}[$__rate_interval])",
                "{{pod}} thread {{thread}}",
            )],
        )
        .up_to(1.0),
        Panel::lines(
            "Requests",
            Unit::Requests,
            "Completed requests by thread. The kernel distributes connections, so a few busy ones may share a thread.",
            &[(
                "rate(tenon_router_thread_requests_total{@}[$__rate_interval])",
                "{{pod}} thread {{thread}}",
            )],
        ),
        Panel::lines(
            "Event-loop lag",
            Unit::Seconds,
            "99th percentile of the delay of due tasks.",
            &[(
                "histogram_quantile(0.99, sum by (le, pod, thread) (rate(tenon_router_event_loop_lag_seconds_bucket{@}[$__rate_interval])))",
                "{{pod}} thread {{thread}}",
            )],
        ),
        Panel::lines(
            "In flight",
            Unit::Count,
            "Requests in flight, by thread.",
            &[("tenon_router_inflight{@}", "{{pod}} thread {{thread}}")],
        ),
        Panel::lines(
            "Connections",
            Unit::Count,
            "Connections of clients, nodes and the operator, by thread.",
            &[("tenon_router_connections{@}", "{{pod}} thread {{thread}}")],
        ),
        Panel::lines(
            "Connections to shards",
            Unit::Count,
            "Connections to shards, by thread: one for each shard to which the thread has sent requests.",
            &[("tenon_router_shard_connections{@}", "{{pod}} thread {{thread}}")],
        ),
    ]
}

fn ring() -> [Panel; 3] {
    [
        Panel::bars(
            "Share by slot",
            Unit::Share,
            "Share of all Workers that is pinned to each shard, the same on every router. The objective is at most 1.1 times the mean.",
            (
                "max by (pool, node, shard) (tenon_router_ring_share{@})",
                "{{pool}} {{node}} shard {{shard}}",
            ),
        ),
        Panel::lines(
            "Share by node",
            Unit::Share,
            "Share of each node over time. It changes when nodes are added or removed.",
            &[(
                "max by (pool, node) (sum by (pool, node, pod) (tenon_router_ring_share{@}))",
                "{{pool}} {{node}}",
            )],
        ),
        Panel::lines(
            "Largest share over the mean",
            Unit::Count,
            "Largest share of a shard in a pool, relative to the mean share. 1 is even.",
            &[("max by (pool) (tenon_router_ring_imbalance{@})", "{{pool}}")],
        ),
    ]
}

fn redirected() -> [Panel; 5] {
    [
        Panel::areas(
            "Spills",
            Unit::Requests,
            "Requests sent to a shard other than their Worker's, by reason: that shard is ejected, drains, is overloaded, or has failed the request.",
            &[("sum by (reason) (rate(tenon_router_spills_total{@}[$__rate_interval]))", "{{reason}}")],
        )
        .wide(8),
        Panel::areas(
            "Retries",
            Unit::Requests,
            "Retries, by the reason why the previous attempt failed.",
            &[("sum by (reason) (rate(tenon_router_retries_total{@}[$__rate_interval]))", "{{reason}}")],
        )
        .wide(8),
        Panel::lines(
            "Moves",
            Unit::PerSecond,
            "Requests that a node redirected, by destination: a lane for a new or heavy Worker, its shard for a light one.",
            &[("sum by (to) (rate(tenon_router_moves_total{@}[$__rate_interval]))", "to {{to}}")],
        )
        .wide(8),
        Panel::lines(
            "Ejections",
            Unit::PerSecond,
            "Ejections of shards, counted once for each thread.",
            &[("sum by (pod) (rate(tenon_router_ejections_total{@}[$__rate_interval]))", "{{pod}}")],
        )
        .wide(12),
        Panel::lines(
            "Ejected now",
            Unit::Count,
            "Shards that a thread does not use until it can connect to them again.",
            &[("tenon_router_ejected_shards{@}", "{{pod}} thread {{thread}}")],
        )
        .wide(12),
    ]
}

fn clients() -> [Panel; 8] {
    [
        Panel::lines(
            "Memory held by clients",
            Unit::Bytes,
            "Memory charged to clients, by thread: connections, unfinished heads and bodies, and unread responses. Half of the container's limit is shared among clients; a client address may hold three times what is free.",
            &[("tenon_router_client_memory_bytes{@}", "{{pod}} thread {{thread}}")],
        )
        .wide(12),
        Panel::lines(
            "Connections shed",
            Unit::PerSecond,
            "Connections closed or refused because the memory for clients was exhausted.",
            &[("sum by (pod) (rate(tenon_router_connections_shed_total{@}[$__rate_interval]))", "{{pod}}")],
        )
        .wide(12),
        Panel::lines(
            "TLS handshakes with clients",
            Unit::PerSecond,
            "TLS handshakes with clients, by outcome. A resumed handshake costs a fraction of a full one.",
            &[(
                "sum by (outcome) (rate(tenon_router_https_handshakes_total{@}[$__rate_interval]))",
                "{{outcome}}",
            )],
        )
        .wide(12),
        Panel::lines(
            "HTTPS certificates expire in",
            Unit::Seconds,
            "Time until the certificates that clients see expire, by the name of the Secret's folder.",
            &[(
                "min by (folder) (tenon_router_https_certificate_expiry_timestamp_seconds{@}) - time()",
                "{{folder}}",
            )],
        )
        .wide(12),
        Panel::lines(
            "Connections that left the fast path",
            Unit::PerSecond,
            "HTTP/1.1 connections that left the fast path, because of a request with a body, a WebSocket or an unusual head. Such a connection costs more CPU time until it has been idle for a second.",
            &[(
                "sum by (pod) (rate(tenon_router_fast_path_exits_total{@}[$__rate_interval]))",
                "{{pod}}",
            )],
        )
        .wide(12),
        Panel::areas(
            "Requests by HTTP version",
            Unit::Requests,
            "Completed requests of clients, by HTTP version.",
            &[(
                "sum by (version) (rate(tenon_router_version_requests_total{@}[$__rate_interval]))",
                "HTTP/{{version}}",
            )],
        )
        .wide(12),
        Panel::lines(
            "Attempts to connect with HTTP/3",
            Unit::PerSecond,
            "Attempts of clients to connect with HTTP/3, by outcome. A client whose attempt is retried has to prove its address first, because its thread has many handshakes.",
            &[(
                "sum by (outcome) (rate(tenon_router_http3_attempts_total{@}[$__rate_interval]))",
                "{{outcome}}",
            )],
        )
        .wide(12),
        Panel::lines(
            "HTTP/3 datagrams of other threads",
            Unit::PerSecond,
            "Datagrams that arrived at a thread other than that of their connection, because the client's address has changed. They are lost if the queue of that thread is full; the client then repeats them.",
            &[
                (
                    "sum by (pod) (rate(tenon_router_http3_datagrams_handed_over_total{@}[$__rate_interval]))",
                    "{{pod}} handed over",
                ),
                (
                    "sum by (pod) (rate(tenon_router_http3_datagrams_lost_total{@}[$__rate_interval]))",
                    "{{pod}} lost",
                ),
            ],
        )
        .wide(12),
    ]
}

fn compression() -> [Panel; 2] {
    [
        Panel::lines(
            "Compression",
            Unit::BytesPerSecond,
            "Content of Workers' responses before and after its compression, by content coding.",
            &[
                (
                    "sum by (coding) (rate(tenon_router_compression_read_bytes_total{@}[$__rate_interval]))",
                    "{{coding}} before",
                ),
                (
                    "sum by (coding) (rate(tenon_router_compression_written_bytes_total{@}[$__rate_interval]))",
                    "{{coding}} after",
                ),
            ],
        ),
        Panel::lines(
            "Streams not compressed",
            Unit::PerSecond,
            "Streams that were sent as they are, although their client accepts a coding: their \
             thread or their client's address compresses its maximum of streams, or memory is short.",
            &[(
                "sum by (lack) (rate(tenon_router_compression_refused_total{@}[$__rate_interval]))",
                "lack of {{lack}}",
            )],
        ),
    ]
}

fn assets() -> [Panel; 2] {
    [
        Panel::areas(
            "Static files",
            Unit::Requests,
            "Responses with static files, which need no Worker, by result.",
            &[(
                "sum by (result) (rate(tenon_router_asset_responses_total{@}[$__rate_interval]))",
                "{{result}}",
            )],
        ),
        Panel::lines(
            "Fetches of sites",
            Unit::PerSecond,
            "Sites of static files that routers fetched from operators, by result. Many fetches \
             without deployments mean that `router.assetsCacheMiB` is too small.",
            &[(
                "sum by (result) (rate(tenon_router_site_fetches_total{@}[$__rate_interval]))",
                "{{result}}",
            )],
        ),
    ]
}

fn spans() -> [Panel; 1] {
    [Panel::areas(
        "Spans",
        Unit::PerSecond,
        "Spans of requests: exported to the collector, dropped because the collector is too slow, or failed because it cannot be reached or refuses them.",
        &[("sum by (fate) (rate(tenon_router_spans_total{@}[$__rate_interval]))", "{{fate}}")],
    )]
}

fn catalog() -> [Panel; 4] {
    [
        Panel::lines(
            "Catalog watched",
            Unit::Count,
            "1 while the router watches the catalog. At 0 it serves the last known state.",
            &[("tenon_router_catalog_connected{@}", "{{pod}}")],
        )
        .up_to(1.0)
        .wide(6),
        Panel::lines(
            "Workers",
            Unit::Count,
            "Workers in each router's table.",
            &[("tenon_router_workers{@}", "{{pod}}")],
        )
        .wide(6),
        Panel::lines(
            "Routes",
            Unit::Count,
            "Routes in each router's table.",
            &[("tenon_router_routes{@}", "{{pod}}")],
        )
        .wide(6),
        Panel::lines(
            "Nodes and slots",
            Unit::Count,
            "Nodes in each router's table, and shards that take Workers, by pool.",
            &[
                ("tenon_router_nodes{@}", "{{pod}} nodes"),
                ("tenon_router_ring_slots{@}", "{{pod}} {{pool}} slots"),
            ],
        )
        .wide(6),
    ]
}
