//! A bar: a promise, and what was measured of it. What could not be measured is not held.

use std::time::Duration;

use crate::table::Table;
use crate::unit::{human, mib};

/// What must be at most so much.
#[derive(Debug)]
pub struct Bar {
    what: String,
    measured: Option<Amount>,
    at_most: Option<Amount>,
}

/// Amounts of one bar are of one kind, as its constructors see to.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Amount {
    Time(Duration),
    Bytes(u64),
    Count(u64),
}

impl Bar {
    pub fn time(what: impl Into<String>, measured: Option<Duration>, at_most: Option<Duration>) -> Self {
        Self { what: what.into(), measured: measured.map(Amount::Time), at_most: at_most.map(Amount::Time) }
    }

    pub fn bytes(what: impl Into<String>, measured: Option<u64>, at_most: Option<u64>) -> Self {
        Self { what: what.into(), measured: measured.map(Amount::Bytes), at_most: at_most.map(Amount::Bytes) }
    }

    /// Something that must not happen.
    pub fn never(what: impl Into<String>, happened: Option<u64>) -> Self {
        Self { what: what.into(), measured: happened.map(Amount::Count), at_most: Some(Amount::Count(0)) }
    }

    fn verdict(&self) -> &'static str {
        match (self.measured, self.at_most) {
            (Some(measured), Some(at_most)) if measured <= at_most => "held",
            (Some(_), Some(_)) => "MISSED",
            _ => "not measured",
        }
    }
}

impl Amount {
    fn show(self) -> String {
        match self {
            Self::Time(time) => human(time),
            Self::Bytes(bytes) => mib(bytes),
            Self::Count(count) => count.to_string(),
        }
    }
}

/// What became of them.
pub fn table(bars: &[Bar]) -> Table {
    let mut table = Table::new(["bar", "at most", "measured", "verdict"]);
    for bar in bars {
        let show = |amount: Option<Amount>| amount.map_or_else(|| "-".to_owned(), Amount::show);
        table.row([bar.what.clone(), show(bar.at_most), show(bar.measured), bar.verdict().to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(measured: Option<u64>, at_most: Option<u64>) -> Bar {
        let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
        Bar::time("x", millis(measured), millis(at_most))
    }

    #[test]
    fn a_bar_is_held_up_to_itself() {
        assert_eq!(bar(Some(3), Some(3)).verdict(), "held");
        assert_eq!(bar(Some(4), Some(3)).verdict(), "MISSED");
    }

    #[test]
    fn what_was_not_measured_is_not_held() {
        assert_eq!(bar(None, Some(3)).verdict(), "not measured");
        assert_eq!(bar(Some(3), None).verdict(), "not measured");
    }

    #[test]
    fn what_must_not_happen_is_missed_when_it_happens_once() {
        assert_eq!(Bar::never("a failure", Some(0)).verdict(), "held");
        assert_eq!(Bar::never("a failure", Some(1)).verdict(), "MISSED");
        assert_eq!(Bar::never("a failure", None).verdict(), "not measured");
    }
}
