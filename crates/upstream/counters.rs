//! What happened that nobody was told about.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of things that were dropped, skipped or repeated.
#[derive(Debug, Default)]
pub struct Counters {
    /// Lines on stdout that are no MCP message (bug B40).
    pub noise: AtomicU64,
    /// Answers and progress for no open request: late, repeated or invented (security 49).
    pub late: AtomicU64,
    /// Notifications and requests from servers dropped because the gateway did not keep up.
    pub dropped: AtomicU64,
    /// Lines on stderr that were not logged, to spare the log.
    pub stderr_dropped: AtomicU64,
    /// Processes started after the first.
    pub restarts: AtomicU64,
}

impl Counters {
    pub(crate) const fn new() -> Self {
        Self {
            noise: AtomicU64::new(0),
            late: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            stderr_dropped: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
        }
    }

    /// Counts one, here and in the total of all upstreams.
    pub(crate) fn add(&self, field: fn(&Self) -> &AtomicU64) {
        field(self).fetch_add(1, Ordering::Relaxed);
        field(&TOTAL).fetch_add(1, Ordering::Relaxed);
    }
}

static TOTAL: Counters = Counters::new();

/// The totals over all upstreams since the start of the gateway.
pub fn counters() -> &'static Counters {
    &TOTAL
}
