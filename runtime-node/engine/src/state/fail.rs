//! Fails invocations, and condemns or seals the isolate.
//!
//! A *condemned* isolate gets no new invocations and finishes those in flight; a *sealed* isolate
//! is never entered again.

use tenon_proto::failure::{Failure, FailureCode, Phase, Place};

use super::State;
use crate::callbacks::OnPanic;
use crate::exception::Exception;
use crate::ids::InvocationId;
use crate::invocation::Event;
use crate::log::Severity;

impl State {
    /// Fails the invocation, unless it has an outcome. Ends it if only `waitUntil` keeps it alive.
    pub fn fail(&self, id: InvocationId, code: FailureCode) {
        self.fail_at(id, code, None);
    }

    /// Fails the invocation like [`State::fail`], and records the place of the failure.
    ///
    /// # Arguments
    /// * `place` - the place at which the Worker's code threw, if it threw.
    fn fail_at(&self, id: InvocationId, code: FailureCode, place: Option<Place>) {
        let (event, pending, detached) = match self.invocations.borrow().get(id) {
            Some(invocation) => {
                (invocation.event, invocation.is_pending(), invocation.is_detached())
            }
            None => return,
        };
        if pending {
            if code != FailureCode::WorkerException {
                self.log(Some(id), Severity::Error, &format!("failed: {code}"));
            }
            self.set_outcome(id, Err(Failure { place, ..failure(code, event) }));
        } else if detached {
            self.log(
                Some(id),
                Severity::Warn,
                &format!("ended while waiting after its response: {code}"),
            );
            self.remove(id);
        }
    }

    /// Fails the invocation because of an uncaught exception, which is logged.
    pub fn threw(&self, id: InvocationId, exception: &Exception) {
        self.log_uncaught(Some(id), "uncaught", exception);
        let code = if self.buffers.is_exhausted() {
            // This isolate is replaced, because its successor starts with an unused budget.
            self.condemn(FailureCode::MemoryLimitExceeded);
            FailureCode::MemoryLimitExceeded
        } else {
            FailureCode::WorkerException
        };
        self.fail_at(id, code, exception.location.clone());
    }

    /// Marks the isolate so that it gets no new invocations. If this is called again, the first
    /// code is kept.
    pub fn condemn(&self, code: FailureCode) {
        if self.condemned.get().is_none() {
            self.condemned.set(Some(code));
            self.condemnation.notify_one();
        }
    }

    /// Returns the code with which the isolate was condemned, if it was.
    pub fn condemned(&self) -> Option<FailureCode> {
        self.condemned.get()
    }

    /// Fails all invocations in flight and ensures that the isolate is never entered again, because
    /// its heap is full or its state cannot be trusted.
    pub(crate) fn seal(&self, code: FailureCode) {
        self.sealed.set(true);
        self.condemn(code);
        let ids = self.invocations.borrow().ids();
        ids.into_iter().for_each(|id| self.fail(id, code));
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.get()
    }
}

impl OnPanic for State {
    fn native_function_panicked(&self) {
        self.seal(FailureCode::Internal);
    }
}

/// Returns the failure that the caller gets.
fn failure(code: FailureCode, event: Event) -> Failure {
    let phase = match event {
        Event::Start => Phase::Start,
        Event::Fetch | Event::Scheduled => Phase::Handler,
    };
    // An error during the start of a Worker is a failed start. The codes of limits are kept,
    // because they are more specific.
    let code = match (code, event) {
        (FailureCode::NoResponse | FailureCode::WorkerException, Event::Start) => {
            FailureCode::WorkerStartFailed
        }
        (code, _) => code,
    };
    let message = match code {
        FailureCode::CpuLimitExceeded => "the Worker exceeded its CPU time limit",
        FailureCode::MemoryLimitExceeded => "the Worker exceeded its memory limit",
        FailureCode::WallLimitExceeded => "the Worker exceeded its wall-clock limit",
        FailureCode::NoResponse => "the Worker's handler will never respond",
        FailureCode::WorkerStartFailed => "the Worker failed to start; see its log",
        FailureCode::WorkerException => "the Worker threw an exception; see its log",
        _ => "the Worker failed",
    };
    Failure::new(code, phase, message)
}
