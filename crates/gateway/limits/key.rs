//! Short names for whoever is counted together.

use std::hash::{BuildHasher, Hash, RandomState};

use admission::Principal;

use crate::visit::Visit;

/// 128 bits of two keyed hashes: no allocation, and the same room for a long name as for a short one. The keys are made
/// at start, so that nobody can look for two names that meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(u128);

/// What makes them.
#[derive(Debug)]
pub(crate) struct Keys {
    hashers: [RandomState; 2],
    /// The name of all that a tenant does.
    pub(crate) everybody: Key,
}

impl Default for Keys {
    fn default() -> Keys {
        let hashers = [RandomState::new(), RandomState::new()];
        Keys { everybody: made(&hashers, ()), hashers }
    }
}

fn made<T: Hash>([one, two]: &[RandomState; 2], what: T) -> Key {
    Key(u128::from(one.hash_one(&what)) << 64 | u128::from(two.hash_one(&what)))
}

impl Keys {
    pub(crate) fn of<T: Hash>(&self, what: T) -> Key {
        made(&self.hashers, what)
    }

    /// A principal within its tenant.
    pub(crate) fn principal(&self, principal: &Principal) -> Key {
        self.of((&principal.issuer, &principal.subject))
    }

    /// The conversation: a session of its own, or all that a principal says where there are none.
    pub(crate) fn conversation(&self, visit: &Visit) -> Key {
        match visit.session() {
            Some(session) => self.of(("session", &session.name)),
            None => self.principal(visit.principal()),
        }
    }

    /// A short name within one conversation, for what is compared and never trusted.
    pub(crate) fn short<T: Hash>(&self, what: T) -> u64 {
        let [one, _] = &self.hashers;
        one.hash_one(what)
    }
}
