//! Legacy conversations: who talks, at which revision, what runs, and the stream for the rest.
//!
//! A session owns its requests: they run while the HTTP connection waits for the answer, and go on without it, so a lost
//! connection cancels nothing (spec H-25).

mod asked;
mod event;
mod line;
mod registry;
mod roll;
mod room;
mod store;
mod stream;

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use admission::Principal;
use arc_swap::ArcSwap;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use wire::{Capability, Id, Kind, Method, Pieces, Revision, code};

pub(crate) use asked::{AskError, Asked};
pub(crate) use line::{Line, Owed};
pub(crate) use registry::{SessionLimits, Sessions, name};
pub(crate) use stream::{Reader, Stream};

use crate::error::SessionError;

/// A session that was opened and not used ends after this long.
const UNUSED: Duration = Duration::from_secs(60);

/// One conversation with one client.
///
/// INVARIANT: bound to (tenant, issuer, subject, endpoint) for life; see `Sessions::enter`.
#[derive(Debug)]
pub(crate) struct Session {
    /// What `Mcp-Session-Id` says. Secret enough to be kept out of records.
    pub(crate) id: Arc<str>,
    /// What it is called among ourselves, in logs too: unique, and no way back to the id.
    pub(crate) name: Arc<str>,
    /// Whose conversation it is.
    pub(crate) principal: Arc<Principal>,
    /// The same, with what the credential carries that was shown last.
    speaker: ArcSwap<Principal>,
    /// The virtual server it was opened at.
    pub(crate) server: Arc<str>,
    /// The negotiated revision.
    pub(crate) revision: Revision,
    /// What the client declared that it can do: the JSON text of `capabilities`.
    client: Box<str>,
    questions: asked::Questions,
    /// What of that each upstream may make use of.
    pub(crate) offers: crate::asking::Offers,
    /// What it hears of the log messages of its servers.
    pub(crate) hearing: crate::logging::Hearing,
    /// What `initialize` promised; it holds for life (spec B-24).
    promised: std::sync::OnceLock<Vec<Capability>>,
    /// For each kind of list, the version this client knows: served last, or told of last.
    known: [AtomicU64; 4],
    opened: Instant,
    /// Whether anything came after `initialize`.
    used: AtomicBool,
    /// Milliseconds after `opened` of the last sign of life.
    seen: AtomicU64,
    running: Mutex<HashMap<Id, Option<oneshot::Sender<Cancelled>>>>,
    /// Told when the last of them has ended.
    rests: Notify,
    store: store::Store,
    /// Given back when it ends, or was never opened.
    place: Mutex<Option<roll::Seated>>,
    ended: CancellationToken,
}

/// The client's word that an answer is no longer wanted.
#[derive(Debug)]
pub(crate) struct Cancelled {
    /// The reason as the client wrote it, raw JSON.
    pub(crate) reason: Option<String>,
}

/// A request's place among those that run; gives the place back when dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    session: Arc<Session>,
    id: Id,
    cancelled: oneshot::Receiver<Cancelled>,
}

impl Session {
    fn new(
        id: Arc<str>,
        principal: Arc<Principal>,
        server: Arc<str>,
        (revision, client): (Revision, &str),
        store: store::Store,
    ) -> Session {
        Session {
            name: registry::name(&id).into(),
            id,
            speaker: ArcSwap::new(Arc::clone(&principal)),
            principal,
            server,
            revision,
            client: client.into(),
            questions: asked::Questions::default(),
            offers: crate::asking::Offers::default(),
            hearing: crate::logging::Hearing::default(),
            promised: std::sync::OnceLock::new(),
            known: Default::default(),
            opened: Instant::now(),
            used: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            running: Mutex::default(),
            rests: Notify::new(),
            store,
            place: Mutex::default(),
            ended: CancellationToken::new(),
        }
    }

    /// Its owner, with what the credential carries that was shown last: each token's own groups and scopes count, also for
    /// what is told unasked.
    pub(crate) fn speaker(&self) -> Arc<Principal> {
        self.speaker.load_full()
    }

    /// Its owner has shown this.
    fn spoken_by(&self, asker: &Arc<Principal>) {
        // An anonymous asker is nobody beside the session; a token that was seen before is the same principal.
        if !asker.issuer.is_empty() && !Arc::ptr_eq(&self.speaker.load(), asker) {
            self.speaker.store(Arc::clone(asker));
        }
    }

    /// What the client said that it can do, as JSON text of an object; `{}` when it said nothing.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// Fixes what this session was promised; the first promise stands.
    pub(crate) fn promise(&self, capabilities: Vec<Capability>) {
        let _ = self.promised.set(capabilities);
    }

    /// Whether a method that needs `capability` exists in this session (spec B-11).
    pub(crate) fn promises(&self, capability: Capability) -> bool {
        self.promised.get().is_some_and(|promised| promised.contains(&capability))
    }

    /// The client knows this version of a list.
    pub(crate) fn knows(&self, kind: Kind, version: u64) {
        self.known_of(kind).store(version, Ordering::Relaxed);
    }

