//! Registers metric families, and finds a metric of a family by the value of its label.
//!
//! ```text
//!  label_values! { enum Eviction { Room = "room", … } }      lists the values of a label
//!        │
//!  registry.counters_by("tenon_…", "…", "reason")            registers a family; each value then
//!        │                                                   has a counter
//!  counters.inc(Eviction::Room)                              an array index and an atomic add
//! ```
//!
//! [`Register`] adds a family to a registry in one call, so that each module can register the
//! families that it counts. An [`EnumMap`] finds a metric by an array index instead of a lookup of
//! its labels, which hashes them and takes a lock.

use std::marker::PhantomData;

use prometheus::core::{Collector, Metric, MetricVec, MetricVecBuilder};
use prometheus::local::LocalIntCounter;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, Result,
};

/// A type whose values are the values of a label.
pub trait LabelValue: Copy + 'static {
    /// Every value, in the order of [`index`](Self::index).
    const ALL: &'static [Self];

    /// Returns the position of this value in [`ALL`](Self::ALL).
    fn index(self) -> usize;

    /// Returns the text of the label.
    fn as_str(self) -> &'static str;
}

/// Declares an enum whose variants are the values of a label.
///
/// The enum has the constant `ALL` and the method `as_str`, and implements [`LabelValue`].
///
/// ```
/// tenon_lifecycle::label_values! {
///     /// The outcome of a lookup.
///     pub enum Lookup {
///         Hit = "hit",
///         Miss = "miss",
///     }
/// }
/// assert_eq!(Lookup::ALL.map(Lookup::as_str), ["hit", "miss"]);
/// ```
#[macro_export]
macro_rules! label_values {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $label:literal),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name { $($(#[$variant_attribute])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            $visibility const ALL: [Self; [$($label),+].len()] = [$(Self::$variant),+];

            /// Returns the text of the label.
            $visibility const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }
        }

        impl $crate::metrics::LabelValue for $name {
            const ALL: &'static [Self] = &Self::ALL;

            fn index(self) -> usize {
                self as usize
            }

            fn as_str(self) -> &'static str {
                Self::as_str(self)
            }
        }
    };
}

/// One `V` for each value of a label.
#[derive(Clone, Debug)]
pub struct EnumMap<K, V> {
    /// The values, in the order of [`LabelValue::ALL`].
    values: Box<[V]>,
    keys: PhantomData<K>,
}

/// A counter for each value of a label.
pub type EnumCounters<K> = EnumMap<K, IntCounter>;

impl<K: LabelValue, V> EnumMap<K, V> {
    pub fn from_fn(value: impl FnMut(K) -> V) -> Self {
        Self { values: K::ALL.iter().copied().map(value).collect(), keys: PhantomData }
    }

    pub fn get(&self, key: K) -> &V {
        &self.values[key.index()]
    }

    pub fn get_mut(&mut self, key: K) -> &mut V {
        &mut self.values[key.index()]
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        K::ALL.iter().copied().zip(&self.values)
    }
}

impl<K: LabelValue, V: Default> Default for EnumMap<K, V> {
    fn default() -> Self {
        Self::from_fn(|_| V::default())
    }
}

impl<K: LabelValue, V: Metric> EnumMap<K, V> {
    /// Returns a family's metric for each value. The metrics exist, and are exported, from now on.
    ///
    /// # Arguments
    /// * `labels` - the values of the family's other labels, which come first.
    pub fn of<B: MetricVecBuilder<M = V>>(family: &MetricVec<B>, labels: &[&str]) -> Self {
        Self::from_fn(|value| family.with_label_values(&[labels, &[value.as_str()]].concat()))
    }
}

impl<K: LabelValue> EnumCounters<K> {
    pub fn inc(&self, key: K) {
        self.get(key).inc();
    }

    /// Returns counters for one thread. A flush of the returned counters adds their counts to
    /// `self`.
    pub fn local(&self) -> EnumMap<K, LocalIntCounter> {
        EnumMap::from_fn(|key| self.get(key).local())
    }
}

impl<K> EnumMap<K, LocalIntCounter> {
    pub fn flush(&self) {
        self.values.iter().for_each(LocalIntCounter::flush);
    }
}

/// Adds metric families to a registry.
///
/// # Errors
/// Every method fails if the registry already has a family of this name, or if the name or a label
/// is not valid.
pub trait Register {
    /// Adds a family that the caller has created.
    fn add<C: Collector + Clone + 'static>(&self, family: C) -> Result<C>;

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.add(IntCounter::new(name, help)?)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// Adds a family of counters by one label.
    fn counters_by<K: LabelValue>(
        &self,
        name: &str,
        help: &str,
        label: &str,
    ) -> Result<EnumCounters<K>> {
        Ok(EnumMap::of(&self.counters(name, help, &[label])?, &[]))
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.add(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// Adds a histogram whose buckets have these upper bounds.
    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram> {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
    }

    /// Adds a family of histograms whose buckets have these upper bounds.
    fn histograms(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec> {
        self.add(HistogramVec::new(
            HistogramOpts::new(name, help).buckets(buckets.to_vec()),
            labels,
        )?)
    }
}

impl Register for Registry {
    fn add<C: Collector + Clone + 'static>(&self, family: C) -> Result<C> {
        self.register(Box::new(family.clone()))?;
        Ok(family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    label_values! {
        enum Fruit {
            Apple = "apple",
            Pear = "pear",
        }
    }

    #[test]
    fn each_value_is_counted_under_its_own_label() {
        let registry = Registry::new();
        let family = registry.counters("fruit_total", "Fruit.", &["shop", "kind"]).unwrap();
        let counters: EnumCounters<Fruit> = EnumMap::of(&family, &["corner"]);
        counters.inc(Fruit::Pear);
        assert_eq!(family.with_label_values(&["corner", "pear"]).get(), 1);
        assert_eq!(
            counters.iter().map(|(kind, count)| (kind.as_str(), count.get())).collect::<Vec<_>>(),
            [("apple", 0), ("pear", 1)]
        );
    }

    #[test]
    fn every_value_is_exported_before_it_is_first_counted() {
        let registry = Registry::new();
        let _: EnumCounters<Fruit> = registry.counters_by("fruit_total", "Fruit.", "kind").unwrap();
        assert_eq!(registry.gather()[0].get_metric().len(), Fruit::ALL.len());
    }

    #[test]
    fn the_counts_of_a_thread_are_added_when_they_are_flushed() {
        let counters: EnumCounters<Fruit> =
            Registry::new().counters_by("fruit_total", "Fruit.", "kind").unwrap();
        let local = counters.local();
        local.get(Fruit::Apple).inc_by(2);
        assert_eq!(counters.get(Fruit::Apple).get(), 0);
        local.flush();
        assert_eq!(counters.get(Fruit::Apple).get(), 2);
    }

    #[test]
    fn a_name_can_be_registered_only_once() {
        let registry = Registry::new();
        assert!(
            registry.gauge("fruit", "Fruit.").is_ok()
                && registry.counter("fruit", "Fruit.").is_err()
        );
    }
}
