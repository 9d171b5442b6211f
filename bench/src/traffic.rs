//! Sends requests to many Workers, because wrk sends requests to one host only.
//!
//! ```text
//!  closed  connection 1: request ─► answer ─► request ─► …     as fast as they are answered
//!  open    tick ─► request, tick ─► request, tick ─► …         whether they are answered or not
//! ```
//!
//! A closed loop measures how much a server can serve. It sends fewer requests to a slow server, so
//! it cannot measure the latency of clients that do not adapt to the server. An open loop can. Both
//! loops run on the caller's thread alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tenon_e2e::Connection;
use tokio::time::{MissedTickBehavior, interval};

use crate::quantile::quantile;

/// The outcomes of a number of requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The latencies of the requests that were answered correctly, in seconds.
    latencies: Vec<f64>,
    /// Number of failures, by their cause.
    failures: BTreeMap<String, u64>,
    /// Total time during which requests were sent; in a closed loop, until the last answer.
    duration: Duration,
    /// Number of correct answers that arrived during that time.
    in_time: u64,
}

impl Tally {
    fn add(&mut self, (latency, answer): (Duration, Result<(), String>)) {
        match answer {
            Ok(()) => self.latencies.push(latency.as_secs_f64()),
            Err(why) => *self.failures.entry(why).or_default() += 1,
        }
    }

    /// Adds the outcomes of another run, as if both had been one.
    pub fn merge(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        for (why, count) in other.failures {
            *self.failures.entry(why).or_default() += count;
        }
        self.duration += other.duration;
        self.in_time += other.in_time;
    }

    pub fn requests(&self) -> u64 {
        self.answered() + self.failed()
    }

    pub fn answered(&self) -> u64 {
        self.latencies.len() as u64
    }

    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    pub fn failures(&self) -> &BTreeMap<String, u64> {
        &self.failures
    }

    /// Returns the number of correct answers that arrived while requests were still being sent.
    pub fn in_time(&self) -> u64 {
        self.in_time
    }

    pub fn in_time_per_second(&self) -> f64 {
        self.in_time as f64 / self.duration.as_secs_f64()
    }

    pub fn per_second(&self) -> f64 {
        self.requests() as f64 / self.duration.as_secs_f64()
    }

    pub fn latency(&self, share: f64) -> Duration {
        Duration::from_secs_f64(quantile(self.latencies.clone(), share))
    }
}

/// Sends a request to each of `hosts` in their order, in a closed loop.
///
/// # Arguments
/// * `connections` - the number of connections. Each sends its next request as soon as it has
///   received an answer.
/// * `path` - the path of every request.
pub async fn closed<'a>(
    addr: SocketAddr,
    connections: usize,
    path: &str,
    hosts: impl Iterator<Item = &'a str>,
) -> Tally {
    let (hosts, tally) = (RefCell::new(hosts), RefCell::new(Tally::default()));
    let began = Instant::now();
    let run_connection = async || {
        let mut connection = Connection::to(addr);
        loop {
            let Some(host) = hosts.borrow_mut().next() else { return };
            let outcome = send(&mut connection, host, path).await;
            tally.borrow_mut().add(outcome);
        }
    };
    join_all((0..connections).map(|_| run_connection())).await;
    let mut tally = tally.into_inner();
    (tally.duration, tally.in_time) = (began.elapsed(), tally.answered());
    tally
}

/// The requests that use kept connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Every request.
    Always,
    /// Every other request to a host. Each of the others uses a connection of its own.
    Alternate,
}

