//! Formats numbers for people.

use std::time::Duration;

/// Formats a duration in microseconds, milliseconds or seconds, depending on its magnitude.
pub fn human(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 1e-3 => format!("{:.1} µs", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Formats a duration in microseconds, for a column of a table.
pub fn micros(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e6)
}

/// Formats an amount of memory in bytes as MiB.
pub fn mib(bytes: u64) -> String {
    match bytes as f64 / f64::from(1 << 20) {
        mib if mib < 100.0 => format!("{mib:.2} MiB"),
        mib => format!("{mib:.0} MiB"),
    }
}

/// Formats a part of a whole as a percentage.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_a_suitable_unit() {
        assert_eq!(human(Duration::from_nanos(12_340)), "12.3 µs");
        assert_eq!(human(Duration::from_micros(999_000)), "999.0 ms");
        assert_eq!(human(Duration::from_millis(1_250)), "1.25 s");
    }

    #[test]
    fn small_amounts_of_memory_have_two_decimals() {
        assert_eq!(mib(3 << 19), "1.50 MiB");
        assert_eq!(mib(4 << 30), "4096 MiB");
    }

    #[test]
    fn any_part_of_an_empty_whole_is_zero_percent() {
        assert_eq!((percent(1, 8), percent(0, 0)), ("12.5 %".to_owned(), "0.0 %".to_owned()));
    }
}
