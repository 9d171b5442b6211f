//! The table of an isolate's invocations in flight, with their remaining budgets and the operations
//! for which they wait.
//!
//! ```text
//!  begin ─► pending ──answer──► answered ──taken──► taken ─┬─ nothing kept by waitUntil ─► ended
//!              │                                           └─ waitUntil ─► … ─► ended
//!              └─ its future was dropped ─► ended, or taken if it uses `request.signal`
//! ```
//!
//! This module does not depend on V8. When an invocation ends, dropping its entry aborts all of its
//! operations.

use std::any::Any;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use futures::future::AbortHandle;
use rustc_hash::FxHashMap;
use tenon_proto::failure::Failure;
use tenon_proto::runtime::Header;
use tokio::time::Instant;

use super::call_context::CallContext;
use super::ids::{InvocationId, OperationId};
use super::response::FetchResponse;
use super::streams::Streams;

/// The event that an invocation delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The evaluation of the modules.
    Start,
    Fetch,
    /// A scheduled time.
    Scheduled,
}

/// The outcome of an invocation.
pub type Outcome = Result<FetchResponse, Failure>;

#[derive(Debug)]
enum OutcomeState {
    Pending(Option<Waker>),
    Ready(Outcome),
    Taken,
}

/// CPU time by which an invocation may exceed its limit. An invocation that ends by itself within
/// this grace is answered, and its isolate retires; a longer invocation is stopped.
pub const GRACE: Duration = Duration::from_millis(2);

/// State that a Web interface keeps for an invocation, such as its WebSockets. An invocation has at
/// most one attachment of each type, which is dropped when the invocation ends.
pub trait Attachment: Any {
    /// Returns whether the state keeps the invocation working after the caller has the whole
    /// response.
    fn lingers(&self) -> bool {
        false
    }

    /// Prepares for the end of the invocation, because its Worker now runs in a lane.
    fn end_with_restart(&self) {}
}

/// One invocation in flight.
pub struct Invocation {
    pub event: Event,
    pub request_id: Rc<str>,
    pub begun: Instant,
    /// The last time at which a piece of the streamed response was sent, or data moved on one of
    /// the invocation's sockets.
    pub last_progress: Option<Instant>,
    /// CPU time that the invocation's turns may still use before it is stopped.
    pub cpu_left: Duration,
    /// Number of bytes that the invocation may still log.
    pub log_left: usize,
    /// Number of outgoing calls so far.
    pub subrequests: u32,
    pub call_context: CallContext,
    /// The request's headers, until JavaScript reads them.
    pub headers: Vec<Header>,
    /// The invocation's streams, including the request's body.
    pub streams: Streams,
    /// Whether the response's body is being sent.
    pub is_sending: bool,
    /// States that the interfaces keep for the invocation.
    pub attachments: Vec<Box<dyn Attachment>>,
    answer: OutcomeState,
    wait_until: u32,
    operations: FxHashMap<OperationId, AbortHandle>,
    /// The timer of the wall-clock limit once only `waitUntil` keeps the invocation. Before that,
    /// the invocation's future enforces the limit.
    wall_timer: Option<AbortHandle>,
}

impl Invocation {
    /// Creates a pending invocation.
    ///
    /// # Arguments
    /// * `cpu` - the invocation's limit of CPU time.
    /// * `log` - the invocation's log budget, in bytes.
    pub fn new(event: Event, request_id: String, cpu: Duration, log: usize) -> Self {
        Self {
            event,
            request_id: request_id.into(),
            begun: Instant::now(),
            last_progress: None,
            cpu_left: cpu + GRACE,
            log_left: log,
            subrequests: 0,
            call_context: CallContext::default(),
            headers: Vec::new(),
            streams: Streams::default(),
            is_sending: false,
            attachments: Vec::new(),
            answer: OutcomeState::Pending(None),
            wait_until: 0,
            operations: FxHashMap::default(),
            wall_timer: None,
        }
    }

    /// Returns whether the invocation has exceeded its CPU limit. Returns false for a start,
    /// because a slow start is over and predicts nothing about later requests.
    pub fn is_over_its_limit(&self) -> bool {
        self.event != Event::Start && self.cpu_left < GRACE
    }

