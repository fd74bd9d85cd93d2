//! Held against the plainest model there is: a count of tokens that drip in.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn quota(count: u64, seconds: u64, burst: u64) -> Quota {
    Quota::new(config::Rate { count, every: Duration::from_secs(seconds), burst })
}

/// Tokens in nanoseconds, so that nothing is rounded.
struct Model {
    tokens: u64,
    depth: u64,
    last: u64,
}

impl Model {
    fn drip(&mut self, now: u64) {
        self.tokens = (self.tokens + (now - self.last)).min(self.depth);
        self.last = now;
    }

    fn take(&mut self, cost: u64, now: u64) -> bool {
        self.drip(now);
        let there = self.tokens >= cost;
        self.tokens -= if there { cost } else { 0 };
        there
    }
}

proptest! {
    #[test]
    fn it_is_a_bucket_of_tokens(
        // All divide a minute, so that costs are whole.
        count in prop::sample::select(vec![1_u64, 2, 3, 5, 60, 100, 1000, 60_000]),
        burst in 1_u64..50,
        steps in prop::collection::vec((0_u64..90 * SECOND, 1_u64..60), 1..200),
    ) {
        let (quota, bucket) = (quota(count, 60, burst), Bucket::default());
        let mut model = Model { tokens: quota.depth, depth: quota.depth, last: 0 };
        let mut now = 0;
        for (gap, amount) in steps {
            now += gap / count;
            let taken = bucket.take(&quota, amount, now);
            prop_assert_eq!(taken.is_ok(), model.take(quota.cost(amount), now));
            let left = u128::from(model.tokens) * u128::from(count) / (60 * u128::from(SECOND));
            prop_assert_eq!(u128::from(bucket.remaining(&quota, now)), left);
            if let Err(after) = taken {
                // Not a nanosecond too early, and never too late.
                if amount <= burst {
                    prop_assert!(bucket.take(&quota, amount, now + after - 1).is_err());
                    prop_assert!(bucket.take(&quota, amount, now + after).is_ok());
                    model.take(quota.cost(amount), now + after);
                    now += after;
                }
            }
        }
    }

    #[test]
    fn what_is_given_back_was_never_taken(amounts in prop::collection::vec(1_u64..5, 1..20), now in SECOND..60 * SECOND) {
        let (quota, bucket) = (quota(60, 60, 100), Bucket::default());
        let before = bucket.remaining(&quota, now);
        for amount in &amounts {
            bucket.take(&quota, *amount, now).unwrap();
        }
        for amount in &amounts {
            bucket.give_back(&quota, *amount);
        }
        prop_assert_eq!(bucket.remaining(&quota, now), before);
    }
}

#[test]
fn a_burst_fits_and_no_more_of_it() {
    for (count, burst) in [(60, 20), (7, 3), (1_000_000, 1000), (3, 1)] {
        let (quota, bucket) = (quota(count, 60, burst), Bucket::default());
        let taken = (0..2 * burst).filter(|_| bucket.take(&quota, 1, 0).is_ok()).count();
        assert_eq!(u64::try_from(taken).unwrap(), burst, "{count}");
    }
}

#[test]
fn five_times_the_load_gets_what_it_may() {
    let (quota, bucket) = (quota(600, 60, 10), Bucket::default());
    // Fifty a second for a minute, and ten are allowed.
    let taken = (0..3000).filter(|tick| bucket.take(&quota, 1, tick * SECOND / 50).is_ok()).count();
    assert!((600..=612).contains(&taken), "{taken}");
}

#[test]
fn a_debt_is_paid_before_anything_else() {
    let (quota, bucket) = (quota(60, 60, 10), Bucket::default());
    assert!(bucket.open(&quota, 0).is_ok());
    bucket.owe(&quota, 100, 0);
    let after = bucket.open(&quota, 0).unwrap_err();
    assert!(bucket.open(&quota, after - 1).is_err() && bucket.open(&quota, after).is_ok());
    assert_eq!(after / SECOND, 89, "100 are owed, 10 of them at once");
}

#[test]
fn another_quota_goes_on_with_what_was_taken() {
    let (slow, fast, bucket) = (quota(60, 60, 10), quota(600, 60, 10), Bucket::default());
    (0..10).for_each(|_| bucket.take(&slow, 1, 0).unwrap());
    assert!(bucket.take(&fast, 1, 0).is_err(), "it is no new bucket");
    assert!(bucket.take(&fast, 1, 10 * SECOND).is_ok());
}

#[test]
fn it_never_overflows() {
    let (quota, bucket) = (quota(1, 86_400, 1), Bucket::default());
    bucket.owe(&quota, u64::MAX, u64::MAX - 1);
    bucket.owe(&quota, u64::MAX, 0);
    assert!(bucket.take(&quota, 1, 0).is_err() && !bucket.is_full(u64::MAX - 1));
}
