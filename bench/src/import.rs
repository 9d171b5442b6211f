//! Measures the operator at scale, on a real control plane: how long a new Worker waits while
//! thousands of others are imported, what the operator writes for each, and whether cold Workers
//! start while the only operator is replaced.
//!
//! ```text
//!  import ──► many Workers of one namespace ──► operator ──► writes of each
//!  a user ────► a Worker of that namespace ───────┤
//!           └─► a Worker of another one ──────────┴─► apply → first 200
//!  requests to imported Workers, which no node has run ──► kill the operator, start another
//! ```
//!
//! The import has a field manager of its own, as a GitOps controller has beside kubectl.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::join;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tenon_crds::ConditionStatus;
use tenon_e2e::audit::AuditLog;
use tenon_e2e::{Namespace, Platform, answering, await_condition, worker};
use tokio::time::{Instant, sleep};

use crate::objective::Objective;
use crate::quantile::median;
use crate::table::Table;
use crate::unit::human;

/// Number of concurrent applies of the import.
const CONCURRENCY: usize = 16;

/// Pause between two requests for a Worker that is not served yet, which is the resolution of the
/// measurement.
const PAUSE: Duration = Duration::from_millis(5);

/// Pause before the scenario deploys the next two single Workers during the import, one in each
/// namespace.
const DEPLOY_PAUSE: Duration = Duration::from_millis(500);

/// Time limit for the first response of a Worker, and for the end of the backlog.
const LIMIT: Duration = Duration::from_secs(600);

/// Pause between two requests to cold Workers.
const REQUEST_PAUSE: Duration = Duration::from_millis(30);

/// Maximum number of requests that wait at the same time.
const WAITING: usize = 4_096;

/// Time for which requests continue after the new operator is ready.
const OBSERVED_AFTER: Duration = Duration::from_secs(5);

/// Maximum time from the apply of a Worker to its first 200 during an import into its namespace.
const SAME_NAMESPACE_WITHIN: Duration = Duration::from_secs(3);
/// Maximum of that time during an import into another namespace.
const OTHER_NAMESPACE_WITHIN: Duration = Duration::from_secs(1);

/// Maximum mean number of the operator's writes for a new Worker: its revision, the accepted
/// status, and the status after the routers have acknowledged it.
const WRITES: f64 = 3.0;

/// The measurements of this part.
#[derive(Debug)]
pub struct Record {
    workers: usize,
    /// The time until every imported Worker was reconciled.
    imported_in: Duration,
    /// The times until new Workers of the imported namespace answered.
    same: Vec<Duration>,
    /// The times until new Workers of another namespace answered.
    other: Vec<Duration>,
    /// Number of the operator's writes during the import, by kind of object.
    writes: BTreeMap<String, usize>,
    /// Number of Workers that were deployed during the import, including the imported ones.
    deployed: usize,
    requests: u64,
    failed: u64,
    /// The time from the end of one operator until the other is ready.
    replaced_in: Duration,
}

impl Record {
    fn writes_of_each(&self) -> f64 {
        self.writes.values().sum::<usize>() as f64 / self.deployed.max(1) as f64
    }
}

/// Starts the platform, imports `count` Workers, replaces the operator, and stops the platform.
///
/// # Errors
/// Fails if there is no control plane, or if a Worker does not answer within `LIMIT`.
pub fn run(count: usize) -> anyhow::Result<Record> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let platform = Platform::start().await.context("cannot start the platform")?;
        let crowded = Namespace::create(&platform.cluster, "crowded").await?;
        let quiet = Namespace::create(&platform.cluster, "quiet").await?;
        // The first Workers make the processes open their connections, so they are not counted.
        for namespace in [&crowded, &quiet] {
            first_200(&platform, namespace, "first").await?;
        }
        let log = AuditLog::open()?.from_now()?;
        let (began, is_done) = (Instant::now(), Cell::new(false));
        let imported = async {
            let imported = import(&platform, &crowded, count).await;
            is_done.set(true);
            imported.map(|()| began.elapsed())
        };
        let (imported, deployed) =
            join(imported, deploy_meanwhile(&platform, &crowded, &quiet, &is_done)).await;
        let (imported_in, (same, other)) = (imported?, deployed?);
        let writes = writes(&platform, &log)?;
        eprintln!("import: the operator is replaced");
        let hosts: Vec<_> = (0..count).map(|number| crowded.host(&name(number))).collect();
        let (replaced_in, requests, failed) = replace_operator(&platform, &hosts).await?;
        crowded.delete().await?;
        quiet.delete().await?;
        platform.stop().await?;
        let deployed = count + same.len() + other.len();
        Ok(Record {
            workers: count,
            imported_in,
            same,
            other,
            writes,
            deployed,
            requests,
            failed,
            replaced_in,
        })
    })
}

fn name(number: usize) -> String {
    format!("imported-{number}")
}

