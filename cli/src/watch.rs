//! Reports when the given files may have changed.
//!
//! Directories are watched, never files. If an editor writes a new file and renames it over the old
//! file, a watch of the old file would miss later changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use crate::import;

/// The time without an event after which a save is complete. A save produces several events.
const QUIET: Duration = Duration::from_millis(50);

pub(crate) struct Changes {
    events_rx: mpsc::UnboundedReceiver<()>,
    watcher: RecommendedWatcher,
    /// The watched folders that the files refer to.
    followed: BTreeSet<PathBuf>,
}

impl Changes {
    /// Starts to watch `paths`.
    ///
    /// # Arguments
    /// * `paths` - files and directories.
    ///
    /// # Errors
    /// Fails if the system has no watches left, or a directory does not exist.
    pub(crate) fn of(paths: &[PathBuf]) -> notify::Result<Self> {
        let (events_tx, events_rx) = mpsc::unbounded_channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                // An error may hide a change, and reading the files once too often is cheap.
                if event.as_ref().map_or(true, |event| is_change(event.kind)) {
                    let _ = events_tx.send(());
                }
            })?;
        for (directory, mode) in directories(paths) {
            watcher.watch(directory, mode)?;
        }
        Ok(Self { events_rx, watcher, followed: BTreeSet::new() })
    }

    /// Watches `folders` too, and stops watching the folders of earlier calls that are not among
    /// them. A folder that does not exist is skipped.
    pub(crate) fn follow(&mut self, folders: &[PathBuf]) {
        let folders: BTreeSet<_> = folders.iter().cloned().collect();
        for removed in self.followed.difference(&folders) {
            // The watch is already removed if the folder was deleted.
            let _ = self.watcher.unwatch(removed);
        }
        let Self { watcher, followed, .. } = self;
        let new = folders
            .difference(followed)
            .filter(|folder| watcher.watch(folder, RecursiveMode::NonRecursive).is_ok());
        let unchanged = folders.intersection(followed);
        self.followed = new.chain(unchanged).cloned().collect();
    }

    /// Waits until something has changed since the last call and no event has arrived for
    /// [`QUIET`].
    pub(crate) async fn next(&mut self) {
        if self.events_rx.recv().await.is_none() {
            // The watcher holds the sender and `self` holds the watcher, so the channel is never
            // closed.
            std::future::pending::<()>().await;
        }
        while let Ok(Some(())) = tokio::time::timeout(QUIET, self.events_rx.recv()).await {}
    }
}

/// Returns whether an event is a change. Closing a file after a write is a change, and reading a
/// file is not.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// Returns the directories to watch: each directory in `paths`, recursively unless it is a wrangler
/// project, and the parent of each file in `paths`.
fn directories(paths: &[PathBuf]) -> BTreeMap<&Path, RecursiveMode> {
    let mut directories = BTreeMap::new();
    for path in paths {
        if path.is_dir() && import::project(path).is_some() {
            // The folders of the project's sources are followed; those of its packages need not be.
            directories.entry(path.as_path()).or_insert(RecursiveMode::NonRecursive);
        } else if path.is_dir() {
            directories.insert(path.as_path(), RecursiveMode::Recursive);
        } else {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            directories.entry(parent).or_insert(RecursiveMode::NonRecursive);
        }
    }
    directories
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Time limit of the wait for an event, which is much longer than an event takes.
    const DEADLINE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_file_that_is_replaced_by_rename_is_still_watched() {
        let directory = tempfile::tempdir().unwrap();
        let (file, draft) = (directory.path().join("worker.yaml"), directory.path().join(".draft"));
        fs::write(&file, "a").unwrap();
        let mut changes = Changes::of(std::slice::from_ref(&file)).unwrap();
        for text in ["b", "c"] {
            fs::write(&draft, text).unwrap();
            fs::rename(&draft, &file).unwrap();
            tokio::time::timeout(DEADLINE, changes.next()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_followed_folder_is_watched() {
        let directory = tempfile::tempdir().unwrap();
        let (file, folder) = (directory.path().join("worker.yaml"), directory.path().join("code"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "a").unwrap();
        let mut changes = Changes::of(std::slice::from_ref(&file)).unwrap();
        changes.follow(std::slice::from_ref(&folder));
        changes.follow(std::slice::from_ref(&folder));
        fs::write(folder.join("worker.ts"), "b").unwrap();
        tokio::time::timeout(DEADLINE, changes.next()).await.unwrap();
    }

    #[tokio::test]
    async fn a_new_file_in_a_watched_directory_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let mut changes = Changes::of(&[directory.path().to_owned()]).unwrap();
        fs::write(directory.path().join("new.yaml"), "").unwrap();
        tokio::time::timeout(DEADLINE, changes.next()).await.unwrap();
    }

    #[test]
    fn a_file_name_without_a_directory_is_watched_in_the_current_directory() {
        let paths = [PathBuf::from("worker.yaml")];
        assert_eq!(directories(&paths).into_keys().collect::<Vec<_>>(), [Path::new(".")]);
    }
}
