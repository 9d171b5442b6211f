//! The connections of a thread's clients, and what each client may take: memory, connections and a
//! rate of requests. If no memory is left, this crate decides which connection is ended.
//!
//! ```text
//!  admitted ──► waiting: for a head, its end, or the next ──► requests in flight ──┐
//!                  │  ▲────────────────────────────────────────────────────────────┘
//!                  └── memory is short, or the wait was too long ──► ended
//! ```
//!
//! A connection that waits for its client can be ended at any time. A connection with a request in
//! flight can be ended only if its client has left all responses unread for some seconds. When
//! memory is short, a few connections are sampled at random. Among the sampled connections, the
//! address that holds the most memory loses the connection that has waited longest. The larger a
//! crowd of clients, the larger its part of the sample, so the connections need not be sorted.
//!
//! This crate covers the layer below HTTP: the bytes of a connection, and the resources that a
//! connection may take.
//!
//! - [`preface`]: distinguishes HTTP/1 and HTTP/2 by the first bytes.
//! - [`filter`], [`head`]: pass whole and unambiguous HTTP/1 messages to hyper, and whole heads to
//!   the fast path.
//! - [`pace`]: how slowly a client may send a body.
//! - [`metrics`]: the metrics of clients' connections.
//! - [`activity`], [`order`]: whether a connection works or waits, and instructions to it.
//! - [`memory`], [`descriptors`]: the limits for all clients of the process together.
//! - [`quota`]: how addresses share a resource. Pure.
//! - [`rate`]: how many requests may arrive per second. Pure.
//!
//! The crate knows nothing of the router that uses it. Its types are `Send`, because hyper requires
//! that of upgraded connections; only the owning thread uses them, so no lock is ever contended.
//! [`rate`] alone is shared by all threads.

mod activity;
pub mod descriptors;
pub mod filter;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod head;
pub mod memory;
pub mod metrics;
pub mod order;
pub mod pace;
pub mod preface;
pub mod quota;
pub mod rate;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tenon_https::TlsMemory;

pub use crate::activity::Activity;
use crate::head::Refusal;
use crate::order::{Order, Orders};
use crate::quota::{Account, Hold, Peer, Quota};

/// The timeout for a client to send the head of a request. The timeout for the first request begins
/// with the connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The idle time after which a connection rests, which means that it gives up its buffers.
const REST_AFTER: Duration = Duration::from_secs(1);

/// The idle time after which a connection rests while more than half of the memory is taken.
const REST_SOON: Duration = Duration::from_millis(50);

/// The interval between two sweeps over the connections.
pub const SWEEP: Duration = Duration::from_millis(250);

/// The memory that a connection takes while it rests, in bytes: the socket in the kernel, and the
/// task.
const RESTING: usize = 6 * 1024;
/// The memory that a connection takes while it works in HTTP/1, in bytes, with the buffers of the
/// protocol.
pub const HTTP1: usize = 24 * 1024;
/// The memory that a connection takes while it works in HTTP/2, in bytes, with the buffers of the
/// protocol.
pub const HTTP2: usize = 64 * 1024;

/// The amount of unsent data, in bytes, at which the kernel accepts no more data.
pub const UNSENT: u32 = 32 * 1024;
/// The maximum memory that the kernel takes for a response that its client does not read, in bytes:
/// the unsent data, and the largest buffer that the kernel begins below [`UNSENT`].
const UNREAD: usize = UNSENT as usize + 64 * 1024;

/// The memory that a request takes in addition to its body, in bytes: the parsed head, and the
/// message that is made from the head.
pub const REQUEST: usize = 8 * 1024;

/// The number of connections in a sample, from which one connection is chosen to be ended.
const SAMPLE: usize = 24;
/// The maximum number of connections that are ended for one connection that needs memory.
const MAX_SHED: usize = 32;

/// The maximum number of times that connections of one address may grow at the expense of other
/// connections between two sweeps. Otherwise a crowd of clients that reconnects again and again,
/// and sends much data each time, would keep the thread busy with ending other connections.
const MAX_GROWTHS: u32 = 16;

/// The clients of a thread.
pub struct Clients {
    memory: Quota,
    connections: Quota,
    idle_timeout: Duration,
    list: Arc<Mutex<List>>,
    started: Instant,
}

#[derive(Default)]
struct List {
    clients: Vec<Arc<Client>>,
    random: fastrand::Rng,
    /// The number of connections that were ended or refused for lack of memory or descriptors.
    shed: u64,
}

