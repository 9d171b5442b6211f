//! What an isolate has to do with its shard's HTTP client: on whose behalf requests are made, what they cost the
//! invocation that makes them, and how they are given up.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{AbortHandle, Abortable};
use futures::{Stream, StreamExt as _};
use rustc_hash::FxHashMap;
use tenon_proto::egress::Egress;
use tenon_proto::id::WorkerId;
use tenon_proto::revision::Revision;

use super::Engine;
use super::invocation::InvocationId;
use super::services::Services;
use super::state::State;
use super::streams::{Broken, ByteStream};
use crate::egress::{Account, Bytestream, Client, Ledger};

/// One for each isolate.
pub(super) struct Outbound {
    pub(super) client: Rc<Client>,
    pub(super) services: Rc<dyn Services>,
    worker: WorkerId,
    egress: Rc<Egress>,
    pub(super) aborts: Aborts,
}

impl Outbound {
    pub(super) fn new(engine: &Engine, revision: &Revision) -> Rc<Self> {
        Rc::new(Self {
            client: Rc::clone(&engine.egress),
            services: Rc::clone(&engine.services),
            worker: revision.worker.clone(),
            egress: Rc::new(revision.egress.clone()),
            aborts: Aborts::default(),
        })
    }

    /// Of the isolate that `scope` is in.
    pub(super) fn of(scope: &v8::PinScope<'_, '_>) -> Rc<Self> {
        scope.get_slot::<Rc<Self>>().expect("every isolate gets one when it is made").clone()
    }

    /// On behalf of an invocation.
    pub(super) fn account(&self, state: &Rc<State>, invocation: InvocationId) -> Account {
        let ledger = Rc::new(Purse { state: Rc::downgrade(state), invocation });
        Account { worker: self.worker.clone(), egress: Rc::clone(&self.egress), ledger }
    }
}

/// What an invocation may spend. Requests outlive neither it nor its isolate.
struct Purse {
    state: Weak<State>,
    invocation: InvocationId,
}

impl Ledger for Purse {
    fn subrequest(&self) -> Result<(), u32> {
        self.state.upgrade().map_or(Err(0), |state| state.subrequest(self.invocation))
    }

    fn hold(&self, bytes: usize) -> Option<Box<dyn Any>> {
        let charge = self.state.upgrade()?.buffers.charge(bytes)?;
        Some(Box::new(charge))
    }
}

/// Requests that may be given up before their end, by numbers that JavaScript knows them by.
#[derive(Clone, Default)]
pub(super) struct Aborts(Rc<Handles>);

#[derive(Default)]
struct Handles {
    made: Cell<u32>,
    /// Of a request until there is a response, and then of that one's body.
    by_number: RefCell<FxHashMap<u32, AbortHandle>>,
}

/// A number that is in use.
pub(super) struct Abortee {
    handles: Rc<Handles>,
    number: u32,
}

impl Aborts {
    /// A number that no other has.
    pub(super) fn next(&self) -> u32 {
        // Numbers come back after four billion, of which no request is left.
        self.0.made.set(self.0.made.get().wrapping_add(1).max(1));
        self.0.made.get()
    }

    /// What is given up when that is asked for under this number.
    pub(super) fn enter(&self, number: u32) -> Abortee {
        Abortee { handles: Rc::clone(&self.0), number }
    }

    /// Whether neither a request nor the body of a response goes by this number.
    pub(super) fn is_over(&self, number: u32) -> bool {
        !self.0.by_number.borrow().contains_key(&number)
    }

    pub(super) fn abort(&self, number: u32) {
        let handle = self.0.by_number.borrow().get(&number).cloned();
        if let Some(handle) = handle {
            handle.abort();
        }
    }
}

impl Abortee {
    /// Work that ends when it is given up. From now on this is what is.
    pub(super) fn follow<T>(&self, work: T) -> Abortable<T> {
        let (handle, registration) = AbortHandle::new_pair();
        self.handles.by_number.borrow_mut().insert(self.number, handle);
        Abortable::new(work, registration)
    }
}

impl Drop for Abortee {
    fn drop(&mut self) {
        self.handles.by_number.borrow_mut().remove(&self.number);
    }
}

/// A response's body as other streams of JavaScript's are, which breaks off when it is given up.
///
/// # Arguments
/// * `abortee` - of the request, if it may be.
pub(super) fn received(body: Bytestream, abortee: Option<Abortee>) -> ByteStream {
    breakable(body.map(|piece| piece.map_err(|error| Broken::Lost(error.to_string().into()))).boxed_local(), abortee)
}

/// The same of a body that is one of those already.
pub(super) fn breakable(body: ByteStream, abortee: Option<Abortee>) -> ByteStream {
    match abortee {
        None => body,
        Some(abortee) => {
            let body = abortee.follow(body);
            Receiving { body, told: false, _abortee: abortee }.boxed_local()
        }
    }
}

struct Receiving {
    body: Abortable<ByteStream>,
    told: bool,
    _abortee: Abortee,
}

impl Stream for Receiving {
    type Item = Result<Bytes, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.body.poll_next_unpin(cx));
        if next.is_none() && self.body.is_aborted() && !self.told {
            self.told = true;
            return Poll::Ready(Some(Err(Broken::Lost("the fetch was aborted".into()))));
        }
        Poll::Ready(next)
    }
}
