//! Defines the dashboards with their panels and queries. Each dashboard has a file of its own.
//!
//! The series of a Worker (`tenon_worker_…`) carry the Worker's namespace. All other series carry
//! the namespace in which Tenon is installed.

mod node;
mod operator;
mod overview;
mod router;
mod worker;

use crate::model::{Dashboard, Panel, Variable};
use crate::unit::Unit;

/// Returns all dashboards.
pub fn all() -> [Dashboard; 5] {
    [
        overview::dashboard(),
        worker::dashboard(),
        node::dashboard(),
        router::dashboard(),
        operator::dashboard(),
    ]
}

/// Returns the variable that selects an installation by its namespace.
fn installation() -> Variable {
    Variable::any("installation", "Installation", "tenon_build_info", "namespace")
}

/// Returns the panels about the resources that a process uses. `@` stands for the labels that
/// select the installation and its Pods.
///
/// # Arguments
/// * `component` - the value of the label `component` of the process's metrics.
fn process(component: &str) -> Vec<Panel> {
    let select = |query: &str| {
        query.replace("{@}", &format!("{{@,job=\"tenon\",component=\"{component}\"}}"))
    };
    let lines = |title, unit, description, query: &str, legend| {
        Panel::lines(title, unit, description, &[(&select(query), legend)]).wide(6)
    };
    vec![
        lines(
            "CPU",
            Unit::Cores,
            "CPU time of the processes of each Pod.",
            "sum by (pod) (rate(process_cpu_seconds_total{@}[$__rate_interval]))",
            "{{pod}}",
        ),
        lines(
            "Threads' CPU",
            Unit::Cores,
            "CPU time of the ten busiest threads. A thread that uses a whole core is saturated.",
            "topk(10, sum by (pod, thread) (rate(tenon_thread_cpu_seconds_total{@}[$__rate_interval])))",
            "{{pod}} {{thread}}",
        ),
        lines(
            "Resident memory",
            Unit::Bytes,
            "Resident memory of the processes of each Pod.",
            "sum by (pod) (process_resident_memory_bytes{@})",
            "{{pod}}",
        ),
        lines(
            "File descriptors",
            Unit::Share,
            "Open file descriptors, relative to the limit. At the limit, no connection is accepted.",
            "max by (pod) (process_open_fds{@} / process_max_fds{@})",
            "{{pod}}",
        ),
        lines(
            "Log lines dropped",
            Unit::PerSecond,
            "Log lines dropped because standard error was not read fast enough.",
            "sum by (pod) (rate(tenon_log_lines_dropped_total{@}[$__rate_interval]))",
            "{{pod}}",
        ),
        lines(
            "Uptime",
            Unit::Seconds,
            "Time since the first process of each Pod started.",
            "max by (pod) (time() - process_start_time_seconds{@})",
            "{{pod}}",
        ),
    ]
}