/// Sends requests to one host after another at a constant rate, then waits for the outstanding
/// answers.
///
/// # Arguments
/// * `rate` - requests per second, all hosts together.
/// * `duration` - the time during which requests are sent.
pub async fn open(
    addr: SocketAddr,
    rate: u32,
    duration: Duration,
    hosts: &[String],
    reuse: Reuse,
) -> Tally {
    let idle = RefCell::new(Vec::<Connection>::new());
    let send_one = async |host: &str, is_kept: bool| {
        let free = if is_kept { idle.borrow_mut().pop() } else { None };
        let mut connection = free.unwrap_or_else(|| Connection::to(addr));
        let outcome = send(&mut connection, host, "/").await;
        if is_kept {
            idle.borrow_mut().push(connection);
        }
        outcome
    };
    let mut tally = Tally { duration, ..Tally::default() };
    let mut outstanding = FuturesUnordered::new();
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    // The kinds alternate per round of hosts, so that each host gets requests of both kinds.
    let mut is_kept =
        hosts.iter().map(|_| true).chain(hosts.iter().map(|_| reuse == Reuse::Always)).cycle();
    let mut hosts = hosts.iter().cycle();
    let began = Instant::now();
    while began.elapsed() < duration {
        tokio::select! {
            _ = ticks.tick() => {
                let next = hosts.next().zip(is_kept.next());
                outstanding.extend(next.map(|(host, is_kept)| send_one(host, is_kept)));
            }
            Some(outcome) = outstanding.next() => tally.add(outcome),
        }
    }
    tally.in_time = tally.answered();
    while let Some(outcome) = outstanding.next().await {
        tally.add(outcome);
    }
    tally
}

async fn send(
    connection: &mut Connection,
    host: &str,
    path: &str,
) -> (Duration, Result<(), String>) {
    let began = Instant::now();
    let answer = connection.get(host, path).await;
    let latency = began.elapsed();
    let outcome = match answer {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => Err(format!("{} {}", answer.status, code(&answer.body))),
        Err(error) => Err(format!("{error:#}")),
    };
    (latency, outcome)
}

/// Returns the code of the error in `body`, or the whole body if it has no code.
pub fn code(body: &str) -> String {
    let json = serde_json::from_str::<serde_json::Value>(body).ok();
    let code = json.as_ref().and_then(|json| json["error"]["code"].as_str());
    code.unwrap_or(body.trim_end()).to_owned()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Starts a server that responds with status 200, or 503 if the host contains `.bad`. It serves
    /// one request at a time on each connection.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = vec![0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut request).await {
                        let bad = String::from_utf8_lossy(&request[..read]).contains(".bad");
                        let status = if bad { "503 Busy" } else { "200 OK" };
                        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        addr
    }

    #[tokio::test]
    async fn a_closed_loop_sends_every_request_once() {
        let hosts = ["a.good", "b.bad", "c.good", "d.bad", "e.good"];
        let tally = closed(server().await, 2, "/", hosts.into_iter()).await;
        assert_eq!((tally.requests(), tally.answered(), tally.failed()), (5, 3, 2));
        assert_eq!(tally.failures().keys().collect::<Vec<_>>(), ["503 "]);
        assert_eq!(tally.in_time(), 3);
    }

    #[tokio::test]
    async fn an_open_loop_sends_at_its_rate() {
        let duration = Duration::from_millis(200);
        let tally =
            open(server().await, 100, duration, &["a.good".to_owned()], Reuse::Alternate).await;
        // On a busy machine, the loop may send fewer requests than its rate allows, but never more
        // than one per tick. The first tick is immediate.
        assert!((1..=21).contains(&tally.requests()), "{tally:?}");
        assert_eq!(tally.failed(), 0, "{tally:?}");
    }

    #[test]
    fn failures_are_grouped_by_their_code() {
        assert_eq!(
            code(r#"{"error":{"code":"overloaded","message":"x","requestId":"1"}}"#),
            "overloaded"
        );
        assert_eq!(code("upstream is gone\n"), "upstream is gone");
    }

    #[test]
    fn tallies_of_rounds_are_summed() {
        let round = || Tally {
            latencies: vec![0.5],
            failures: BTreeMap::from([("503".to_owned(), 3)]),
            duration: Duration::from_secs(1),
            in_time: 1,
        };
        let mut tally = round();
        tally.merge(round());
        assert_eq!((tally.requests(), tally.failed(), tally.in_time()), (8, 6, 2));
        assert_eq!((tally.per_second(), tally.in_time_per_second()), (4.0, 1.0));
        assert_eq!(tally.latency(0.99), Duration::from_millis(500));
    }
}
