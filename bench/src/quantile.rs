//! Order statistics of a few values. Those of no values are 0.

/// Returns the median: the mean of the two middle values if the number of values is even.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

/// Returns the smallest value that at least `share` of the values do not exceed (nearest rank),
/// without interpolation between two measured values.
pub fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_of_100_values_is_the_second_largest() {
        let values = (1..=100).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(quantile(values.clone(), 0.99), 99.0);
        assert_eq!(quantile(values, 1.0), 100.0);
    }

    #[test]
    fn the_median_of_two_values_is_their_mean() {
        assert_eq!(median(vec![3.0, 1.0]), 2.0);
        assert_eq!(median(vec![3.0, 1.0, 9.0]), 3.0);
    }

    #[test]
    fn quantiles_of_no_values_are_zero() {
        assert_eq!((median(vec![]), quantile(vec![], 0.99)), (0.0, 0.0));
    }
}
