//! What came of all calls.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// So many of each kind are shown.
const SHOWN: usize = 5;

/// What came of one call.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Its own answer.
    Own,
    /// An answer, a progress or an id of somebody else; what came.
    Crossed(String),
    /// No answer, after the deadline, as it was asked for.
    Late,
    /// The client did not wait.
    HungUp,
    /// Anything else; what came.
    Error(String),
}

/// The count of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: u64,
    begun: AtomicU64,
    pub(crate) own: AtomicU64,
    pub(crate) crossed: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) hung_up: AtomicU64,
    pub(crate) errors: AtomicU64,
    shown: Mutex<Vec<String>>,
}

impl Tally {
    /// For so many calls.
    pub(crate) fn new(calls: u64) -> Tally {
        Tally { calls, ..Tally::default() }
    }

    /// The number of the next call, if there is one.
    pub(crate) fn next(&self) -> Option<u64> {
        let number = self.begun.fetch_add(1, Relaxed);
        (number < self.calls).then_some(number)
    }

    /// Counts one.
    pub(crate) fn count(&self, verdict: &Verdict) {
        let (counter, what) = match verdict {
            Verdict::Own => (&self.own, None),
            Verdict::Crossed(what) => (&self.crossed, Some(("crossed", what))),
            Verdict::Late => (&self.late, None),
            Verdict::HungUp => (&self.hung_up, None),
            Verdict::Error(what) => (&self.errors, Some(("error", what))),
        };
        let before = counter.fetch_add(1, Relaxed);
        if let (Some((kind, what)), Ok(mut shown)) = (what, self.shown.lock())
            && before < SHOWN as u64
        {
            shown.push(format!("{kind}: {what}"));
        }
    }

    /// The first of what should not have come.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.shown.lock().map(|shown| shown.clone()).unwrap_or_default()
    }
}
