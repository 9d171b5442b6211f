//! The book of an isolate's invocations: who is in flight, what each may still use, and what it waits for.
//!
//! ```text
//!  begin ─► pending ──answer──► answered ──taken──► taken ─┬─ nothing kept by waitUntil ─► ended
//!              │                                           └─ waitUntil ─► … ─► ended
//!              └─ its future was dropped ─► ended
//! ```
//!
//! Plain data: nothing here knows V8 or a clock. When an invocation ends, dropping its entry aborts every
//! operation that it had under way.

use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use futures::future::AbortHandle;
use rustc_hash::FxHashMap;
use tenon_proto::failure::Failure;
use tenon_proto::runtime::Header;
use tokio::time::Instant;

use super::FetchResponse;
use super::services::Origin;
use super::sockets::{Opening, Sockets};
use super::streams::Streams;

/// Names one invocation of one isolate, and is never used again within that isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct InvocationId(u64);

impl InvocationId {
    /// As JavaScript carries it; exact for the first 2⁵³ invocations.
    pub(super) fn to_number(self) -> f64 {
        self.0 as f64
    }

    pub(super) fn from_number(number: f64) -> Self {
        Self(number as u64)
    }
}

/// Names one operation (a timer, the reading of a body) of one isolate; never used again either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct OperationId(u64);

impl OperationId {
    pub(super) fn to_number(self) -> f64 {
        self.0 as f64
    }

    pub(super) fn from_number(number: f64) -> Self {
        Self(number as u64)
    }
}

/// What an invocation delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The evaluation of the modules.
    Start,
    Fetch,
    /// A time of a schedule.
    Scheduled,
}

/// How an invocation came out, as its future will see it.
pub(super) type Outcome = Result<FetchResponse, Failure>;

#[derive(Debug)]
enum Answer {
    Pending(Option<Waker>),
    Ready(Outcome),
    Taken,
}

/// How far an invocation may go over its CPU limit. One that ends by itself within this is answered, and its isolate
/// retires; one that does not is stopped.
pub(super) const GRACE: Duration = Duration::from_millis(2);

/// One invocation in flight.
pub(super) struct Invocation {
    pub(super) event: Event,
    /// For logs.
    pub(super) request_id: Rc<str>,
    pub(super) begun: Instant,
    /// When a piece of its response was sent last, if that comes in pieces, or something went over a socket of its.
    pub(super) moved: Option<Instant>,
    /// CPU time that its turns may still use before it is stopped.
    pub(super) cpu_left: Duration,
    /// Bytes that it may still log.
    pub(super) log_left: usize,
    /// How often it has called out.
    pub(super) subrequests: u32,
    pub(super) origin: Origin,
    /// The request's headers, until they are asked for.
    pub(super) headers: Vec<Header>,
    /// Its body among them.
    pub(super) streams: Streams,
    pub(super) sockets: Sockets,
    /// Its response's body is on its way.
    pub(super) is_sending: bool,
    /// What its request says, if that asks for a WebSocket and was not answered with one.
    pub(super) opening: Option<Opening>,
    answer: Answer,
    wait_until: u32,
    operations: FxHashMap<OperationId, AbortHandle>,
    /// The end of its time, once only `waitUntil` keeps it. Before that its future sees to it.
    wall: Option<AbortHandle>,
}

impl Invocation {
    /// # Arguments
    /// * `cpu` - its limit.
    /// * `log` - how many bytes it may log.
    pub(super) fn new(event: Event, request_id: String, cpu: Duration, log: usize) -> Self {
        Self {
            event,
            request_id: request_id.into(),
            begun: Instant::now(),
            moved: None,
            cpu_left: cpu + GRACE,
            log_left: log,
            subrequests: 0,
            origin: Origin::default(),
            headers: Vec::new(),
            streams: Streams::default(),
            sockets: Sockets::default(),
            is_sending: false,
            opening: None,
            answer: Answer::Pending(None),
            wait_until: 0,
            operations: FxHashMap::default(),
            wall: None,
        }
    }

    /// A start that is a little slow is over, and says nothing of the requests to come.
    pub(super) fn is_over_its_limit(&self) -> bool {
        self.event != Event::Start && self.cpu_left < GRACE
    }

    pub(super) fn end_at(&mut self, wall: AbortHandle) {
        self.wall = Some(wall);
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(self.answer, Answer::Pending(_))
    }

    /// Its outcome has been taken, and `waitUntil` keeps it.
    pub(super) fn is_detached(&self) -> bool {
        matches!(self.answer, Answer::Taken)
    }

    /// Its caller has all of the response, and it goes on: by `waitUntil`, timers, or a WebSocket.
    fn lingers(&self) -> bool {
        self.is_detached() && (!self.is_sending || !self.sockets.is_empty())
    }

    fn has_ended(&self) -> bool {
        self.is_detached() && self.wait_until == 0
    }
}

impl Drop for Invocation {
    fn drop(&mut self) {
        self.operations.values().chain(&self.wall).for_each(AbortHandle::abort);
    }
}

/// All invocations of one isolate.
#[derive(Default)]
pub(super) struct Invocations {
    in_flight: FxHashMap<InvocationId, Invocation>,
    /// Operations under way, of all of them.
    operations: usize,
    last_invocation: u64,
    last_operation: u64,
}

