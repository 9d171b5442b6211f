//! The dashboards with their panels and queries, one file each.
//!
//! A Worker's own series (`tenon_worker_…`) carry its namespace; all others carry the namespace in
//! which Tenon is installed.

mod node;
mod operator;
mod overview;
mod router;
mod worker;

use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

/// Returns all dashboards.
pub fn all() -> [Dashboard; 5] {
    [overview::dashboard(), worker::dashboard(), node::dashboard(), router::dashboard(), operator::dashboard()]
}

/// Returns the variable that selects an installation by its namespace.
fn installation() -> Variable {
    Variable::any("installation", "Installed in", "tenon_build_info", "namespace")
}

/// Returns the panels about the resources that a process uses. `@` stands for the labels that
/// select the installation and its Pods.
///
/// # Arguments
/// * `component` - the name of the process.
fn process(component: &str) -> Vec<Panel> {
    let of = |query: &str| query.replace("{@}", &format!("{{@,job=\"tenon\",component=\"{component}\"}}"));
    let lines = |title, unit, description, query: &str, legend| {
        Panel::lines(title, unit, description, &[(&of(query), legend)]).wide(6)
    };
    vec![
        lines(
            "CPU",
            Unit::Cores,
            "CPU time of each Pod's processes together.",
            "sum by (pod) (rate(process_cpu_seconds_total{@}[$__rate_interval]))",
            "{{pod}}",
        ),
        lines(
            "Threads' CPU",
            Unit::Cores,
            "CPU time by thread, the busiest ten. One that is at a whole core can do no more.",
            "topk(10, sum by (pod, thread) (rate(tenon_thread_cpu_seconds_total{@}[$__rate_interval])))",
            "{{pod}} {{thread}}",
        ),
        lines(
            "Resident memory",
            Unit::Bytes,
            "Memory of each Pod's processes that is in RAM.",
            "sum by (pod) (process_resident_memory_bytes{@})",
            "{{pod}}",
        ),
        lines(
            "File descriptors",
            Unit::Share,
            "Open file descriptors of those that may be open. At all of them no connection is accepted.",
            "max by (pod) (process_open_fds{@} / process_max_fds{@})",
            "{{pod}}",
        ),
        lines(
            "Log lines dropped",
            Unit::PerSecond,
            "Lines that standard error was not read fast enough for. What they said is lost.",
            "sum by (pod) (rate(tenon_log_lines_dropped_total{@}[$__rate_interval]))",
            "{{pod}}",
        ),
        lines(
            "Up for",
            Unit::Seconds,
            "Time since each Pod's first process began.",
            "max by (pod) (time() - process_start_time_seconds{@})",
            "{{pod}}",
        ),
    ]
}
