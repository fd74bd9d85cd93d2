//! `subscriptions/listen`: a request that goes on for as long as its client wants to be told (spec U-24 to U-29).

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use admission::{Call, Decision, Principal, Sort, Target, TenantId, Thing};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, interval, sleep, sleep_until},
};
use wire::{Capability, Frame, Id, Kind, Method, Pieces, code, meta};

use super::{Mouth, Party, Subscriptions, Who, table::PER_FOLLOWER, telling::tagged};
use crate::{
    error::{CatalogError, EraError, Error, SessionError},
    handshake,
    router::{Answered, Context, Lane, Router, seat_key},
    snapshot::Snapshot,
    tasks::{TAKES_TASKS, takes_tasks, watched},
};

/// Listen streams of all clients at a time: each holds a place in the audit log.
const STREAMS: usize = 4096;
/// Those of one principal.
const PER_PRINCIPAL: usize = 64;
/// Servers that have not agreed by then are left out of the acknowledgement (spec U-24).
const AGREED: Duration = Duration::from_secs(10);
/// How often the credential is looked at again (spec H-27).
const CHECK: Duration = Duration::from_secs(5);
/// Changes of lists that come closer together than this are told together.
const SETTLE: Duration = Duration::from_millis(150);
/// Changes of lists are told at most once in this time (spec T-12).
const BETWEEN: Duration = Duration::from_secs(1);
/// Changed resources that may wait for a slow reader; of more, the first are missed.
const WAITING: usize = 256;
/// A message of more bytes than this is the only one that waits for its reader.
const LARGE: usize = 64 * 1024;
/// How long a reader may leave no room for the next message, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(10);
const PACE: Duration = Duration::from_millis(50);

/// What is listed, and the word and the notification for its changes.
const LISTS: [(&str, Capability, Method); 3] = [
    ("toolsListChanged", Capability::Tools, Method::ToolsChanged),
    ("promptsListChanged", Capability::Prompts, Method::PromptsChanged),
    ("resourcesListChanged", Capability::Resources, Method::ResourcesChanged),
];

/// Answers a listen request: the acknowledgement first, then what changes, and a result when the gateway or the
/// credential ends.
pub(crate) async fn listen(
    router: &Router,
    call: &Call,
    context: &Context,
    lane: Lane,
) -> Result<Answered, Error> {
    let (Some(id), Some(asker)) = (call.frame.id(), &lane.asker) else { return Ok(Answered::Accepted) };
    if !asker.accepts_events {
        return Err(EraError::NotAcceptable.into()); // spec H-04
    }
    let wanted = Wanted::read(&call.frame)?;
    if wanted.tasks.is_some() && !takes_tasks(&call.frame) {
        return Err(CatalogError::Undeclared(TAKES_TASKS).into()); // spec U-29
    }
    let all = &*router.subscriptions;
    let _stream = all.listens.open(&call.principal).ok_or(SessionError::TooManyStreams)?;
    // Before anything is known of the lists, so that no change of them is missed.
    let turns = context.catalog.turns();
    let mouth = Mouth::Listen(Arc::new(Mailbox::new(id.raw())));
    let party = Party::new(Who::Listen(all.number()), call, &context.view.server, mouth);
    let _follows = Follows { all, party: &party };
    let uris = follow(router, call, context, (&wanted, &party)).await;
    let lists: Vec<_> = LISTS
        .into_iter()
        .filter(|(word, capability, _)| {
            wanted.lists.contains(word) && context.view.promised.contains(capability)
        })
        .collect();
    let tasks = watched(router, call, context, wanted.tasks.as_deref().unwrap_or_default());
    let acknowledged = Pieces::one(acknowledgement(id, &lists, &uris, tasks.ids()));
    if !lane.outbox.put(acknowledged) {
        // It has gone meanwhile.
        return Ok(Answered::GivenUp);
    }
    if let Mouth::Listen(mailbox) = &party.mouth {
        let known = Kind::ALL.map(|kind| context.offer(kind, &call.principal).version);
        let lists = lists.into_iter().map(|(_, _, method)| method).collect();
        let current = &*router.snapshot;
        let mut telling =
            Telling { context, current, asker: &call.principal, lane: &lane, mailbox, lists, known };
        let credential = || current.load().authn.identify(asker).is_ok();
        let meta = tagged(id.raw(), None);
        // Kept open until here: a stream without tasks is none that has ended.
        let (out, told) = mpsc::channel(1);
        let watching = tasks.tell((router, call, context), &lane, &meta, &out);
        tokio::select! {
            biased;
            () = all.closing.cancelled() => (),
            () = telling.run((turns, told), credential) => (),
            () = async { watching.await; pending().await } => (),
        }
    }
    Ok(Answered::ok(Pieces::one(code::success(id, &result(id)))))
}

