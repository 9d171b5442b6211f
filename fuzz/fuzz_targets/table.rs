//! Fuzzes a router's table. After any sequence of catalog messages, the table finds the route that
//! a linear search finds.

#![no_main]

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use tenon_proto::catalog::{Node, Route, WatchResponse, Worker};
use tenon_proto::id::WorkerId;
use tenon_table::Table;

/// Generates text from a small alphabet, so that names collide.
fn text(u: &mut Unstructured<'_>, letters: &[&str], max_length: usize) -> Result<String> {
    (0..u.int_in_range(0..=max_length)?).map(|_| u.choose(letters).copied()).collect()
}

fn host(u: &mut Unstructured<'_>) -> Result<String> {
    text(u, &["a", "b", "A", ".", "*.", "é"], 6)
}

fn path(u: &mut Unstructured<'_>) -> Result<String> {
    Ok(format!("/{}", text(u, &["a", "b", "/", ".", "%"], 6)?))
}

fn message(u: &mut Unstructured<'_>) -> Result<WatchResponse> {
    if u.ratio(1, 8)? {
        return Ok(prost::Message::decode(<&[u8]>::arbitrary(u)?).unwrap_or_default());
    }
    let id = |u: &mut Unstructured<'_>| Ok(format!("t/{}", text(u, &["a", "b", "/"], 2)?));
    let worker = |u: &mut Unstructured<'_>| {
        let routes =
            (0..u.int_in_range(0..=3)?).map(|_| Ok(Route { host: host(u)?, path: path(u)? }));
        let routes = routes.collect::<Result<_>>()?;
        Ok(Worker {
            id: id(u)?,
            digest: vec![u.arbitrary()?; 32],
            routes,
            pool: "p".into(),
            ..Worker::default()
        })
    };
    let node = |u: &mut Unstructured<'_>| {
        let mut ports =
            || (0..u.int_in_range(0..=3)?).map(|_| u.arbitrary()).collect::<Result<_>>();
        let (shard_ports, lane_ports) = (ports()?, ports()?);
        let (name, state) = (text(u, &["a", "b"], 2)?, u.int_in_range(0..=3)?);
        Ok(Node { name, pool: "p".into(), address: "n".into(), shard_ports, lane_ports, state })
    };
    Ok(WatchResponse {
        workers: (0..u.int_in_range(0..=3)?).map(|_| worker(u)).collect::<Result<_>>()?,
        removed_workers: (0..u.int_in_range(0..=2)?).map(|_| id(u)).collect::<Result<_>>()?,
        nodes: (0..u.int_in_range(0..=2)?).map(|_| node(u)).collect::<Result<_>>()?,
        removed_nodes: (0..u.int_in_range(0..=1)?)
            .map(|_| text(u, &["a", "b"], 2))
            .collect::<Result<_>>()?,
        ..WatchResponse::default()
    })
}

/// A model of the table: each Worker with its routes, and each route with the last Worker that
/// claimed it.
#[derive(Default)]
struct Model {
    workers: BTreeMap<String, Vec<(String, String)>>,
    routes: BTreeMap<(String, String), String>,
}

impl Model {
    fn apply(&mut self, message: &WatchResponse) {
        let ids = message.workers.iter().filter(|worker| Self::accepts(worker));
        let changed: Vec<_> = ids.collect();
        for id in message.removed_workers.iter().chain(changed.iter().map(|worker| &worker.id)) {
            for route in self.workers.remove(id).unwrap_or_default() {
                if self.routes.get(&route) == Some(id) {
                    self.routes.remove(&route);
                }
            }
        }
        for worker in changed {
            let route = |route: &Route| {
                (route.host.to_ascii_lowercase(), route.path.trim_end_matches('/').to_owned())
            };
            let routes: Vec<_> = worker.routes.iter().map(route).collect();
            self.routes.extend(routes.iter().map(|route| (route.clone(), worker.id.clone())));
            self.workers.insert(worker.id.clone(), routes);
        }
    }

    fn accepts(worker: &Worker) -> bool {
        let ids = worker.services.iter().chain([&worker.id]);
        worker.digest.len() == 32 && ids.map(|id| id.parse::<WorkerId>()).all(|id| id.is_ok())
    }

    fn find(&self, host: &str, path: &str) -> Option<&str> {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let below = |pattern: &str| {
            pattern
                .strip_prefix('*')
                .is_some_and(|suffix| suffix.starts_with('.') && host.ends_with(suffix))
        };
        let within = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_exact = |pattern: &str| !pattern.starts_with("*.");
        let is_host =
            |pattern: &str| if is_exact(pattern) { pattern == host } else { below(pattern) };
        let fits = |(pattern, prefix): &&(String, String)| is_host(pattern) && within(prefix);
        // An exact host precedes the longest wildcard; within a host, the longest path wins.
        let key = |(pattern, prefix): &&(String, String)| {
            (is_exact(pattern), pattern.len(), prefix.len())
        };
        let best = self.routes.keys().filter(fits).max_by_key(key);
        best.map(|route| self.routes[route].as_str())
    }
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let (mut table, mut model) = (Table::default(), Model::default());
    for _ in 0..u.int_in_range(1..=4)? {
        let message = message(u)?;
        // If one message has two Workers with the same id, the last one serves, and nothing is
        // guaranteed about the routes of the first.
        let mut names: Vec<_> = message.workers.iter().map(|worker| &worker.id).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() < message.workers.len() {
            table.apply(message);
            return Ok(());
        }
        model.apply(&message);
        table.apply(message);
        assert_eq!(table.worker_count(), model.workers.len());
        assert_eq!(table.route_count(), model.routes.len());
    }
    for _ in 0..4 {
        let (host, path) = (host(u)?, path(u)?);
        let found = table.route(&host, &path).map(|worker| worker.id.as_str());
        assert_eq!(found, model.find(&host, &path), "{host} {path} among {:?}", model.routes);
        assert_eq!(
            table.route(&format!("{host}:80"), &path).map(|worker| worker.id.as_str()),
            found
        );
    }
    for worker in model.workers.keys().filter_map(|id| id.parse().ok()) {
        let pin = table.pinned(&worker);
        assert_eq!(pin.is_some(), table.pool("p").is_some_and(|pool| !pool.shards.is_empty()));
    }
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    // Input that ends early is still a valid test.
    let _ = run(&mut Unstructured::new(data));
});
