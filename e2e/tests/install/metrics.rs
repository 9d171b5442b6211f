//! Parses the part of Prometheus' text format that the steps need.

/// Returns the values of all series of a metric whose labels include each of `labels`, such as
/// `state="warm"`.
pub fn values(text: &str, metric: &str, labels: &[&str]) -> Vec<f64> {
    let series = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, present) = series.split_once('{').unwrap_or((series, ""));
        (name == metric && labels.iter().all(|label| present.contains(label))).then_some(value)
    });
    series.filter_map(|value| value.parse().ok()).collect()
}

pub fn sum(text: &str, metric: &str, labels: &[&str]) -> f64 {
    values(text, metric, labels).iter().sum()
}
