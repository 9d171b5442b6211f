//! Tests an installation of Tenon on a real cluster, from its charts, through the operations of a
//! cluster administrator. `make e2e` builds the images, loads them, and runs this program. Its
//! arguments are words: only the optional steps whose names contain one of them run.
//!
//! ```text
//!  this program ─ helm, kubectl ──► cluster: tenon-system │ router ◄─ 200/s ─ prober │ tests'
//!       │                                                                       ▲    │ namespace
//!       └────────────── port-forward: laps of the prober, metrics ──────────────┘
//! ```
//!
//! The steps depend on each other and run in order. This program needs only a kubeconfig and the
//! names of the images, so it runs on kind, k3d, `deploy/cluster` or any other cluster.
//! `e2e/install` sets its environment variables.

mod certificates;
mod dashboards;
mod draining;
mod footprint;
mod helm;
mod installing;
mod leftovers;
mod metrics;
mod objects;
mod observing;
mod pods;
mod prober;
mod restarting;
mod running;
mod scaling;
mod stage;
mod upgrading;

use std::process::ExitCode;

use running::{Step, run};

/// Builds steps from functions. The name of a function states what the step tests.
macro_rules! steps {
    ($($kind:ident: $($module:ident :: $step:ident),+ ;)+) => {
        &[$($(Step::$kind(stringify!($step), |stage| Box::pin($module::$step(stage)))),+),+]
    };
}

fn main() -> anyhow::Result<ExitCode> {
    // Essential steps cannot be skipped, because later steps depend on them.
    run(steps! {
        essential:
            installing::the_cluster_has_no_trace_of_tenon,
            installing::the_first_worker_answers_within_90_seconds;
        optional:
            installing::helm_test_passes,
            footprint::idle_processes_are_small;
        essential:
            prober::the_prober_is_served;
        optional:
            dashboards::a_prometheus_scrapes_every_process,
            observing::tail_shows_the_lines_of_every_node_as_they_are_written,
            observing::a_cpu_profile_names_the_functions_of_a_worker,
            upgrading::no_request_fails_during_an_upgrade,
            upgrading::no_request_fails_during_a_rollback,
            upgrading::no_request_fails_during_an_upgrade_after_a_rollback,
            restarting::no_request_fails_while_routers_restart,
            restarting::no_request_fails_while_nodes_restart,
            restarting::no_request_fails_while_operators_restart,
            certificates::no_request_fails_while_certificates_are_replaced,
            certificates::no_request_fails_while_switching_to_user_provided_secrets,
            scaling::no_request_fails_while_routers_scale,
            scaling::no_request_fails_while_nodes_scale,
            draining::no_request_fails_while_a_kubernetes_node_drains,
            dashboards::every_panel_of_every_dashboard_shows_data;
        essential:
            dashboards::the_prometheus_is_deleted,
            prober::the_prober_is_deleted,
            leftovers::uninstalling_leaves_only_the_crds,
            leftovers::the_crds_are_removed_on_request;
    })
}
