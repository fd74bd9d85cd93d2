//! The time that limits go by.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

const DAY: u64 = 86_400;

/// A clock that never goes back and never jumps. The wall clock is read once: whatever is done to it later, no bucket
/// fills and no budget begins anew.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// Since 1970, at the origin.
    unix: Duration,
    #[cfg(test)]
    ahead: AtomicU64,
}

/// A moment of that clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Nanoseconds since the clock began.
    pub(crate) at: u64,
    /// The day of UTC, counted from 1970.
    pub(crate) day: u32,
    /// Until the next day begins.
    pub(crate) left: Duration,
}

impl Clock {
    /// It begins now.
    pub(crate) fn new() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            origin: Instant::now(),
            unix,
            #[cfg(test)]
            ahead: AtomicU64::new(0),
        }
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Moment {
        self.at(self.origin.elapsed())
    }

    #[cfg(not(test))]
    fn at(&self, elapsed: Duration) -> Moment {
        Moment::of(elapsed, self.unix)
    }

    #[cfg(test)]
    fn at(&self, elapsed: Duration) -> Moment {
        Moment::of(elapsed + Duration::from_nanos(self.ahead.load(Ordering::Relaxed)), self.unix)
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(crate) fn pass(&self, time: Duration) {
        self.ahead.fetch_add(u64::try_from(time.as_nanos()).unwrap(), Ordering::Relaxed);
    }
}

impl Moment {
    fn of(elapsed: Duration, unix: Duration) -> Moment {
        let wall = unix.saturating_add(elapsed);
        let gone = Duration::new(wall.as_secs() % DAY, wall.subsec_nanos());
        Moment {
            at: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            day: u32::try_from(wall.as_secs() / DAY).unwrap_or(u32::MAX),
            left: Duration::from_secs(DAY).saturating_sub(gone),
        }
    }
}
