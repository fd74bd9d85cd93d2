//! Keeps catalogs true: reads an upstream's lists when it comes up or says that they changed, and tells
//! sessions about what really changed.
//!
//! One task an upstream does all reading, so a slow one never delays another. Events meet in a small
//! inbox that remembers *that* something happened, never how often: a storm of 200 notifications is one
//! reading (bug B29).

mod notices;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use upstream::{Connection, Notice};
use wire::Kind;

use super::{Catalog, News, Source, shelf::Shown};
use crate::{bridge, gateway::Gateway, session::Session};

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
}

type Inboxes = HashMap<(Arc<str>, Arc<str>), Arc<Inbox>>;

impl Refresh {
    /// Starts everything that runs beside requests.
    pub(crate) fn start(
        gateway: &Arc<Gateway>,
        notices: mpsc::Receiver<Notice>,
        ended: mpsc::UnboundedReceiver<Arc<Session>>,
    ) -> Refresh {
        let refresh = Refresh { stop: CancellationToken::new(), tasks: TaskTracker::new() };
        let mut inboxes = Inboxes::new();
        for catalog in gateway.catalogs() {
            for id in catalog.sources.keys() {
                let inbox = Arc::new(Inbox::default());
                let key = (Arc::clone(catalog.tenant.name()), Arc::clone(id));
                inboxes.insert(key, Arc::clone(&inbox));
                let words = notices::pass_on(
                    Arc::clone(gateway),
                    Arc::clone(&catalog),
                    Arc::clone(id),
                    Arc::clone(&inbox),
                );
                refresh.spawn(words);
                let reader = Reader::new(gateway, &catalog, id, inbox);
                refresh.spawn(reader.run());
            }
            refresh.spawn(announce(Arc::clone(gateway), Arc::clone(&catalog)));
        }
        for watch in gateway.snapshot.load().authn.watches() {
            refresh.spawn(watch);
        }
        refresh.spawn(notices::sort(Arc::clone(gateway), inboxes, notices));
        refresh.spawn(release(Arc::clone(gateway), ended));
        refresh.spawn(sweep(Arc::clone(gateway)));
        refresh.spawn(Arc::clone(&gateway.router.subscriptions).keep());
        refresh
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
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
        let Pending { up, down, changed } = self.inbox.take();
        let tenant = self.catalog.tenant.name();
        if let Some(why) = down {
            tracing::warn!(tenant = %tenant, upstream = %self.id, why, "upstream is down");
            self.connection = None;
            self.retry = None;
            self.gateway.metrics.upstream_up(tenant, &self.id, false);
            self.catalog.learn(&self.id, News::Gone);
        }
        if let Some(connection) = up {
            self.gateway.metrics.upstream_up(tenant, &self.id, true);
            let facts = connection.facts();
            let (capabilities, instructions) = (facts.capabilities.clone(), facts.instructions.clone());
            self.catalog.learn(&self.id, News::Connected { capabilities, instructions });
            self.connection = Some(connection);
            self.gateway.save_eras().await;
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

    /// Reads these kinds. Those that failed are read again after a pause, which keeps nothing else waiting.
    async fn read(&mut self, mut kinds: HashSet<Kind>, tries: u32) {
        let Some(connection) = self.connection.clone() else { return };
        let Some(source) = self.catalog.sources.get(&self.id) else { return };
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
        self.catalog.learn(&self.id, News::Listed { shelves, remarks });
        let again = !kinds.is_empty() && tries < RETRIES && connection.is_open();
        self.retry = again.then(|| (kinds, Instant::now() + RETRY, tries + 1));
    }
}

/// Items of the kinds that have no bound of their own.
const MOST_ITEMS: usize = 10_000;
/// Pages of one list.
const MOST_PAGES: usize = 1_000;
/// Bytes of one list in all, and of one item.
const LIST_BYTES: usize = 16 * 1024 * 1024;
const ITEM_BYTES: usize = 512 * 1024;
/// The longest cursor that is sent back, in bytes.
const CURSOR_BYTES: usize = 8 * 1024;
/// Remarks that are kept of one reading.
const MOST_REMARKS: usize = 100;

/// All items of one list, page by page. A server that repeats a cursor, never ends or says too much is cut
/// short, and what it said until then counts (spec U-04).
async fn read_list(
    connection: &Arc<Connection>,
    source: &Source,
    kind: Kind,
    remarks: &mut Remarks,
) -> Result<Vec<wire::Item>, String> {
    if !connection.facts().has(capability(kind)) {
        return Ok(Vec::new());
    }
    let most = if kind == Kind::Tools { source.config.max_tools } else { MOST_ITEMS };
    let member = kind.member();
    let (mut items, mut bytes, mut seen) = (Vec::new(), 0, 0);
    let mut cursors = HashSet::new();
    let mut cursor: Option<Box<str>> = None;
    for _ in 0..MOST_PAGES {
        let page = match read_page(connection, source, kind, cursor.as_deref()).await? {
            Some(page) => page,
            None => return Ok(items),
        };
        seen += page.items.len() + page.broken.len();
        for broken in page.broken {
            let name = printable(broken.key.as_deref().unwrap_or("without a name"));
            let number = broken.position + 1;
            remarks.push(|| format!("{member} `{name}` (number {number}) is left out: {}", broken.why));
        }
        for item in page.items {
            if item.raw().len() > ITEM_BYTES {
                let name = printable(item.key());
                remarks.push(|| format!("{member} `{name}` is left out: more than {ITEM_BYTES} bytes"));
                continue;
            }
            bytes += item.raw().len();
            items.push(item);
        }
        if seen > most || bytes > LIST_BYTES {
            remarks.push(|| {
                format!("more than {most} {member}, or {LIST_BYTES} bytes of them: the rest is left out")
            });
            items.truncate(most);
            return Ok(items);
        }
        let Some(next) = page.next else { return Ok(items) };
        if next.len() > CURSOR_BYTES || !cursors.insert(next.clone()) {
            remarks.push(|| format!("{member}: a cursor came twice or is too long, the list ends there"));
            return Ok(items);
        }
        cursor = Some(next);
    }
    remarks.push(|| format!("{member}: more than {MOST_PAGES} pages, the list ends there"));
    Ok(items)
}

/// What the operator should know of one reading, within bounds.
#[derive(Default)]
pub(super) struct Remarks {
    kept: Vec<String>,
    more: usize,
}

impl Remarks {
    /// Keeps a remark while there is room, and counts it otherwise.
    pub(super) fn push(&mut self, remark: impl FnOnce() -> String) {
        if self.kept.len() < MOST_REMARKS {
            self.kept.push(remark());
        } else {
            self.more += 1;
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.kept.push(format!("and {} more remarks", self.more));
        }
        self.kept
    }
}

/// An upstream's text, safe to print and short.
pub(super) fn printable(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

/// One page; none when the server does not have the method after all.
async fn read_page(
    connection: &Arc<Connection>,
    source: &Source,
    kind: Kind,
    cursor: Option<&str>,
) -> Result<Option<wire::Page>, String> {
    let method = kind.list_method().name();
    let mut members = Vec::new();
    if let Some(cursor) = cursor {
        members.push(format!("\"cursor\":{}", wire::code::quote(cursor)));
    }
    if let Some(meta) = bridge::request_meta(connection.facts(), None, None, &bridge::Sender::ourselves()) {
        members.push(format!("\"_meta\":{meta}"));
    }
    let params = format!("{{{}}}", members.join(","));
    let list = source.config.timeouts.list;
    let wait = upstream::Wait { first: list, most: list, progress: false };
    let build = |id: &wire::Id| {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}",
            id.raw()
        );
        bytes::Bytes::from(line)
    };
    let mut exchange = {
        let method = kind.list_method();
        let outbound = upstream::Outbound { method, name: None, mirrored: &[], caller: None, build: &build };
        connection.send_outbound(&outbound, wait).map_err(|error| error.to_string())?
    };
    loop {
        match exchange.next().await {
            upstream::Incoming::Progress(_)
            | upstream::Incoming::Question(_)
            | upstream::Incoming::Told(_)
            | upstream::Incoming::Later => (),
            upstream::Incoming::Failed(error) => return Err(error.to_string()),
            upstream::Incoming::Answer(answer) if answer.error().is_some() => {
                let code = answer.error_member("code").unwrap_or_default();
                return if code == "-32601" { Ok(None) } else { Err(format!("it answered error {code}")) };
            }
            upstream::Incoming::Answer(answer) => {
                return wire::read_page(&answer, kind).map(Some).map_err(|error| error.to_string());
            }
        }
    }
}

fn capability(kind: Kind) -> &'static str {
    match kind {
        Kind::Tools => "tools",
        Kind::Resources | Kind::Templates => "resources",
        Kind::Prompts => "prompts",
    }
}

/// A pattern that matches nothing is most likely a typo, and the operator hears of it (bug B25).
fn note_idle_filters(source: &Source, shelves: &[Option<Vec<Shown>>; 4], remarks: &mut Remarks) {
    let [tools, resources, templates, prompts] = shelves;
    let config = &source.config;
    let filters = [
        ("tools", &config.tools, [tools.as_ref(), None]),
        ("resources", &config.resources, [resources.as_ref(), templates.as_ref()]),
        ("prompts", &config.prompts, [prompts.as_ref(), None]),
    ];
    for (what, filter, read) in filters {
        if read.iter().flatten().next().is_none() {
            continue;
        }
        for pattern in filter.patterns() {
            let mut natives = read.iter().flatten().flat_map(|shelf| shelf.iter());
            if !natives.any(|shown| pattern.matches(&shown.native)) {
                let text = &pattern.text;
                remarks.push(|| format!("the filter `{text}` matches none of its {what}"));
            }
        }
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
                session.announce(|kind| view.offer(kind, checks, &session.principal).version);
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
