//! Decides which requests have a span. This module is pure.

use std::fmt;
use std::str::FromStr;

use crate::context::Context;

/// A share of requests, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio(f64);

/// The error for text that is not a ratio.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a number from 0 to 1, such as 0.05")]
pub struct InvalidRatio(String);

impl FromStr for Ratio {
    type Err = InvalidRatio;

    fn from_str(text: &str) -> Result<Self, InvalidRatio> {
        let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.map(Self).ok_or_else(|| InvalidRatio(text.to_owned()))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The rule of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Of the requests that begin a trace, the share that have a span.
    pub ratio: Ratio,
    /// Whether each request that fails has a span.
    pub errors: bool,
}

impl Sampling {
    /// Returns whether a request has a span from its beginning. A request that continues a trace
    /// is sampled as the trace is.
    ///
    /// # Arguments
    /// * `parent` - the context of a sender that is trusted; `None` if the request begins a trace.
    /// * `random` - random bits.
    pub fn samples(&self, parent: Option<&Context>, random: u64) -> bool {
        let Self { ratio: Ratio(ratio), .. } = *self;
        match parent {
            Some(parent) => parent.is_sampled,
            // At 1, the comparison could fail, because the largest numbers are rounded to 2^64.
            None => ratio >= 1.0 || (random as f64) < ratio * 2_f64.powi(64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(ratio: &str) -> Sampling {
        Sampling { ratio: ratio.parse().unwrap(), errors: false }
    }

    #[test]
    fn a_share_of_the_requests_is_sampled() {
        let mut random = fastrand::Rng::with_seed(1);
        for (ratio, expected) in [("0", 0..=0), ("0.25", 2300..=2700), ("1", 10_000..=10_000)] {
            let sampling = sampling(ratio);
            let sampled = (0..10_000).filter(|_| sampling.samples(None, random.u64(..))).count();
            assert!(expected.contains(&sampled), "{sampled} at {ratio}");
        }
        assert!(sampling("1").samples(None, u64::MAX) && !sampling("0").samples(None, 0));
    }

    #[test]
    fn a_trace_is_continued_as_it_began() {
        let sampled = Context::parse(b"00-00000000000000000000000000000001-0000000000000002-01");
        let unsampled = Context::parse(b"00-00000000000000000000000000000001-0000000000000002-00");
        assert!(sampling("0").samples(sampled.as_ref(), u64::MAX));
        assert!(!sampling("1").samples(unsampled.as_ref(), 0));
    }

    #[test]
    fn a_ratio_is_a_number_from_0_to_1() {
        for text in ["-0.1", "1.1", "NaN", "inf", "", "1%"] {
            assert_eq!(text.parse::<Ratio>(), Err(InvalidRatio(text.to_owned())));
        }
        assert_eq!("0.05".parse::<Ratio>().unwrap().to_string(), "0.05");
    }
}
