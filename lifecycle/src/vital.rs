//! Threads and tasks that a process needs to function. When a vital thread or task panics, the
//! process aborts, and its supervisor or the kubelet restarts the process. Otherwise the process
//! would continue without the thread or task, while its probes succeed.

use std::fmt::Display;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::thread::{Builder, JoinHandle};

/// Starts a thread whose panic aborts the process.
///
/// # Errors
/// Fails if the system cannot start another thread.
pub fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let thread = name.clone();
    Builder::new().name(name).spawn(move || {
        abort_on_panic(&format!("thread {thread:?}"), run);
    })
}

/// Runs a future whose panic aborts the process. Otherwise the runtime would catch the panic, and
/// only the task would end.
pub async fn task<F: Future>(name: &'static str, run: F) -> F::Output {
    let mut run = pin!(run);
    poll_fn(|cx| abort_on_panic(&format_args!("task {name:?}"), || run.as_mut().poll(cx))).await
}

fn abort_on_panic<T>(subject: &dyn Display, run: impl FnOnce() -> T) -> T {
    // The process aborts, so no state that the panic left behind is observed.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        // The log is not used, because its thread would have no time to write the line.
        eprintln!("{subject} is vital and has panicked; aborting the process");
        std::process::abort()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    const CHILD: &str = "TENON_TEST_VITAL_CHILD";

    /// Runs a test of this module again in a process of its own, and returns that process's
    /// standard error.
    fn stderr_of(test: &str) -> String {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("vital::tests::{test}"), "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(child.status.signal().is_some(), "{child:?}");
        String::from_utf8_lossy(&child.stderr).into_owned()
    }

    #[test]
    fn a_panic_of_a_vital_thread_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            let thread = spawn("heart".to_owned(), || panic!("as intended")).unwrap();
            thread.join().unwrap();
            return;
        }
        let stderr = stderr_of("a_panic_of_a_vital_thread_ends_the_process");
        assert!(stderr.contains("thread \"heart\" is vital"), "{stderr}");
    }

    #[test]
    fn a_panic_of_a_vital_task_ends_the_process() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(task("well", async { 1 })), 1);
        if std::env::var_os(CHILD).is_some() {
            let _ = runtime.block_on(runtime.spawn(task("lung", async { panic!("as intended") })));
            return;
        }
        let stderr = stderr_of("a_panic_of_a_vital_task_ends_the_process");
        assert!(stderr.contains("task \"lung\" is vital"), "{stderr}");
    }

    #[test]
    fn a_process_survives_a_vital_thread_that_finishes_normally() {
        spawn("vital".to_owned(), || {}).unwrap().join().unwrap();
    }
}
