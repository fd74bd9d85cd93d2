//! Who runs on which processor. Asker and echo have one each, the first and the last; proxies go where they like.
//!
//! Left to the scheduler, two processes that talk in turn share a processor in one run and wake each other across two
//! in the next, and a round trip takes a fifth or all of the time. So the direct way always crosses once, and a way
//! through a proxy as well, wherever the proxy is.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::failure::Failure;

/// This thread, while it may run on one processor only.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// To the first processor there is.
    pub(crate) fn to_first() -> Result<Pinned, Failure> {
        pin(|allowed| (0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)))
    }

    /// To the last one.
    pub(crate) fn to_last() -> Result<Pinned, Failure> {
        pin(|allowed| (0..CpuSet::MAX_CPU).rev().find(|number| allowed.is_set(*number)))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn pin(choose: impl Fn(&CpuSet) -> Option<usize>) -> Result<Pinned, Failure> {
    let failed = |error: rustix::io::Errno| Failure::new(format!("no processor of its own: {error}"));
    let before = sched_getaffinity(None).map_err(failed)?;
    let chosen = choose(&before).ok_or_else(|| Failure::new("there is no processor"))?;
    let mut one = CpuSet::new();
    one.set(chosen);
    sched_setaffinity(None, &one).map_err(failed)?;
    Ok(Pinned { before })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_processor_until_it_is_let_go() {
        let before = sched_getaffinity(None).unwrap();
        let pinned = Pinned::to_first().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap().count(), before.count());
        let _pinned = Pinned::to_last().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
    }
}
