//! Runs a script beside a neighbor on one shard, and watches both.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use libtest_mimic::Trial;
use tenon_engine::{Body, FetchResponse, Headroom};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_web::Web;

use crate::ends;
use crate::harness::{self, Loaded, Shard, Text as _, Worker};
use crate::script::{End, Script};
use crate::waits::{self, Baseline, TooLong, Waits};

/// The neighbor's handler body, which waits briefly, so that the shard's event loop is active while
/// the hostile Worker runs.
const NEIGHBOR: &str = "
    await new Promise((resolve) => setTimeout(resolve, 1));
    return new Response(`${new URL(request.url).pathname} for ${env.WHO}`)";

/// A handler body that does a few milliseconds of work, which V8 performs in one uninterrupted
/// piece.
const PIECE: &str = "
    new Float64Array(1 << 16).map((_, n) => (n * 2654435761) % 4294967296).sort();
    return new Response('done')";

/// The maximum number of tries for a script that exceeds a time limit or whose neighbor waits too
/// long. Other load on the machine only adds to these times, so the shortest of several waits
/// bounds the delay that the script itself can cause.
const TRIES: usize = 30;

/// Failures that a slow machine may have caused.
const TIME_LIMITS: [FailureCode; 2] =
    [FailureCode::CpuLimitExceeded, FailureCode::WallLimitExceeded];

/// A result that a slow machine may have caused.
#[derive(Debug, thiserror::Error)]
enum Slow {
    #[error(transparent)]
    Waited(#[from] TooLong),
    #[error("{0}")]
    Ended(String),
}

/// The number of requests to the neighbor while nothing else runs.
const ALONE: usize = 50;

/// The number of runs of [`PIECE`].
const PIECES: usize = 3;

pub(crate) fn trial(script: Script) -> Trial {
    if ends::needs_a_process(&script.name) {
        return ends::trial(script.name);
    }
    let make = || harness::engine(Web::default()).with_headroom(Headroom::within(ends::MEMORY));
    harness::trial_on(script.name.clone(), make, move |shard| Box::pin(run(script, shard)))
}

async fn run(script: Script, shard: Rc<Shard>) {
    for _ in 1..TRIES {
        match run_once(&script, &shard).await {
            Ok(()) => return,
            Err(slow) => println!("{} runs again: {slow}", script.name),
        }
    }
    if let Err(slow) = run_once(&script, &shard).await {
        panic!("{slow}");
    }
}

async fn run_once(script: &Script, shard: &Rc<Shard>) -> Result<(), Slow> {
    let logged_before = shard.log().len();
    let neighbor = Neighbor::start(shard).await;
    let baseline = baseline(&neighbor, shard).await;
    let progress = Progress::default();
    let hostile = async {
        let ends = requests(script, shard, &progress).await;
        progress.is_over.set(true);
        ends
    };
    let (ends, waits) = tokio::join!(hostile, neighbor.check_until(&progress));
    for end in ends {
        if script.ends.iter().any(|expected| expected.is(&end)) {
            continue;
        }
        let other = format!("expected one of {:?}, got {end:?}", script.ends);
        // On a slow machine a script may hit a time limit before the limit that it expects.
        assert!(end.is_err_and(|failure| TIME_LIMITS.contains(&failure.code)), "{other}");
        return Err(Slow::Ended(other));
    }
    for _ in 0..5 {
        neighbor.check().await;
    }
    let innocent = shard.handler("return new Response('well')").start().await.unwrap();
    assert_eq!(innocent.get("/").await.unwrap().text(), "well");
    for expected in &script.logs {
        assert!(shard.logged(expected), "no log line contains {expected:?}: {:#?}", shard.log());
    }
    let lines = shard.log().len() - logged_before;
    assert!(script.lines.is_none_or(|most| lines <= most), "{lines} lines were logged");
    Ok(waits::expect_short(script, &waits, &baseline)?)
}

/// Measures the neighbor's requests and V8's own work on this machine while nothing else runs.
async fn baseline(neighbor: &Neighbor, shard: &Shard) -> Baseline {
    let (mut alone, mut grace) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ALONE {
        alone = alone.max(neighbor.wait().await);
    }
    let piece = shard.handler(PIECE).start().await.unwrap();
    for _ in 0..PIECES {
        let begun = cpu_time();
        piece.get("/").await.expect("the reference work failed");
        grace = grace.max(cpu_time() - begun);
    }
    Baseline { alone, grace }
}

/// Sends the script's requests and returns how each of them ended.
async fn requests(
    script: &Script,
    shard: &Shard,
    progress: &Progress,
) -> Vec<Result<String, Failure>> {
    let mut ends = Vec::new();
    let mut running: Vec<Option<Loaded>> = vec![None; script.revisions.len()];
    for number in 0..script.requests {
        let revision = number % running.len();
        // A condemned isolate is replaced, as in a pool.
        let isolate =
            match running[revision].take().filter(|isolate| isolate.0.condemned().is_none()) {
                Some(isolate) => isolate,
                None => match progress.track_start(worker(script, revision, shard).start()).await {
                    Ok(isolate) => isolate,
                    Err(failure) => return vec![Err(failure)],
                },
            };
        let all =
            (0..script.at_once).map(|_| async { text(request(script, &isolate).await?).await });
        ends.extend(join_all(all).await);
        isolate.0.idle().await;
        running[revision] = Some(isolate);
    }
    ends
}

async fn text(response: FetchResponse) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&response.body.collect().await?).into_owned())
}

