//! What each tenant offers: stock from its upstreams, merged into one view a virtual server.
//!
//! `stock` is what upstreams said last; every change of it makes new views, and the views are swapped
//! whole. A call takes one view and keeps it.

mod bind;
mod capabilities;
pub(crate) mod cursor;
mod facts;
mod merge;
mod names;
mod offer;
pub(crate) mod refresh;
mod shelf;
mod view;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use admission::TenantId;
use arc_swap::ArcSwap;
use tokio::sync::watch;
use wire::Kind;

pub(crate) use bind::{Reference, bind};
pub(crate) use facts::configured;
pub(crate) use offer::Offer;
use shelf::Shown;
pub(crate) use view::View;

/// One configured upstream, ready to be started.
#[derive(Debug)]
pub(crate) struct Source {
    /// As configured.
    pub(crate) config: config::Upstream,
    /// What the pool needs to start it.
    pub(crate) spec: Arc<upstream::Spec>,
    /// What it may ask of clients.
    pub(crate) reach: crate::asking::Reach,
}

/// One tenant's catalog.
pub(crate) struct Catalog {
    /// Whose.
    pub(crate) tenant: TenantId,
    terms: ArcSwap<Terms>,
    stock: Mutex<BTreeMap<Arc<str>, Stock>>,
    shop: ArcSwap<Shop>,
    turned: watch::Sender<u64>,
}

/// What the configuration says of a tenant's catalog. Replaced whole when that changes.
pub(crate) struct Terms {
    /// The upstreams, by id.
    pub(crate) sources: BTreeMap<Arc<str>, Arc<Source>>,
    /// Principal processes there may be.
    pub(crate) processes: usize,
    /// The HTTP status that errors have.
    pub(crate) error_status: config::ErrorStatus,
    /// Whether an upstream hears who calls.
    pub(crate) is_for_callers: bool,
    rules: Rules,
    /// How long lists wait for an upstream in its first start.
    patience: Duration,
}

/// What the merge needs to know from the configuration.
struct Rules {
    ids: Vec<Arc<str>>,
    servers: Vec<config::VirtualServer>,
    extensions: Vec<config::Pattern>,
    names_max: usize,
}

/// What one upstream said last.
struct Stock {
    state: StockState,
    /// Raw `capabilities`, kept after the upstream is gone: a promise holds (spec B-24).
    capabilities: Option<String>,
    instructions: Option<String>,
    shelves: [Vec<Shown>; 4],
    /// What was left out or looks wrong, for the operator.
    remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StockState {
    /// In its first start; lists wait for it until then.
    Starting { until: Instant },
    /// Connected, its lists are being read for the first time.
    Reading { until: Instant },
    /// Listed.
    Up,
    /// Gone or never come; lists go on without it.
    Down,
}

/// All views of a tenant at one moment.
#[derive(Default)]
struct Shop {
    views: HashMap<Arc<str>, Arc<View>>,
    /// Upstreams that lists still wait for.
    awaited: Vec<(Arc<str>, Instant)>,
    /// Those whose handshake is still awaited.
    unknown: Vec<Arc<str>>,
}

/// What `refresh` has learned.
enum News {
    /// The upstream answered the handshake.
    Connected { capabilities: String, instructions: Option<String> },
    /// It listed these. Kinds that are none stay as they were.
    Listed { shelves: [Option<Vec<Shown>>; 4], remarks: Vec<String> },
    /// It is gone, or did not come.
    Gone,
}

impl Terms {
    /// As configured.
    pub(crate) fn new(
        tenant: &config::Tenant,
        sources: BTreeMap<Arc<str>, Source>,
        config: &config::Config,
    ) -> Terms {
        let sources: BTreeMap<_, _> =
            sources.into_iter().map(|(id, source)| (id, Arc::new(source))).collect();
        let ids = sources.keys().cloned().collect();
        let is_for_callers = sources.values().any(|source| source.spec.is_for_callers());
        Terms {
            sources,
            processes: tenant.processes,
            error_status: tenant.error_status,
            is_for_callers,
            rules: Rules {
                ids,
                servers: tenant.virtual_servers.clone(),
                // The configuration was checked: a pattern that does not compile never gets here.
                extensions: tenant.extensions.iter().filter_map(|g| config::Pattern::glob(g).ok()).collect(),
                names_max: config.names_max,
            },
            patience: config.list_timeout,
        }
    }

