//! Conversations that an untrusted server may steer: whoever called one is tainted for a while (security row 13).
//!
//! A conversation is a session, or the principal where there are none. It counts from when the call leaves: nothing of
//! what comes back can be acted on before.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::limits::Key;

/// Tainted conversations of one tenant. When there is no room for another, all of them count as tainted.
const MOST: usize = 50_000;

/// The tainted conversations of one tenant, each until when.
#[derive(Debug, Default)]
pub(crate) struct Taints {
    until: papaya::HashMap<Key, u64>,
    all_until: AtomicU64,
}

impl Taints {
    /// Whether this conversation is tainted. The key is made only where it matters.
    pub(crate) fn has(&self, key: impl FnOnce() -> Key, now: u64) -> bool {
        if self.all_until.load(Relaxed) > now {
            return true;
        }
        !self.until.is_empty() && self.until.pin().get(&key()).is_some_and(|until| *until > now)
    }

    /// Taints a conversation until then.
    pub(crate) fn add(&self, key: Key, now: u64, until: u64) {
        if self.until.len() >= MOST {
            self.sweep(now);
        }
        if self.until.len() >= MOST && !self.until.pin().contains_key(&key) {
            self.all_until.fetch_max(until, Relaxed);
            return;
        }
        self.until.pin().insert(key, until);
    }

    /// Forgets those that are over.
    pub(crate) fn sweep(&self, now: u64) {
        self.until.pin().retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Keys;

    #[test]
    fn it_decays_and_fails_closed() {
        let (keys, taints) = (Keys::default(), Taints::default());
        let one = keys.of("one");
        assert!(!taints.has(|| one, 0));
        taints.add(one, 0, 100);
        assert!(taints.has(|| one, 99) && !taints.has(|| one, 100) && !taints.has(|| keys.of("two"), 0));
        taints.sweep(100);
        assert!(taints.until.is_empty());
        for number in 0..MOST {
            taints.add(keys.of(number), 100, 200);
        }
        assert!(!taints.has(|| one, 150));
        taints.add(keys.of("one too many"), 100, 200);
        assert!(taints.has(|| one, 150) && !taints.has(|| one, 200));
    }
}
