//! Delivers one event, and waits for its invocation's outcome.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::runtime::{Entry, Header};
use tokio::time::{Instant, Sleep};

use super::Isolate;
use super::turn::Stop;
use crate::call_context::CallContext;
use crate::fair_scheduler::Pass;
use crate::ids::InvocationId;
use crate::invocation::{Event, Invocation, Outcome};
use crate::log;
use crate::realm::{Hooks, Realm};
use crate::response::FetchResponse;
use crate::streams::{Body, Streams};
use crate::string::{from_name, from_text};

/// A request to deliver to a Worker.
pub struct FetchRequest {
    /// The id of the request in logs.
    pub request_id: String,
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// The headers, whose names are in lower case.
    pub headers: Vec<Header>,
    pub body: Body,
    /// The part of the Worker that the request is for. `None` means `fetch` of the default export.
    pub entry: Option<Entry>,
    pub call_context: CallContext,
}

/// A scheduled time to deliver to a Worker.
pub struct ScheduledEvent {
    /// The id of the event in logs.
    pub request_id: String,
    /// The cron expression in the Worker's own spelling.
    pub cron: String,
    /// The scheduled time, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    pub call_context: CallContext,
}

impl Isolate {
    /// Waits until the request may have its first turn, and delivers it.
    ///
    /// # Errors
    /// Fails if the Worker throws, never answers or exceeds a limit.
    pub async fn fetch(self: &Rc<Self>, request: FetchRequest) -> Result<FetchResponse, Failure> {
        let pass = self.queue().await;
        self.deliver(pass, request).await
    }

    /// Waits until a request may have its first turn. The isolate may be condemned during the wait.
    pub async fn queue(&self) -> Pass {
        self.engine.scheduler.enter(&self.account).await
    }

    /// Delivers a request. The first turn runs when the future is first polled, unless a realm has
    /// to be made first; dropping the future cancels the invocation.
    ///
    /// # Errors
    /// Fails if the Worker throws, never answers or exceeds a limit.
    pub fn deliver(
        self: &Rc<Self>,
        pass: Pass,
        request: FetchRequest,
    ) -> impl Future<Output = Result<FetchResponse, Failure>> + use<> {
        deliver(Rc::clone(self), pass, request)
    }

    /// Delivers a scheduled time, and waits until the handler and everything passed to `waitUntil`
    /// have ended. The first turn runs when the future is first polled, unless a realm has to be
    /// made first; dropping the future cancels the invocation.
    ///
    /// # Errors
    /// Fails if the Worker throws, never finishes or exceeds a limit.
    pub fn deliver_scheduled(
        self: &Rc<Self>,
        pass: Pass,
        event: ScheduledEvent,
    ) -> impl Future<Output = Result<(), Failure>> + use<> {
        let outcome = deliver_scheduled(Rc::clone(self), pass, event);
        async move { outcome.await.map(drop) }
    }
}

/// Delivers a request, and waits for the outcome.
async fn deliver(isolate: Rc<Isolate>, pass: Pass, request: FetchRequest) -> Outcome {
    let FetchRequest { request_id, method, url, headers, body, entry, call_context } = request;
    let streams = Streams::of_request(body);
    let interfaces = &isolate.engine.interfaces;
    let attachment =
        streams.has_request_body().then(|| interfaces.upgrade(&method, &headers)).flatten();
    let has_body = streams.has_request_body() && attachment.is_none();
    let prepare = |invocation: &mut Invocation| {
        invocation.headers = headers;
        invocation.streams = streams;
        invocation.attachments.extend(attachment);
        invocation.call_context = call_context;
    };
    let call = |scope: &mut v8::PinScope<'_, '_>, hooks: &Hooks, id| {
        let Entry { export, rpc } = entry.unwrap_or_default();
        match rpc {
            Some(_) => call_rpc(scope, hooks, id, &export),
            None => call(scope, hooks, id, &method, &url, has_body, &export),
        }
    };
    deliver_event(isolate, pass, Event::Fetch, request_id, prepare, call).await
}

/// Delivers a scheduled time, and waits for the outcome.
async fn deliver_scheduled(isolate: Rc<Isolate>, pass: Pass, event: ScheduledEvent) -> Outcome {
    let ScheduledEvent { request_id, cron, time_ms, call_context } = event;
    let prepare = |invocation: &mut Invocation| invocation.call_context = call_context;
    let call = |scope: &mut v8::PinScope<'_, '_>, hooks: &Hooks, id| {
        call_scheduled(scope, hooks, id, &cron, time_ms)
    };
    deliver_event(isolate, pass, Event::Scheduled, request_id, prepare, call).await
}

/// Begins an invocation of `event`, runs its first turn and waits for the outcome.
///
/// # Arguments
/// * `prepare` - adds the event's data to the invocation.
/// * `call` - calls the handler, in the first turn.
async fn deliver_event(
    isolate: Rc<Isolate>,
    pass: Pass,
    event: Event,
    request_id: String,
    prepare: impl FnOnce(&mut Invocation),
    call: impl FnOnce(&mut v8::PinScope<'_, '_>, &Hooks, InvocationId) -> Option<()>,
) -> Outcome {
    let (realm, pass) = isolate.realm_for_one(pass).await?;
    let cpu = Duration::from_millis(isolate.state.revision.limits.cpu_ms.into());
    let mut invocation = Invocation::new(event, request_id, cpu, log::BUDGET);
    prepare(&mut invocation);
    invoke(&isolate, pass, realm, invocation, call).await
}

