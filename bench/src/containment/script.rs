//! Turns the hostile scripts into Workers.

// The parser of the suite's files. It panics if a file is malformed, which the suite's tests rule
// out.
#[allow(clippy::unwrap_used, dead_code, reason = "the file belongs to the tests of another crate")]
#[path = "../../../runtime-node/tests/hostile/script.rs"]
mod suite;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use serde_json::json;
use tenon_crds::{Worker, WorkerSpec};
use tenon_proto::revision::CompatibilityFlag;

pub(crate) use suite::Script;

use super::phase::Phase;

/// A module that responds to `/light` with little work, so that the Worker is promoted, and passes
/// every other request to the script.
const PROMOTED: &str = "export default {
  async fetch(request, env, context) {
    if (new URL(request.url).pathname === '/light') return new Response('light');
    const { default: script } = await import('./worker.js');
    return script.fetch(request, env, context);
  },
};";
const PROMOTED_ENTRYPOINT: &str = "promoted.js";

/// Returns every script of the suite.
pub(crate) fn all() -> Vec<Script> {
    suite::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime-node/tests/hostile"))
}

/// Returns a Worker for each revision of a script. In the phase `Promoted`, the Worker also
/// responds to the requests that promote it.
///
/// # Errors
/// Fails if a revision has modules that are not text. A Worker can only take such modules from a
/// ConfigMap.
pub(super) fn workers(script: &Script, phase: Phase) -> anyhow::Result<Vec<Worker>> {
    let worker = |(i, modules): (usize, &Vec<(String, String)>)| {
        let mut modules: BTreeMap<_, _> = modules.iter().cloned().collect();
        ensure!(
            modules.keys().all(|name| !name.ends_with(".bin")),
            "the script has modules that are not text"
        );
        let mut entrypoint = suite::ENTRYPOINT;
        if phase == Phase::Promoted {
            entrypoint = PROMOTED_ENTRYPOINT;
            modules.insert(entrypoint.to_owned(), PROMOTED.to_owned());
        }
        let limits = &script.limits;
        let flags = script.flags.iter().copied().map(CompatibilityFlag::as_str);
        let spec: WorkerSpec = serde_json::from_value(json!({
            "source": {"modules": modules},
            "entrypoint": entrypoint,
            "vars": {"SECRET": "the hostile Worker's own"},
            "state": format!("{:?}", script.state),
            "compatibilityFlags": flags.collect::<Vec<_>>(),
            "limits": {
                "cpuMs": limits.cpu_ms,
                "wallMs": limits.wall_ms,
                "memoryMiB": limits.memory_mib,
                "startupMs": limits.startup_ms,
            },
        }))?;
        Ok(Worker::new(&format!("hostile-{i}"), spec))
    };
    script.revisions.iter().enumerate().map(worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_every_script_can_be_a_worker() {
        let scripts = all();
        let unusable =
            scripts.iter().filter(|script| workers(script, Phase::Promoted).is_err()).count();
        assert!(
            scripts.len() > 300 && unusable < 5,
            "{unusable} of {} scripts cannot be Workers",
            scripts.len()
        );
    }
}