/// What a client asks to be told of.
#[derive(Debug, Default)]
struct Wanted {
    /// Words of [`LISTS`].
    lists: HashSet<&'static str>,
    /// In the order they were asked for, each once.
    uris: Vec<Box<str>>,
    /// Ids of tasks, if it speaks of any.
    tasks: Option<Vec<Box<str>>>,
}

impl Wanted {
    fn read(request: &Frame) -> Result<Wanted, CatalogError> {
        let bad = || CatalogError::Parameter("notifications");
        let raw = request.param("notifications").ok_or_else(bad)?;
        let said: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(raw).map_err(|_| bad())?;
        let mut wanted = Wanted::default();
        for (word, _, _) in LISTS {
            if flag(said.get(word).copied()).ok_or_else(bad)? {
                wanted.lists.insert(word);
            }
        }
        if let Some(raw) = said.get("resourceSubscriptions") {
            wanted.uris = texts(raw, PER_FOLLOWER).ok_or_else(bad)?;
        }
        if let Some(raw) = said.get("taskIds") {
            wanted.tasks = Some(texts(raw, PER_FOLLOWER).ok_or_else(bad)?);
        }
        Ok(wanted)
    }
}

/// The first of a list of texts, each once; `null` is an empty one. None when it is something else.
fn texts(raw: &RawValue, most: usize) -> Option<Vec<Box<str>>> {
    let all: Option<Vec<Text<'_>>> = serde_json::from_str(raw.get()).ok()?;
    let mut seen = HashSet::new();
    let fresh = all.into_iter().flatten().filter(|Text(text)| seen.insert(text.clone()));
    Some(fresh.take(most).map(|Text(text)| text.into()).collect())
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Absent and `null` are false; what is no truth value is none.
fn flag(raw: Option<&RawValue>) -> Option<bool> {
    match raw.map(RawValue::get) {
        None | Some("null" | "false") => Some(false),
        Some("true") => Some(true),
        Some(_) => None,
    }
}

/// Follows each resource that the client may see and its server agrees to, all at once.
async fn follow(
    router: &Router,
    call: &Call,
    context: &Context,
    (wanted, party): (&Wanted, &Arc<Party>),
) -> Vec<Box<str>> {
    let seen = wanted.uris.iter().filter_map(|uri| admitted(call, context, uri));
    let followed = seen.map(|thing| async move {
        let upstream = router.upstream(call, &thing, context).ok()?;
        router.subscriptions.follow(&upstream, &thing.native, party, AGREED).await.ok()?;
        Some(thing.exposed.clone())
    });
    join_all(followed).await.into_iter().flatten().collect()
}

/// Each resource is judged by itself: what is hidden is left out, as what is missing (spec T-04).
fn admitted(call: &Call, context: &Context, uri: &str) -> Option<Arc<Thing>> {
    let thing = context.view.named(Sort::Resource, uri)?;
    let one = Call { target: Target::Thing(Arc::clone(&thing)), ..call.clone() };
    matches!(context.snapshot.checks.decide(one), Decision::Admitted(_)).then_some(thing)
}

/// What the client is told that it will be told (spec U-24).
fn acknowledgement<'a>(
    id: &Id,
    lists: &[(&str, Capability, Method)],
    uris: &[Box<str>],
    tasks: impl Iterator<Item = &'a str>,
) -> Bytes {
    let mut members: Vec<String> = lists.iter().map(|(word, ..)| format!("\"{word}\":true")).collect();
    let mut list = |word, texts: Vec<String>| {
        if !texts.is_empty() {
            members.push(format!("\"{word}\":[{}]", texts.join(",")));
        }
    };
    list("resourceSubscriptions", uris.iter().map(|uri| code::quote(uri)).collect());
    list("taskIds", tasks.map(code::quote).collect());
    let honoured = format!(",\"notifications\":{{{}}}", members.join(","));
    notification(Method::SubscriptionsAcknowledged, id.raw(), &honoured)
}

