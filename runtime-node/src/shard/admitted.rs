//! What a request has that was let in: an isolate and the permits for it.

use std::rc::Rc;

use http::StatusCode;
use tenon_proto::failure::Failure;
use tenon_proto::id::RevisionDigest;

use super::Shard;
use super::resident::Resident;
use crate::admission::Permit;
#[cfg(doc)]
use crate::engine::Isolate;
use crate::engine::{FetchRequest, FetchResponse, Pass, ScheduledEvent};
use crate::tenants::{Place, Tenant};

/// What somebody wants of a shard.
pub(super) struct Ask {
    pub(super) tenant: Rc<Tenant>,
    /// "namespace/name"
    pub(super) worker: Box<str>,
    pub(super) digest: RevisionDigest,
    /// It cannot be sent elsewhere on this node any more.
    pub(super) stay: bool,
    /// Who has less time left goes first.
    pub(super) deadline: tokio::time::Instant,
}

/// Admission to a Worker's isolate. The permits are held for as long as the response takes.
pub struct Admitted {
    pub(super) shard: Rc<Shard>,
    pub(super) ask: Ask,
    pub(super) resident: Resident,
    pub(super) permits: InFlight,
    pub(super) tunnel: Option<Place>,
}

/// What is held until a response has been sent.
pub enum Permits {
    Request {
        _in_flight: InFlight,
    },
    /// Of a client's WebSocket. It may be open for days, and idle nearly all of the time: if it held what a request holds,
    /// a few of them would leave no room for requests.
    Tunnel {
        _of_worker: Option<Permit>,
        _place: Place,
        _counted: Counted,
    },
}

/// The Worker's permit, its tenant's and the shard's.
pub struct InFlight {
    pub(super) worker: Permit,
    pub(super) _tenant: Permit,
    pub(super) _shard: Permit,
    pub(super) _counted: Counted,
}

/// A place in a gauge.
pub struct Counted(prometheus::IntGauge);

impl Counted {
    pub(super) fn among(gauge: &prometheus::IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Admitted {
    /// The largest request body that the Worker takes, in bytes.
    pub fn request_body_bytes(&self) -> u64 {
        self.resident.request_body_bytes
    }

    /// The same with a place for the tunnel that the request becomes if its Worker agrees.
    ///
    /// # Errors
    /// When there are as many as there may be. Nothing of the request has run.
    pub fn with_tunnel(self) -> Result<Self, Failure> {
        let place = self.shard.tenants.borrow().tunnel(&self.ask.tenant);
        let place = place.map_err(|refusal| self.shard.shed(refusal))?;
        Ok(Self { tunnel: Some(place), ..self })
    }

    /// Delivers the request; dropping the future cancels the invocation. The permits come back with the response, to
    /// be held until it has been sent.
    ///
    /// # Errors
    /// As [`Isolate::deliver`].
    pub async fn fetch(mut self, request: FetchRequest) -> Result<(FetchResponse, Permits), Failure> {
        let pass = self.pass().await?;
        let outcome = self.resident.isolate.deliver(pass, request).await;
        self.shard.weigh(&self.resident);
        let response = outcome?;
        let permits = match self.tunnel {
            Some(place) if response.status == StatusCode::SWITCHING_PROTOCOLS.as_u16() => Permits::Tunnel {
                _of_worker: self.resident.tunnels.try_enter(),
                _place: place,
                _counted: Counted::among(&self.shard.metrics.tunnels),
            },
            _ => Permits::Request { _in_flight: self.permits },
        };
        Ok((response, permits))
    }

    /// Delivers a time of a schedule. The rest as for a request.
    ///
    /// # Errors
    /// As [`Isolate::deliver_scheduled`].
    pub async fn scheduled(mut self, event: ScheduledEvent) -> Result<Permits, Failure> {
        let pass = self.pass().await?;
        let outcome = self.resident.isolate.deliver_scheduled(pass, event).await;
        self.shard.weigh(&self.resident);
        outcome?;
        Ok(Permits::Request { _in_flight: self.permits })
    }

    /// The right to a first turn in an isolate that takes it.
    async fn pass(&mut self) -> Result<Pass, Failure> {
        let mut pass = self.resident.isolate.queue().await;
        // What a limit has stopped meanwhile serves nobody who has not begun.
        while self.resident.spent().is_some() {
            drop(pass);
            (self.resident, self.permits.worker) = self.shard.resident(&self.ask).await?;
            pass = self.resident.isolate.queue().await;
        }
        Ok(pass)
    }
}
