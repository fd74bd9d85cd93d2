//! GCRA: one number a bucket, the time at which all that was taken will have been earned.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So much in a time, and so much of it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    count: u64,
    every: u64,
    /// How far ahead of the clock a bucket may be, in nanoseconds.
    depth: u64,
}

impl Quota {
    pub(crate) fn new(rate: config::Rate) -> Quota {
        let every = u64::try_from(rate.every.as_nanos()).unwrap_or(u64::MAX);
        let mut quota = Quota { count: rate.count.max(1), every, depth: 0 };
        // Each cost is rounded up: a burst taken one by one must fit.
        quota.depth = quota.cost(rate.burst).saturating_add(rate.burst);
        quota
    }

    /// How long it takes to earn so much, in nanoseconds.
    pub(crate) fn cost(&self, amount: u64) -> u64 {
        let total = u128::from(amount).saturating_mul(u128::from(self.every));
        u64::try_from(total.div_ceil(u128::from(self.count))).unwrap_or(u64::MAX)
    }
}

/// What one asker has taken.
///
/// INVARIANT: times are those of one clock that never goes back. What is stored is a time and no count, so that a
/// quota may change between two takings.
#[derive(Debug, Default)]
pub(crate) struct Bucket(AtomicU64);

impl Bucket {
    /// Takes so much.
    ///
    /// # Errors
    /// When it is not there: how long until it is, in nanoseconds. Nothing is taken then.
    pub(crate) fn take(&self, quota: &Quota, amount: u64, now: u64) -> Result<(), u64> {
        let cost = quota.cost(amount);
        let next = |earned: u64| {
            let next = earned.max(now).saturating_add(cost);
            (next.saturating_sub(now) <= quota.depth).then_some(next)
        };
        self.0.fetch_update(Relaxed, Relaxed, next).map(|_| ()).map_err(|earned| {
            earned.max(now).saturating_add(cost).saturating_sub(now).saturating_sub(quota.depth)
        })
    }

    /// Takes so much, whether it is there or not: what is owed is earned before anything else is given.
    pub(crate) fn owe(&self, quota: &Quota, amount: u64, now: u64) {
        let cost = quota.cost(amount);
        // Always `Some`, so it cannot fail.
        let _ = self.0.fetch_update(Relaxed, Relaxed, |earned| Some(earned.max(now).saturating_add(cost)));
    }

    /// Whether there is anything left at all.
    ///
    /// # Errors
    /// How long until there is, in nanoseconds.
    pub(crate) fn open(&self, quota: &Quota, now: u64) -> Result<(), u64> {
        let ahead = self.0.load(Relaxed).saturating_sub(now);
        if ahead < quota.depth { Ok(()) } else { Err(ahead.saturating_sub(quota.depth).saturating_add(1)) }
    }

    /// Gives back what was taken and not used.
    pub(crate) fn give_back(&self, quota: &Quota, amount: u64) {
        let cost = quota.cost(amount);
        let _ = self.0.fetch_update(Relaxed, Relaxed, |earned| Some(earned.saturating_sub(cost)));
    }

    /// Whether everything is earned: it is as good as new.
    pub(crate) fn is_full(&self, now: u64) -> bool {
        self.0.load(Relaxed) <= now
    }

    /// How much could be taken now.
    #[cfg(test)]
    pub(crate) fn remaining(&self, quota: &Quota, now: u64) -> u64 {
        let free = quota.depth.saturating_sub(self.0.load(Relaxed).saturating_sub(now));
        let amount = u128::from(free) * u128::from(quota.count) / u128::from(quota.every.max(1));
        u64::try_from(amount).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