async fn request(script: &Script, isolate: &Loaded) -> Result<FetchResponse, Failure> {
    if script.body.is_empty() {
        isolate.get("/").await
    } else {
        isolate.post(Body::Full(Bytes::from(script.body.clone()))).await
    }
}

fn worker(script: &Script, revision: usize, shard: &Shard) -> Worker {
    let modules: Vec<_> =
        script.revisions[revision].iter().map(|(name, source)| (&name[..], &source[..])).collect();
    let worker = shard
        .modules(&modules)
        .limits(|limits| *limits = script.limits)
        .state(script.state)
        .flags(&script.flags);
    let worker = worker.secret("SECRET", "the hostile Worker's own");
    match &script.calls {
        Some(name) => worker.service(name, "other"),
        None => worker,
    }
}

impl End {
    fn is(&self, end: &Result<String, Failure>) -> bool {
        match (self, end) {
            (Self::Answer(expected), Ok(text)) => expected == text,
            (Self::StartFailure(code), Err(failure)) => {
                failure.phase == Phase::Start && failure.code.as_str() == code
            }
            (Self::Failure(code), Err(failure)) => {
                failure.phase == Phase::Handler && failure.code.as_str() == code
            }
            _ => false,
        }
    }
}

/// The Worker that the hostile Worker must not affect.
struct Neighbor {
    isolate: Loaded,
    requests: Cell<usize>,
}

impl Neighbor {
    async fn start(shard: &Shard) -> Self {
        let isolate = shard.handler(NEIGHBOR).secret("WHO", "the neighbor").start().await.unwrap();
        let neighbor = Self { isolate, requests: Cell::new(0) };
        neighbor.check().await;
        neighbor
    }

    /// Sends the neighbor a request and checks the response.
    async fn check(&self) {
        let number = self.requests.replace(self.requests.get() + 1);
        let response =
            self.isolate.get(&format!("/{number}")).await.expect("the neighbor did not respond");
        assert_eq!(response.text(), format!("/{number} for the neighbor"));
    }

    /// Sends the neighbor a request. Returns the CPU time that this thread used until the response
    /// arrived.
    async fn wait(&self) -> Duration {
        let before = cpu_time();
        self.check().await;
        cpu_time() - before
    }

    /// Sends the neighbor requests until the script has ended.
    async fn check_until(&self, progress: &Progress) -> Waits {
        let mut waits = Waits::default();
        while !progress.is_over.get() {
            let begun = progress.begun.get();
            let is_starting = progress.is_starting.get();
            let wait = self.wait().await;
            if is_starting || progress.begun.get() != begun {
                waits.during_starts.push(wait);
            } else {
                waits.during_requests.push(wait);
            }
        }
        waits
    }
}

/// The progress of the hostile Worker.
#[derive(Default)]
struct Progress {
    is_over: Cell<bool>,
    is_starting: Cell<bool>,
    /// The number of isolates that have been started for the hostile Worker.
    begun: Cell<usize>,
}

impl Progress {
    async fn track_start<T>(&self, start: impl Future<Output = T>) -> T {
        self.is_starting.set(true);
        self.begun.set(self.begun.get() + 1);
        let started = start.await;
        self.is_starting.set(false);
        started
    }
}

/// Returns the CPU time of this thread so far.
fn cpu_time() -> Duration {
    let stat =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat is unreadable");
    let nanoseconds = stat.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("schedstat does not begin with the CPU time"))
}