/// A client's connection.
pub struct Client {
    account: Account,
    /// The memory that the connection takes for TLS.
    tls: TlsMemory,
    held: Mutex<Held>,
    list: Weak<Mutex<List>>,
    index: AtomicUsize,
    pub activity: Activity,
    /// The instructions to the task of the connection.
    pub orders: Orders,
    handling: AtomicU8,
    refusal: Mutex<Option<Refusal>>,
}

/// The resources that a connection holds.
struct Held {
    memory: Hold,
    /// The connection's file descriptor.
    descriptor: Hold,
}

/// The treatment of the bytes that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteHandling {
    /// The bytes are HTTP/1, and are checked.
    Checked = 0,
    /// The bytes are held until it is known whether they belong to a tunnel.
    Held = 1,
    /// The bytes belong to a tunnel or to HTTP/2, and pass unchecked.
    Unchecked = 2,
}

/// A connection, which is counted until this value is dropped.
pub struct Admitted(Arc<Client>);

/// A request of a connection. This value is dropped when the response has been written.
pub struct InFlight {
    client: Arc<Client>,
    is_unread: bool,
}

impl Clients {
    /// Creates the empty list of a thread's clients.
    ///
    /// # Arguments
    /// * `memory` - the memory limit for all connections together, in bytes.
    /// * `connections` - the maximum number of connections.
    /// * `idle_timeout` - the maximum idle time of a connection between two requests.
    pub fn new(memory: usize, connections: usize, idle_timeout: Duration) -> Self {
        let [memory, connections] = [memory, connections].map(Quota::new);
        Self { memory, connections, idle_timeout, list: Arc::default(), started: Instant::now() }
    }

    /// Admits a connection, if necessary in place of waiting connections. Returns `None` if there
    /// is no memory or no descriptor for the connection.
    ///
    /// # Arguments
    /// * `tls` - the memory that the connection takes for TLS.
    pub fn admit(&self, address: IpAddr, tls: TlsMemory) -> Option<Admitted> {
        let peer = Peer::from(address);
        let (account, descriptors) = (self.memory.account(peer), self.connections.account(peer));
        let held = take_or_shed(&self.list, &account, || {
            Some(Held {
                memory: account.take(RESTING + tls.active)?,
                descriptor: descriptors.take(1)?,
            })
        })?;
        let mut list = lock(&self.list);
        let client = Arc::new(Client {
            account,
            tls,
            held: Mutex::new(held),
            list: Arc::downgrade(&self.list),
            index: AtomicUsize::new(list.clients.len()),
            activity: Activity::new(self.started),
            orders: Orders::default(),
            handling: AtomicU8::new(ByteHandling::Checked as u8),
            refusal: Mutex::new(None),
        });
        list.clients.push(client.clone());
        Some(Admitted(client))
    }

    /// Ends connections that have waited for too long, and tells other waiting connections to give
    /// up their buffers.
    pub fn sweep(&self) {
        let now = Instant::now();
        let rest_after = if self.memory.is_half_taken() { REST_SOON } else { REST_AFTER };
        for client in &lock(&self.list).clients {
            // An HTTP/2 connection is closed if its client does not answer pings.
            let activity = &client.activity;
            if activity.has_requests() || client.handling() == ByteHandling::Unchecked {
                continue;
            }
            let waited = activity.waited(now);
            let timeout = if activity.is_idle() { self.idle_timeout } else { HEAD_TIMEOUT };
            if waited >= timeout {
                client.orders.give(Order::End);
            } else if waited >= rest_after && !activity.is_resting() && activity.may_rest() {
                client.orders.give(Order::Rest);
            }
        }
    }

    /// Returns the memory that clients hold, in bytes.
    pub fn memory(&self) -> usize {
        self.memory.used()
    }

    /// Returns the number of connections that were ended or refused for lack of memory or
    /// descriptors.
    pub fn shed(&self) -> u64 {
        lock(&self.list).shed
    }
}

impl Client {
    /// Records that a request has arrived.
    pub fn begin_request(self: &Arc<Self>) -> InFlight {
        self.activity.begin_request();
        InFlight { client: self.clone(), is_unread: false }
    }

    /// Takes memory beyond that of the connection itself, in bytes. If necessary, waiting
    /// connections are ended. Returns `None` if there is still not enough.
    pub fn memory(&self, bytes: usize) -> Option<Hold> {
        take_or_shed(self.list.upgrade().as_deref()?, &self.account, || self.account.take(bytes))
    }

    /// Takes memory as [`Client::memory`] does, but only if it is free: no connection is ended.
    pub fn free_memory(&self, bytes: usize) -> Option<Hold> {
        self.account.take(bytes)
    }