fn notification(method: Method, tag: &str, members: &str) -> Bytes {
    let (name, meta) = (method.name(), tagged(tag, None));
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{name}\",\"params\":{{\"_meta\":{meta}{members}}}}}").into()
}

/// The end (spec U-27).
fn result(id: &Id) -> String {
    let server = format!("{{\"{}\":{}}}", meta::SERVER_INFO, handshake::server_info());
    format!("{{\"resultType\":\"complete\",\"_meta\":{}}}", tagged(id.raw(), Some(&server)))
}

/// A stream that has been acknowledged.
struct Telling<'a> {
    context: &'a Context,
    /// What is in force now: rules change while it is told.
    current: &'a ArcSwap<Snapshot>,
    asker: &'a Arc<Principal>,
    lane: &'a Lane,
    mailbox: &'a Mailbox,
    lists: Vec<Method>,
    /// The version of each list that the client knows of.
    known: [u64; 4],
}

impl Telling<'_> {
    /// Tells what changes, until the credential ends or the client has not read for too long.
    async fn run(
        &mut self,
        (mut turns, mut tasks): (watch::Receiver<u64>, mpsc::Receiver<Bytes>),
        credential: impl Fn() -> bool,
    ) {
        let mut check = interval(CHECK);
        // What has changed since the message came in is told first.
        let mut due = Some(Instant::now());
        let mut told = None;
        loop {
            tokio::select! {
                turned = turns.changed(), if due.is_none() => {
                    if turned.is_err() {
                        return;
                    }
                    let soon = Instant::now() + SETTLE;
                    due = Some(told.map_or(soon, |told: Instant| soon.max(told + BETWEEN)));
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    due = None;
                    turns.mark_unchanged();
                    if !self.tell_lists().await {
                        return;
                    }
                    told = Some(Instant::now());
                }
                message = self.mailbox.next() => {
                    if !self.put(message).await {
                        return;
                    }
                }
                Some(message) = tasks.recv() => {
                    if !self.put(message).await {
                        return;
                    }
                }
                _ = check.tick() => {
                    if !credential() {
                        return;
                    }
                }
            }
        }
    }

    /// Tells which lists are no longer those the client knows of: what it could see counts, not what upstreams claim
    /// (spec T-12, M-05).
    async fn tell_lists(&mut self) -> bool {
        let Some(view) = self.context.catalog.view(&self.context.view.server) else { return false };
        let snapshot = self.current.load_full();
        for method in self.lists.clone() {
            let mut changed = false;
            for (kind, known) in Kind::ALL.into_iter().zip(&mut self.known) {
                let version = view.offer(kind, &snapshot.checks, self.asker).version;
                if kind.changed() == method && *known != version {
                    *known = version;
                    changed = true;
                }
            }
            if changed && !self.put(notification(method, self.mailbox.tag(), "")).await {
                return false;
            }
        }
        true
    }

    /// Waits a little for room; false when there is none.
    async fn put(&self, message: Bytes) -> bool {
        let until = Instant::now() + PATIENCE;
        let outbox = &self.lane.outbox;
        // What is large waits until all else was read: many may come of it.
        let is_large = message.len() > LARGE;
        while (is_large && outbox.holds()) || !outbox.put(Pieces::one(message.clone())) {
            if Instant::now() >= until {
                return false;
            }
            sleep(PACE).await;
        }
        true
    }
}

/// Changed resources on their way to one stream. Of a resource that changes again before it was told, one word is
/// enough.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// The id of the listen request, raw JSON.
    tag: Box<str>,
    waiting: Mutex<VecDeque<(Box<str>, Bytes)>>,
    filled: Notify,
}

impl Mailbox {
    pub(super) fn new(tag: &str) -> Mailbox {
        Mailbox { tag: tag.into(), waiting: Mutex::default(), filled: Notify::new() }
    }

