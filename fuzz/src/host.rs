//! A Worker in a real isolate, which receives one request after another.
//!
//! The Workers are in `fuzz/workers`. Each Worker does with the input what a tenant could do. It
//! responds with 200 if all of its checks held (101 if it accepted a WebSocket), and otherwise with
//! a description of the check that failed. A limit may be exceeded; the condemned isolate is then
//! replaced.

use std::rc::Rc;

use bytes::Bytes;
use tenon_engine::{Body, CallContext, Engine, FetchRequest, FetchResponse, Isolate, Watchdog};
use tenon_proto::egress::Egress;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::revision::{CompatibilityFlag, Limits, Revision};
use tenon_web::Web;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// The name and the source of a module that Workers can import.
const SHARED: (&str, &str) = ("check.js", include_str!("../workers/check.js"));

/// Failures that hostile bytes may cause: exceeded limits, and an invalid request.
const EXPECTED: [FailureCode; 4] = [
    FailureCode::BadRequest,
    FailureCode::CpuLimitExceeded,
    FailureCode::MemoryLimitExceeded,
    FailureCode::WallLimitExceeded,
];

/// A Worker and the engine that runs it. A host belongs to the main thread.
pub struct Host {
    runtime: Runtime,
    tasks: LocalSet,
    engine: Rc<Engine>,
    revision: Rc<Revision>,
    isolate: Option<Rc<Isolate>>,
}

impl Host {
    /// Initializes V8 and prepares the Worker. This function must be called once, before any thread
    /// is spawned.
    ///
    /// # Arguments
    /// * `source` - the source text of the Worker.
    pub fn new(source: &'static str) -> Self {
        tenon_engine::init();
        let module = |(name, source): (&str, &'static str)| {
            (name.to_owned(), Bytes::from_static(source.as_bytes()))
        };
        let modules = [module(("worker.js", source)), module(SHARED)];
        let revision = Revision {
            // The limits are high, because code is slower under a sanitizer.
            limits: Limits { cpu_ms: 500, startup_ms: 20_000, wall_ms: 5_000, ..Limits::default() },
            // No outbound connection is allowed.
            egress: Egress::Only(Vec::new()),
            compatibility_flags: [CompatibilityFlag::NodejsCompat].into(),
            ..Revision::with_modules(WorkerId::new("fuzz", "worker"), modules)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self {
            runtime: runtime.expect("cannot create a runtime"),
            tasks: LocalSet::new(),
            engine: Rc::new(Engine::new(&Watchdog::spawn(), ShardId(0), Rc::new(Web::default()))),
            revision: Rc::new(revision),
            isolate: None,
        }
    }

    /// Sends the bytes to the Worker.
    ///
    /// # Panics
    /// Panics as [`Host::deliver`] does.
    pub fn send(&mut self, data: &[u8]) {
        let body = Body::Full(Bytes::copy_from_slice(data));
        self.deliver(FetchRequest {
            request_id: "fuzz".to_owned(),
            method: "POST".to_owned(),
            url: "https://worker.test/".to_owned(),
            headers: Vec::new(),
            body,
            entry: None,
            call_context: CallContext::default(),
        });
    }

    /// Sends a request to the Worker and returns the whole body of the response, or `None` if a
    /// limit was exceeded or the request was invalid.
    ///
    /// # Panics
    /// Panics if the Worker does not start, if one of its checks fails, or if the request fails for
    /// an unexpected reason.
    pub fn deliver(&mut self, request: FetchRequest) -> Option<Bytes> {
        let Self { runtime, tasks, engine, revision, isolate } = self;
        let answer = tasks.block_on(runtime, async {
            if isolate
                .as_ref()
                .is_none_or(|isolate| isolate.condemned().is_some() || isolate.is_retired())
            {
                let started =
                    Isolate::start(engine, revision.digest(), Rc::clone(revision), None).await;
                *isolate = Some(started.expect("the Worker did not start"));
            }
            let isolate = isolate.as_ref().expect("the isolate has not been started");
            let answer = match isolate.fetch(request).await {
                Ok(FetchResponse { status, body, .. }) => {
                    body.collect().await.map(|body| (status, body))
                }
                Err(failure) => Err(failure),
            };
            isolate.idle().await;
            answer
        });
        match answer {
            Ok((200 | 101, body)) => Some(body),
            Ok((_, body)) => {
                panic!("a check of the Worker failed: {}", String::from_utf8_lossy(&body))
            }
            Err(Failure { code, .. }) if EXPECTED.contains(&code) => None,
            Err(failure) => panic!("the request failed: {failure}"),
        }
    }
}

/// Defines a fuzz target whose input a Worker processes.
///
/// # Arguments
/// The path of the Worker's source, and a closure over the [`Host`] and the input.
#[macro_export]
macro_rules! in_an_isolate {
    ($worker:literal, |$host:ident, $input:ident: $type:ty| $body:expr) => {
        thread_local! {
            // The host is leaked, because an isolate cannot be torn down at process exit.
            static HOST: &'static std::cell::RefCell<$crate::Host> =
                Box::leak(Box::new(std::cell::RefCell::new($crate::Host::new(include_str!($worker)))));
        }

        libfuzzer_sys::fuzz_target!(
            init: HOST.with(|_| ()),
            |$input: $type| HOST.with(|host| {
                let $host = &mut *host.borrow_mut();
                $body
            })
        );

        /// Sets the default options of AddressSanitizer. Leaks are not detected, because memory
        /// referenced only from V8's heap looks leaked. Stack frames stay on the real stack, which
        /// V8 scans. Freed memory is overwritten, so that V8 finds nothing there that looks like a
        /// valid value.
        #[unsafe(no_mangle)]
        extern "C" fn __asan_default_options() -> *const std::ffi::c_char {
            c"detect_leaks=0:detect_stack_use_after_return=0:max_free_fill_size=1048576".as_ptr()
        }
    };
}
