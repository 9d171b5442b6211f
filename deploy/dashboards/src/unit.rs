//! The units of panels, with Grafana's names for them and the formats of their values.

use serde::{Deserialize, Serialize};

/// A unit, serialized as Grafana's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    #[serde(rename = "short")]
    Count,
    #[serde(rename = "cps")]
    PerSecond,
    #[serde(rename = "reqps")]
    Requests,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "binBps")]
    BytesPerSecond,
    /// A part of a whole, where 1 is shown as 100 percent.
    #[serde(rename = "percentunit")]
    Share,
    #[serde(rename = "suffix: cores")]
    Cores,
}

impl Unit {
    /// Formats a value for people, in a suitable unit and with a few digits.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Count => scaled(value, 1000.0, &["", " k", " M", " G"]),
            Self::PerSecond => scaled(value, 1000.0, &["/s", " k/s", " M/s", " G/s"]),
            Self::Requests => {
                scaled(value, 1000.0, &[" req/s", " k req/s", " M req/s", " G req/s"])
            }
            Self::Bytes => scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]),
            Self::BytesPerSecond => {
                scaled(value, 1024.0, &[" B/s", " KiB/s", " MiB/s", " GiB/s", " TiB/s"])
            }
            Self::Share => format!("{} %", digits(value * 100.0)),
            Self::Cores => format!("{} cores", digits(value)),
            Self::Seconds => seconds(value),
        }
    }
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut scaled = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    while scaled.abs() >= base
        && let Some(larger) = units.next()
    {
        (scaled, unit) = (scaled / base, larger);
    }
    format!("{}{unit}", digits(scaled))
}

fn seconds(value: f64) -> String {
    let (divisor, unit) = match value.abs() {
        0.0 => (1.0, "s"),
        small if small < 1e-3 => (1e-6, "µs"),
        small if small < 1.0 => (1e-3, "ms"),
        some if some < 120.0 => (1.0, "s"),
        some if some < 7200.0 => (60.0, "min"),
        some if some < 172_800.0 => (3600.0, "h"),
        _ => (86_400.0, "days"),
    };
    format!("{} {unit}", digits(value / divisor))
}

fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        large if large >= 100.0 => 0,
        some if some >= 10.0 => 1,
        small if small >= 0.01 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_readable_units() {
        let cases = [
            (Unit::Count, 1_234_567.0, "1.23 M"),
            (Unit::Count, 0.0, "0"),
            (Unit::Requests, 200.0, "200 req/s"),
            (Unit::Seconds, 0.000_25, "250 µs"),
            (Unit::Seconds, 0.0421, "42.1 ms"),
            (Unit::Seconds, 90.0 * 86_400.0, "90 days"),
            (Unit::Bytes, 64.0 * 1024.0 * 1024.0, "64 MiB"),
            (Unit::Share, 0.875, "87.5 %"),
            (Unit::Cores, 1.5, "1.5 cores"),
        ];
        for (unit, value, text) in cases {
            assert_eq!(unit.show(value), text);
        }
    }
}
