//! What is known about upstreams, in memory; the store gets what is new from time to time.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use upstream::{EraFound, EraMemory};

/// Remembers which era each upstream was found to speak.
#[derive(Debug)]
pub(crate) struct Eras(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By tenant, then upstream.
    found: HashMap<String, HashMap<String, EraFound>>,
    unsaved: Vec<(String, String, EraFound)>,
}

impl Eras {
    /// Starts with what the store knows.
    pub(crate) fn new(known: Vec<(String, String, EraFound)>) -> Eras {
        let mut found: HashMap<String, HashMap<String, EraFound>> = HashMap::new();
        for (tenant, upstream, era) in known {
            found.entry(tenant).or_default().insert(upstream, era);
        }
        Eras(Mutex::new(Known { found, unsaved: Vec::new() }))
    }

    /// What was found and has not been taken for saving yet. Each finding is handed out once.
    pub(crate) fn unsaved(&self) -> Vec<(String, String, EraFound)> {
        mem::take(&mut self.known().unsaved)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Whoever panicked in here left a map that is whole: every change is one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EraMemory for Eras {
    fn recall(&self, tenant: &str, upstream: &str) -> Option<EraFound> {
        self.known().found.get(tenant)?.get(upstream).copied()
    }

    fn remember(&self, tenant: &str, upstream: &str, found: EraFound) {
        let mut known = self.known();
        let upstreams = known.found.entry(tenant.to_owned()).or_default();
        if upstreams.insert(upstream.to_owned(), found) == Some(found) {
            return;
        }
        // One unsaved entry an upstream, so that a flapping server cannot fill the list.
        known.unsaved.retain(|(of, id, _)| of != tenant || id != upstream);
        known.unsaved.push((tenant.to_owned(), upstream.to_owned(), found));
    }
}

/// The word in the database.
pub(super) fn word(found: EraFound) -> &'static str {
    match found {
        EraFound::Legacy => "legacy",
        EraFound::Modern => "modern",
        EraFound::DiesWhenProbed => "dies_when_probed",
    }
}

/// The other way round.
pub(super) fn from_word(text: &str) -> Option<EraFound> {
    let all = [EraFound::Legacy, EraFound::Modern, EraFound::DiesWhenProbed];
    all.into_iter().find(|found| word(*found) == text)
}
