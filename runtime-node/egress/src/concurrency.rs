//! Limits the concurrent requests of each Worker, of each tenant and of the shard.
//!
//! A request holds a **permit** until the head of its response has arrived, and queues for a permit
//! if all are taken. The response is then **open** until its body has ended or been dropped. Open
//! responses beyond the limit are refused instead of queued: if they were queued, a Worker that
//! awaits a hundred heads before it reads any body would wait for itself.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit as Permit, Semaphore};

use super::EgressError;

/// The limits of a shard's requests and connections. Each open response uses a connection or one
/// stream of a connection.
#[derive(Clone, Copy, Debug)]
pub struct EgressBounds {
    /// Maximum number of a Worker's requests that wait for a head: far more than a page or an API
    /// call needs concurrently, and few enough that a loop over a long list does not flood the
    /// origin.
    pub waiting_per_worker: u32,
    pub waiting_per_tenant: u32,
    pub waiting_per_shard: u32,
    pub open_per_worker: u32,
    pub open_per_tenant: u32,
    pub open_per_shard: u32,
    /// Maximum numbers of idle connections that are kept for later requests.
    pub idle_per_origin: usize,
    pub idle_per_shard: usize,
    /// Time for which idle connections are kept. Many origins close idle connections after a
    /// minute.
    pub idle_timeout: Duration,
    /// Time limit for all attempts to connect together.
    pub connect_timeout: Duration,
}

impl Default for EgressBounds {
    fn default() -> Self {
        Self {
            waiting_per_worker: 64,
            waiting_per_tenant: 256,
            waiting_per_shard: 1024,
            open_per_worker: 256,
            open_per_tenant: 1024,
            open_per_shard: 4096,
            idle_per_origin: 8,
            idle_per_shard: 256,
            idle_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// The permits of one scope: of a Worker, of a tenant or of the shard.
struct Scope {
    waiting: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

/// A shard's limits.
pub(super) struct ConcurrencyLimits {
    bounds: EgressBounds,
    shard: Rc<Scope>,
    tenants: RefCell<FxHashMap<Rc<str>, Weak<Scope>>>,
    workers: RefCell<FxHashMap<Rc<str>, Weak<Scope>>>,
}

/// The right to wait for a response.
pub(super) struct RequestPermit {
    scopes: [Rc<Scope>; 3],
    _waiting: [Permit; 3],
}

/// The right to have a response open.
pub(super) struct Open {
    _permits: [Permit; 3],
    /// Keeps the scopes in the maps of [`ConcurrencyLimits`], which refer to them weakly.
    _scopes: [Rc<Scope>; 3],
}

/// The names of the scopes in errors.
const SCOPES: [&str; 3] = ["the Worker", "the namespace", "the shard"];

impl ConcurrencyLimits {
    pub(super) fn new(bounds: EgressBounds) -> Self {
        let shard = Scope::new(bounds.waiting_per_shard, bounds.open_per_shard);
        Self { bounds, shard, tenants: RefCell::default(), workers: RefCell::default() }
    }

    /// Waits for a permit.
    pub(super) async fn acquire(&self, worker: &str, tenant: &str) -> RequestPermit {
        let EgressBounds {
            waiting_per_worker,
            open_per_worker,
            waiting_per_tenant,
            open_per_tenant,
            ..
        } = self.bounds;
        let scopes = [
            scope(&self.workers, worker, waiting_per_worker, open_per_worker),
            scope(&self.tenants, tenant, waiting_per_tenant, open_per_tenant),
            Rc::clone(&self.shard),
        ];
        let [of_worker, of_tenant, of_shard] = &scopes;
        // The narrowest limit comes first, so that a request that queues at it holds no permit for
        // which other Workers or tenants wait.
        let waiting =
            [of_worker.acquire().await, of_tenant.acquire().await, of_shard.acquire().await];
        RequestPermit { scopes, _waiting: waiting }
    }
}

impl RequestPermit {
    /// Exchanges the permit for an open response, once the response's head has arrived.
    ///
    /// # Errors
    /// Fails if the limit on open responses is reached.
    pub(super) fn open(self) -> Result<Open, EgressError> {
        let [of_worker, of_tenant, of_shard] = &self.scopes;
        let open = |at: usize, scope: &Scope| {
            Arc::clone(&scope.open)
                .try_acquire_owned()
                .map_err(|_| EgressError::TooManyOpen(SCOPES[at]))
        };
        let permits = [open(0, of_worker)?, open(1, of_tenant)?, open(2, of_shard)?];
        Ok(Open { _permits: permits, _scopes: self.scopes })
    }
}

impl Scope {
    fn new(waiting: u32, open: u32) -> Rc<Self> {
        // The limits on operations in flight bound the length of the queue.
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        Rc::new(Self { waiting: semaphore(waiting), open: semaphore(open) })
    }

    /// Waits for a permit, in order of arrival.
    async fn acquire(&self) -> Permit {
        Arc::clone(&self.waiting).acquire_owned().await.expect("the semaphore is never closed")
    }
}

/// Returns the scope with this name, and creates it if it does not exist.
fn scope(
    scopes: &RefCell<FxHashMap<Rc<str>, Weak<Scope>>>,
    name: &str,
    waiting: u32,
    open: u32,
) -> Rc<Scope> {
    let mut scopes = scopes.borrow_mut();
    if let Some(scope) = scopes.get(name).and_then(Weak::upgrade) {
        return scope;
    }
    // Unused scopes are removed only when the number of scopes is a power of two, so that most
    // insertions cost constant time.
    if scopes.len().is_power_of_two() {
        scopes.retain(|_, scope| scope.strong_count() > 0);
    }
    let scope = Scope::new(waiting, open);
    scopes.insert(name.into(), Rc::downgrade(&scope));
    scope
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn limits() -> ConcurrencyLimits {
        ConcurrencyLimits::new(EgressBounds {
            waiting_per_worker: 2,
            waiting_per_tenant: 3,
            open_per_worker: 2,
            ..EgressBounds::default()
        })
    }

    #[test]
    fn a_worker_waits_for_its_own_permits_and_for_its_tenants_permits() {
        let limits = limits();
        let acquire = |worker| Box::pin(limits.acquire(worker, "a"));
        let first = acquire("a/1").now_or_never().unwrap();
        let _second = acquire("a/1").now_or_never().unwrap();
        let mut third = acquire("a/1");
        assert!(third.as_mut().now_or_never().is_none());
        let _other = acquire("a/2").now_or_never().unwrap();
        let mut more = acquire("a/3");
        assert!(more.as_mut().now_or_never().is_none());
        assert!(Box::pin(limits.acquire("b/1", "b")).now_or_never().is_some());
        drop(first);
        // One permit of the tenant and one of the Worker `a/1` are free.
        assert!(third.now_or_never().is_some() || more.now_or_never().is_some());
    }

    #[test]
    fn a_worker_has_a_bounded_number_of_open_responses() {
        let limits = limits();
        let acquire = || limits.acquire("a/1", "a").now_or_never().unwrap();
        let first = acquire().open().unwrap();
        let _second = acquire().open().unwrap();
        assert!(matches!(acquire().open(), Err(EgressError::TooManyOpen("the Worker"))));
        drop(first);
        assert!(acquire().open().is_ok());
    }

    #[test]
    fn workers_and_tenants_without_requests_are_forgotten() {
        let limits = limits();
        for n in 0..1000 {
            limits.acquire(&format!("a/{n}"), &format!("{n}")).now_or_never().unwrap();
        }
        assert!(limits.workers.borrow().len() < 600 && limits.tenants.borrow().len() < 600);
    }
}
