//! What one virtual server offers at one moment: lists as ready bytes, and the table of names.

use std::{collections::HashMap, sync::Arc};

use admission::{Sort, Thing};
use bytes::Bytes;
use wire::{Capability, Kind};

/// Items of a page. A list of more is cut, and the next page has a cursor of ours.
pub(crate) const PAGE: usize = 1000;

/// One virtual server's offer.
#[derive(Debug)]
pub(crate) struct View {
    /// The virtual server's name.
    pub(crate) server: Arc<str>,
    /// The upstreams it selects.
    pub(crate) upstreams: Vec<Arc<str>>,
    /// What `initialize` says, raw JSON.
    pub(crate) capabilities: String,
    /// The same, for asking whether a method exists.
    pub(crate) promised: Vec<Capability>,
    /// Merged instructions.
    pub(crate) instructions: Option<String>,
    pub(super) lists: [List; 4],
    pub(super) tools: HashMap<Box<str>, Arc<Thing>>,
    pub(super) prompts: HashMap<Box<str>, Arc<Thing>>,
    /// By exposed URI: only what is known from a list. Other URIs are judged by their prefix.
    pub(super) resources: HashMap<Box<str>, Arc<Thing>>,
    /// URI scheme → upstream.
    pub(super) prefixes: HashMap<Box<str>, Arc<str>>,
    /// Per upstream: the filters a resource URI must pass that no list mentioned.
    pub(super) uri_filters: HashMap<Arc<str>, [config::Filter; 2]>,
    /// Upstreams that are missing from the lists.
    pub(crate) absent: Vec<Arc<str>>,
}

/// One list of a view.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(super) entries: Vec<Entry>,
    /// The pages, each a `result` object without its closing brace, so that a cursor can follow.
    pub(super) pages: Vec<Bytes>,
    /// Tells two versions of a list apart: the start of a hash over its items.
    pub(crate) version: u64,
}

/// One listed item.
#[derive(Debug)]
pub(super) struct Entry {
    /// Where it stands in the whole list: upstream, then the upstream's own order.
    pub(super) place: (Arc<str>, usize),
    /// The item as clients see it.
    pub(super) shown: Bytes,
}

/// A page to be answered.
pub(crate) struct Page {
    /// A `result` object without its closing brace.
    pub(crate) open: Bytes,
    /// The last item's place, when more follow.
    pub(crate) last: Option<(Arc<str>, usize)>,
}

impl View {
    /// The list of a kind.
    pub(crate) fn list(&self, kind: Kind) -> &List {
        let [tools, resources, templates, prompts] = &self.lists;
        match kind {
            Kind::Tools => tools,
            Kind::Resources => resources,
            Kind::Templates => templates,
            Kind::Prompts => prompts,
        }
    }

    /// The thing a name stands for, hidden or not.
    pub(crate) fn named(&self, sort: Sort, exposed: &str) -> Option<Arc<Thing>> {
        match sort {
            Sort::Tool => self.tools.get(exposed).cloned(),
            Sort::Prompt => self.prompts.get(exposed).cloned(),
            Sort::Resource => self.resource(exposed),
        }
    }

    /// Rewriting is a function, not a table: a URI that no list mentions still has an owner (spec R-01).
    fn resource(&self, exposed: &str) -> Option<Arc<Thing>> {
        if let Some(known) = self.resources.get(exposed) {
            return Some(Arc::clone(known));
        }
        let (upstream, native) = super::names::native_uri(exposed, &self.prefixes)?;
        let filters = self.uri_filters.get(&upstream)?;
        let standing = super::merge::uri_standing(native, filters);
        let (exposed, native) = (exposed.into(), native.into());
        let (sort, mirrors) = (Sort::Resource, Arc::default());
        Some(Arc::new(Thing { upstream, sort, exposed, native, digest: None, standing, mirrors }))
    }
}

impl List {
    /// How many items it has.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The first page.
    pub(crate) fn first(&self) -> Page {
        match self.pages.first() {
            Some(open) => Page { open: open.clone(), last: self.place_of_last(PAGE) },
            // INVARIANT: a list has at least one page, be it empty; see `merge`.
            None => Page { open: Bytes::from_static(b"{"), last: None },
        }
    }

    /// The page after a place. The place need not exist any more: what stood after it follows (spec U-05).
    pub(crate) fn after(&self, kind: Kind, place: &(Arc<str>, usize)) -> Page {
        let start = self.entries.partition_point(|entry| entry.place <= *place);
        let aligned = start.is_multiple_of(PAGE).then(|| self.pages.get(start / PAGE)).flatten();
        let open = match aligned {
            Some(ready) => ready.clone(),
            None => {
                let rest = self.entries.iter().skip(start).take(PAGE).map(|entry| entry.shown.clone());
                open_page(kind, &rest.collect::<Vec<_>>())
            }
        };
        Page { open, last: self.place_of_last(start + PAGE) }
    }

    fn place_of_last(&self, end: usize) -> Option<(Arc<str>, usize)> {
        if end >= self.entries.len() {
            return None;
        }
        self.entries.get(end.checked_sub(1)?).map(|entry| entry.place.clone())
    }
}

/// A page's bytes without the closing brace.
pub(super) fn open_page(kind: Kind, items: &[Bytes]) -> Bytes {
    let page = wire::listing::render(kind, items, None);
    page.slice(..page.len().saturating_sub(1))
}
