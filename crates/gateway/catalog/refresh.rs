//! Keeps catalogs true: reads an upstream's lists when it comes up or says that they changed, and tells
//! sessions about what really changed.
//!
//! One task an upstream does all reading, so a slow one never delays another. Events meet in a small
//! inbox that remembers *that* something happened, never how often: a storm of 200 notifications is one
//! reading (bug B29).

mod notices;
mod reading;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use admission::TenantId;
pub(super) use reading::{Remarks, printable};
use reading::{note_idle_filters, read_list};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use upstream::{Connection, Notice, Spec};
use wire::Kind;

use super::{Catalog, News, Source, shelf::Shown};
use crate::{authn::Watched, gateway::Gateway, session::Session, snapshot::Snapshot};

/// Notifications that come closer together than this are read about once.
const SETTLE: Duration = Duration::from_millis(150);
/// At most one reading an upstream in this time, however often it calls.
const BETWEEN_READINGS: Duration = Duration::from_secs(1);
/// Sessions hear of changes at most once in this time.
const BETWEEN_ANNOUNCEMENTS: Duration = Duration::from_secs(1);
/// Pause before lists are read again that could not be read, and how often.
const RETRY: Duration = Duration::from_secs(5);
const RETRIES: u32 = 5;

/// The tasks that keep catalogs true, awaited at drain (invariant 13).
pub(crate) struct Refresh {
    stop: CancellationToken,
    tasks: TaskTracker,
    inboxes: Inboxes,
    /// Tenants whose changes are announced, and what ends that.
    announced: Mutex<HashMap<TenantId, DropGuard>>,
    /// What ends the watch over each issuer's keys.
    watched: Mutex<Vec<(Watched, DropGuard)>>,
}

/// What happened to one upstream since somebody last looked.
#[derive(Default)]
struct Inbox {
    pending: Mutex<Pending>,
    rang: Notify,
    backlog: notices::Backlog,
}

#[derive(Default)]
struct Pending {
    up: Option<Arc<Connection>>,
    down: Option<String>,
    changed: HashSet<Kind>,
    /// The configuration may have changed.
    again: bool,
}

/// What waits for each upstream, by tenant and id.
type Inboxes = Arc<Mutex<HashMap<(Arc<str>, Arc<str>), Followed>>>;

/// One upstream whose lists are kept.
struct Followed {
    inbox: Arc<Inbox>,
    /// What it was when that began: what servers of an earlier configuration still say is not its word.
    spec: Arc<Spec>,
    /// Ends the tasks that keep it, with this.
    _stop: DropGuard,
}

impl Refresh {
    /// Starts everything that runs beside requests.
    pub(crate) fn start(
        gateway: &Arc<Gateway>,
        notices: mpsc::Receiver<Notice>,
        ended: mpsc::UnboundedReceiver<Arc<Session>>,
    ) -> Refresh {
        let refresh = Refresh {
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            inboxes: Inboxes::default(),
            announced: Mutex::default(),
            watched: Mutex::default(),
        };
        refresh.follow(gateway);
        refresh
            .spawn(notices::sort(Arc::clone(gateway), Arc::clone(&refresh.inboxes), notices), &refresh.stop);
        refresh.spawn(release(Arc::clone(gateway), ended), &refresh.stop);
        refresh.spawn(sweep(Arc::clone(gateway)), &refresh.stop);
        refresh.spawn(Arc::clone(&gateway.router.subscriptions).keep(), &refresh.stop);
        refresh
    }

    /// Keeps what the snapshot has, and nothing else: begins what is new in it and ends what is gone.
    pub(crate) fn follow(&self, gateway: &Arc<Gateway>) {
        let snapshot = gateway.snapshot.load_full();
        self.watch_keys(&snapshot);
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        announced.retain(|tenant, _| snapshot.catalogs.contains_key(tenant));
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.retain(|(tenant, id), followed| {
            let catalog = snapshot.catalogs.get(&TenantId::new(Arc::clone(tenant)));
            let source = catalog.and_then(|catalog| catalog.source(id));
            source.is_some_and(|source| source.spec == followed.spec)
        });
        for catalog in snapshot.catalogs.values() {
            if !announced.contains_key(&catalog.tenant) {
                let stop = self.stop.child_token();
                self.spawn(announce(Arc::clone(gateway), Arc::clone(catalog)), &stop);
                announced.insert(catalog.tenant.clone(), stop.drop_guard());
            }
            for (id, source) in &catalog.terms().sources {
                let key = (Arc::clone(catalog.tenant.name()), Arc::clone(id));
                if let Some(followed) = inboxes.get(&key) {
                    // Its filters may be others now.
                    followed.inbox.ring(|pending| pending.again = true);
                    continue;
                }
                inboxes.insert(key, self.follow_one(gateway, catalog, source));
            }
        }
    }

