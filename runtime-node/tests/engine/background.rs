//! Tests the priority of V8's own threads.

use std::fs;
use std::rc::Rc;

use crate::harness::{Shard, trials};

trials! {
    the_threads_of_v8_have_a_lower_priority_than_the_process,
}

/// The index of the nice value in `/proc/<pid>/stat`, counted from the field after the name, which
/// is field 3 (`proc_pid_stat(5)`; the nice value is field 19).
const NICE: usize = 16;

/// Returns the nice value that a `stat` file states, or `None` if its thread has ended.
fn nice(path: &str) -> Option<i32> {
    let text = fs::read_to_string(path).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(NICE)?.parse().ok()
}

async fn the_threads_of_v8_have_a_lower_priority_than_the_process(_: Rc<Shard>) {
    let process = nice("/proc/self/stat").unwrap();
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let threads = threads.map(|thread| thread.unwrap().path().join("stat"));
    let values = threads.filter_map(|path| nice(path.to_str()?)).collect::<Vec<_>>();
    assert!(values.contains(&(process + 10).min(19)), "{process}: {values:?}");
}
