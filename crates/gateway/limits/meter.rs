//! What was used up: by tenant, by rule, by whoever is counted together.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use super::{bucket::Bucket, clock::Moment, key::Key, runaway::Trails};
use crate::taint::Taints;

/// Meters of one tenant, over all its rules. Beyond that the newcomers of a rule share one.
const METERS: usize = 100_000;

/// What is known of a tenant's use.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// By the name of the rule: a changed rule goes on with what was used up.
    rules: Mutex<HashMap<Arc<str>, Arc<Subjects>>>,
    meters: Arc<AtomicUsize>,
    pub(super) trails: Trails,
    pub(super) taints: Taints,
}

impl Kept {
    /// The meters of a rule.
    pub(super) fn subjects(&self, rule: &Arc<str>) -> Arc<Subjects> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || {
            Arc::new(Subjects {
                meters: papaya::HashMap::new(),
                crowd: Arc::default(),
                count: Arc::clone(&self.meters),
                most: METERS,
            })
        };
        Arc::clone(rules.entry(Arc::clone(rule)).or_insert_with(fresh))
    }

    /// Forgets whoever has used up nothing, and rules that are no more.
    pub(super) fn sweep(&self, now: Moment) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.retain(|_, subjects| {
            subjects.sweep(now);
            // A snapshot holds the meters of its rules.
            Arc::strong_count(subjects) > 1 || !subjects.meters.is_empty()
        });
        drop(rules);
        self.trails.sweep(now.at);
        self.taints.sweep(now.at);
    }
}

/// The meters of one rule.
#[derive(Debug)]
pub(super) struct Subjects {
    meters: papaya::HashMap<Key, Arc<Meter>>,
    /// Whoever came when there was no room left.
    crowd: Arc<Meter>,
    count: Arc<AtomicUsize>,
    most: usize,
}

impl Subjects {
    /// The meter of whoever is counted together under this key.
    pub(super) fn of(&self, key: Key) -> Arc<Meter> {
        let meters = self.meters.pin();
        if let Some(meter) = meters.get(&key) {
            return Arc::clone(meter);
        }
        // Several at once may pass by as many.
        if self.count.load(Relaxed) >= self.most {
            return Arc::clone(&self.crowd);
        }
        let mut fresh = false;
        let meter = meters.get_or_insert_with(key, || {
            fresh = true;
            Arc::default()
        });
        if fresh {
            self.count.fetch_add(1, Relaxed);
        }
        Arc::clone(meter)
    }

    pub(super) fn len(&self) -> usize {
        self.meters.len()
    }

    fn sweep(&self, now: Moment) {
        let meters = self.meters.pin();
        for (key, meter) in &meters {
            // Nobody else holds it, so nothing runs on it.
            if meter.is_fresh(now) && Arc::strong_count(meter) == 1 && meters.remove(key).is_some() {
                self.count.fetch_sub(1, Relaxed);
            }
        }
    }
}

/// What one subject of one rule has used up.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) rate: Bucket,
    pub(super) bytes_in: Bucket,
    pub(super) bytes_out: Bucket,
    pub(super) running: Places,
    pub(super) streams: Places,
    pub(super) budget: Budget,
}

impl Meter {
    fn is_fresh(&self, now: Moment) -> bool {
        [&self.rate, &self.bytes_in, &self.bytes_out].into_iter().all(|bucket| bucket.is_full(now.at))
            && self.running.is_free()
            && self.streams.is_free()
            && self.budget.is_whole(now.day)
    }
}

/// How many there are at a time.
#[derive(Debug, Default)]
pub(super) struct Places(AtomicU32);

impl Places {
    /// Takes a place, unless all are taken.
    pub(super) fn take(&self, most: u32) -> bool {
        let next = |taken: u32| (taken < most).then_some(taken + 1);
        self.0.fetch_update(Relaxed, Relaxed, next).is_ok()
    }

    pub(super) fn leave(&self) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |taken| Some(taken.saturating_sub(1)));
    }

    pub(super) fn is_free(&self) -> bool {
        self.0.load(Relaxed) == 0
    }
}

/// What a day has left: the day above, what was used of it below.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicU64);

fn split(kept: u64) -> (u32, u32) {
    // Both halves fit by construction.
    (u32::try_from(kept >> 32).unwrap_or(u32::MAX), u32::try_from(kept & 0xffff_ffff).unwrap_or(u32::MAX))
}

fn joined(day: u32, used: u32) -> u64 {
    u64::from(day) << 32 | u64::from(used)
}

impl Budget {
    /// Takes one of so many a day.
    pub(super) fn take(&self, most: u32, day: u32) -> bool {
        let next = |kept| {
            let (of, used) = split(kept);
            let used = if of == day { used } else { 0 };
            (used < most).then(|| joined(day, used + 1))
        };
        self.0.fetch_update(Relaxed, Relaxed, next).is_ok()
    }

    pub(super) fn give_back(&self, day: u32) {
        let next = |kept| {
            let (of, used) = split(kept);
            (of == day).then(|| joined(day, used.saturating_sub(1)))
        };
        // Another day has its own.
        let _ = self.0.fetch_update(Relaxed, Relaxed, next);
    }

    fn is_whole(&self, day: u32) -> bool {
        let (of, used) = split(self.0.load(Relaxed));
        of != day || used == 0
    }
}