    fn follow_one(&self, gateway: &Arc<Gateway>, catalog: &Arc<Catalog>, source: &Source) -> Followed {
        let (inbox, stop) = (Arc::new(Inbox::default()), self.stop.child_token());
        let (gateway, catalog, id) =
            (Arc::clone(gateway), Arc::clone(catalog), Arc::clone(&source.config.id));
        self.spawn(Reader::new(&gateway, &catalog, &id, Arc::clone(&inbox)).run(), &stop);
        self.spawn(notices::pass_on(gateway, catalog, id, Arc::clone(&inbox)), &stop);
        Followed { inbox, spec: Arc::clone(&source.spec), _stop: stop.drop_guard() }
    }

    /// Keys are watched once for as long as any snapshot has them.
    fn watch_keys(&self, snapshot: &Snapshot) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let now = snapshot.authn.key_sets();
        watched.retain(|(keys, _)| now.iter().any(|one| one.is(keys)));
        for keys in now {
            if !watched.iter().any(|(known, _)| known.is(&keys)) {
                let stop = self.stop.child_token();
                self.spawn(keys.clone().watch(), &stop);
                watched.push((keys, stop.drop_guard()));
            }
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static, stop: &CancellationToken) {
        let stop = stop.clone();
        self.tasks.spawn(async move {
            // Stopping in the middle loses nothing: catalogs live in memory only.
            let _ = stop.run_until_cancelled(work).await;
        });
    }

