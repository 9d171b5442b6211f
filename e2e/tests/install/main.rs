//! Tests an installation of Tenon on a real cluster, from its charts, through the operations of a
//! cluster administrator. `make e2e` builds the images, has them loaded, and runs this; `-- WORDS`
//! selects the steps whose names contain one of the words.
//!
//! ```text
//!  this program ─ helm, kubectl ──► cluster: tenon-system │ router ◄─ 200/s ─ prober │ our
//!       │                                                                       ▲    │ namespace
//!       └────────────── port-forward: laps of the prober, metrics ──────────────┘
//! ```
//!
//! The steps depend on each other and run in order. This program knows a kubeconfig and the images'
//! names and nothing else about the cluster, so it runs on kind, k3d, `deploy/cluster` or any
//! other. `stage.rs` lists its environment variables.

mod certificates;
mod dashboards;
mod draining;
mod footprint;
mod helm;
mod installing;
mod leftovers;
mod metrics;
mod pods;
mod prober;
mod restarting;
mod running;
mod scaling;
mod stage;
mod upgrading;

use std::process::ExitCode;

use running::{Step, run};

/// Builds steps from functions whose names are the sentences that they test.
macro_rules! steps {
    ($($kind:ident: $($module:ident :: $step:ident),+ ;)+) => {
        &[$($(Step::$kind(stringify!($step), |stage| Box::pin($module::$step(stage)))),+),+]
    };
}

fn main() -> anyhow::Result<ExitCode> {
    // Later steps depend on the essential ones, which cannot be skipped.
    run(steps! {
        essential:
            installing::the_cluster_has_no_trace_of_tenon,
            installing::the_first_worker_answers_within_90_seconds;
        chosen:
            installing::helm_test_passes,
            footprint::idle_processes_are_small;
        essential:
            prober::the_prober_is_served;
        chosen:
            dashboards::a_prometheus_scrapes_every_process,
            upgrading::an_upgrade_fails_no_request,
            upgrading::a_rollback_fails_no_request,
            upgrading::an_upgrade_after_a_rollback_fails_no_request,
            restarting::restarting_the_routers_fails_no_request,
            restarting::restarting_the_nodes_fails_no_request,
            restarting::restarting_the_operators_fails_no_request,
            certificates::new_certificates_fail_no_request,
            certificates::switching_to_user_provided_secrets_fails_no_request,
            scaling::scaling_the_routers_fails_no_request,
            scaling::scaling_the_nodes_fails_no_request,
            draining::draining_a_kubernetes_node_fails_no_request,
            dashboards::every_panel_of_every_dashboard_shows_data;
        essential:
            dashboards::the_prometheus_ends,
            prober::the_prober_ends,
            leftovers::uninstalling_leaves_only_the_crds,
            leftovers::the_crds_are_removed_on_request;
    })
}
