//! Objectives, which are bounds on measured values. An objective without a measurement does not
//! count as held.

use std::time::Duration;

use crate::table::Table;
use crate::unit::{human, mib};

/// A measured value and the bound that it must keep.
#[derive(Debug)]
pub struct Objective {
    what: String,
    measured: Option<Amount>,
    bound: Option<Bound>,
}

/// A bound. A value that is equal to the bound is allowed.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(Amount),
    AtLeast(Amount),
}

/// An amount. The constructors of [`Objective`] ensure that its two amounts are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Amount {
    Time(Duration),
    Bytes(u64),
    Count(u64),
    /// A rate per second.
    Rate(f64),
    /// A share, where 1 is 100 %.
    Share(f64),
}

impl Objective {
    pub fn time(
        what: impl Into<String>,
        measured: Option<Duration>,
        at_most: Option<Duration>,
    ) -> Self {
        Self::at_most(what, measured.map(Amount::Time), at_most.map(Amount::Time))
    }

    pub fn bytes(what: impl Into<String>, measured: Option<u64>, at_most: Option<u64>) -> Self {
        Self::at_most(what, measured.map(Amount::Bytes), at_most.map(Amount::Bytes))
    }

    /// Returns an objective for an event that must not happen.
    pub fn never(what: impl Into<String>, happened: Option<u64>) -> Self {
        Self::at_most(what, happened.map(Amount::Count), Some(Amount::Count(0)))
    }

    /// Returns an objective for a rate per second that must not be lower than `at_least`.
    pub fn rate(what: impl Into<String>, measured: Option<f64>, at_least: Option<f64>) -> Self {
        let bound = at_least.map(Amount::Rate).map(Bound::AtLeast);
        Self { what: what.into(), measured: measured.map(Amount::Rate), bound }
    }

    pub fn share(what: impl Into<String>, measured: Option<f64>, at_most: Option<f64>) -> Self {
        Self::at_most(what, measured.map(Amount::Share), at_most.map(Amount::Share))
    }

    fn at_most(what: impl Into<String>, measured: Option<Amount>, bound: Option<Amount>) -> Self {
        Self { what: what.into(), measured, bound: bound.map(Bound::AtMost) }
    }

    pub fn verdict(&self) -> &'static str {
        let held = match (self.measured, self.bound) {
            (Some(measured), Some(Bound::AtMost(bound))) => measured <= bound,
            (Some(measured), Some(Bound::AtLeast(bound))) => measured >= bound,
            _ => return "not measured",
        };
        if held { "held" } else { "MISSED" }
    }
}

impl Bound {
    fn show(self) -> String {
        match self {
            Self::AtMost(amount) => format!("≤ {}", amount.show()),
            Self::AtLeast(amount) => format!("≥ {}", amount.show()),
        }
    }
}

impl Amount {
    fn show(self) -> String {
        match self {
            Self::Time(time) => human(time),
            Self::Bytes(bytes) => mib(bytes),
            Self::Count(count) => count.to_string(),
            Self::Rate(rate) => format!("{rate:.0}/s"),
            Self::Share(share) => format!("{:.1} %", 100.0 * share),
        }
    }
}

/// Returns a table of the objectives and their verdicts.
pub fn table(objectives: &[Objective]) -> Table {
    let mut table = Table::new(["objective", "bound", "measured", "verdict"]);
    let nothing = || "-".to_owned();
    for objective in objectives {
        let bound = objective.bound.map_or_else(nothing, Bound::show);
        let measured = objective.measured.map_or_else(nothing, Amount::show);
        table.row([objective.what.clone(), bound, measured, objective.verdict().to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objective(measured: Option<u64>, at_most: Option<u64>) -> Objective {
        let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
        Objective::time("x", millis(measured), millis(at_most))
    }

    #[test]
    fn a_measurement_that_equals_its_bound_is_held() {
        assert_eq!(objective(Some(3), Some(3)).verdict(), "held");
        assert_eq!(objective(Some(4), Some(3)).verdict(), "MISSED");
    }

    #[test]
    fn a_rate_at_or_above_its_bound_is_held() {
        assert_eq!(Objective::rate("x", Some(3.0), Some(3.0)).verdict(), "held");
        assert_eq!(Objective::rate("x", Some(2.9), Some(3.0)).verdict(), "MISSED");
        assert_eq!(Objective::rate("x", None, Some(3.0)).verdict(), "not measured");
    }

    #[test]
    fn an_objective_without_a_measurement_is_not_measured() {
        assert_eq!(objective(None, Some(3)).verdict(), "not measured");
        assert_eq!(objective(Some(3), None).verdict(), "not measured");
    }

    #[test]
    fn a_single_forbidden_event_misses_its_objective() {
        assert_eq!(Objective::never("a failure", Some(0)).verdict(), "held");
        assert_eq!(Objective::never("a failure", Some(1)).verdict(), "MISSED");
        assert_eq!(Objective::never("a failure", None).verdict(), "not measured");
    }
}
