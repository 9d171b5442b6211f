//! A histogram of latencies. The width of a bucket is at most 1/32 of each value in it. The size of
//! the histogram is constant, so it does not change the memory of the process, which is measured
//! too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The binary logarithm of the number of buckets per power of two.
const PRECISION: u32 = 5;
const SUB_BUCKETS: usize = 1 << PRECISION;
/// The buckets reach up to 2^40 ns, about 18 minutes; the last one counts longer latencies too.
const BUCKETS: usize = (41 - PRECISION as usize) * SUB_BUCKETS;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Histogram {
    /// The count of each bucket. Serialized as pairs of index and count, without empty buckets.
    #[serde(with = "sparse")]
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    pub fn record(&mut self, latency: Duration) {
        self.counts[bucket(latency.as_nanos() as u64)] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the smallest upper end of a bucket that at least `share` of the values do not
    /// exceed, or zero if there are no values.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut cumulative = 0;
        let at = self.counts.iter().position(|count| {
            cumulative += count;
            cumulative >= rank
        });
        Duration::from_nanos(at.map_or(0, upper_end))
    }
}

fn bucket(nanos: u64) -> usize {
    let shift = nanos.max(1).ilog2().saturating_sub(PRECISION);
    (shift as usize * SUB_BUCKETS + (nanos >> shift) as usize).min(BUCKETS - 1)
}

fn upper_end(bucket: usize) -> u64 {
    let shift = (bucket / SUB_BUCKETS).saturating_sub(1);
    let first = (bucket - shift * SUB_BUCKETS) as u64;
    ((first + 1) << shift) - 1
}

mod sparse {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(counts: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        let filled: Vec<(usize, u64)> =
            counts.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
        filled.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        let mut counts = vec![0; super::BUCKETS];
        for (bucket, count) in Vec::<(usize, u64)>::deserialize(deserializer)? {
            let count_of_bucket = counts
                .get_mut(bucket)
                .ok_or_else(|| serde::de::Error::custom(format!("there is no bucket {bucket}")))?;
            *count_of_bucket = count;
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram_of(nanos: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        nanos.into_iter().for_each(|nanos| histogram.record(Duration::from_nanos(nanos)));
        histogram
    }

    #[test]
    fn every_bucket_is_at_most_a_32nd_as_wide_as_its_values() {
        for nanos in (0..200).chain([1_000, 4_095, 4_096, 1_000_000, 123_456_789]) {
            let end = upper_end(bucket(nanos));
            assert!(end >= nanos && end - nanos <= nanos / 32, "{nanos} is counted as {end}");
            assert_eq!(bucket(end), bucket(nanos));
            assert_eq!(bucket(end + 1), bucket(nanos) + 1);
        }
    }

    #[test]
    fn the_quantile_uses_the_nearest_rank() {
        let histogram = histogram_of(1..=50);
        assert_eq!(histogram.quantile(0.5), Duration::from_nanos(25));
        assert_eq!(histogram.quantile(0.99), Duration::from_nanos(50));
        assert_eq!(histogram_of([]).quantile(0.99), Duration::ZERO);
    }

    #[test]
    fn a_histogram_survives_serialization() {
        let mut histogram = histogram_of([5, 700, 700]);
        let line = serde_json::to_string(&histogram).unwrap();
        histogram.add(&serde_json::from_str(&line).unwrap());
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.quantile(0.3), Duration::from_nanos(5));
    }
}
