//! Tests the memory of idle processes.

use anyhow::{Context, ensure};
use kube::ResourceExt;

use crate::metrics::{sum, values};
use crate::pods::{self, ALL, Component, NODE, OPERATOR, ROUTER};
use crate::stage::Stage;

const MIB: f64 = 1_048_576.0;

/// Maximum memory of an idle isolate, in bytes: its heap, its share of the snapshot and V8's
/// tables.
const ISOLATE_BYTES: f64 = 4.0 * MIB;

/// Returns the maximum resident memory of a process without its isolates, in bytes.
fn limit(component: Component) -> f64 {
    match component.name {
        name if name == OPERATOR.name => 40.0 * MIB,
        name if name == ROUTER.name => 36.0 * MIB,
        _ => 60.0 * MIB,
    }
}

pub async fn idle_processes_are_small(stage: &Stage) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    let mut over = Vec::new();
    for component in ALL {
        for pod in component.pods(stage).await? {
            let name = pod.name_any();
            let metrics = pods::metrics(stage, &name).await?;
            // A node reports each of its processes. The largest one counts, because they share most
            // of their pages.
            let resident = values(&metrics, "process_resident_memory_bytes", &[])
                .into_iter()
                .fold(0.0, f64::max);
            ensure!(resident > 0.0, "{name} reports no resident memory");
            let isolates =
                sum(&metrics, "tenon_isolates", &[]) + sum(&metrics, "tenon_spare_isolates", &[]);
            let detail = if component.name == NODE.name {
                format!(", with {isolates} isolates")
            } else {
                String::new()
            };
            lines.push(format!("{name}: {:.1} MiB{detail}", resident / MIB));
            if resident > limit(component) + isolates * ISOLATE_BYTES {
                over.push(format!("{name} has {:.1} MiB resident{detail}", resident / MIB));
            }
        }
    }
    ensure!(
        over.is_empty(),
        "{}; the limits are 40 MiB for an operator, 36 MiB for a router, and 60 MiB plus 4 MiB per isolate for a node",
        over.join(", ")
    );
    lines.first().context("no Pod reported its memory")?;
    Ok(lines.join("\n"))
}