    /// Reduces the memory that the connection holds to the memory that it needs while it rests.
    pub fn rest(&self) {
        let _shrinking_always_succeeds = lock(&self.held).memory.resize(RESTING + self.tls.resting);
    }

    /// Sets the memory that the connection itself holds, in bytes, without the memory for TLS.
    /// Returns `false` if there is not enough memory.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> bool {
        let bytes = bytes + self.tls.active;
        let resize = || lock(&self.held).memory.resize(bytes).then_some(());
        resize().is_some()
            || self
                .list
                .upgrade()
                .is_some_and(|list| take_or_shed(&list, &self.account, resize).is_some())
    }

    /// Sets the memory as [`Client::hold`] does, for a connection that needs more memory than
    /// usual: for a long head, or an unread response. The number of connections that are ended for
    /// this growth is limited.
    #[must_use]
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        if lock(&self.held).memory.resize(bytes + self.tls.active) {
            return true;
        }
        let period = (self.activity.uptime().as_millis() / SWEEP.as_millis()) as u32;
        if self.account.count_unmet_demand(period) <= MAX_GROWTHS {
            return self.hold(bytes);
        }
        self.list.upgrade().inspect(|list| lock(list).shed += 1);
        false
    }

    /// Sets the treatment of the bytes that the client sends.
    #[inline]
    pub fn set_handling(&self, handling: ByteHandling) {
        self.handling.store(handling as u8, Relaxed);
    }

    /// Returns the treatment of the bytes that the client sends.
    #[inline]
    pub fn handling(&self) -> ByteHandling {
        match self.handling.load(Relaxed) {
            0 => ByteHandling::Checked,
            1 => ByteHandling::Held,
            _ => ByteHandling::Unchecked,
        }
    }

    pub(crate) fn refuse(&self, refusal: Refusal) {
        *lock(&self.refusal) = Some(refusal);
    }

    /// Returns the reason why a request was refused, or `None` if none was. The current request is
    /// the stand-in for the refused one.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        *lock(&self.refusal)
    }

    /// Ends the connection, and releases its memory and its descriptor immediately.
    fn end(&self) {
        let Held { memory, descriptor } = &mut *lock(&self.held);
        let _shrinking_always_succeeds = (memory.resize(0), descriptor.resize(0));
        self.orders.give(Order::End);
    }

    fn can_end(&self) -> bool {
        self.activity.can_end() && !self.orders.must_end()
    }
}

impl InFlight {
    /// Returns the client whose request this is.
    #[inline]
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Records whether the response waits for the client to read on.
    pub fn set_unread(&mut self, is_unread: bool) {
        if std::mem::replace(&mut self.is_unread, is_unread) != is_unread {
            self.client.activity.count_unread(is_unread);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.set_unread(false);
        self.client.activity.end_request();
    }
}

impl Admitted {
    /// Returns the client whose connection this is.
    pub fn client(&self) -> &Arc<Client> {
        &self.0
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let Self(client) = self;
        let Some(list) = client.list.upgrade() else { return };
        let clients = &mut lock(&list).clients;
        let index = client.index.load(Relaxed);
        clients.swap_remove(index);
        if let Some(moved) = clients.get(index) {
            moved.index.store(index, Relaxed);
        }
    }
}

impl List {
    /// Ends one waiting connection of an address that holds at least `at_least` bytes: an address
    /// loses no connection to an address that holds more. Returns `false` if the sample
    /// contains no such connection.
    fn end_one(&mut self, at_least: usize) -> bool {
        let Self { clients, random, .. } = self;
        let sample =
            (0..SAMPLE.min(clients.len())).map(|_| &clients[random.usize(..clients.len())]);
        let waiting = sample.filter(|client| client.can_end() && client.account.held() >= at_least);
        let now = Instant::now();
        let victim =
            waiting.max_by_key(|client| (client.account.held(), client.activity.waited(now)));
        victim.inspect(|client| client.end()).is_some()
    }
}

/// Calls `take` for an account, and ends up to [`MAX_SHED`] waiting connections until the call
/// succeeds. Counts the ended connections, and the refusal if no call succeeds.
fn take_or_shed<T>(
    list: &Mutex<List>,
    account: &Account,
    mut take: impl FnMut() -> Option<T>,
) -> Option<T> {
    let taken = take();
    if taken.is_some() {
        return taken;
    }
    let mut list = lock(list);
    for _ in 0..MAX_SHED {
        if !list.end_one(account.held()) {
            break;
        }
        list.shed += 1;
        let taken = take();
        if taken.is_some() {
            return taken;
        }
    }
    list.shed += 1;
    None
}

/// Locks a mutex. Poisoning is ignored, because a panic leaves no partial change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
