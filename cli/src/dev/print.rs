//! The terminal output of `tenon dev`: a few lines for each event.

use std::net::SocketAddr;

use tenon_proto::catalog::watch_response::Kind;
use tenon_proto::catalog::{Node, Route, WatchResponse, Worker};
use tenon_table::Table;

use crate::load::Loaded;
use crate::served_workers::{Changes, ServedWorkers};

pub(super) fn listening(addr: SocketAddr, domain: &str) {
    println!(
        "Tenon serves on {}\n",
        url(addr, &Route { host: domain.to_owned(), path: "/".to_owned() })
    );
}

pub(super) fn inspecting(addr: SocketAddr) {
    println!("Debuggers connect to {addr}; the targets are at http://{addr}/json/list");
    if !addr.ip().is_loopback() {
        println!(
            "  note: any program that can connect to this address can run code in the Workers"
        );
    }
    println!();
}

pub(super) fn ready() {
    println!("\nReady. Save a file to reload its Workers; press Ctrl-C to exit.\n");
}

/// A printer of changes, with the URLs and the pinned shard of each Worker.
pub(super) struct Printer<'a> {
    addr: SocketAddr,
    pool: &'a str,
    nodes: &'a [Node],
}

impl<'a> Printer<'a> {
    pub(super) fn new(addr: SocketAddr, pool: &'a str, nodes: &'a [Node]) -> Self {
        Self { addr, pool, nodes }
    }

    pub(super) fn changes(&self, changes: &Changes, workers: &ServedWorkers) {
        changes.removed.iter().for_each(|id| println!("- {id}  removed"));
        changes.served.iter().for_each(|loaded| println!("+ {}", self.worker(loaded)));
        changes.notes.iter().for_each(|note| println!("  note: {note}"));
        for problem in &changes.problems {
            eprintln!("! {problem}");
            if problem.worker.as_ref().is_some_and(|id| workers.serves(id)) {
                eprintln!("  the last good revision keeps serving");
            }
        }
        if changes.all_resolved {
            println!("  all problems are resolved");
        }
    }

    /// Formats a Worker's id, revision, pinned shard and URLs.
    fn worker(&self, loaded: &Loaded) -> String {
        let urls: Vec<_> = loaded.routes.iter().map(|route| url(self.addr, route)).collect();
        let pin = self.pin(loaded).unwrap_or_else(|| "no node".to_owned());
        format!(
            "{}  {}  on {pin}  {}",
            loaded.revision.worker,
            loaded.digest.short(),
            urls.join("  ")
        )
    }

    /// Returns the node and shard that a Worker is pinned to, by building a router's table, which
    /// is a pure function of the catalog.
    fn pin(&self, loaded: &Loaded) -> Option<String> {
        let mut response = WatchResponse {
            workers: vec![Worker {
                id: loaded.revision.worker.to_string(),
                pool: self.pool.to_owned(),
                digest: loaded.digest.as_bytes().to_vec(),
                ..Worker::default()
            }],
            nodes: self.nodes.to_vec(),
            ..WatchResponse::default()
        };
        response.set_kind(Kind::SnapshotEnd);
        let mut table = Table::default();
        table.apply(response);
        let pin = table.pinned(&loaded.revision.worker)?;
        Some(format!("{}/{}", pin.node, pin.shard))
    }
}

/// Returns a route's URL, which terminals make clickable. A wildcard host is kept as it is.
pub(super) fn url(addr: SocketAddr, route: &Route) -> String {
    let port = if addr.port() == 80 { String::new() } else { format!(":{}", addr.port()) };
    format!("http://{}{port}{}", route.host, route.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leaves_out_the_default_port() {
        let route = Route { host: "a.localhost".into(), path: "/api".into() };
        assert_eq!(url(([127, 0, 0, 1], 80).into(), &route), "http://a.localhost/api");
        assert_eq!(url(([127, 0, 0, 1], 8080).into(), &route), "http://a.localhost:8080/api");
    }
}