    fn known_of(&self, kind: Kind) -> &AtomicU64 {
        let [tools, resources, templates, prompts] = &self.known;
        match kind {
            Kind::Tools => tools,
            Kind::Resources => resources,
            Kind::Templates => templates,
            Kind::Prompts => prompts,
        }
    }

    /// Tells the client which lists are no longer those it knows: one notification a kind of change, none
    /// when nothing it could see has changed (spec T-12). Without a stream it is told when it opens one.
    pub(crate) fn announce(&self, version: impl Fn(Kind) -> u64) {
        for changed in [Method::ToolsChanged, Method::PromptsChanged, Method::ResourcesChanged] {
            let concerned: Vec<Kind> =
                Kind::ALL.into_iter().filter(|kind| kind.changed() == changed).collect();
            let differs = |kind: &Kind| self.known_of(*kind).load(Ordering::Relaxed) != version(*kind);
            if concerned.iter().any(differs)
                && self.store.deliver(&Pieces::one(code::notification(changed.name())))
            {
                for kind in concerned {
                    self.knows(kind, version(kind));
                }
            }
        }
    }

    /// Requests that run now.
    pub(crate) fn running(&self) -> usize {
        lock(&self.running).len()
    }

    /// Returns when nothing runs. May be dropped at any await.
    pub(crate) async fn rest(&self) {
        loop {
            let mut rests = pin!(self.rests.notified());
            rests.as_mut().enable();
            if self.running() == 0 {
                return;
            }
            rests.await;
        }
    }

    /// Takes the id of a request for as long as the ticket lives.
    ///
    /// # Errors
    /// `IdInUse` when a request with this id runs already (spec B-03).
    pub(crate) fn admit(self: &Arc<Self>, id: &Id) -> Result<Ticket, SessionError> {
        let (sender, cancelled) = oneshot::channel();
        let mut running = lock(&self.running);
        if running.contains_key(id) {
            return Err(SessionError::IdInUse);
        }
        running.insert(id.clone(), Some(sender));
        drop(running);
        Ok(Ticket { session: Arc::clone(self), id: id.clone(), cancelled })
    }

    /// Passes a cancellation to the request it names. Unknown and finished ids are ignored (spec U-06).
    pub(crate) fn cancel(&self, id: &Id, reason: Option<String>) {
        let sender = lock(&self.running).get_mut(id).and_then(Option::take);
        if let Some(sender) = sender {
            // The request may have ended in this moment; then nobody listens, and nothing is lost.
            let _ = sender.send(Cancelled { reason });
        }
    }

    /// The end of the session, which ends what runs in it.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Puts a message that belongs to no request on exactly one stream (spec H-20). Says whether it is read now; if
    /// not, a client that comes back to the stream it lost finds it there.
    pub(crate) fn tell(&self, message: &Pieces) -> bool {
        let is_read = self.store.deliver(message);
        if !is_read {
            self.store.keep(message);
        }
        is_read
    }

    /// A sign of life.
    pub(crate) fn touch(&self) {
        self.used.store(true, Ordering::Relaxed);
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.seen.store(now, Ordering::Relaxed);
    }

    /// Whether it may be ended now: too old, or silent for `idle` with nothing running or open.
    fn expired(&self, limits: &SessionLimits) -> bool {
        let age = self.opened.elapsed();
        if age >= limits.absolute {
            return true;
        }
        // Nobody came back after the handshake: most such clients never will.
        let idle = if self.used.load(Ordering::Relaxed) { limits.idle } else { limits.idle.min(UNUSED) };
        self.silence() >= idle && !self.is_busy()
    }

    /// How long nothing was heard.
    fn silence(&self) -> Duration {
        self.opened.elapsed().saturating_sub(Duration::from_millis(self.seen.load(Ordering::Relaxed)))
    }

    /// Something runs or is open.
    fn is_busy(&self) -> bool {
        self.running() > 0 || self.store.is_read()
    }

    /// Ends it: running requests are given up, streams close.
    fn end(&self) {
        self.ended.cancel();
        self.close_streams();
        drop(lock(&self.place).take());
        self.store.hang_up();
    }

    /// Ends the streams for what belongs to no request.
    fn close_streams(&self) {
        self.store.close();
    }

    /// Forgets streams that nobody came back to.
    fn forget_streams(&self) {
        self.store.sweep();
    }
}

impl Ticket {
    /// Waits for the client's cancellation; for ever when none comes.
    pub(crate) async fn cancelled(&mut self) -> Cancelled {
        match (&mut self.cancelled).await {
            Ok(cancelled) => cancelled,
            // INVARIANT: the sender lives in the session's table for as long as this ticket does, or was
            // used; an error cannot come from anything but a second wait after that.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let rests = {
            let mut running = lock(&self.session.running);
            running.remove(&self.id);
            running.is_empty()
        };
        if rests {
            self.session.rests.notify_waiters();
        }
        self.session.touch();
    }
}

/// A panic of one request must not take the session's tables with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests;