/// Applies all Workers, and waits until the operator has none left to reconcile.
async fn import(platform: &Platform, namespace: &Namespace, count: usize) -> anyhow::Result<()> {
    eprintln!("import: {count} Workers");
    let applied = stream::iter(0..count).map(async |number| {
        namespace.apply_as("tenon-import", &worker(&name(number), &answering("imported"))).await
    });
    applied.buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
    await_condition("the operator to have no Worker left to reconcile", LIMIT, async || {
        for state in ["waiting", "running"] {
            let series = format!(r#"tenon_operator_queue_depth{{queue="Worker",state="{state}"}}"#);
            let operator = platform.operator().await;
            let metrics = operator.as_ref().context("no operator is running")?.metrics().await?;
            let depth = metrics.lines().find_map(|line| line.strip_prefix(&*series));
            let depth = depth.context("the operator's metrics have no depth")?.trim();
            ensure!(depth == "0", "{depth} Workers are {state}");
        }
        Ok(())
    })
    .await
}

/// Deploys one Worker after another in both namespaces until the import is done, and returns the
/// times until they answered.
async fn deploy_meanwhile(
    platform: &Platform,
    crowded: &Namespace,
    quiet: &Namespace,
    is_done: &Cell<bool>,
) -> anyhow::Result<(Vec<Duration>, Vec<Duration>)> {
    let (mut same, mut other) = (Vec::new(), Vec::new());
    while !is_done.get() {
        sleep(DEPLOY_PAUSE).await;
        let name = format!("new-{}", same.len());
        same.push(first_200(platform, crowded, &name).await?);
        other.push(first_200(platform, quiet, &name).await?);
    }
    Ok((same, other))
}

/// Deploys a Worker, and returns the time until it answers.
async fn first_200(
    platform: &Platform,
    namespace: &Namespace,
    name: &str,
) -> anyhow::Result<Duration> {
    let (host, mut connection) = (namespace.host(name), platform.router.connection());
    let began = Instant::now();
    namespace.apply(&worker(name, &answering(name))).await?;
    loop {
        let answer = connection.get(&host, "/").await?;
        if answer.status == 200 {
            let took = began.elapsed();
            namespace.await_ready(name, ConditionStatus::True).await?;
            return Ok(took);
        }
        ensure!(began.elapsed() < LIMIT, "{host} answers {} {}", answer.status, answer.body);
        sleep(PAUSE).await;
    }
}

/// Returns the number of the operator's writes, by kind of object. Its Lease is not counted.
fn writes(platform: &Platform, log: &AuditLog) -> anyhow::Result<BTreeMap<String, usize>> {
    let account = platform.account().user();
    let mut writes = BTreeMap::new();
    for request in log.requests()? {
        let resource = request.resource();
        if request.user.username == account && request.has_written() && resource != "leases" {
            *writes.entry(resource).or_default() += 1;
        }
    }
    Ok(writes)
}

/// Kills the operator and starts another one while requests go to Workers that no node has run.
/// Returns the time until the other is ready, and the numbers of requests and of failed ones.
async fn replace_operator(
    platform: &Platform,
    hosts: &[String],
) -> anyhow::Result<(Duration, u64, u64)> {
    let is_done = Cell::new(false);
    let replaced = async {
        let mut operator = platform.operator().await;
        operator.take().context("no operator is running")?.kill().await?;
        let began = Instant::now();
        let mut successor = platform.spawn_operator()?;
        platform.route_catalog(&[&successor]);
        successor.await_ready().await?;
        let took = began.elapsed();
        *operator = Some(successor);
        sleep(OBSERVED_AFTER).await;
        Ok::<_, anyhow::Error>(took)
    };
    let replaced = async {
        let replaced = replaced.await;
        is_done.set(true);
        replaced
    };
    let paced = stream::iter(hosts)
        .then(async |host| {
            sleep(REQUEST_PAUSE).await;
            host
        })
        .take_while(|_| std::future::ready(!is_done.get()));
    let answers = paced.map(async |host| {
        let answer = platform.router.connection().get(host, "/").await;
        match answer {
            Ok(answer) if answer.status == 200 => true,
            Ok(answer) => {
                eprintln!("import: {host} answers {} {}", answer.status, answer.body);
                false
            }
            Err(error) => {
                eprintln!("import: {host}: {error:#}");
                false
            }
        }
    });
    let counted = answers
        .buffer_unordered(WAITING)
        .fold((0, 0), async |(all, failed), is_good| (all + 1, failed + u64::from(!is_good)));
    let (replaced, (requests, failed)) = join(replaced, counted).await;
    Ok((replaced?, requests, failed))
}

fn worst(times: &[Duration]) -> Duration {
    times.iter().max().copied().unwrap_or_default()
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 4] {
    [
        Objective::time(
            "a new Worker in a namespace during its import, worst",
            record.map(|record| worst(&record.same)),
            Some(SAME_NAMESPACE_WITHIN),
        ),
        Objective::time(
            "a new Worker in another namespace during an import, worst",
            record.map(|record| worst(&record.other)),
            Some(OTHER_NAMESPACE_WITHIN),
        ),
        Objective::never(
            "failed requests of cold Workers while the only operator is replaced",
            record.map(|record| record.failed),
        ),
        Objective::share(
            "writes of each new Worker, compared with three",
            record.map(|record| record.writes_of_each() / WRITES),
            Some(1.0),
        ),
    ]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "An import of {} Workers into one namespace, reconciled in {}\n",
            self.workers,
            human(self.imported_in)
        )?;
        let mut table =
            Table::new(["apply of a new Worker → first 200", "Workers", "p50", "worst"]);
        for (place, times) in
            [("in the same namespace", &self.same), ("in another namespace", &self.other)]
        {
            let p50 = median(times.iter().map(Duration::as_secs_f64).collect());
            let p50 = human(Duration::from_secs_f64(p50));
            table.row([place.to_owned(), times.len().to_string(), p50, human(worst(times))]);
        }
        writeln!(f, "{table}")?;
        let mut table = Table::new(["the operator's writes", "for each new Worker"]);
        for (kind, count) in &self.writes {
            let each = *count as f64 / self.deployed.max(1) as f64;
            table.row([kind.clone(), format!("{each:.2}")]);
        }
        table.row(["all".to_owned(), format!("{:.2}", self.writes_of_each())]);
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "{} of {} requests to cold Workers failed while the only operator was replaced, in {}\n",
            self.failed,
            self.requests,
            human(self.replaced_in)
        )
    }
}
