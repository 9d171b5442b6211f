//! What is served, next to what the files ask for. Pure: a decision, which [`dev`](crate::dev) carries out.
//!
//! A Worker that is gone from the files is taken away. One that is there and not good keeps its last good
//! revision, and so do all Workers of a file in which something cannot be read: they may be in that part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenon_crds::Schedule;
use tenon_proto::id::WorkerId;
use tenon_proto::revision::Revision;

use crate::load::{Load, Loaded};
use crate::manifest::Problem;

/// What is served now.
#[derive(Default)]
pub(crate) struct Site {
    workers: BTreeMap<WorkerId, Loaded>,
    /// Those that a person knows of already.
    problems: Vec<Problem>,
    notes: Vec<String>,
}

/// What follows from a look at the files.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) served: Vec<Loaded>,
    pub(crate) removed: Vec<WorkerId>,
    /// Problems that were not there before.
    pub(crate) problems: Vec<Problem>,
    /// Notes that were not there before.
    pub(crate) notes: Vec<String>,
    /// There were problems, and now there are none.
    pub(crate) all_well_again: bool,
}

impl Site {
    pub(crate) fn serves(&self, id: &WorkerId) -> bool {
        self.workers.contains_key(id)
    }

    /// The Worker's revision that is served.
    pub(crate) fn served(&self, id: &WorkerId) -> Option<Arc<Revision>> {
        self.workers.get(id).map(|loaded| Arc::clone(&loaded.revision))
    }

    /// Every schedule of what is served.
    pub(crate) fn schedules(&self) -> impl Iterator<Item = (&WorkerId, &Schedule)> {
        self.workers.iter().flat_map(|(id, loaded)| loaded.schedules.iter().map(move |schedule| (id, schedule)))
    }

    /// Moves on to what the files ask for now.
    pub(crate) fn update(&mut self, load: Load) -> Changes {
        let mut changes = Changes::default();
        let kept = self.kept(&load);
        self.workers.retain(|id, _| {
            let stays = load.workers.contains_key(id) || kept.contains(id);
            if !stays {
                changes.removed.push(id.clone());
            }
            stays
        });
        for (id, loaded) in load.workers {
            let before = self.workers.get(&id);
            if before.is_none_or(|before| before.digest != loaded.digest || before.routes != loaded.routes) {
                changes.served.push(loaded.clone());
            }
            self.workers.insert(id, loaded);
        }
        changes.all_well_again = load.problems.is_empty() && !self.problems.is_empty();
        changes.problems = load.problems.iter().filter(|problem| !self.problems.contains(problem)).cloned().collect();
        changes.notes = load.notes.iter().filter(|note| !self.notes.contains(note)).cloned().collect();
        (self.problems, self.notes) = (load.problems, load.notes);
        changes
    }

    /// The Workers that go on as they are because something is wrong where they come from.
    fn kept(&self, load: &Load) -> BTreeSet<WorkerId> {
        let named = load.problems.iter().filter_map(|problem| problem.worker.clone());
        let unknown: BTreeSet<_> = load
            .problems
            .iter()
            .filter(|problem| problem.worker.is_none())
            .map(|problem| problem.place.file.as_path())
            .collect();
        // A directory that cannot be read, as when the process has no file descriptor left, hides all that is below it.
        let is_unknown = |loaded: &Loaded| loaded.place.file.ancestors().any(|above| unknown.contains(above));
        let of_file = self.workers.iter().filter(|(_, loaded)| is_unknown(loaded));
        named.chain(of_file.map(|(id, _)| id.clone())).collect()
    }
}

#[cfg(test)]
#[path = "site/tests.rs"]
mod tests;
