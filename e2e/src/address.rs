//! Assigns each process its own address, so that all processes use their default ports, as in Pods.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::bail;

/// First value of the last octet of the addresses that `deploy/cluster/up` makes available to
/// processes in the cluster's network namespace.
const FIRST: u8 = 129;
/// Last value of that octet.
const LAST: u8 = 254;

/// A port that every Tenon process listens on. If this port of an address is in use, another
/// process already has the address.
const ADMIN_PORT: u16 = 9090;

static NEXT: AtomicU8 = AtomicU8::new(FIRST);

/// Returns an unused address.
///
/// # Errors
/// Fails if all addresses are in use, or if the suite does not run in the cluster's network
/// namespace.
pub(crate) fn free() -> anyhow::Result<IpAddr> {
    for _ in FIRST..=LAST {
        let step = |last| Some(if last == LAST { FIRST } else { last + 1 });
        let host = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(FIRST);
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, host));
        if TcpListener::bind((address, ADMIN_PORT)).is_ok() {
            return Ok(address);
        }
    }
    bail!(
        "no address of 192.0.2.128/25 is available; run the suite with `make test-e2e`, in the cluster's network namespace"
    )
}
