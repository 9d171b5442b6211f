//! A harness that starts Workers from strings and collects their results and logs.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::Trial;
use tenon_engine::{
    Body, Bytecode, CallContext, Engine, FetchRequest, FetchResponse, Isolate, ResponseBody,
    Watchdog,
};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::revision::{
    Binding, BoundService, CompatibilityFlag, Limits, Revision, StatePolicy,
};
use tenon_proto::runtime::Header;
use tenon_web::{Services, Web};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The time after which a test fails, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Lists tests. Each test is named after its async function, receives a new [`Shard`], and runs on
/// a thread of its own.
#[allow(unused_macros)] // The suite of hostile Workers makes its tests from files.
macro_rules! trials {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$($crate::harness::trial(stringify!($name).to_owned(), |shard| Box::pin($name(shard)))),+]
        }
    };
}
#[allow(unused_imports)]
pub(crate) use trials;

pub(crate) type Running = Pin<Box<dyn Future<Output = ()>>>;

static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();

pub(crate) fn trial(
    name: String,
    test: impl FnOnce(Rc<Shard>) -> Running + Send + 'static,
) -> Trial {
    trial_on(name, || engine(Web::default()), test)
}

/// Returns an engine whose Workers have these interfaces.
pub(crate) fn engine(web: Web) -> Engine {
    Engine::new(WATCHDOG.get_or_init(Watchdog::spawn), ShardId(0), Rc::new(web))
}

/// Returns a test whose shard uses a given engine.
///
/// # Arguments
/// * `make` - creates the engine.
pub(crate) fn trial_on(
    name: String,
    make: fn() -> Engine,
    test: impl FnOnce(Rc<Shard>) -> Running + Send + 'static,
) -> Trial {
    Trial::test(name.clone(), move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shard = Rc::new(Shard { name, engine: Rc::new(make()) });
        let test = async { tokio::time::timeout(TIMEOUT, test(shard)).await };
        tokio::task::LocalSet::new()
            .block_on(&runtime, test)
            .map_err(|_| "the test timed out".into())
    })
}

/// The engine on which a test runs its Workers.
pub(crate) struct Shard {
    name: String,
    pub(crate) engine: Rc<Engine>,
}

impl Shard {
    /// Returns a Worker of one module.
    pub(crate) fn worker(&self, source: &str) -> Worker {
        self.modules(&[("worker.js", source)])
    }

    /// Returns a Worker whose handler has this function body, with parameters `request`, `env` and
    /// `ctx`.
    pub(crate) fn handler(&self, body: &str) -> Worker {
        self.worker(&format!("export default {{ async fetch(request, env, ctx) {{ {body} }} }}"))
    }

    /// Returns a Worker of several modules, the first of which is the entrypoint.
    pub(crate) fn modules(&self, modules: &[(&str, &str)]) -> Worker {
        let module =
            |(name, source): &(&str, &str)| ((*name).to_owned(), Bytes::from((*source).to_owned()));
        Worker {
            engine: Rc::clone(&self.engine),
            revision: Revision {
                name: "first".to_owned(),
                entrypoint: modules[0].0.to_owned(),
                limits: Limits { cpu_ms: 100, startup_ms: 2_000, ..Limits::default() },
                ..Revision::with_modules(
                    WorkerId::new("test", &self.name),
                    modules.iter().map(module),
                )
            },
        }
    }

    /// Returns a shard whose Workers' calls to other Workers go to `services`.
    #[allow(dead_code)] // Not every suite uses it.
    pub(crate) fn with_services(&self, services: Rc<dyn Services>) -> Rc<Self> {
        self.on(engine(Web::default().with_services(services)))
    }

    /// Returns a shard of this test with another engine.
    pub(crate) fn on(&self, engine: Engine) -> Rc<Self> {
        Rc::new(Self { name: self.name.clone(), engine: Rc::new(engine) })
    }

    /// Returns the lines that the test's Workers have logged so far, as `LEVEL [id] text` with
    /// the id of the request. Outside a request, the id is empty.
    pub(crate) fn log(&self) -> Vec<String> {
        let lines = LOG.lines();
        lines
            .iter()
            .filter(|line| line.worker == format!("test/{}", self.name))
            .map(Line::to_string)
            .collect()
    }

    /// Returns whether a Worker of the test has logged a line that contains `part`.
    pub(crate) fn logged(&self, part: &str) -> bool {
        self.log().iter().any(|line| line.contains(part))
    }

    /// Checks that a new Worker of the shard starts and responds.
    pub(crate) async fn expect_a_neighbor_to_answer(&self) {
        let neighbor = self
            .handler("return new Response('well')")
            .start()
            .await
            .expect("the neighbor did not start");
        assert_eq!(neighbor.get("/").await.expect("the neighbor did not respond").text(), "well");
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} logged {:#?}", self.name, self.log());
        }
    }
}

/// A Worker that has not been started.
pub(crate) struct Worker {
    engine: Rc<Engine>,
    revision: Revision,
}

