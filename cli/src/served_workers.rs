//! Compares the Workers being served with those in the files. This module is pure: it makes the
//! decision that [`dev`](crate::dev) carries out.
//!
//! A Worker that is no longer in the files is removed. An invalid Worker keeps its last good
//! revision. If a part of a file cannot be read or parsed, every Worker of that file keeps its
//! revision, because the Worker may be in the unknown part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenon_crds::Schedule;
use tenon_proto::id::WorkerId;

use crate::assets::Packed;
use crate::load::{Load, Loaded, Served};
use crate::manifest::Problem;

/// The Workers being served.
#[derive(Default)]
pub(crate) struct ServedWorkers {
    workers: BTreeMap<WorkerId, Loaded>,
    /// Problems that have been reported already.
    problems: Vec<Problem>,
    notes: Vec<String>,
}

/// The changes that one read of the files has found.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) served: Vec<Loaded>,
    pub(crate) removed: Vec<WorkerId>,
    /// Problems that are new since the last read.
    pub(crate) problems: Vec<Problem>,
    /// Notes that are new since the last read.
    pub(crate) notes: Vec<String>,
    /// Whether the previous read found problems and this read found none.
    pub(crate) all_resolved: bool,
}

impl ServedWorkers {
    pub(crate) fn serves(&self, id: &WorkerId) -> bool {
        self.workers.contains_key(id)
    }

    /// Returns the revision and the static files with which a Worker is being served.
    pub(crate) fn served(&self, id: &WorkerId) -> Served {
        let loaded = self.workers.get(id);
        Served {
            revision: loaded.map(|loaded| Arc::clone(&loaded.revision)),
            assets: loaded.and_then(|loaded| loaded.assets.clone()),
        }
    }

    /// Returns the Workers being served.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&WorkerId, &Loaded)> {
        self.workers.iter()
    }

    /// Returns the problems of the files.
    pub(crate) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the static files of the Workers being served.
    pub(crate) fn assets(&self) -> impl Iterator<Item = &Packed> {
        self.workers.values().filter_map(|loaded| loaded.assets.as_ref())
    }

    /// Returns every schedule of the Workers being served.
    pub(crate) fn schedules(&self) -> impl Iterator<Item = (&WorkerId, &Schedule)> {
        self.workers
            .iter()
            .flat_map(|(id, loaded)| loaded.schedules.iter().map(move |schedule| (id, schedule)))
    }

    /// Replaces the Workers being served with those in the files, and returns the changes.
    pub(crate) fn update(&mut self, load: Load) -> Changes {
        let mut changes = Changes::default();
        let kept = self.workers_to_keep(&load);
        self.workers.retain(|id, _| {
            let stays = load.workers.contains_key(id) || kept.contains(id);
            if !stays {
                changes.removed.push(id.clone());
            }
            stays
        });
        for (id, loaded) in load.workers {
            let before = self.workers.get(&id);
            if before.is_none_or(|before| {
                before.digest != loaded.digest || before.routes != loaded.routes
            }) {
                changes.served.push(loaded.clone());
            }
            self.workers.insert(id, loaded);
        }
        changes.all_resolved = load.problems.is_empty() && !self.problems.is_empty();
        changes.problems = load
            .problems
            .iter()
            .filter(|problem| !self.problems.contains(problem))
            .cloned()
            .collect();
        changes.notes =
            load.notes.iter().filter(|note| !self.notes.contains(note)).cloned().collect();
        (self.problems, self.notes) = (load.problems, load.notes);
        changes
    }

    /// Returns the Workers that stay even if they were not loaded: those with a problem, and those
    /// whose file could not be read.
    fn workers_to_keep(&self, load: &Load) -> BTreeSet<WorkerId> {
        let named = load.problems.iter().filter_map(|problem| problem.worker.clone());
        let unknown: BTreeSet<_> = load
            .problems
            .iter()
            .filter(|problem| problem.worker.is_none())
            .map(|problem| problem.location.file.as_path())
            .collect();
        // A directory that cannot be read hides every file below it. This happens to a process
        // without free file descriptors.
        let is_unknown =
            |loaded: &Loaded| loaded.location.file.ancestors().any(|above| unknown.contains(above));
        let unread = self.workers.iter().filter(|(_, loaded)| is_unknown(loaded));
        named.chain(unread.map(|(id, _)| id.clone())).collect()
    }
}

#[cfg(test)]
#[path = "served_workers/tests.rs"]
mod tests;
