//! Waiting for the world to become as it should be.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep, timeout};

/// How long is waited for what should come at once: far longer than that takes on any machine, as what is to be fast is
/// measured where it is promised.
pub const SOON: Duration = Duration::from_secs(60);

/// Between two looks: short against what is measured, long against what a look costs.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until `look` succeeds.
///
/// # Arguments
/// * `what` - what is waited for, for the error: "the Worker to be ready".
/// * `look` - `Ok` is what was waited for, `Err` what is there instead.
///
/// # Errors
/// At the deadline, with what was seen last.
pub async fn await_condition<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + within;
    let mut last = None;
    loop {
        // A look that hangs is a condition that does not hold.
        match timeout(deadline.saturating_duration_since(Instant::now()), look()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(seen)) => last = Some(seen),
            Err(_) => {}
        }
        if Instant::now() + PAUSE >= deadline {
            match last {
                Some(seen) => bail!("waited {within:?} in vain for {what}; last: {seen:#}"),
                None => bail!("waited {within:?} in vain for {what}; there was no answer at all"),
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
    async fn the_error_tells_what_was_seen_last() {
        let mut looks = 0;
        let error = await_condition::<()>("the moon", Duration::from_millis(100), async || {
            looks += 1;
            Err(anyhow!("clouds"))
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("for the moon; last: clouds"), "{error}");
        assert!(looks > 1);
    }

    #[tokio::test]
    async fn a_look_that_hangs_does_not_outlast_the_deadline() {
        let error = await_condition::<()>("a word", Duration::from_millis(50), async || std::future::pending().await)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("no answer at all"), "{error}");
    }
}
