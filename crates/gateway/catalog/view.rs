//! What one virtual server offers at one moment: lists as ready bytes, and the table of names.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use admission::{Facts, Sort, Thing};
use bytes::Bytes;
use wire::{Capability, Digest, Kind, Revision, digest_of, shape::Structured, task::Support};

use super::{Source, capabilities::Extras, facts, names::Prefixes, offer::Offers, shelf::Definition};

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
    /// Further members of that, each with its leading comma, which depend on who reads it.
    pub(crate) extras: Extras,
    /// The same, for asking whether a method exists.
    pub(crate) promised: Vec<Capability>,
    /// What upstreams say of themselves: whose each part is, and the part as clients read it.
    pub(super) instructions: Vec<(Arc<str>, String)>,
    pub(super) lists: [List; 4],
    pub(super) tools: HashMap<Box<str>, Arc<Thing>>,
    pub(super) prompts: HashMap<Box<str>, Arc<Thing>>,
    /// By exposed URI: only what is known from a list. Other URIs are judged by their prefix.
    pub(super) resources: HashMap<Box<str>, Arc<Thing>>,
    /// What stands before native URIs.
    pub(super) prefixes: Prefixes,
    /// What is said of a resource that no list mentioned, by its upstream.
    pub(super) owners: HashMap<Arc<str>, Owner>,
    /// Lists as single askers see them.
    pub(super) offers: Offers,
    /// Upstreams that are missing from the lists.
    pub(crate) absent: Vec<Arc<str>>,
}

/// An upstream, as far as URIs are concerned that no list mentioned.
#[derive(Debug)]
pub(super) struct Owner {
    /// What it is configured to be.
    pub(super) source: Arc<Source>,
    /// What a URI must pass at this virtual server, beside the filters of its upstream.
    pub(super) filter: config::Filter,
}

/// One list of a view.
#[derive(Debug)]
pub(crate) struct List {
    kind: Kind,
    entries: Vec<Entry>,
    /// What each page says of missing upstreams, with its leading comma.
    mark: String,
    pages: Pages,
    /// Tells two versions of a list apart: the start of a hash over its items.
    pub(crate) version: u64,
}

/// The pages of a list, made when somebody first asks for them; each a `result` object without its closing brace, so
/// that a cursor can follow.
#[derive(Debug, Default)]
struct Pages {
    any: OnceLock<Vec<Bytes>>,
    with_tasks: OnceLock<Vec<Bytes>>,
    with_tasks_differ: bool,
    objects: OnceLock<Vec<Bytes>>,
    objects_differ: bool,
    nothing: OnceLock<Vec<Bytes>>,
    nothing_differs: bool,
}

