//! What one asker is shown of a list, and of the upstreams behind it: all, unless rules keep something from somebody.

use std::{collections::HashMap, fmt, ops::Deref, sync::Arc};

use admission::{Checks, Facts, Principal, Sort, Standing, Thing};
use quick_cache::sync::Cache;
use wire::{Kind, task::Support};

use super::{
    facts,
    merge::mark,
    view::{List, Owner, View},
};

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
        let absent = self.absent.iter().filter(|id| self.is_known(id, checks, asker));
        let mark = mark(absent);
        let part = Arc::new(whole.part(mark, |thing| checks.policy.shows(asker, &self.server, thing)));
        self.offers.0.insert(key, Arc::clone(&part));
        Offer::Part(part)
    }

    /// What the upstreams say of themselves that this asker may know of.
    pub(crate) fn instructions(&self, checks: &Checks, asker: &Arc<Principal>) -> Option<String> {
        let parts = self.instructions.iter().filter(|(id, _)| self.is_known(id, checks, asker));
        let parts: Vec<&str> = parts.map(|(_, part)| part.as_str()).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Whether an asker may know of an upstream: of something that it has, or, where nothing is known of it, of a thing that
    /// rules know by no more than whose it is.
    pub(crate) fn is_known(&self, upstream: &str, checks: &Checks, asker: &Arc<Principal>) -> bool {
        let policy = &checks.policy;
        if !policy.shapes_lists(&asker.tenant) {
            return true;
        }
        // Lists of single askers are kept ready. Those of a server that is missing have nothing of it.
        if Kind::ALL.into_iter().any(|kind| self.list(kind).has(upstream)) {
            return Kind::ALL.into_iter().any(|kind| self.offer(kind, checks, asker).has(upstream));
        }
        let tables = [&self.tools, &self.prompts, &self.resources];
        let its = tables.into_iter().flat_map(HashMap::values).filter(|thing| *thing.upstream == *upstream);
        let mut offered = its.filter(|thing| thing.standing == Standing::Offered).peekable();
        if offered.peek().is_none() {
            return [Sort::Tool, Sort::Prompt]
                .into_iter()
                .any(|sort| policy.shows(asker, &self.server, &self.anything(upstream, sort)));
        }
        offered.any(|thing| policy.shows(asker, &self.server, thing))
    }

    /// A thing of an upstream of which only that is known.
    fn anything(&self, upstream: &str, sort: Sort) -> Thing {
        let name = format!("{upstream}__?");
        let unknown = Facts::unknown(name.as_str());
        let facts = match self.owners.get(upstream) {
            Some(Owner { source, .. }) => facts::configured(&source.config, (sort, "?"), unknown),
            None => unknown,
        };
        Thing {
            upstream: upstream.into(),
            sort,
            exposed: name.as_str().into(),
            native: "?".into(),
            digest: None,
            standing: Standing::Offered,
            mirrors: Arc::default(),
            tasks: Support::Forbidden,
            facts: Arc::new(facts),
        }
    }
}
