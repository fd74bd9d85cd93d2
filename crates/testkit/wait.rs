//! The one way in which tests wait: for a condition, with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Longer than anything takes here, also on a busy machine: a test that needs it has failed.
pub const LONG: Duration = Duration::from_secs(45);

/// Looks until there is something to see, and returns it.
///
/// # Panics
/// After [`LONG`], saying what was waited for.
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(LONG, what, look)
}

/// The same with a deadline of its own, for promises that name one.
///
/// # Panics
/// After `limit`, saying what was waited for.
pub fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "waited {limit:?} for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