/// One listed item.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where it stands in the whole list: upstream, then the upstream's own order.
    pub(super) place: (Arc<str>, usize),
    /// The item as clients see it.
    pub(super) definition: Definition,
    /// What rules are asked about.
    pub(super) thing: Arc<Thing>,
    /// Of the definition: what tells two versions of a list apart.
    pub(super) digest: Digest,
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

    /// All things of a sort that a list of an upstream mentioned, hidden or not.
    pub(crate) fn things(&self, sort: Sort) -> impl Iterator<Item = &Arc<Thing>> {
        match sort {
            Sort::Tool => self.tools.values(),
            Sort::Prompt => self.prompts.values(),
            Sort::Resource => self.resources.values(),
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

    /// The client's URI of a native one.
    pub(crate) fn uri(&self, upstream: &str, native: &str) -> String {
        self.prefixes.exposed(upstream, native)
    }

    /// Rewriting is a function, not a table: a URI that no list mentions still has an owner (spec R-01).
    fn resource(&self, exposed: &str) -> Option<Arc<Thing>> {
        if let Some(known) = self.resources.get(exposed) {
            return Some(Arc::clone(known));
        }
        let (upstream, native) = self.prefixes.native(exposed)?;
        let Owner { source, filter } = self.owners.get(&upstream)?;
        let standing = super::merge::uri_standing(native, &[&source.config.resources, filter]);
        let (sort, mirrors, tasks) = (Sort::Resource, Arc::default(), Support::Forbidden);
        let facts = facts::configured(&source.config, (sort, native), Facts::resource(native)).into();
        let (exposed, native) = (exposed.into(), native.into());
        Some(Arc::new(Thing {
            upstream,
            sort,
            exposed,
            native,
            digest: None,
            standing,
            mirrors,
            tasks,
            facts,
        }))
    }
}

impl List {
    pub(super) fn new(kind: Kind, entries: Vec<Entry>, mark: String) -> List {
        let digests: Vec<u8> = entries.iter().flat_map(|entry| entry.digest.0).collect();
        let [a, b, c, d, e, f, g, h, ..] = digest_of(&digests).0;
        let version = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let differs = |takes| entries.iter().any(|entry: &Entry| entry.definition.differs(takes));
        let pages = Pages {
            with_tasks_differ: differs(Structured::WithTasks),
            objects_differ: differs(Structured::Objects),
            nothing_differs: differs(Structured::Nothing),
            ..Pages::default()
        };
        List { kind, entries, mark, pages, version }
    }

    /// The same without some of its items, and with this said of missing upstreams.
    pub(super) fn part(&self, mark: String, shows: impl Fn(&Thing) -> bool) -> List {
        let shown = self.entries.iter().filter(|entry| shows(&entry.thing)).cloned().collect();
        List::new(self.kind, shown, mark)
    }

    /// Whether something of this upstream is in it.
    pub(super) fn has(&self, upstream: &str) -> bool {
        self.entries.iter().any(|entry| *entry.thing.upstream == *upstream)
    }

    /// Whether its pages name no upstream that is missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.mark.is_empty()
    }

    /// How many items it has.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The first page, for a client of this revision.
    pub(crate) fn first(&self, client: Revision) -> Page {
        self.page(0, client)
    }

    /// The page after a place. The place need not exist any more: what stood after it follows (spec U-05).
    pub(crate) fn after(&self, place: &(Arc<str>, usize), client: Revision) -> Page {
        self.page(self.entries.partition_point(|entry| entry.place <= *place), client)
    }

    fn page(&self, start: usize, client: Revision) -> Page {
        let takes = Structured::from(client);
        let aligned = start.is_multiple_of(PAGE).then(|| self.pages(takes).get(start / PAGE)).flatten();
        let open = match aligned {
            Some(ready) => ready.clone(),
            None => self.open(self.entries.get(start..).unwrap_or_default(), takes),
        };
        Page { open, last: self.place_of_last(start + PAGE) }
    }

    /// The pages for revisions that take so much structured output.
    fn pages(&self, takes: Structured) -> &[Bytes] {
        // Most lists are the same for all.
        let pages = match takes {
            Structured::Nothing if self.pages.nothing_differs => &self.pages.nothing,
            Structured::Nothing | Structured::Objects if self.pages.objects_differ => &self.pages.objects,
            Structured::WithTasks if self.pages.with_tasks_differ => &self.pages.with_tasks,
            Structured::Any | Structured::WithTasks | Structured::Objects | Structured::Nothing => {
                &self.pages.any
            }
        };
        pages.get_or_init(|| match self.entries.is_empty() {
            // A list of nothing is one page of nothing (bug B31).
            true => vec![self.open(&[], takes)],
            false => self.entries.chunks(PAGE).map(|entries| self.open(entries, takes)).collect(),
        })
    }

    /// At most one page of these items.
    fn open(&self, entries: &[Entry], takes: Structured) -> Bytes {
        let shown = entries.iter().take(PAGE).map(|entry| entry.definition.taken(takes).clone());
        let page = wire::listing::render(self.kind, &shown.collect::<Vec<_>>(), None);
        let open = page.slice(..page.len().saturating_sub(1));
        if self.mark.is_empty() { open } else { [&*open, self.mark.as_bytes()].concat().into() }
    }

    fn place_of_last(&self, end: usize) -> Option<(Arc<str>, usize)> {
        if end >= self.entries.len() {
            return None;
        }
        self.entries.get(end.checked_sub(1)?).map(|entry| entry.place.clone())
    }
}