    /// Whether what an upstream listed under other terms stands as it is under these: same server, same filters, same
    /// names.
    fn keep(&self, id: &Arc<str>, old: &Terms) -> bool {
        let alike = |new: &Source, old: &Source| new.spec == old.spec && new.config == old.config;
        let names = self.rules.names_max == old.rules.names_max && self.rules.ids == old.rules.ids;
        let bare = |terms: &Terms| terms.rules.is_bare(id);
        let both = self.sources.get(id).zip(old.sources.get(id));
        names && bare(self) == bare(old) && both.is_some_and(|(new, old)| alike(new, old))
    }
}

impl Rules {
    /// Whether a virtual server calls the things of this upstream by their native names.
    fn is_bare(&self, upstream: &str) -> bool {
        let servers = self.servers.iter().filter(|server| server.names == config::Naming::Bare);
        servers.flat_map(|server| &server.upstreams).any(|id| **id == *upstream)
    }
}

impl Catalog {
    /// An empty catalog in which every upstream is about to start.
    pub(crate) fn new(tenant: TenantId, terms: Terms, now: Instant) -> Catalog {
        let until = now + terms.patience;
        let start = |id: &Arc<str>| (Arc::clone(id), Stock::new(StockState::Starting { until }));
        let stock = terms.sources.keys().map(start).collect();
        let catalog = Catalog {
            tenant,
            terms: ArcSwap::from_pointee(terms),
            stock: Mutex::new(stock),
            shop: ArcSwap::default(),
            turned: watch::Sender::new(0),
        };
        catalog.restock(|_| ());
        catalog
    }

    /// What the configuration says.
    pub(crate) fn terms(&self) -> arc_swap::Guard<Arc<Terms>> {
        self.terms.load()
    }

    /// One configured upstream.
    pub(crate) fn source(&self, id: &str) -> Option<Arc<Source>> {
        self.terms.load().sources.get(id).cloned()
    }

    /// Goes on under other terms. What changed is served again once it was read; what is gone is gone at once.
    pub(crate) fn retune(&self, terms: Terms, now: Instant) {
        self.restock(|stock| {
            let old = self.terms.load_full();
            let until = now + terms.patience;
            stock.retain(|id, _| terms.keep(id, &old));
            for id in terms.sources.keys() {
                stock.entry(Arc::clone(id)).or_insert_with(|| Stock::new(StockState::Starting { until }));
            }
            self.terms.store(Arc::new(terms));
        });
    }

    /// What a virtual server offers now.
    pub(crate) fn view(&self, server: &str) -> Option<Arc<View>> {
        self.shop.load().views.get(server).cloned()
    }

    /// The name of a virtual server as the configuration holds it.
    pub(crate) fn server(&self, name: &str) -> Option<Arc<str>> {
        let terms = self.terms.load();
        let server = terms.rules.servers.iter().find(|server| *server.name == *name);
        server.map(|server| Arc::clone(&server.name))
    }

    /// The view once nothing it is made of is in its first start any more, or that start's time is up
    /// (product rule "Lists while upstreams start").
    pub(crate) async fn settled(&self, server: &str) -> Option<Arc<View>> {
        self.wait(server, |shop, view| {
            let mine = shop.awaited.iter().filter(|(id, _)| view.upstreams.contains(id));
            mine.map(|(_, until)| *until).max()
        })
        .await
    }

    /// The view once every handshake it depends on was answered, or `patience` is over.
    pub(crate) async fn introduced(&self, server: &str, patience: Duration) -> Option<Arc<View>> {
        let until = Instant::now() + patience;
        self.wait(server, |shop, view| {
            shop.unknown.iter().any(|id| view.upstreams.contains(id)).then_some(until)
        })
        .await
    }