    /// Returns the state of this type that an interface keeps for the invocation, if there is one.
    pub fn attached<T: Attachment>(&self) -> Option<&T> {
        self.attachments.iter().find_map(|attachment| {
            let attachment: &dyn Any = &**attachment;
            attachment.downcast_ref()
        })
    }

    /// Returns the state of this type that an interface keeps for the invocation, if there is one.
    pub fn attached_mut<T: Attachment>(&mut self) -> Option<&mut T> {
        self.attachments.iter_mut().find_map(|attachment| {
            let attachment: &mut dyn Any = &mut **attachment;
            attachment.downcast_mut()
        })
    }

    /// Returns the state of this type that an interface keeps for the invocation. Creates it if
    /// there is none.
    pub fn attach<T: Attachment + Default>(&mut self) -> &mut T {
        if self.attached::<T>().is_none() {
            self.attachments.push(Box::new(T::default()));
        }
        self.attached_mut().expect("the attachment has just been added")
    }

    /// Sets the timer of the wall-clock limit that applies once only `waitUntil` keeps the
    /// invocation. The end of the invocation aborts the timer.
    pub fn set_wall_timer(&mut self, timer: AbortHandle) {
        self.wall_timer = Some(timer);
    }

    pub fn is_pending(&self) -> bool {
        matches!(self.answer, OutcomeState::Pending(_))
    }

    /// Returns whether the outcome has been taken, so that only `waitUntil` keeps the invocation.
    pub fn is_detached(&self) -> bool {
        matches!(self.answer, OutcomeState::Taken)
    }

    /// Returns whether the invocation continues after its caller has the whole response, because of
    /// `waitUntil` or a WebSocket.
    fn lingers(&self) -> bool {
        self.is_detached()
            && (!self.is_sending || self.attachments.iter().any(|attachment| attachment.lingers()))
    }

    fn has_ended(&self) -> bool {
        self.is_detached() && self.wait_until == 0
    }
}

impl Drop for Invocation {
    fn drop(&mut self) {
        self.operations.values().chain(&self.wall_timer).for_each(AbortHandle::abort);
    }
}

/// All invocations of one isolate.
#[derive(Default)]
pub struct Invocations {
    in_flight: FxHashMap<InvocationId, Invocation>,
    /// Number of operations in progress, of all invocations.
    operations: usize,
    last_invocation: u64,
    last_operation: u64,
}

impl Invocations {
    pub fn begin(&mut self, invocation: Invocation) -> InvocationId {
        self.last_invocation += 1;
        let id = InvocationId(self.last_invocation);
        self.in_flight.insert(id, invocation);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }

    pub fn get(&self, id: InvocationId) -> Option<&Invocation> {
        self.in_flight.get(&id)
    }

    pub fn get_mut(&mut self, id: InvocationId) -> Option<&mut Invocation> {
        self.in_flight.get_mut(&id)
    }

    /// Sets the outcome of the invocation, and returns the waker, if there is one, that the caller
    /// must wake. Returns `None` if there is no such invocation or it has an outcome already.
    pub fn set_outcome(&mut self, id: InvocationId, outcome: Outcome) -> Option<Option<Waker>> {
        let invocation = self.in_flight.get_mut(&id)?;
        let OutcomeState::Pending(waker) = &mut invocation.answer else { return None };
        let waker = waker.take();
        invocation.answer = OutcomeState::Ready(outcome);
        Some(waker)
    }

    /// Takes the outcome if it is ready; otherwise stores the waker and returns `None`. The caller
    /// calls [`end_if_done`](Self::end_if_done) afterwards.
    ///
    /// # Panics
    /// Panics if there is no such invocation, or if its outcome was taken before.
    pub fn take(&mut self, id: InvocationId, waker: &Waker) -> Option<Outcome> {
        let invocation = self
            .in_flight
            .get_mut(&id)
            .expect("an invocation left the table before its outcome was taken");
        match std::mem::replace(&mut invocation.answer, OutcomeState::Taken) {
            OutcomeState::Pending(_) => {
                invocation.answer = OutcomeState::Pending(Some(waker.clone()));
                None
            }
            OutcomeState::Ready(outcome) => Some(outcome),
            OutcomeState::Taken => unreachable!("the outcome of an invocation was taken twice"),
        }
    }

