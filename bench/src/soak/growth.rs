//! The growth of a series of measurements.

use crate::quantile::median;

/// Leaves out the first quarter of a series, and returns the medians of the two halves of the rest.
pub(super) fn halves(values: &[f64]) -> [f64; 2] {
    let steady = &values[values.len() / 4..];
    let (first, second) = steady.split_at(steady.len() / 2);
    [first, second].map(|half| median(half.to_vec()))
}

/// Returns the share by which the median of the second half exceeds that of the first, such as 0.1
/// if it is a tenth larger. Returns 0 if the median of the first half is 0.
pub(super) fn growth(values: &[f64]) -> f64 {
    let [first, second] = halves(values);
    if first > 0.0 { second / first - 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_quarter_does_not_count() {
        let values = [1.0, 1.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0];
        assert_eq!(growth(&values), 0.0);
    }

    #[test]
    fn a_leak_is_growth() {
        let values: Vec<_> = (100..200).map(f64::from).collect();
        assert!(growth(&values) > 0.2, "{}", growth(&values));
    }

    #[test]
    fn a_few_outliers_are_not_growth() {
        let mut values = vec![10.0; 40];
        values[35] = 1_000.0;
        values[39] = 1_000.0;
        assert_eq!(growth(&values), 0.0);
    }

    #[test]
    fn a_series_without_samples_has_no_growth() {
        assert_eq!(growth(&[]), 0.0);
    }
}