    /// Waits until `open` names no moment to wait for, or that moment has passed.
    async fn wait(&self, server: &str, open: impl Fn(&Shop, &View) -> Option<Instant>) -> Option<Arc<View>> {
        let mut turned = self.turned.subscribe();
        loop {
            turned.mark_unchanged();
            let (view, until) = {
                let shop = self.shop.load();
                let view = Arc::clone(shop.views.get(server)?);
                let until = open(&shop, &view);
                (view, until)
            };
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return Some(view) };
            // Either way the shop is looked at again; the sender lives as long as the catalog.
            let _ = tokio::time::timeout_at(until.into(), turned.changed()).await;
        }
    }

    /// A receiver that turns whenever the views do.
    pub(crate) fn turns(&self) -> watch::Receiver<u64> {
        self.turned.subscribe()
    }

    /// All views, for announcements and for `/status`.
    pub(crate) fn views(&self) -> Vec<Arc<View>> {
        self.shop.load().views.values().cloned().collect()
    }

    /// How far an upstream has come: `starting` until its lists are served, then `up` or `down`.
    pub(crate) fn state(&self, upstream: &str) -> &'static str {
        let stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        match stock.get(upstream).map(|stock| stock.state) {
            Some(StockState::Starting { .. } | StockState::Reading { .. }) => "starting",
            Some(StockState::Up) => "up",
            Some(StockState::Down) | None => "down",
        }
    }

    /// What the operator should know about an upstream's definitions.
    pub(crate) fn remarks(&self, upstream: &str) -> Vec<String> {
        let stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        stock.get(upstream).map(|stock| stock.remarks.clone()).unwrap_or_default()
    }

    /// Takes news of one upstream and puts new views in place of the old ones. False when it is not configured like that
    /// any more: what was learned does not hold.
    fn learn(&self, source: &Arc<Source>, news: News) -> bool {
        let mut current = false;
        self.restock(|stock| {
            let id = &source.config.id;
            current = self.source(id).is_some_and(|now| Arc::ptr_eq(&now, source));
            if let (true, Some(stock)) = (current, stock.get_mut(id)) {
                stock.learn(news);
            }
        });
        current
    }

    fn restock(&self, change: impl FnOnce(&mut BTreeMap<Arc<str>, Stock>)) {
        // INVARIANT: views are built under the lock, so a newer stock never loses to an older one.
        let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut stock);
        self.shop.store(Arc::new(merge::merge(self, &stock)));
        self.turned.send_modify(|turn| *turn += 1);
    }
}

impl Stock {
    fn new(state: StockState) -> Stock {
        Stock {
            state,
            capabilities: None,
            instructions: None,
            shelves: Default::default(),
            remarks: Vec::new(),
        }
    }

    fn learn(&mut self, news: News) {
        match news {
            News::Connected { capabilities, instructions } => {
                if let StockState::Starting { until } = self.state {
                    self.state = StockState::Reading { until };
                }
                self.capabilities = Some(capabilities);
                self.instructions = instructions;
            }
            News::Listed { shelves, remarks } => {
                self.state = StockState::Up;
                self.remarks = remarks;
                for (kept, read) in self.shelves.iter_mut().zip(shelves) {
                    if let Some(read) = read {
                        *kept = read;
                    }
                }
            }
            // The shelves stay: a call of a listed name is told that the upstream is down, not that the
            // name is unknown.
            News::Gone => self.state = StockState::Down,
        }
    }

    fn shelf(&self, kind: Kind) -> &[Shown] {
        let [tools, resources, templates, prompts] = &self.shelves;
        match kind {
            Kind::Tools => tools,
            Kind::Resources => resources,
            Kind::Templates => templates,
            Kind::Prompts => prompts,
        }
    }

    /// Whether lists show it.
    fn is_listed(&self) -> bool {
        self.state == StockState::Up
    }
}
