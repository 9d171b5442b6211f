//! `tenon revisions`: lists the revisions of a Worker, with their shares of its requests.

use std::io::Write as _;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;
use tenon_crds::{Worker, WorkerRevision};

use crate::cluster::{Cluster, ClusterArgs};
use crate::output::{Output, age, table};

/// The arguments of commands that show a Worker of a cluster.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the Worker.
    #[arg(value_name = "WORKER")]
    worker: String,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Form of the output.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

impl Args {
    /// Reads the Worker and its revisions.
    ///
    /// # Errors
    /// Fails if one of them cannot be read.
    pub(crate) fn read(&self) -> anyhow::Result<(Worker, Vec<Row>)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { read(&self.cluster.connect().await?, &self.worker).await })
    }
}

/// Reads a Worker and its revisions.
///
/// # Errors
/// Fails if one of them cannot be read.
pub(crate) async fn read(cluster: &Cluster, name: &str) -> anyhow::Result<(Worker, Vec<Row>)> {
    let worker = cluster.worker(name).await?;
    let rows = rows(&worker, &cluster.revisions(name).await?);
    Ok((worker, rows))
}

/// Prints the revisions, the latest first.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (_, rows) = args.read()?;
    match args.output {
        Output::Text => print(&rows, Timestamp::now())?,
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
    }
    Ok(())
}

/// A revision of a Worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) created: Option<Timestamp>,
    /// Percentage of the Worker's requests.
    pub(crate) percent: i32,
    /// Hosts of its previews.
    pub(crate) previews: Vec<String>,
    /// Whether it is the latest accepted revision.
    pub(crate) latest: bool,
}

/// Returns the revisions of a Worker: the latest, and then the others, the newest first.
fn rows(worker: &Worker, revisions: &[WorkerRevision]) -> Vec<Row> {
    let status = worker.status.clone().unwrap_or_default();
    let targets = status.targets();
    let mut rows: Vec<_> = revisions
        .iter()
        .map(|revision| {
            let name = revision.name_any();
            let targets = targets.iter().filter(|target| target.revision == name);
            Row {
                created: revision.creation_timestamp().map(|time| time.0),
                percent: targets.clone().map(|target| target.percent).sum(),
                previews: targets.filter_map(|target| target.host.clone()).collect(),
                latest: status.latest_revision.as_deref() == Some(&name),
                name,
            }
        })
        .collect();
    // The latest revision need not be the newest: code that is applied again keeps its old
    // revision.
    rows.sort_by(|a, b| (b.latest, b.created, &a.name).cmp(&(a.latest, a.created, &b.name)));
    rows
}

/// Prints a table of revisions.
pub(crate) fn print(rows: &[Row], now: Timestamp) -> std::io::Result<()> {
    let cells = rows.iter().map(|row| {
        let percent = if row.percent > 0 { format!("{} %", row.percent) } else { "-".to_owned() };
        let age = row.created.map_or_else(|| "-".to_owned(), |created| age(created, now));
        let latest = if row.latest { "latest" } else { "" };
        [row.name.clone(), age, percent, latest.to_owned(), row.previews.join(" ")]
    });
    let header = ["REVISION", "AGE", "REQUESTS", "", "PREVIEWS"].map(str::to_owned);
    let lines = table(std::iter::once(header).chain(cells));
    std::io::stdout().write_all(lines.as_bytes())
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a Worker with this status, and its revisions with the minutes of their creation.
    pub(crate) fn worker(
        status: serde_json::Value,
        revisions: &[(&str, u32)],
    ) -> (Worker, Vec<WorkerRevision>) {
        let worker = json!({
            "apiVersion": "tenon.dev/v1alpha1", "kind": "Worker",
            "metadata": {"name": "cart", "namespace": "shop"},
            "spec": {"source": {"modules": {}}}, "status": status,
        });
        let revisions = revisions.iter().map(|(name, minute)| {
            let created = format!("2026-01-01T00:{minute:02}:00Z");
            serde_json::from_value(json!({
                "apiVersion": "tenon.dev/v1alpha1", "kind": "WorkerRevision",
                "metadata": {"name": name, "namespace": "shop", "creationTimestamp": created},
                "spec": {"worker": "cart", "digest": "", "entrypoint": "a.js", "modules": {}},
            }))
            .unwrap()
        });
        (serde_json::from_value(worker).unwrap(), revisions.collect())
    }

    #[test]
    fn the_latest_revision_serves_all_requests_by_default() {
        let (worker, revisions) =
            worker(json!({"latestRevision": "cart-1"}), &[("cart-1", 1), ("cart-2", 2)]);
        let rows = rows(&worker, &revisions);
        let shares: Vec<_> = rows.iter().map(|row| (&*row.name, row.percent, row.latest)).collect();
        assert_eq!(shares, [("cart-1", 100, true), ("cart-2", 0, false)]);
    }

    #[test]
    fn the_accepted_shares_and_previews_are_listed() {
        let traffic = json!([
            {"revision": "cart-1", "percent": 90},
            {"revision": "cart-2", "percent": 10, "tag": "next", "host": "next--cart"},
        ]);
        let accepted = json!({"pool": "default", "routes": [], "traffic": traffic});
        let status = json!({"latestRevision": "cart-2", "accepted": accepted});
        let (worker, revisions) = worker(status, &[("cart-0", 0), ("cart-1", 1), ("cart-2", 2)]);
        let rows = rows(&worker, &revisions);
        let shares: Vec<_> = rows.iter().map(|row| (&*row.name, row.percent)).collect();
        assert_eq!(shares, [("cart-2", 10), ("cart-1", 90), ("cart-0", 0)]);
        assert_eq!(rows[0].previews, ["next--cart"]);
    }
}
