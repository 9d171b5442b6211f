//! Tests of calls between Workers: two isolates of one shard, whose messages pass through the same
//! streams as through a router.

pub(crate) mod calls;
pub(crate) mod limits;
pub(crate) mod references;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use bytes::Buf as _;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use tenon_engine::{FetchResponse, ResponseBody, StreamError};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_web::{Call, CallResponse, Services};
use tokio::task::spawn_local;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::{Loaded, Shard, Text as _};

/// The other Workers of the shard, by name. Calls go to their isolates.
#[derive(Default)]
struct Workers {
    by_name: RefCell<HashMap<String, Loaded>>,
    /// The names of the methods that have opened sessions so far.
    sessions: RefCell<Vec<String>>,
    /// The number of calls that were requests rather than sessions.
    requests: Cell<usize>,
}

impl Services for Workers {
    fn call(&self, call: Call) -> LocalBoxFuture<'static, Result<CallResponse, Failure>> {
        match call.request.entry.as_ref().and_then(|entry| entry.rpc.as_ref()) {
            Some(rpc) => self.sessions.borrow_mut().push(rpc.method.clone()),
            None => self.requests.set(self.requests.get() + 1),
        }
        let callee = self.by_name.borrow().get(call.callee.name()).cloned();
        let absent =
            || Failure::new(FailureCode::WorkerNotFound, Phase::Admission, "no such Worker");
        let called = async move {
            let callee = callee.ok_or_else(absent)?;
            // The caller's isolate polls its operations only between its own turns.
            let fetched = spawn_local(async move { callee.0.fetch(call.request).await });
            AbortOnDropHandle::new(fetched).await.expect("the callee panicked").map(to_response)
        };
        called.boxed_local()
    }
}

fn to_response(FetchResponse { status, headers, body }: FetchResponse) -> CallResponse {
    let body = match body {
        ResponseBody::Full(mut piece) => {
            let bytes = piece.copy_to_bytes(piece.remaining());
            stream::iter([Ok(bytes)]).boxed_local()
        }
        ResponseBody::Stream(sending) => {
            let lost = |failure: Failure| StreamError::Lost(failure.message.into());
            sending.map(move |piece| piece.map_err(lost)).boxed_local()
        }
    };
    CallResponse { status, headers, body: Some(body) }
}

const IMPORTS: &str = "import { RpcStub, RpcTarget, WorkerEntrypoint } from 'cloudflare:workers';";

/// Two Workers, one of which calls the other as `env.OTHER`, and its export `Admin` as `env.ADMIN`.
struct Pair {
    workers: Rc<Workers>,
    caller: Loaded,
    callee: Loaded,
}

impl Pair {
    /// Starts the Workers.
    ///
    /// # Arguments
    /// * `callee` - the module of the callee, without its imports.
    /// * `caller` - the body of the caller's handler.
    async fn start(shard: &Shard, callee: &str, caller: &str) -> Self {
        let workers = Rc::<Workers>::default();
        let shard = shard.with_services(workers.clone());
        let callee = shard.worker(&format!("{IMPORTS} {callee}")).var("SECRET", "of the callee");
        let callee = callee.limits(|limits| limits.cpu_ms = 1000).start().await.unwrap();
        workers.by_name.borrow_mut().insert("other".to_owned(), callee.clone());
        let source =
            format!("{IMPORTS} export default {{ async fetch(request, env, ctx) {{ {caller} }} }}");
        let caller = shard.worker(&source).service("OTHER", "other");
        let caller = caller.entrypoint("ADMIN", "other", "Admin").service("ABSENT", "absent");
        let caller = caller.limits(|limits| limits.cpu_ms = 2000).start().await.unwrap();
        Self { workers, caller, callee }
    }

    /// Returns the response of the caller to one request.
    async fn get(&self) -> String {
        self.caller.get("/").await.unwrap().text().to_owned()
    }
}

/// Starts two Workers, and returns the text with which the caller answers one request.
async fn answer(shard: &Shard, callee: &str, caller: &str) -> String {
    Pair::start(shard, callee, caller).await.get().await
}

/// JavaScript that defines `outcome`, which returns the result or the error of a function as text.
const OUTCOME: &str = "
    const outcome = async (attempt) => {
        try { return String(await attempt()); } catch (error) { return `${error.name}: ${error.message}`; }
    };";
