//! The executor of hyper's tasks, which run on the thread of the connection that they serve.

use tokio::task::spawn_local;

/// Runs hyper's tasks on the thread that spawns them.
#[derive(Clone, Copy)]
pub(crate) struct Local;

impl<F> hyper::rt::Executor<F> for Local
where
    F: Future<Output: 'static> + 'static,
{
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}
