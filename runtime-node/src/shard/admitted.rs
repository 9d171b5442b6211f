//! An admitted request, with its isolate and its permits.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use http::StatusCode;
#[cfg(doc)]
use tenon_engine::Isolate;
use tenon_engine::{FetchRequest, FetchResponse, Pass, ScheduledEvent};
use tenon_proto::failure::Failure;
use tenon_proto::id::RevisionDigest;

use super::Shard;
use super::resident::Resident;
use crate::admission::Permit;
use crate::tenants::{Tenant, TenantSlot};

/// The parts of a request that admission needs.
pub(super) struct AdmissionRequest {
    pub(super) tenant: Rc<Tenant>,
    /// Worker id, `namespace/name`.
    pub(super) worker: Box<str>,
    pub(super) digest: RevisionDigest,
    /// Whether the request can no longer be sent elsewhere on this node.
    pub(super) stay: bool,
    /// The caller's deadline; earlier deadlines are served first.
    pub(super) deadline: tokio::time::Instant,
    /// Whether the request has waited for a start.
    pub(super) is_cold: Cell<bool>,
}

/// A request that is admitted to a Worker's isolate.
pub struct Admitted {
    pub(super) shard: Rc<Shard>,
    pub(super) admission: AdmissionRequest,
    pub(super) resident: Resident,
    pub(super) permits: InFlight,
    pub(super) tunnel: Option<TenantSlot>,
}

/// A Worker's response to a request, with the permits that the request holds.
pub struct Answer {
    pub response: FetchResponse,
    /// The caller holds the permits until the response has been sent.
    pub permits: Permits,
    /// Whether routers should send a part of the Worker's requests to other shards.
    pub is_hot: bool,
}

/// Permits that are held until a response has been sent or a WebSocket has been closed.
pub enum Permits {
    Request {
        _in_flight: InFlight,
    },
    /// The permits of a client's WebSocket, which may be open for days and idle nearly all the
    /// time: if each WebSocket held the permits of a request, they would leave no room for
    /// requests.
    Tunnel {
        _of_worker: Option<Permit>,
        _slot: TenantSlot,
        _counted: GaugeGuard,
    },
}

/// The permits of the Worker, its tenant and the shard.
pub struct InFlight {
    pub(super) worker: Permit,
    pub(super) _tenant: Permit,
    pub(super) _shard: Permit,
    pub(super) _counted: GaugeGuard,
}

/// A guard that adds one to a gauge, and subtracts it when the guard is dropped.
pub struct GaugeGuard(prometheus::IntGauge);

impl GaugeGuard {
    pub(super) fn new(gauge: &prometheus::IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Admitted {
    /// Returns whether the request has waited for a start of its isolate.
    pub fn is_cold(&self) -> bool {
        self.admission.is_cold.get()
    }

    /// Returns the largest request body that the Worker accepts, in bytes.
    pub fn request_body_bytes(&self) -> u64 {
        self.resident.request_body_bytes
    }

    /// Reserves a slot for the tunnel that the request becomes if its Worker accepts the
    /// WebSocket. This happens before any code runs for the request.
    ///
    /// # Errors
    /// Fails if the tenant or the shard has its maximum number of tunnels.
    pub fn with_tunnel(self) -> Result<Self, Failure> {
        let slot = self.shard.tenants.borrow().reserve_tunnel(&self.admission.tenant);
        let slot = slot.map_err(|refusal| self.shard.shed(refusal))?;
        Ok(Self { tunnel: Some(slot), ..self })
    }

    /// Delivers the request; dropping the future cancels the invocation.
    ///
    /// # Errors
    /// Fails as [`Isolate::deliver`] does or, if a limit stops the isolate before the delivery, as
    /// [`Shard::admit`] does.
    pub async fn fetch(mut self, request: FetchRequest) -> Result<Answer, Failure> {
        let pass = self.pass().await?;
        let outcome = self.resident.isolate.deliver(pass, request).await;
        let now = Instant::now();
        self.shard.weigh(&self.resident, now);
        let is_hot = self.shard.is_hot(&self.resident, now);
        self.shard.count_invocation(&self.resident);
        let response = outcome?;
        let permits = match self.tunnel {
            Some(slot) if response.status == StatusCode::SWITCHING_PROTOCOLS.as_u16() => {
                Permits::Tunnel {
                    _of_worker: self.resident.tunnels.try_acquire(),
                    _slot: slot,
                    _counted: GaugeGuard::new(&self.shard.metrics.admission.tunnels),
                }
            }
            _ => Permits::Request { _in_flight: self.permits },
        };
        Ok(Answer { response, permits, is_hot })
    }

    /// Delivers a scheduled event; dropping the future cancels the invocation.
    ///
    /// # Errors
    /// Fails as [`Isolate::deliver_scheduled`] does or, if a limit stops the isolate before the
    /// delivery, as [`Shard::admit`] does.
    pub async fn scheduled(mut self, event: ScheduledEvent) -> Result<Permits, Failure> {
        let pass = self.pass().await?;
        let outcome = self.resident.isolate.deliver_scheduled(pass, event).await;
        self.shard.weigh(&self.resident, Instant::now());
        self.shard.count_invocation(&self.resident);
        outcome?;
        Ok(Permits::Request { _in_flight: self.permits })
    }

    /// Waits for the right to a first turn in an isolate that still accepts invocations.
    async fn pass(&mut self) -> Result<Pass, Failure> {
        let mut pass = self.resident.isolate.queue().await;
        // An isolate that a limit stops during the wait begins no further invocation.
        while self.resident.spent().is_some() {
            drop(pass);
            (self.resident, self.permits.worker) = self.shard.resident(&self.admission).await?;
            pass = self.resident.isolate.queue().await;
        }
        Ok(pass)
    }
}
