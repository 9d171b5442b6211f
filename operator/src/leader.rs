//! Leader election by Lease: one replica writes, the others stand by.
//!
//! The protocol is that of Kubernetes' own components (client-go's `leaderelection`). The holder
//! renews the Lease. A candidate that sees no renewal for the Lease's duration, by its own clock,
//! takes the Lease. Writes carry the resource version that was read, so only one of two concurrent
//! attempts succeeds.
//!
//! [`fence`] ends the leader's other writes with its term.

mod fence;

use std::future::pending;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use prometheus::{IntGauge, Registry};
use tenon_lifecycle::drain;
use tenon_lifecycle::metrics::Register as _;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

const NAME: &str = "tenon-operator";

/// Duration for which a holder that does not renew the Lease keeps it. Another replica sees the
/// last renewal within [`PERIOD`], so it leads within 15 s after the holder stops. client-go's
/// default duration is 15 s.
const DURATION: Duration = Duration::from_secs(12);

/// Time after which a holder that cannot renew the Lease stops leading. It passes before another
/// replica may begin to lead.
const RENEW_DEADLINE: Duration = Duration::from_secs(8);

/// Interval between attempts to renew or take the Lease.
const PERIOD: Duration = Duration::from_secs(2);

/// Registers the gauge that shows whether this replica leads.
///
/// # Errors
/// Fails if the registry already has this gauge.
pub fn register(registry: &Registry) -> prometheus::Result<IntGauge> {
    registry.gauge("tenon_operator_leader", "1 on the leader, 0 on standbys.")
}

/// Returns a stream with one item each time this replica becomes the leader.
pub fn starts(leading_rx: watch::Receiver<bool>) -> impl Stream<Item = ()> {
    tokio_stream::wrappers::WatchStream::from_changes(leading_rx)
        .filter_map(|leads| async move { leads.then_some(()) })
}

/// A candidate in the leader election.
pub struct Election {
    leases: Api<Lease>,
    identity: String,
    /// End of this replica's term, while it leads.
    until_tx: watch::Sender<Option<Instant>>,
}

/// The last observed change of the Lease, and the time at which it was observed.
struct Observed {
    holder: Option<String>,
    renewed: Option<MicroTime>,
    at: Instant,
}

impl Observed {
    /// Returns the time at which the Lease expires if it is not renewed.
    fn expiry(&self) -> Instant {
        self.at + DURATION
    }
}

/// Sleeps until `at` if it is in the future, and forever otherwise.
async fn sleep_until_future(at: Option<Instant>) {
    match at.filter(|at| *at > Instant::now()) {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

impl Election {
    /// Creates the candidacy of a replica.
    ///
    /// # Arguments
    /// * `namespace` - the namespace of the Lease.
    /// * `identity` - a name that is unique among the replicas, such as the Pod's name.
    pub fn new(client: Client, namespace: &str, identity: String) -> Self {
        let leases = Api::namespaced(client, namespace);
        Self { leases, identity, until_tx: watch::channel(None).0 }
    }

    /// Returns a client like `client`, whose writes succeed only while this replica leads.
    pub fn fenced(&self, client: &Client) -> Client {
        fence::fenced(client, self.until_tx.subscribe())
    }

    /// Publishes in `leading_tx` whether this replica leads, until the drain. Then releases the
    /// Lease, so that another replica can take it without waiting.
    pub async fn run(self, leading_tx: watch::Sender<bool>, drain: drain::Watch) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut observed: Option<Observed> = None;
        let mut renewed_at = None;
        loop {
            let expiry = observed.as_ref().map(Observed::expiry);
            tokio::select! {
                _ = ticks.tick() => {}
                () = sleep_until_future(expiry) => {}
                () = drain.signaled() => break,
            }
            // The other replicas measure the Lease's duration from a time after the write, and
            // therefore after this time.
            let attempted_at = Instant::now();
            match tokio::time::timeout(RENEW_DEADLINE, self.attempt(&mut observed)).await {
                Ok(Ok(true)) => renewed_at = Some(attempted_at),
                Ok(Ok(false)) => renewed_at = None,
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew or acquire the Lease"),
                Err(_) => tracing::warn!("the API server does not respond"),
            }
            self.until_tx.send_replace(renewed_at.map(|at| at + RENEW_DEADLINE));
            let leads = renewed_at.is_some_and(|at| at.elapsed() < RENEW_DEADLINE);
            if leading_tx.send_if_modified(|leading| std::mem::replace(leading, leads) != leads) {
                tracing::info!(identity = self.identity, leads, "leadership changed");
            }
        }
        self.until_tx.send_replace(None);
        if leading_tx.send_replace(false)
            && let Err(error) = self.release().await
        {
            tracing::warn!(%error, "cannot release the Lease; it will expire");
        }
    }

    /// Renews the Lease, or takes it if it is free or expired. Returns whether this replica holds
    /// the Lease.
    async fn attempt(&self, observed: &mut Option<Observed>) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
                spec: Some(self.own_spec(0)),
            };
            return won(self.leases.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
        let has_changed = observed.as_ref().is_none_or(|observed| {
            observed.holder != holder || observed.renewed != spec.renew_time
        });
        if has_changed {
            *observed = Some(Observed {
                holder: holder.clone(),
                renewed: spec.renew_time,
                at: Instant::now(),
            });
        }
        let is_ours = holder.as_deref() == Some(&self.identity);
        let has_expired =
            observed.as_ref().is_some_and(|observed| Instant::now() >= observed.expiry());
        if !(is_ours || holder.is_none() || has_expired) {
            return Ok(false);
        }
        let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(!is_ours);
        let acquired = spec.acquire_time.filter(|_| is_ours);
        let own = self.own_spec(transitions);
        lease.spec = Some(LeaseSpec { acquire_time: acquired.or(own.acquire_time.clone()), ..own });
        won(self.leases.replace(NAME, &PostParams::default(), &lease).await)
    }

    fn own_spec(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(DURATION.as_secs() as i32),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    async fn release(&self) -> Result<(), kube::Error> {
        let mut lease = self.leases.get(NAME).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&self.identity) {
            spec.holder_identity = Some(String::new());
            self.leases.replace(NAME, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}

/// Returns whether a write succeeded. A conflict with another replica's write is not an error.
fn won(result: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(error)) if error.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
