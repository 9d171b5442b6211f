//! The trace context of a request, in the form of W3C's Trace Context, level 1.
//!
//! ```text
//!  traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//!               │  trace id                         parent span      flags: sampled
//!               version
//! ```
//!
//! This module is pure.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

use http::{HeaderMap, HeaderName};

/// The header with the context of the sender's span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with data of tracing systems, which belongs to the trace of `traceparent`.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The length of a `traceparent` of version 0, in bytes.
const LENGTH: usize = 55;

/// The flag of a sampled trace.
const SAMPLED: u8 = 1;

/// A span, and the trace that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    pub trace: NonZeroU128,
    pub span: NonZeroU64,
    pub is_sampled: bool,
}

impl Context {
    /// Returns the context in the headers of a request, or `None` if it is absent or invalid.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        Self::parse(value.as_bytes())
    }

    /// Parses the value of `traceparent`. A later version may append fields. Returns `None` if the
    /// value is invalid.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, more) = value.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] = [0..2, 3..35, 36..52, 53..55].map(|at| &known[at]);
        let is_delimited = [2, 35, 52].into_iter().all(|at| known[at] == b'-');
        let version = hexadecimal(version)?;
        let is_whole = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.is_empty() || more.starts_with(b"-"),
        };
        if !is_delimited || !is_whole {
            return None;
        }
        Some(Self {
            trace: NonZeroU128::new(hexadecimal(trace)?)?,
            span: NonZeroU64::new(hexadecimal(span)? as u64)?,
            is_sampled: hexadecimal(flags)? as u8 & SAMPLED != 0,
        })
    }

    /// Returns the id of the trace, as logs show it.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, is_sampled } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*is_sampled))
    }
}

/// Parses hexadecimal digits, whose letters must be in lower case.
fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(value: &str) -> Option<Context> {
        Context::parse(value.as_bytes())
    }

    #[test]
    fn a_context_is_written_as_it_was_read() {
        let context = parse(VALID).unwrap();
        assert_eq!(context.trace.get(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span.get(), context.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), VALID);
        let unsampled = VALID.replace("-01", "-00");
        assert_eq!(parse(&unsampled).unwrap().to_string(), unsampled);
    }

    #[test]
    fn unknown_flags_and_fields_of_later_versions_are_ignored() {
        for value in [
            VALID.replace("-01", "-03"),
            VALID.replace("-01", "-ff"),
            VALID.replacen("00", "cc", 1),
            format!("{}-more", VALID.replacen("00", "01", 1)),
        ] {
            assert_eq!(parse(&value), parse(VALID), "{value}");
        }
    }

    #[test]
    fn an_invalid_context_is_none() {
        for value in [
            String::new(),
            "00".to_owned(),
            VALID.to_uppercase(),
            VALID.replacen("00", "ff", 1),
            VALID.replace("00f067aa0ba902b7", "0000000000000000"),
            VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            VALID.replace('-', "_"),
            VALID.replace("-01", "-0g"),
            VALID.replace("-01", "-é"),
            format!("{VALID}-more"),
            format!("{VALID}0"),
            format!("{}0", VALID.replacen("00", "01", 1)),
            VALID[1..].to_owned(),
        ] {
            assert_eq!(parse(&value), None, "{value}");
        }
    }

    #[test]
    fn headers_with_two_contexts_have_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(Context::of(&headers), None);
        headers.append(TRACEPARENT, VALID.parse().unwrap());
        assert_eq!(Context::of(&headers), parse(VALID));
        headers.append(TRACEPARENT, VALID.parse().unwrap());
        assert_eq!(Context::of(&headers), None);
    }
}
