//! Threads without which their process is of no use: when one panics, the process ends, and whoever watches over it
//! starts another. It would otherwise go on half dead, ready in the eyes of its probes.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

/// # Errors
/// When the system has no more threads.
pub fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let thread = name.clone();
    Builder::new().name(name).spawn(move || {
        // Nothing that the panic left behind is looked at again.
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            // Not by the log, whose thread would have no time to write it.
            eprintln!("thread {thread:?} is vital and has panicked; the process ends");
            std::process::abort();
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    const CHILD: &str = "TENON_TEST_VITAL_CHILD";

    #[test]
    fn a_process_ends_with_its_vital_thread() {
        if std::env::var_os(CHILD).is_some() {
            let thread = spawn("vital".to_owned(), || panic!("as intended")).unwrap();
            thread.join().unwrap();
            return;
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "vital::tests::a_process_ends_with_its_vital_thread"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(child.status.signal().is_some(), "{child:?}");
    }

    #[test]
    fn one_that_comes_to_its_end_ends_nothing() {
        spawn("vital".to_owned(), || {}).unwrap().join().unwrap();
    }
}
