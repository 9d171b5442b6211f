//! The limits that a Worker gets: the limits that it requests, up to the maximum of its pool.
//! This module is pure.
//!
//! ```text
//!  the Worker's own ─► or the pool's default ─► or the platform's ─► at most the pool's maximum
//! ```
//!
//! A Worker that requests more than the maximum gets an error and no new revision. A revision that
//! is older than the maximum keeps serving, with limits that are capped at the maximum.

use tenon_crds::{PoolLimits, PoolRateLimits, RateLimit, RateLimits};
use tenon_proto::catalog;
use tenon_proto::revision::Limits;

/// The error for a limit that exceeds the maximum of the Worker's pool.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "spec.limits.{field}: {requested} is more than RuntimePool {pool:?} allows; set it to {max} or \
     less, or choose another pool"
)]
pub struct OverMaximum {
    field: &'static str,
    requested: i32,
    max: i32,
    pool: String,
}

/// A limit: its name in a spec, and its getter.
type Field = (&'static str, fn(&tenon_crds::Limits) -> Option<i32>);

const CPU_MS: Field = ("cpuMs", |limits| limits.cpu_ms);
const WALL_MS: Field = ("wallMs", |limits| limits.wall_ms);
const MEMORY_MIB: Field = ("memoryMiB", |limits| limits.memory_mib);
const STARTUP_MS: Field = ("startupMs", |limits| limits.startup_ms);
const CONCURRENCY: Field = ("concurrency", |limits| limits.concurrency);
const REQUEST_BODY_MIB: Field = ("requestBodyMiB", |limits| limits.request_body_mib);
const SUBREQUESTS: Field = ("subrequests", |limits| limits.subrequests);

const FIELDS: [Field; 7] =
    [CPU_MS, WALL_MS, MEMORY_MIB, STARTUP_MS, CONCURRENCY, REQUEST_BODY_MIB, SUBREQUESTS];

/// Checks the requested limits against the pool's maximum.
///
/// # Arguments
/// * `pool`, `name` - the limits and the name of the Worker's pool.
///
/// # Errors
/// Fails if a limit exceeds the pool's maximum. The error names the first such limit.
pub fn check(
    requested: &tenon_crds::Limits,
    pool: &PoolLimits,
    name: &str,
) -> Result<(), OverMaximum> {
    for (field, of) in FIELDS {
        if let (Some(requested), Some(max)) = (of(requested), of(&pool.max))
            && requested > max
        {
            return Err(OverMaximum { field, requested, max, pool: name.to_owned() });
        }
    }
    Ok(())
}

/// Returns the limits that a node enforces.
pub fn granted(requested: &tenon_crds::Limits, pool: &PoolLimits) -> Limits {
    let platform = Limits::default();
    let grant = |(_, of): Field, platform: u32| {
        // The schema does not allow negative limits.
        let value = |limits| of(limits).and_then(|value| u32::try_from(value).ok());
        let requested_or_default =
            value(requested).or_else(|| value(&pool.default)).unwrap_or(platform);
        value(&pool.max).map_or(requested_or_default, |max| requested_or_default.min(max))
    };
    Limits {
        cpu_ms: grant(CPU_MS, platform.cpu_ms),
        wall_ms: grant(WALL_MS, platform.wall_ms),
        memory_mib: grant(MEMORY_MIB, platform.memory_mib),
        startup_ms: grant(STARTUP_MS, platform.startup_ms),
        concurrency: grant(CONCURRENCY, platform.concurrency),
        request_body_mib: grant(REQUEST_BODY_MIB, platform.request_body_mib),
        subrequests: grant(SUBREQUESTS, platform.subrequests),
    }
}

/// Returns the rates of a Worker's requests, if any is limited.
pub fn rates(worker: Option<RateLimits>, pool: PoolRateLimits) -> Option<catalog::RateLimits> {
    let RateLimits { worker, client } = worker.unwrap_or_default();
    let PoolRateLimits { namespace } = pool;
    let rate = |limit: RateLimit| {
        let number = |number: i32| u32::try_from(number).unwrap_or(1).max(1);
        let burst = limit.burst.unwrap_or(limit.requests_per_second);
        let requests_per_second = number(limit.requests_per_second);
        catalog::RateLimit { requests_per_second, burst: number(burst) }
    };
    let [worker, client, namespace] = [worker, client, namespace].map(|limit| limit.map(rate));
    let is_limited = worker.or(client).or(namespace).is_some();
    is_limited.then_some(catalog::RateLimits { worker, client, namespace })
}

#[cfg(test)]
mod tests {
    use tenon_crds::Limits as RequestedLimits;

    use super::*;

    fn cpu(cpu_ms: i32) -> RequestedLimits {
        RequestedLimits { cpu_ms: Some(cpu_ms), ..RequestedLimits::default() }
    }

    #[test]
    fn a_worker_gets_its_own_limit_or_the_pools_or_the_platforms() {
        let pool = PoolLimits { default: cpu(20), max: RequestedLimits::default() };
        assert_eq!(granted(&cpu(30), &pool).cpu_ms, 30);
        assert_eq!(granted(&RequestedLimits::default(), &pool).cpu_ms, 20);
        assert_eq!(granted(&RequestedLimits::default(), &PoolLimits::default()), Limits::default());
    }

    #[test]
    fn no_worker_gets_more_than_the_maximum() {
        let pool = PoolLimits { default: RequestedLimits::default(), max: cpu(10) };
        assert_eq!(
            granted(&RequestedLimits::default(), &pool).cpu_ms,
            10,
            "the platform's limit is not capped"
        );
        assert_eq!(granted(&cpu(11), &pool).cpu_ms, 10);
        assert_eq!(granted(&cpu(9), &pool).cpu_ms, 9);
    }

    #[test]
    fn a_limit_above_the_maximum_is_refused_with_its_name_and_a_remedy() {
        let pool = PoolLimits {
            default: RequestedLimits::default(),
            max: RequestedLimits { memory_mib: Some(64), ..RequestedLimits::default() },
        };
        let requested = RequestedLimits { memory_mib: Some(65), ..cpu(30_000) };
        let message = check(&requested, &pool, "shared").unwrap_err().to_string();
        let expected = "spec.limits.memoryMiB: 65 is more than RuntimePool \"shared\" allows; \
                        set it to 64 or less, or choose another pool";
        assert_eq!(message, expected);
        assert_eq!(
            check(&RequestedLimits { memory_mib: Some(64), ..requested }, &pool, "shared"),
            Ok(())
        );
    }

    #[test]
    fn every_limit_of_a_worker_has_a_maximum() {
        let all = |n| RequestedLimits {
            cpu_ms: Some(n),
            wall_ms: Some(n),
            memory_mib: Some(n),
            startup_ms: Some(n),
            concurrency: Some(n),
            request_body_mib: Some(n),
            subrequests: Some(n),
        };
        assert_eq!(serde_json::to_value(all(1)).unwrap().as_object().unwrap().len(), FIELDS.len());
        for (field, of) in FIELDS {
            assert_eq!(serde_json::to_value(all(1)).unwrap()[field], 1);
            assert_eq!(of(&all(1)), Some(1));
        }
    }
}
