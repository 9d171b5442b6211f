//! What is done with a script: it runs beside a neighbour on one shard, and both are watched.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use libtest_mimic::Trial;
use tenon_proto::failure::{Failure, Phase};
use tenon_runtime_node::engine::{FetchResponse, RequestBody};

use crate::harness::{self, Loaded, Shard, Text as _, Worker};
use crate::script::{End, Script};

/// A Worker that waits a little, so that its event loop is at work while the hostile one runs.
const NEIGHBOUR: &str = "
    await new Promise((resolve) => setTimeout(resolve, 1));
    return new Response(`${new URL(request.url).pathname} for ${env.WHO}`)";

/// What a script may have its neighbour wait for beyond its own CPU limit: CPU time of the thread that they share, as the
/// machine may have other things to do.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn trial(script: Script) -> Trial {
    harness::trial(script.name.clone(), move |shard| Box::pin(play(script, shard)))
}

async fn play(script: Script, shard: Rc<Shard>) {
    let neighbour = Neighbour::start(&shard).await;
    let over = Cell::new(false);
    let hostile = async {
        let ends = requests(&script, &shard).await;
        over.set(true);
        ends
    };
    let (ends, longest) = tokio::join!(hostile, neighbour.ask_until(&over));
    for end in &ends {
        assert!(script.ends.iter().any(|expected| expected.is(end)), "{:?} was due, {end:?} came", script.ends);
    }
    for _ in 0..5 {
        neighbour.ask().await;
    }
    // Several may be using up their time in one go.
    let limit = script.limits.cpu_ms.max(script.limits.startup_ms) * script.at_once as u32;
    let allowed = Duration::from_millis(limit.into()) + GRACE;
    assert!(longest < allowed, "the neighbour waited for {longest:?}");
    let innocent = shard.handler("return new Response('well')").start().await.unwrap();
    assert_eq!(innocent.get("/").await.unwrap().text(), "well");
    for expected in &script.logs {
        assert!(shard.logged(expected), "no line of the log has {expected:?}: {:#?}", shard.log());
    }
    let lines = shard.log().len();
    assert!(script.lines.is_none_or(|most| lines <= most), "{lines} lines were logged");
}

/// How each request ended.
async fn requests(script: &Script, shard: &Shard) -> Vec<Result<String, Failure>> {
    let mut ends = Vec::new();
    let mut running: Option<Loaded> = None;
    for _ in 0..script.requests {
        // As a pool would: what is condemned is replaced.
        let isolate = match running.take().filter(|isolate| isolate.0.condemned().is_none()) {
            Some(isolate) => isolate,
            None => match worker(script, shard).start().await {
                Ok(isolate) => isolate,
                Err(failure) => return vec![Err(failure)],
            },
        };
        let text = |response: FetchResponse| String::from_utf8_lossy(&response.body).into_owned();
        let all = (0..script.at_once).map(|_| async { request(script, &isolate).await.map(text) });
        ends.extend(join_all(all).await);
        isolate.0.idle().await;
        running = Some(isolate);
    }
    ends
}

async fn request(script: &Script, isolate: &Loaded) -> Result<FetchResponse, Failure> {
    if script.body.is_empty() {
        isolate.get("/").await
    } else {
        isolate.post(RequestBody::Full(Bytes::from(script.body.clone()))).await
    }
}

fn worker(script: &Script, shard: &Shard) -> Worker {
    let modules: Vec<_> = script.modules.iter().map(|(name, source)| (&name[..], &source[..])).collect();
    shard.modules(&modules).limits(|limits| *limits = script.limits).secret("SECRET", "the hostile Worker's own")
}

impl End {
    fn is(&self, end: &Result<String, Failure>) -> bool {
        match (self, end) {
            (Self::Answer(expected), Ok(text)) => expected == text,
            (Self::StartFailure(code), Err(failure)) => failure.phase == Phase::Start && failure.code.as_str() == code,
            (Self::Failure(code), Err(failure)) => failure.phase == Phase::Handler && failure.code.as_str() == code,
            _ => false,
        }
    }
}

/// The Worker that must not notice.
struct Neighbour {
    isolate: Loaded,
    asked: Cell<usize>,
}

impl Neighbour {
    async fn start(shard: &Shard) -> Self {
        let isolate = shard.handler(NEIGHBOUR).secret("WHO", "the neighbour").start().await.unwrap();
        let neighbour = Self { isolate, asked: Cell::new(0) };
        neighbour.ask().await;
        neighbour
    }

    /// Asks it something and checks the answer.
    async fn ask(&self) {
        let number = self.asked.replace(self.asked.get() + 1);
        let response = self.isolate.get(&format!("/{number}")).await.expect("the neighbour answers");
        assert_eq!(response.text(), format!("/{number} for the neighbour"));
    }

    /// Asks it again and again. Returns the longest that an answer took, in CPU time of this thread.
    async fn ask_until(&self, over: &Cell<bool>) -> Duration {
        let mut longest = Duration::ZERO;
        while !over.get() {
            let asked = cpu_time();
            self.ask().await;
            longest = longest.max(cpu_time() - asked);
        }
        longest
    }
}

/// What this thread has had of the CPU.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = stat.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("its first number is time on the CPU, in nanoseconds"))
}