    /// Ends the invocation, even if it still waits for promises.
    pub fn end(&mut self, id: InvocationId) -> Option<Invocation> {
        let ended = self.in_flight.remove(&id)?;
        self.operations -= ended.operations.len();
        Some(ended)
    }

    /// Records that the caller disconnected before the invocation had an outcome. The outcome is
    /// discarded, but the invocation continues while `waitUntil` keeps it.
    pub fn abandon(&mut self, id: InvocationId) {
        if let Some(invocation) = self.in_flight.get_mut(&id) {
            invocation.answer = OutcomeState::Taken;
        }
    }

    /// Adds a promise that the invocation must outlive. Returns whether the invocation exists.
    pub fn wait_until(&mut self, id: InvocationId) -> bool {
        self.in_flight.get_mut(&id).map(|invocation| invocation.wait_until += 1).is_some()
    }

    /// Records that one promise of [`wait_until`](Self::wait_until) has settled. The caller calls
    /// [`end_if_done`](Self::end_if_done) afterwards.
    pub fn promise_settled(&mut self, id: InvocationId) {
        if let Some(invocation) = self.in_flight.get_mut(&id) {
            invocation.wait_until = invocation.wait_until.saturating_sub(1);
        }
    }

    /// Ends the invocation if its outcome has been taken and no promise keeps it.
    pub fn end_if_done(&mut self, id: InvocationId) -> Option<Invocation> {
        let has_ended = self.in_flight.get(&id).is_some_and(Invocation::has_ended);
        if has_ended { self.end(id) } else { None }
    }

    /// Returns the id for an operation that is about to begin.
    pub fn next_operation(&mut self) -> OperationId {
        self.last_operation += 1;
        OperationId(self.last_operation)
    }

    /// Records an operation of an invocation. Returns false if the invocation has ended or already
    /// has `limit` operations.
    pub fn enter(
        &mut self,
        id: InvocationId,
        operation: OperationId,
        abort: AbortHandle,
        limit: usize,
    ) -> bool {
        match self.in_flight.get_mut(&id) {
            Some(invocation) if invocation.operations.len() < limit => {
                invocation.operations.insert(operation, abort);
                self.operations += 1;
                true
            }
            _ => false,
        }
    }

    /// Records that an operation has completed. Returns whether it was in progress and had not been
    /// aborted.
    pub fn complete(&mut self, id: InvocationId, operation: OperationId) -> bool {
        let known = self
            .in_flight
            .get_mut(&id)
            .is_some_and(|invocation| invocation.operations.remove(&operation).is_some());
        self.operations -= usize::from(known);
        known
    }

    /// Aborts an operation of any invocation, because one invocation may clear the timer of
    /// another. The invocation `likely` is searched first.
    pub fn abort(&mut self, likely: Option<InvocationId>, operation: OperationId) {
        let mine = likely
            .and_then(|id| self.in_flight.get_mut(&id))
            .and_then(|invocation| invocation.operations.remove(&operation));
        let abort = mine.or_else(|| {
            self.in_flight
                .values_mut()
                .find_map(|invocation| invocation.operations.remove(&operation))
        });
        if let Some(abort) = abort {
            self.operations -= 1;
            abort.abort();
        }
    }

    /// Returns the invocations that wait for a promise while no invocation of the isolate has an
    /// operation in progress, so that none of the promises can settle any longer.
    pub fn stalled(&self) -> Vec<InvocationId> {
        if self.operations > 0 {
            return Vec::new();
        }
        let waits = |invocation: &Invocation| invocation.is_pending() || invocation.wait_until > 0;
        self.in_flight
            .iter()
            .filter(|(_, invocation)| waits(invocation))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the invocations that continue after their callers have the whole response.
    pub fn lingering(&self) -> Vec<InvocationId> {
        self.in_flight
            .iter()
            .filter(|(_, invocation)| invocation.lingers())
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the invocations in flight, oldest first.
    pub fn ids(&self) -> Vec<InvocationId> {
        let mut ids: Vec<_> = self.in_flight.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
