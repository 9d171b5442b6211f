//! Reads a node's metrics, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::ensure;
use tenon_e2e::Connection;

/// The metrics at one point in time.
#[derive(Debug)]
pub struct Metrics(String);

impl Metrics {
    /// Fetches the metrics.
    ///
    /// # Errors
    /// Fails if the node's admin server does not answer with status 200.
    pub async fn of(admin: SocketAddr) -> anyhow::Result<Self> {
        let answer = Connection::to(admin).get("localhost", "/metrics").await?;
        ensure!(
            answer.status == 200,
            "the node's response to GET /metrics is {} {}",
            answer.status,
            answer.body
        );
        Ok(Self(answer.body))
    }

    /// Returns the sums of `family` over all shards, by the value of `label`.
    pub fn by(&self, family: &str, label: &str) -> BTreeMap<String, u64> {
        let label = format!("{label}=\"");
        let samples = self.0.lines().filter_map(|line| {
            let (labels, value) =
                line.strip_prefix(family)?.strip_prefix('{')?.rsplit_once("} ")?;
            let (name, _) =
                labels.split(',').find_map(|pair| pair.strip_prefix(&label))?.split_once('"')?;
            Some((name.to_owned(), value.parse::<f64>().ok()? as u64))
        });
        samples.fold(BTreeMap::new(), |mut sums, (name, value)| {
            *sums.entry(name).or_default() += value;
            sums
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_summed_over_shards_by_a_label() {
        let metrics = Metrics(
            "# TYPE tenon_evictions_total counter\n\
             tenon_evictions_total{reason=\"memory\",shard=\"0\"} 3\n\
             tenon_evictions_total{reason=\"room\",shard=\"0\"} 1\n\
             tenon_evictions_total{reason=\"memory\",shard=\"1\"} 4\n\
             tenon_evictions_total_of_another_kind{reason=\"memory\",shard=\"1\"} 4\n"
                .to_owned(),
        );
        let expected = BTreeMap::from([("memory".to_owned(), 7), ("room".to_owned(), 1)]);
        assert_eq!(metrics.by("tenon_evictions_total", "reason"), expected);
    }
}