impl Invocations {
    pub(super) fn begin(&mut self, invocation: Invocation) -> InvocationId {
        self.last_invocation += 1;
        let id = InvocationId(self.last_invocation);
        self.in_flight.insert(id, invocation);
        id
    }

    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn get(&self, id: InvocationId) -> Option<&Invocation> {
        self.in_flight.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: InvocationId) -> Option<&mut Invocation> {
        self.in_flight.get_mut(&id)
    }

    /// Gives the invocation its outcome, the first time. The caller wakes what is returned. `None` when there is
    /// no such invocation or it has been answered.
    pub(super) fn answer(&mut self, id: InvocationId, outcome: Outcome) -> Option<Option<Waker>> {
        let invocation = self.in_flight.get_mut(&id)?;
        let Answer::Pending(waker) = &mut invocation.answer else { return None };
        let waker = waker.take();
        invocation.answer = Answer::Ready(outcome);
        Some(waker)
    }

    /// Takes the outcome, if it is there, and otherwise remembers whom to wake. `None` means wait. Sweep after it.
    ///
    /// # Panics
    /// When there is no such invocation, or its outcome was taken before.
    pub(super) fn take(&mut self, id: InvocationId, waker: &Waker) -> Option<Outcome> {
        let invocation = self.in_flight.get_mut(&id).expect("an invocation is in the book until its outcome is taken");
        match std::mem::replace(&mut invocation.answer, Answer::Taken) {
            Answer::Pending(_) => {
                invocation.answer = Answer::Pending(Some(waker.clone()));
                None
            }
            Answer::Ready(outcome) => Some(outcome),
            Answer::Taken => unreachable!("the outcome of an invocation is taken once"),
        }
    }

    /// Ends the invocation, whatever it waits for.
    pub(super) fn end(&mut self, id: InvocationId) -> Option<Invocation> {
        let ended = self.in_flight.remove(&id)?;
        self.operations -= ended.operations.len();
        Some(ended)
    }

    /// Its caller has gone before there was an outcome: what becomes of it matters to nobody, but it is not over while
    /// something keeps it.
    pub(super) fn abandon(&mut self, id: InvocationId) {
        if let Some(invocation) = self.in_flight.get_mut(&id) {
            invocation.answer = Answer::Taken;
        }
    }

    /// One more promise that the invocation must outlive.
    pub(super) fn wait_until(&mut self, id: InvocationId) -> bool {
        self.in_flight.get_mut(&id).map(|invocation| invocation.wait_until += 1).is_some()
    }

    /// One of those promises has settled. Sweep after it.
    pub(super) fn wait_over(&mut self, id: InvocationId) {
        if let Some(invocation) = self.in_flight.get_mut(&id) {
            invocation.wait_until = invocation.wait_until.saturating_sub(1);
        }
    }

    /// Ends the invocation if nothing keeps it.
    pub(super) fn sweep(&mut self, id: InvocationId) -> Option<Invocation> {
        let has_ended = self.in_flight.get(&id).is_some_and(Invocation::has_ended);
        if has_ended { self.end(id) } else { None }
    }

    /// A name for an operation that is about to begin.
    pub(super) fn next_operation(&mut self) -> OperationId {
        self.last_operation += 1;
        OperationId(self.last_operation)
    }

    /// Enters an operation under its invocation, unless that has ended or has `limit` of them.
    pub(super) fn enter(&mut self, id: InvocationId, operation: OperationId, abort: AbortHandle, limit: usize) -> bool {
        match self.in_flight.get_mut(&id) {
            Some(invocation) if invocation.operations.len() < limit => {
                invocation.operations.insert(operation, abort);
                self.operations += 1;
                true
            }
            _ => false,
        }
    }

    /// The operation has completed. Whether it was still wanted.
    pub(super) fn complete(&mut self, id: InvocationId, operation: OperationId) -> bool {
        let wanted = self.in_flight.get_mut(&id).is_some_and(|i| i.operations.remove(&operation).is_some());
        self.operations -= usize::from(wanted);
        wanted
    }

    /// Aborts an operation, whoever's it is: one invocation may clear the timer of another.
    pub(super) fn abort(&mut self, likely: Option<InvocationId>, operation: OperationId) {
        let mine = likely.and_then(|id| self.in_flight.get_mut(&id)).and_then(|i| i.operations.remove(&operation));
        let abort = mine.or_else(|| self.in_flight.values_mut().find_map(|i| i.operations.remove(&operation)));
        if let Some(abort) = abort {
            self.operations -= 1;
            abort.abort();
        }
    }

    /// Those that wait for a promise while nothing from outside is under way for any invocation of the isolate, so
    /// that no promise in it can settle any more.
    pub(super) fn stalled(&self) -> Vec<InvocationId> {
        if self.operations > 0 {
            return Vec::new();
        }
        let waits = |invocation: &Invocation| invocation.is_pending() || invocation.wait_until > 0;
        self.in_flight.iter().filter(|(_, invocation)| waits(invocation)).map(|(id, _)| *id).collect()
    }

    /// Those that go on although their callers have all of the response.
    pub(super) fn lingering(&self) -> Vec<InvocationId> {
        self.in_flight.iter().filter(|(_, invocation)| invocation.lingers()).map(|(id, _)| *id).collect()
    }

    /// Those in flight, oldest first.
    pub(super) fn ids(&self) -> Vec<InvocationId> {
        let mut ids: Vec<_> = self.in_flight.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
