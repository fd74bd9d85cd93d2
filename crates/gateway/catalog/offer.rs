//! What one asker is shown of a list: all of it, unless rules keep something from somebody.

use std::{fmt, ops::Deref, sync::Arc};

use admission::{Checks, Principal};
use quick_cache::sync::Cache;
use wire::Kind;

use super::view::{List, View};

/// Lists of single askers that a view keeps ready. Those beyond are made again when they are asked for.
const KEPT: usize = 256;

/// A list as one asker sees it.
pub(crate) enum Offer<'v> {
    /// What everybody sees.
    Whole(&'v List),
    /// Without what rules keep from this one.
    Part(Arc<List>),
}

impl Deref for Offer<'_> {
    type Target = List;

    fn deref(&self) -> &List {
        match self {
            Offer::Whole(list) => list,
            Offer::Part(list) => list,
        }
    }
}

/// Lists that were made for single askers. Rules are part of the key: other rules show other things.
pub(super) struct Offers(Cache<(u64, Kind, Arc<Principal>), Arc<List>>);

impl Default for Offers {
    fn default() -> Offers {
        Offers(Cache::new(KEPT))
    }
}

impl fmt::Debug for Offers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offers").field("kept", &self.0.len()).finish()
    }
}

impl View {
    /// The list of a kind as this asker sees it: what no call of theirs could reach is not in it.
    pub(crate) fn offer(&self, kind: Kind, checks: &Checks, asker: &Arc<Principal>) -> Offer<'_> {
        let whole = self.list(kind);
        if !checks.policy.shapes_lists(&asker.tenant) {
            return Offer::Whole(whole);
        }
        let key = (checks.policy.edition(), kind, Arc::clone(asker));
        if let Some(part) = self.offers.0.get(&key) {
            return Offer::Part(part);
        }
        let part = Arc::new(whole.part(|thing| checks.policy.shows(asker, &self.server, thing)));
        self.offers.0.insert(key, Arc::clone(&part));
        Offer::Part(part)
    }
}
