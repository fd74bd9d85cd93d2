//! How long answers took: a histogram with three digits, and what is read from it.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::failure::Failure;

/// Nothing is waited for longer, in microseconds.
const LONGEST: u64 = 120_000_000;

/// Times of answers. Kept in tenths of a microsecond.
#[derive(Clone, Debug)]
pub(crate) struct Latency(Histogram<u32>);

impl Latency {
    /// None yet.
    pub(crate) fn new() -> Result<Latency, Failure> {
        let histogram = Histogram::new_with_bounds(1, LONGEST * 10, 3);
        Ok(Latency(histogram.map_err(|error| Failure::new(error.to_string()))?))
    }

    /// One more.
    pub(crate) fn record(&mut self, time: Duration) {
        let tenths = u64::try_from(time.as_nanos() / 100).unwrap_or(u64::MAX);
        self.0.saturating_record(tenths.max(1));
    }

    /// Those of another as well.
    pub(crate) fn add(&mut self, other: &Latency) {
        // INVARIANT: all have the same bounds, so nothing falls out.
        let _ = self.0.add(&other.0);
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share of the answers did not exceed, in milliseconds.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let tenths = u32::try_from(self.0.value_at_quantile(share)).unwrap_or(u32::MAX);
        f64::from(tenths) / 10_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_answers_is_below_its_percentile() {
        let (mut one, mut other) = (Latency::new().unwrap(), Latency::new().unwrap());
        for millis in 1..=500 {
            one.record(Duration::from_millis(millis));
            other.record(Duration::from_millis(500 + millis));
        }
        one.add(&other);
        assert_eq!(one.count(), 1000);
        for (share, expected) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.999, 999.0)] {
            assert!((one.at(share) - expected).abs() < expected / 500.0, "{share}: {}", one.at(share));
        }
    }

    #[test]
    fn what_is_out_of_bounds_counts_at_the_bound() {
        let mut latency = Latency::new().unwrap();
        latency.record(Duration::ZERO);
        latency.record(Duration::from_secs(10_000));
        assert_eq!(latency.count(), 2);
        assert!(latency.at(1.0) >= 120_000.0);
    }
}
