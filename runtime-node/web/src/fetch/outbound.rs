//! The connection between an isolate and its shard's HTTP client: it names the Worker of a request,
//! charges the request to its invocation, and lets JavaScript abort the request.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{AbortHandle, Abortable};
use futures::{Stream, StreamExt as _};
use rustc_hash::FxHashMap;
use tenon_egress::{BodyStream, Client, EgressContext, InvocationBudget};
use tenon_engine::byte_stream::{ByteStream, StreamError};
use tenon_engine::ids::InvocationId;
use tenon_engine::state::State;
use tenon_proto::egress::Egress;
use tenon_proto::id::WorkerId;
use tenon_proto::revision::Revision;

use crate::service::calls::Services;

/// The outbound side of one isolate.
pub(crate) struct Outbound {
    pub(crate) client: Rc<Client>,
    pub(crate) services: Rc<dyn Services>,
    worker: WorkerId,
    egress: Rc<Egress>,
    pub(crate) aborts: Aborts,
}

impl Outbound {
    pub(crate) fn new(
        client: Rc<Client>,
        services: Rc<dyn Services>,
        revision: &Revision,
    ) -> Rc<Self> {
        Rc::new(Self {
            client,
            services,
            worker: revision.worker.clone(),
            egress: Rc::new(revision.egress.clone()),
            aborts: Aborts::default(),
        })
    }

    /// Returns the outbound side of the isolate that `scope` is in.
    pub(crate) fn of(scope: &v8::PinScope<'_, '_>) -> Rc<Self> {
        scope.get_slot::<Rc<Self>>().expect("every isolate is created with an Outbound").clone()
    }

    /// Returns the context of requests on behalf of an invocation.
    pub(crate) fn egress_context(
        &self,
        state: &Rc<State>,
        invocation: InvocationId,
    ) -> EgressContext {
        let budget = Rc::new(StateBudget { state: Rc::downgrade(state), invocation });
        EgressContext { worker: self.worker.clone(), egress: Rc::clone(&self.egress), budget }
    }
}

/// Counts requests toward an invocation's limit, and charges their memory to its isolate. Requests
/// outlive neither the invocation nor the isolate.
struct StateBudget {
    state: Weak<State>,
    invocation: InvocationId,
}

impl InvocationBudget for StateBudget {
    fn subrequest(&self) -> Result<(), u32> {
        self.state.upgrade().map_or(Err(0), |state| state.subrequest(self.invocation))
    }

    fn hold(&self, bytes: usize) -> Option<Box<dyn Any>> {
        let charge = self.state.upgrade()?.buffers.charge(bytes)?;
        Some(Box::new(charge))
    }
}

/// Requests that can be aborted, by the numbers that JavaScript uses for them.
#[derive(Clone, Default)]
pub(crate) struct Aborts(Rc<Handles>);

#[derive(Default)]
struct Handles {
    /// The latest number that [`Aborts::next`] has returned.
    last: Cell<u32>,
    /// The handle of a request until there is a response, and then of the response's body.
    by_number: RefCell<FxHashMap<u32, AbortHandle>>,
}

/// A number under which work can be aborted until the entry is dropped.
pub(crate) struct AbortEntry {
    handles: Rc<Handles>,
    number: u32,
}

impl Aborts {
    /// Returns an unused number.
    pub(crate) fn next(&self) -> u32 {
        // Numbers repeat after four billion, when no request with the old number is left.
        self.0.last.set(self.0.last.get().wrapping_add(1).max(1));
        self.0.last.get()
    }

    /// Returns the entry for a number, under which [`AbortEntry::follow`] registers work.
    pub(crate) fn enter(&self, number: u32) -> AbortEntry {
        AbortEntry { handles: Rc::clone(&self.0), number }
    }

    /// Returns whether no request and no response body has this number.
    pub(crate) fn is_over(&self, number: u32) -> bool {
        !self.0.by_number.borrow().contains_key(&number)
    }

    pub(crate) fn abort(&self, number: u32) {
        let handle = self.0.by_number.borrow().get(&number).cloned();
        if let Some(handle) = handle {
            handle.abort();
        }
    }
}

impl AbortEntry {
    /// Makes `work` abortable under this number, in place of earlier work.
    pub(crate) fn follow<T>(&self, work: T) -> Abortable<T> {
        let (handle, registration) = AbortHandle::new_pair();
        self.handles.by_number.borrow_mut().insert(self.number, handle);
        Abortable::new(work, registration)
    }
}

impl Drop for AbortEntry {
    fn drop(&mut self) {
        self.handles.by_number.borrow_mut().remove(&self.number);
    }
}

/// Converts a response's body into a stream for JavaScript, which fails when the body is aborted.
///
/// # Arguments
/// * `entry` - the request's number, if it can be aborted.
pub(crate) fn received(body: BodyStream, entry: Option<AbortEntry>) -> ByteStream {
    breakable(
        body.map(|piece| piece.map_err(|error| StreamError::Lost(error.to_string().into())))
            .boxed_local(),
        entry,
    )
}

/// Makes a body fail when it is aborted.
pub(crate) fn breakable(body: ByteStream, entry: Option<AbortEntry>) -> ByteStream {
    match entry {
        None => body,
        Some(entry) => {
            let body = entry.follow(body);
            Receiving { body, was_reported: false, _entry: entry }.boxed_local()
        }
    }
}

struct Receiving {
    body: Abortable<ByteStream>,
    was_reported: bool,
    _entry: AbortEntry,
}

impl Stream for Receiving {
    type Item = Result<Bytes, StreamError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.body.poll_next_unpin(cx));
        if next.is_none() && self.body.is_aborted() && !self.was_reported {
            self.was_reported = true;
            return Poll::Ready(Some(Err(StreamError::Lost("the fetch was aborted".into()))));
        }
        Poll::Ready(next)
    }
}