impl Worker {
    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.revision.limits);
        self
    }

    pub(crate) fn state(mut self, policy: StatePolicy) -> Self {
        self.revision.state = policy;
        self
    }

    #[allow(dead_code)] // Not every suite uses it.
    pub(crate) fn flags(mut self, flags: &BTreeSet<CompatibilityFlag>) -> Self {
        self.revision.compatibility_flags.clone_from(flags);
        self
    }

    /// Adds another Worker of the namespace as a binding.
    #[allow(dead_code)] // Not every suite uses it.
    pub(crate) fn service(mut self, name: &str, worker: &str) -> Self {
        self.revision
            .bindings
            .insert(name.to_owned(), Binding::Service(WorkerId::new("test", worker).into()));
        self
    }

    /// Adds an export of another Worker of the namespace as a binding.
    #[allow(dead_code)] // Not every suite uses it.
    pub(crate) fn entrypoint(mut self, name: &str, worker: &str, export: &str) -> Self {
        let worker = WorkerId::new("test", worker);
        let service = BoundService { worker, entrypoint: Some(export.to_owned()) };
        self.revision.bindings.insert(name.to_owned(), Binding::Service(service));
        self
    }

    /// Binds the static files.
    #[allow(dead_code)] // Not every suite uses it.
    pub(crate) fn assets(mut self, name: &str) -> Self {
        self.revision.bindings.insert(name.to_owned(), Binding::Assets);
        self
    }

    pub(crate) fn var(mut self, name: &str, value: &str) -> Self {
        self.revision.bindings.insert(name.to_owned(), Binding::Var(value.to_owned()));
        self
    }

    pub(crate) fn module(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.revision.modules.insert(name.to_owned(), Bytes::copy_from_slice(content.as_ref()));
        self
    }

    pub(crate) fn secret(mut self, name: &str, value: &str) -> Self {
        self.revision.bindings.insert(name.to_owned(), Binding::Secret(value.to_owned()));
        self
    }

    pub(crate) async fn start(self) -> Result<Loaded, Failure> {
        self.start_with(None).await
    }

    pub(crate) async fn start_with(
        self,
        bytecode: Option<Arc<Bytecode>>,
    ) -> Result<Loaded, Failure> {
        let digest = self.revision.digest();
        Isolate::start(&self.engine, digest, Rc::new(self.revision), bytecode).await.map(Loaded)
    }

    /// Starts the Worker and sends it one request.
    pub(crate) async fn get(self) -> Result<FetchResponse, Failure> {
        self.start().await?.get("/").await
    }

    /// Starts the Worker, sends it one request, and returns its failure.
    pub(crate) async fn failure(self) -> (FailureCode, Phase) {
        let failure = self.get().await.expect_err("the Worker did not fail");
        (failure.code, failure.phase)
    }
}

/// A Worker that is running.
#[derive(Clone)]
pub(crate) struct Loaded(pub(crate) Rc<Isolate>);

impl Loaded {
    pub(crate) async fn get(&self, path: &str) -> Result<FetchResponse, Failure> {
        self.0.fetch(request(path)).await
    }

    pub(crate) async fn post(&self, body: Body) -> Result<FetchResponse, Failure> {
        self.0.fetch(FetchRequest { method: "POST".to_owned(), body, ..request("/") }).await
    }
}

pub(crate) fn request(path: &str) -> FetchRequest {
    FetchRequest {
        request_id: format!("request{path}"),
        method: "GET".to_owned(),
        url: format!("https://worker.test{path}"),
        headers: vec![Header {
            name: "x-greeting".to_owned(),
            value: Bytes::from_static(b"hello"),
        }],
        body: Body::Full(Bytes::new()),
        entry: None,
        call_context: CallContext::default(),
    }
}

pub(crate) trait Text {
    fn text(&self) -> &str;
}

impl Text for FetchResponse {
    fn text(&self) -> &str {
        match &self.body {
            ResponseBody::Full(body) => std::str::from_utf8(body).expect("the body is not UTF-8"),
            ResponseBody::Stream(_) => panic!("the body is a stream: collect it"),
        }
    }
}

/// Polls a condition that gives no notification, and panics after [`TIMEOUT`].
pub(crate) async fn await_condition(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, wait)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for {what}"));
}

struct Line {
    worker: String,
    level: tracing::Level,
    invocation: String,
    text: String,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}] {}", self.level, self.invocation, self.text)
    }
}

struct Log(Mutex<Vec<Line>>);

static LOG: Log = Log(Mutex::new(Vec::new()));

impl Log {
    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<Line>> {
        self.0.lock().expect("nothing panics while it holds the log")
    }
}

/// Collects the lines of all Workers of the process.
pub(crate) fn collect_logs() {
    let subscriber = tracing_subscriber::registry().with(Collector);
    tracing::subscriber::set_global_default(subscriber).expect("a subscriber is already set");
}

struct Collector;

impl<S: tracing::Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != "tenon::worker" {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { worker, invocation, text } = fields;
        LOG.lines().push(Line { worker, level: *event.metadata().level(), invocation, text });
    }
}

#[derive(Default)]
struct Fields {
    worker: String,
    invocation: String,
    text: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "worker" => value.clone_into(&mut self.worker),
            "invocation" => value.clone_into(&mut self.invocation),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        }
    }
}
