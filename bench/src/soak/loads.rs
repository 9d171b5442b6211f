//! The loads beside the victims. Each load repeats one kind of work endlessly. A failure of the
//! work is not an error, because hostile Workers may end the process that serves it; except for the
//! hostile load itself, only work that succeeds is counted.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Version};
use tenon_e2e::{Connection, WebSocket};
use tenon_proto::id::WorkerId;
use tenon_proto::revision::{Limits, Revision};
use tokio::time::{interval, sleep};

use crate::containment::script::{self, Script};
use crate::streams::{Flow, PASSES, echo};
use crate::tenon::Testbed;

/// Number of Workers that are requested in turn, so that each request is a cold start.
const COLD_WORKERS: usize = 2_000;
const COLD_INTERVAL: Duration = Duration::from_millis(100);

/// Length of a stream, in bytes.
const STREAM_BYTES: u64 = 16 << 20;

/// Number of concurrent streams, and of concurrent WebSockets.
const CONCURRENCY: usize = 4;

/// Number of messages over each WebSocket.
const MESSAGES: usize = 100;

/// Pause between two messages, lookups or hostile requests. It leaves the machine enough CPU time
/// for the victims.
const PAUSE: Duration = Duration::from_millis(20);

/// Number of different keys that are looked up.
const CACHE_KEYS: usize = 1_000;

const SOCKET: &str = "export default {
  fetch() {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.addEventListener('message', ({ data }) => server.send(data));
    return new Response(null, { status: 101, webSocket: client });
  },
};";

const CACHE: &str = "export default {
  async fetch(request) {
    const found = await caches.default.match(request.url);
    if (found !== undefined) return found;
    const made = new Response('x'.repeat(4096), { headers: { 'cache-control': 'max-age=30' } });
    await caches.default.put(request.url, made.clone());
    return made;
  },
};";

/// The Workers of each load, and the number of units of work that each load has completed. The
/// units are cold starts, streams, WebSockets, lookups in caches and requests to hostile Workers.
pub(super) struct Loads {
    cold: Vec<String>,
    stream: String,
    socket: String,
    cache: String,
    hostile: Vec<(Script, Vec<String>)>,
    done: [(&'static str, Cell<u64>); 5],
}

impl Loads {
    /// Deploys the Workers.
    pub(super) fn deploy(testbed: &Testbed, hello: &Bytes) -> Self {
        let one = |name: &str, source: &'static str| {
            let limits = Limits { request_body_mib: 64, wall_ms: 60_000, ..Limits::default() };
            testbed.deploy_for_tenant(name, name, source, limits)
        };
        let cold = |i| {
            testbed.deploy_for_tenant(
                "cold",
                &format!("cold-{i}"),
                hello.clone(),
                Limits::default(),
            )
        };
        let hostile = script::all().into_iter().enumerate().map(|(i, script)| {
            let hosts = revisions(&script, i).map(|revision| testbed.publish(revision)).collect();
            (script, hosts)
        });
        Self {
            cold: (0..COLD_WORKERS).map(cold).collect(),
            stream: one("stream", PASSES),
            socket: one("socket", SOCKET),
            cache: one("cache", CACHE),
            hostile: hostile.collect(),
            done: ["cold starts", "streams", "sockets", "cached responses", "hostile requests"]
                .map(|load| (load, Cell::new(0))),
        }
    }

    /// Returns the number of units of work that each load has completed.
    pub(super) fn done(&self) -> Vec<(&'static str, u64)> {
        self.done.iter().map(|(load, count)| (*load, count.get())).collect()
    }

    /// Generates the loads. This function never returns.
    pub(super) async fn run(&self, addr: SocketAddr) -> Infallible {
        let [cold, streams, sockets, caches, hostile] =
            self.done.each_ref().map(|(_, count)| move || count.set(count.get() + 1));
        let streams =
            futures::future::join_all((0..CONCURRENCY).map(|_| self.streams(addr, streams)));
        let sockets =
            futures::future::join_all((0..CONCURRENCY).map(|_| self.sockets(addr, sockets)));
        tokio::select! {
            never = self.cold(addr, cold) => never,
            never = self.caches(addr, caches) => never,
            never = self.hostile(addr, hostile) => never,
            _ = streams => unreachable!("the streams ended"),
            _ = sockets => unreachable!("the WebSockets ended"),
        }
    }

    async fn cold(&self, addr: SocketAddr, done: impl Fn()) -> Infallible {
        let mut connection = Connection::to(addr);
        let mut ticks = interval(COLD_INTERVAL);
        for host in self.cold.iter().cycle() {
            ticks.tick().await;
            if connection.get(host, "/").await.is_ok() {
                done();
            }
        }
        unreachable!("there are no Workers")
    }

    async fn streams(&self, addr: SocketAddr, done: impl Fn()) -> Infallible {
        let flow = Flow { bytes: STREAM_BYTES, writer_waits: PAUSE, reader_waits: Duration::ZERO };
        loop {
            match echo(addr, &self.stream, flow).await {
                Ok(()) => done(),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn sockets(&self, addr: SocketAddr, done: impl Fn()) -> Infallible {
        loop {
            match exchange_messages(addr, &self.socket).await {
                Ok(()) => done(),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn caches(&self, addr: SocketAddr, done: impl Fn()) -> Infallible {
        let mut connection = Connection::to(addr);
        loop {
            let path = format!("/{}", fastrand::usize(..CACHE_KEYS));
            if connection.get(&self.cache, &path).await.is_ok_and(|answer| answer.status == 200) {
                done();
            }
            sleep(PAUSE).await;
        }
    }

    async fn hostile(&self, addr: SocketAddr, done: impl Fn()) -> Infallible {
        for (script, hosts) in self.hostile.iter().cycle() {
            for host in hosts.iter().cycle().take(script.requests.max(hosts.len())) {
                let send = async || {
                    let method = if script.body.is_empty() { Method::GET } else { Method::POST };
                    let body = Bytes::from(script.body.clone());
                    Connection::to(addr).send(method, host, "/", body).await
                };
                let requests = (0..script.at_once).map(|_| send());
                let answers = futures::future::join_all(requests).await;
                answers.iter().for_each(|_| done());
                sleep(PAUSE).await;
            }
        }
        unreachable!("there are no scripts")
    }
}

/// Sends messages over a WebSocket. Each message is sent once the previous one has come back.
async fn exchange_messages(addr: SocketAddr, host: &str) -> anyhow::Result<()> {
    let mut socket = WebSocket::open(addr, Version::HTTP_11, host, "chat").await?;
    for _ in 0..MESSAGES {
        socket.send_and_receive("how are you?").await?;
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Returns the revisions of a script, each of a Worker of its own.
fn revisions(script: &Script, number: usize) -> impl Iterator<Item = Revision> {
    script.revisions.iter().enumerate().map(move |(i, modules)| {
        let modules =
            modules.iter().map(|(name, source)| (name.clone(), Bytes::from(source.clone())));
        Revision {
            limits: script.limits,
            state: script.state,
            compatibility_flags: script.flags.clone(),
            ..Revision::with_modules(
                WorkerId::new("hostile", &format!("script-{number}-{i}")),
                modules,
            )
        }
    })
}