/// Begins an invocation, runs its first turn, and waits for its outcome.
///
/// # Arguments
/// * `realm` - the realm that belongs to this invocation alone, if it has one.
pub(super) async fn invoke(
    isolate: &Rc<Isolate>,
    pass: Pass,
    realm: Option<Rc<Realm>>,
    invocation: Invocation,
    call: impl FnOnce(&mut v8::PinScope<'_, '_>, &Hooks, InvocationId) -> Option<()>,
) -> Outcome {
    let id = isolate.state.begin_in(realm, invocation);
    let outcome = OutcomeFuture::of(isolate, id);
    match isolate.turn(&pass, Some(id), |scope, hooks| call(scope, hooks, id)) {
        Ok(()) | Err(Stop::Limit) => {}
        Err(Stop::Threw(exception)) => isolate.state.threw(id, &exception),
        Err(Stop::NotBegun) => {
            isolate.state.fail(id, isolate.condemned().unwrap_or(FailureCode::Internal))
        }
    }
    drop(pass);
    outcome.await
}

fn call_scheduled(
    scope: &mut v8::PinScope<'_, '_>,
    hooks: &Hooks,
    id: InvocationId,
    cron: &str,
    time_ms: i64,
) -> Option<()> {
    let args: [v8::Local<'_, v8::Value>; 3] = [
        v8::Number::new(scope, id.to_number()).into(),
        v8::String::new(scope, cron)?.into(),
        v8::Number::new(scope, time_ms as f64).into(),
    ];
    let scheduled = v8::Local::new(scope, &hooks.scheduled);
    let undefined = v8::undefined(scope).into();
    scheduled.call(scope, undefined, &args).map(drop)
}

fn call_rpc(
    scope: &mut v8::PinScope<'_, '_>,
    hooks: &Hooks,
    id: InvocationId,
    export: &str,
) -> Option<()> {
    let args: [v8::Local<'_, v8::Value>; 2] =
        [v8::Number::new(scope, id.to_number()).into(), from_text(scope, export)?.into()];
    let rpc = v8::Local::new(scope, &hooks.rpc);
    let undefined = v8::undefined(scope).into();
    rpc.call(scope, undefined, &args).map(drop)
}

fn call(
    scope: &mut v8::PinScope<'_, '_>,
    hooks: &Hooks,
    id: InvocationId,
    method: &str,
    url: &str,
    has_body: bool,
    export: &str,
) -> Option<()> {
    let args: [v8::Local<'_, v8::Value>; 5] = [
        v8::Number::new(scope, id.to_number()).into(),
        from_name(scope, method)?.into(),
        from_text(scope, url)?.into(),
        v8::Boolean::new(scope, has_body).into(),
        from_text(scope, export)?.into(),
    ];
    let fetch = v8::Local::new(scope, &hooks.fetch);
    let undefined = v8::undefined(scope).into();
    fetch.call(scope, undefined, &args).map(drop)
}

/// A future of an invocation's outcome, which fails at the wall-clock limit. Dropping the future
/// before it is ready cancels the invocation; the Worker is notified if it listens for that.
struct OutcomeFuture {
    isolate: Rc<Isolate>,
    id: InvocationId,
    /// The timer of the limit, which is created only if the outcome is not ready at the first poll.
    wall: Option<Pin<Box<Sleep>>>,
    is_taken: bool,
}

impl OutcomeFuture {
    fn of(isolate: &Rc<Isolate>, id: InvocationId) -> Self {
        Self { isolate: Rc::clone(isolate), id, wall: None, is_taken: false }
    }

    fn take(&mut self, cx: &mut Context<'_>) -> Option<Outcome> {
        let state = &self.isolate.state;
        let outcome = state.invocations.borrow_mut().take(self.id, cx.waker())?;
        self.is_taken = true;
        state.end_if_done(self.id);
        let is_kept = state.invocations.borrow().get(self.id).is_some();
        if is_kept && self.isolate.is_sealed() {
            // The promises for which the invocation waits get no further turns.
            state.end(self.id);
        } else if is_kept {
            state.end_at(self.id, self.deadline());
        }
        state.reap();
        Some(outcome)
    }

    fn deadline(&self) -> Instant {
        let state = &self.isolate.state;
        let begun = state
            .invocations
            .borrow()
            .get(self.id)
            .map_or_else(Instant::now, |invocation| invocation.begun);
        begun + Duration::from_millis(state.revision.limits.wall_ms.into())
    }
}

impl Future for OutcomeFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        if let Some(outcome) = this.take(cx) {
            return Poll::Ready(outcome);
        }
        let deadline = this.deadline();
        let wall = this.wall.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if wall.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        this.isolate.state.fail(this.id, FailureCode::WallLimitExceeded);
        this.take(cx).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for OutcomeFuture {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        if self.isolate.is_sealed() {
            self.isolate.state.end(self.id);
        } else {
            self.isolate.state.abandon(self.id, self.deadline());
        }
    }
}
