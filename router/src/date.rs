//! The value of the header `date`, which is formatted once per second.
//!
//! This module is pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A date in the format of HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) type Date = [u8; 29];

/// The date of the last second in which one was needed.
#[derive(Debug, Default)]
pub(crate) struct DateCache {
    last: Option<(u64, Date)>,
}

impl DateCache {
    /// Returns the date at a time. A time before 1970 counts as the beginning of 1970.
    pub(crate) fn at(&mut self, now: SystemTime) -> Date {
        let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        match self.last {
            Some((last, date)) if last == second => date,
            _ => {
                let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
                let date = date.as_bytes().try_into().expect("the date does not have 29 bytes");
                self.last = Some((second, date));
                date
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_rounded_down_to_the_second() {
        let mut cache = DateCache::default();
        for (millis, expected) in [
            (784_111_777_000, b"Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777_999, b"Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778_000, b"Sun, 06 Nov 1994 08:49:38 GMT"),
            (784_111_777_000, b"Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            assert_eq!(cache.at(UNIX_EPOCH + Duration::from_millis(millis)), *expected);
        }
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(cache.at(before), *b"Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
