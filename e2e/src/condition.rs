//! Waits until a condition holds.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep, timeout};

/// Time limit for conditions that should hold immediately. It is much longer than they take on any
/// machine; tests of promised durations have limits of their own.
pub const SOON: Duration = Duration::from_secs(60);

/// Pause between two checks: short compared to what is measured, long compared to the cost of a
/// check.
const PAUSE: Duration = Duration::from_millis(20);

/// Calls `check` until it succeeds.
///
/// # Arguments
/// * `what` - the awaited condition, as the error names it, such as "the Worker to be ready".
/// * `within` - the time until the deadline.
/// * `check` - returns `Ok` if the condition holds, and otherwise the observed state as an `Err`.
///
/// # Errors
/// Fails if the condition does not hold before the deadline. The error contains the last observed
/// state.
pub async fn await_condition<T>(
    what: &str,
    within: Duration,
    mut check: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + within;
    let mut last = None;
    loop {
        // A check that hangs counts as a condition that does not hold.
        match timeout(deadline.saturating_duration_since(Instant::now()), check()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => last = Some(error),
            Err(_) => {}
        }
        if Instant::now() + PAUSE >= deadline {
            match last {
                Some(error) => {
                    bail!("timed out after {within:?} waiting for {what}; last: {error:#}")
                }
                None => bail!("timed out after {within:?} waiting for {what}; no check finished"),
            }
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[tokio::test]
    async fn the_error_contains_the_last_state() {
        let mut checks = 0;
        let error = await_condition::<()>("a condition", Duration::from_millis(100), async || {
            checks += 1;
            Err(anyhow!("not yet"))
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("for a condition; last: not yet"), "{error}");
        assert!(checks > 1, "the condition was checked {checks} times");
    }

    #[tokio::test]
    async fn a_check_that_hangs_does_not_outlast_the_deadline() {
        let error = await_condition::<()>("a condition", Duration::from_millis(50), async || {
            std::future::pending().await
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("no check finished"), "{error}");
    }
}