    /// Stops all of it and waits until it has.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Inbox {
    fn ring(&self, change: impl FnOnce(&mut Pending)) {
        change(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        self.rang.notify_one();
    }

    fn take(&self) -> Pending {
        std::mem::take(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads the lists of one upstream.
struct Reader {
    gateway: Arc<Gateway>,
    catalog: Arc<Catalog>,
    id: Arc<str>,
    inbox: Arc<Inbox>,
    connection: Option<Arc<Connection>>,
    /// Lists that could not be read, when to try again, and how often that was done.
    retry: Option<(HashSet<Kind>, Instant, u32)>,
    /// Remarks that were logged; each is logged once.
    told: HashSet<String>,
    /// As configured when the lists were last read.
    read: Option<Arc<Source>>,
}

impl News {
    /// What a server said of itself.
    fn connected(connection: &Connection) -> News {
        let facts = connection.facts();
        News::Connected { capabilities: facts.capabilities.clone(), instructions: facts.instructions.clone() }
    }
}

impl Reader {
    fn new(gateway: &Arc<Gateway>, catalog: &Arc<Catalog>, id: &Arc<str>, inbox: Arc<Inbox>) -> Reader {
        Reader {
            gateway: Arc::clone(gateway),
            catalog: Arc::clone(catalog),
            id: Arc::clone(id),
            inbox,
            connection: None,
            retry: None,
            told: HashSet::new(),
            read: None,
        }
    }

    async fn run(mut self) {
        loop {
            let due = self.retry.as_ref().map(|(_, due, _)| *due);
            tokio::select! {
                () = self.inbox.rang.notified() => self.look().await,
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    if let Some((kinds, _, tries)) = self.retry.take() {
                        self.read(kinds, tries).await;
                    }
                }
            }
        }
    }

    /// Acts on what happened since the last look.
    async fn look(&mut self) {
        let Pending { up, down, changed, again } = self.inbox.take();
        let tenant = self.catalog.tenant.name();
        let Some(source) = self.catalog.source(&self.id) else { return };
        if let Some(why) = down {
            tracing::warn!(tenant = %tenant, upstream = %self.id, why, "upstream is down");
            self.connection = None;
            self.retry = None;
            self.gateway.metrics.upstream_up(tenant, &self.id, false);
            self.catalog.learn(&source, News::Gone);
        }
        if let Some(connection) = up {
            self.gateway.metrics.upstream_up(tenant, &self.id, true);
            self.catalog.learn(&source, News::connected(&connection));
            self.connection = Some(connection);
            self.gateway.save_eras().await;
            self.read(Kind::ALL.into_iter().collect(), 0).await;
        } else if again && self.is_outdated(&source) {
            if let Some(connection) = &self.connection {
                self.catalog.learn(&source, News::connected(connection));
            }
            self.read(Kind::ALL.into_iter().collect(), 0).await;
        } else if !changed.is_empty() {
            tokio::time::sleep(SETTLE).await;
            let mut kinds = changed;
            let more = std::mem::take(
                &mut self.inbox.pending.lock().unwrap_or_else(PoisonError::into_inner).changed,
            );
            kinds.extend(more);
            self.read(kinds, 0).await;
            tokio::time::sleep(BETWEEN_READINGS).await;
        }
    }

    /// Whether the lists were read under another configuration than this, one that left something else of them.
    fn is_outdated(&self, source: &Arc<Source>) -> bool {
        self.catalog.state(&self.id) != "up"
            || self.read.as_ref().is_none_or(|read| read.config != source.config)
    }

    /// Reads these kinds. Those that failed are read again after a pause, which keeps nothing else waiting.
    async fn read(&mut self, mut kinds: HashSet<Kind>, tries: u32) {
        let Some(connection) = self.connection.clone() else { return };
        let Some(source) = &self.catalog.source(&self.id) else { return };
        let mut shelves: [Option<Vec<Shown>>; 4] = Default::default();
        let mut remarks = Remarks::default();
        for (kind, shelf) in Kind::ALL.into_iter().zip(&mut shelves) {
            if !kinds.contains(&kind) {
                continue;
            }
            match read_list(&connection, source, kind, &mut remarks).await {
                Ok(items) => {
                    *shelf =
                        Some(self.catalog.shelve(source, (kind, connection.facts()), &items, &mut remarks));
                    kinds.remove(&kind);
                }
                Err(why) => remarks.push(|| format!("{} could not be read: {why}", kind.member())),
            }
        }
        note_idle_filters(source, &shelves, &mut remarks);
        let remarks = remarks.finish();
        for remark in &remarks {
            if self.told.len() < 1000 && self.told.insert(remark.clone()) {
                tracing::warn!(tenant = %self.catalog.tenant, upstream = %self.id, "{remark}");
            }
        }
        if !self.catalog.learn(source, News::Listed { shelves, remarks }) {
            // The configuration changed meanwhile: the bell that says so has been rung.
            return;
        }
        self.read = Some(Arc::clone(source));
        let again = !kinds.is_empty() && tries < RETRIES && connection.is_open();
        self.retry = again.then(|| (kinds, Instant::now() + RETRY, tries + 1));
    }
}

/// Tells sessions which lists changed, comparing what they could see and not what upstreams claim
/// (spec T-12).
async fn announce(gateway: Arc<Gateway>, catalog: Arc<Catalog>) {
    let mut turns = catalog.turns();
    while turns.changed().await.is_ok() {
        // The first change is told soon; what follows closely is told together.
        tokio::time::sleep(SETTLE).await;
        turns.mark_unchanged();
        for view in catalog.views() {
            let checks = &gateway.snapshot.load_full().checks;
            for session in gateway.sessions.at(&catalog.tenant, &view.server) {
                let speaker = session.speaker();
                session.announce(|kind| view.offer(kind, checks, &speaker).version);
                // There may be many sessions, and each may see another list.
                tokio::task::consume_budget().await;
            }
        }
        tokio::time::sleep(BETWEEN_ANNOUNCEMENTS).await;
    }
}

/// Stops the processes of ended sessions, each at its own pace: one that does not want to end delays none.
async fn release(gateway: Arc<Gateway>, mut ended: mpsc::UnboundedReceiver<Arc<Session>>) {
    let mut leaving = JoinSet::new();
    loop {
        tokio::select! {
            session = ended.recv() => {
                let Some(session) = session else { return };
                let gateway = Arc::clone(&gateway);
                leaving.spawn(async move { gateway.release(&session).await });
            }
            Some(_) = leaving.join_next() => (),
        }
    }
}

/// Ends sessions that are old or silent.
async fn sweep(gateway: Arc<Gateway>) {
    let mut ticks = tokio::time::interval(gateway.sessions.sweep_interval());
    loop {
        ticks.tick().await;
        gateway.sessions.sweep();
        gateway.limits.sweep();
        gateway.router.tasks.sweep();
    }
}