    /// The id of the listen request, raw JSON.
    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    /// Leaves a message about a resource.
    pub(super) fn put(&self, uri: &str, message: Bytes) {
        let mut waiting = self.waiting();
        match waiting.iter_mut().find(|(known, _)| **known == *uri) {
            Some((_, older)) => *older = message,
            None => {
                if waiting.len() >= WAITING {
                    waiting.pop_front();
                }
                waiting.push_back((uri.into(), message));
            }
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// The oldest message. May be dropped half-way.
    async fn next(&self) -> Bytes {
        loop {
            if let Some((_, message)) = self.waiting().pop_front() {
                return message;
            }
            self.filled.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(Box<str>, Bytes)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a stream follows; nothing, once it ends.
struct Follows<'a> {
    all: &'a Subscriptions,
    party: &'a Arc<Party>,
}

impl Drop for Follows<'_> {
    fn drop(&mut self) {
        self.all.leave_all(&self.party.principal.tenant, &self.party.who);
    }
}

/// How many streams there are.
#[derive(Default)]
pub(super) struct Listens {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    all: usize,
    by: HashMap<TenantId, HashMap<Arc<str>, usize>>,
}

/// One stream's place among them.
struct Stream<'a> {
    listens: &'a Listens,
    tenant: TenantId,
    owner: Arc<str>,
}

impl Listens {
    /// A place for one more; none above a bound.
    fn open(&self, principal: &Principal) -> Option<Stream<'_>> {
        let (tenant, owner) = (principal.tenant.clone(), seat_key(principal));
        let mut open = self.lock();
        if open.all >= STREAMS {
            return None;
        }
        let own = open.by.entry(tenant.clone()).or_default().entry(Arc::clone(&owner)).or_default();
        if *own >= PER_PRINCIPAL {
            return None;
        }
        *own += 1;
        open.all += 1;
        Some(Stream { listens: self, tenant, owner })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        let mut open = self.listens.lock();
        open.all -= 1;
        if let Some(owners) = open.by.get_mut(&self.tenant)
            && let Some(own) = owners.get_mut(&self.owner)
        {
            *own -= 1;
            if *own == 0 {
                owners.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Budget;

    use super::*;
    use crate::subscriptions::party;

    fn wanted(notifications: &str) -> Option<(usize, Vec<String>)> {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{"notifications":{notifications}}}}}"#
        );
        let wanted = Wanted::read(&Frame::parse(text.into(), &Budget::CLIENT).unwrap()).ok()?;
        Some((wanted.lists.len(), wanted.uris.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn what_is_wanted_is_read_strictly() {
        let uris = |uris: &[&str]| uris.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (notifications, expected) in [
            ("{}", Some((0, uris(&[])))),
            (r#"{"toolsListChanged":true,"promptsListChanged":false,"x":1}"#, Some((1, uris(&[])))),
            (r#"{"resourceSubscriptions":["a:b","c:d","a:b","\u0061:b"]}"#, Some((0, uris(&["a:b", "c:d"])))),
            (r#"{"resourceSubscriptions":null,"resourcesListChanged":null}"#, Some((0, uris(&[])))),
            ("[]", None),
            (r#"{"toolsListChanged":"yes"}"#, None),
            (r#"{"resourceSubscriptions":"a:b"}"#, None),
            (r#"{"resourceSubscriptions":[1]}"#, None),
        ] {
            assert_eq!(wanted(notifications), expected, "{notifications}");
        }
    }

    #[tokio::test]
    async fn a_resource_that_changes_again_waits_once() {
        let mailbox = Mailbox::new("1");
        for (uri, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
            mailbox.put(uri, text.into());
        }
        assert_eq!((mailbox.next().await, mailbox.next().await), ("3".into(), "2".into()));
        for n in 0..2 * WAITING {
            mailbox.put(&n.to_string(), "x".into());
        }
        assert_eq!(mailbox.waiting().len(), WAITING);
    }

    #[test]
    fn one_principal_has_so_many_streams_and_gets_them_back() {
        let listens = Listens::default();
        let somebody = &party(1).principal;
        let streams: Vec<_> = (0..PER_PRINCIPAL).map(|_| listens.open(somebody).unwrap()).collect();
        assert!(listens.open(somebody).is_none());
        let other = Principal { subject: "other".into(), ..(**somebody).clone() };
        assert!(listens.open(&other).is_some());
        drop(streams);
        assert!(listens.open(somebody).is_some());
        assert_eq!(listens.lock().all, 0);
    }
}
