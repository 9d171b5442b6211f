//! Runs the tests: starts the platform for the first test, creates a namespace for each test, and
//! stops the platform after the last one.

use std::fmt::Write as _;
use std::fs;
use std::future::Future;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, RwLock};
use tokio::time::timeout;

use crate::{Namespace, Platform};

/// Time limit of a test, in seconds: a test that takes longer has failed. `TENON_E2E_TEST_TIMEOUT`
/// sets another number, for tests with a larger load.
const TEST_TIMEOUT: u64 = 180;

/// Maximum number of lines of each log that the error of a failed test contains.
const LOG_LINES: usize = 15;

/// The environment of a test: the shared platform and a namespace of its own.
pub struct Scenario {
    pub platform: Arc<Platform>,
    pub namespace: Namespace,
}

/// The tests of one run.
pub struct Suite {
    shared: Arc<Shared>,
    trials: Vec<Trial>,
}

struct Shared {
    runtime: Runtime,
    platform: OnceCell<Arc<Platform>>,
    /// Locked for reading by tests that leave the platform as it is, and for writing by tests that
    /// stop a part of it.
    platform_lock: RwLock<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Sharing,
    Exclusive,
}

impl Suite {
    /// Creates an empty suite.
    ///
    /// # Errors
    /// Fails if the runtime cannot be created.
    pub fn new() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let shared = Shared { runtime, platform: OnceCell::new(), platform_lock: RwLock::new(()) };
        Ok(Self { shared: Arc::new(shared), trials: Vec::new() })
    }

    /// Adds a test that runs concurrently with others.
    pub fn add<F>(&mut self, name: &str, test: fn(Scenario) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        self.push(name, Access::Sharing, test);
    }

    /// Adds a test that runs alone, because it stops a part of the platform or of the cluster.
    pub fn add_exclusive<F>(&mut self, name: &str, test: fn(Scenario) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        self.push(name, Access::Exclusive, test);
    }

    fn push<F>(&mut self, name: &str, access: Access, test: fn(Scenario) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        let shared = self.shared.clone();
        self.trials.push(Trial::test(name, move || shared.run(access, test)));
    }

    /// Runs the tests that the command line selects.
    pub fn run(self) -> ExitCode {
        let conclusion = libtest_mimic::run(&Arguments::from_args(), self.trials);
        if let Some(platform) = self.shared.platform.get()
            && let Err(error) = self.shared.runtime.block_on(platform.stop())
        {
            eprintln!("cannot stop the platform: {error:#}");
            return ExitCode::FAILURE;
        }
        conclusion.exit_code()
    }
}

impl Shared {
    fn run<F>(&self, access: Access, test: fn(Scenario) -> F) -> Result<(), Failed>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let outcome = self.runtime.block_on(self.run_test(access, test));
        outcome.map_err(|error| format!("{error:#}").into())
    }

    async fn run_test<F>(&self, access: Access, test: fn(Scenario) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let platform =
            self.platform.get_or_try_init(async || Platform::start().await.map(Arc::new)).await;
        let platform = platform.context("cannot start the platform")?;
        let (_reading, _writing) = match access {
            Access::Sharing => (Some(self.platform_lock.read().await), None),
            Access::Exclusive => (None, Some(self.platform_lock.write().await)),
        };
        let namespace = Namespace::create(&platform.cluster, "e2e").await?;
        let scenario = Scenario { platform: platform.clone(), namespace: namespace.clone() };
        let seconds = match std::env::var("TENON_E2E_TEST_TIMEOUT") {
            Ok(seconds) => seconds.parse().with_context(|| {
                format!("TENON_E2E_TEST_TIMEOUT={seconds} is not a number of seconds")
            })?,
            Err(_) => TEST_TIMEOUT,
        };
        let outcome = timeout(Duration::from_secs(seconds), catch_panic(test(scenario))).await;
        match outcome.unwrap_or_else(|_| Err(anyhow!("the test did not finish within {seconds} s")))
        {
            Ok(()) => namespace.delete().await,
            // The namespace is kept for inspection.
            Err(error) => Err(anyhow!("{error:#}\n{}", logs(platform.logs(), namespace.name()))),
        }
    }
}

/// Turns a panic into an error, so that the panic is shown with the logs.
async fn catch_panic(test: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut test = std::pin::pin!(test);
    std::future::poll_fn(move |context| {
        catch_unwind(AssertUnwindSafe(|| test.as_mut().poll(context))).unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("the test panicked");
            Err(anyhow!("{message}")).into()
        })
    })
    .await
}

/// Returns the last lines of each log that mention the test's namespace, a warning, an error or a
/// panic.
fn logs(folder: &Path, namespace: &str) -> String {
    let mut text = format!("logs are in {}\n", folder.display());
    let mut files: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let log = fs::read_to_string(&file).unwrap_or_default();
        let is_relevant = |line: &&str| {
            [namespace, "WARN", "ERROR", "panicked"].iter().any(|marker| line.contains(marker))
        };
        let lines: Vec<_> = log.lines().filter(is_relevant).collect();
        if lines.is_empty() {
            continue;
        }
        let name = file.file_name().unwrap_or_default().display();
        let _ = writeln!(
            text,
            "── {name}\n{}",
            lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
        );
    }
    text
}

impl Deref for Scenario {
    type Target = Platform;

    fn deref(&self) -> &Platform {
        &self.platform
    }
}
