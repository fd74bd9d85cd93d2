//! All sessions: found by id, bound to their owner, ended when old.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use admission::{Principal, TenantId};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use upstream::Seat;
use wire::{Frame, Method, Revision};

use super::{
    Session, Stream,
    event::Stamp,
    line::Lines,
    lock,
    roll::{Full, Roll, Seated},
    room::Rooms,
    store::Store,
};
use crate::{
    arrival::{Head, Transport},
    authn::Authn,
    error::SessionError,
    logging::Level,
    telemetry::Metrics,
    visit::Visit,
};

/// Sessions there may be, whoever opened them. Anonymous clients have no principal of their own to
/// count by before they have a session, so this is the bound that always holds.
const SESSIONS: usize = 65_536;

/// The longest `capabilities` that a session keeps, in bytes; real ones have less than a tenth of it. A client with
/// longer ones is asked nothing.
const CAPABILITIES: usize = 4 * 1024;

/// How long sessions live, and how many a principal may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    /// Silence after which a session with nothing running and no stream ends.
    pub(crate) idle: Duration,
    /// Age at which any session ends.
    pub(crate) absolute: Duration,
    /// Sessions of one principal.
    pub(crate) per_principal: usize,
}

/// The registry.
pub(crate) struct Sessions {
    open: papaya::HashMap<Arc<str>, Arc<Session>>,
    roll: Arc<Roll>,
    pub(super) lines: Lines,
    pub(super) limits: SessionLimits,
    draining: AtomicBool,
    rooms: Rooms,
    metrics: Arc<Metrics>,
    /// Ended sessions, for whoever stops their processes.
    ended: mpsc::UnboundedSender<Arc<Session>>,
    /// All running requests, awaited at drain (invariant 13).
    pub(crate) tracker: TaskTracker,
    /// The end of what no session ends: modern requests that a drain gives up.
    pub(crate) given_up: CancellationToken,
}

impl Sessions {
    /// An empty registry. Sessions that end are announced on `ended`, each once. The channel is not bounded:
    /// what it holds was bounded as sessions, and its reader never waits for one of them.
    pub(crate) fn new(
        limits: SessionLimits,
        metrics: Arc<Metrics>,
        ended: mpsc::UnboundedSender<Arc<Session>>,
    ) -> Sessions {
        Sessions {
            open: papaya::HashMap::new(),
            roll: Arc::default(),
            lines: Lines::default(),
            limits,
            draining: AtomicBool::new(false),
            rooms: Rooms::default(),
            metrics,
            ended,
            tracker: TaskTracker::new(),
            given_up: CancellationToken::new(),
        }
    }

    /// Finds the session a legacy message belongs to, or drafts the one that `initialize` asks for, of which its
    /// asker may have so many where its tenant says so.
    ///
    /// # Errors
    /// 400 without a session, 404 for one that is unknown, ended or somebody else's: no oracle (spec H-13).
    pub(crate) fn enter(
        &self,
        head: &Head,
        asker: (&Authn, &Arc<Principal>, Option<usize>),
        server: &Arc<str>,
        frame: &Frame,
    ) -> Result<Visit, SessionError> {
        if frame.method() == Some(Method::Initialize) && frame.id().is_some() {
            let line = self.carrier(head, asker.1, server)?;
            let stream = line.as_ref().map(|line| Arc::clone(line.stream()));
            let session = self.draft(asker, server, frame, stream)?;
            line.map_or(Ok(()), |line| line.claim(&session))?;
            return Ok(Visit::Opening(session));
        }
        self.find(head, asker.1, server).map(Visit::Within)
    }

    /// The session the head names.
    ///
    /// # Errors
    /// As [`Sessions::enter`].
    pub(crate) fn find(
        &self,
        head: &Head,
        asker: &Arc<Principal>,
        server: &Arc<str>,
    ) -> Result<Arc<Session>, SessionError> {
        let session = match head.endpoint.transport {
            Transport::Streamable => {
                let id = head.session.as_deref().ok_or(SessionError::Missing)?;
                self.open.pin().get(id).map(Arc::clone).ok_or(SessionError::Unknown)?
            }
            Transport::Sse => self.line(head, asker, server)?.session()?,
        };
        if !is_same(&session.principal, asker) || session.server != *server {
            return Err(SessionError::Unknown);
        }
        session.touch();
        session.spoken_by(asker);
        Ok(session)
    }

    /// A stale session id beside `initialize` is ignored: a new session is opened.
    fn draft(
        &self,
        (authn, asker, most): (&Authn, &Arc<Principal>, Option<usize>),
        server: &Arc<str>,
        frame: &Frame,
        line: Option<Arc<Stream>>,
    ) -> Result<Arc<Session>, SessionError> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(SessionError::Draining);
        }
        let wanted = frame.param_text("protocolVersion").ok_or(SessionError::NoRevision)?;
        // A legacy handshake never negotiates the modern era (spec B-17, B-18).
        let revision = Revision::parse(&wanted)
            .filter(|revision| revision.era() == wire::Era::Legacy)
            .unwrap_or(Revision::LATEST_LEGACY);
        let mut random = [0; 24];
        getrandom::fill(&mut random).map_err(|_| SessionError::TooMany)?;
        let id: Arc<str> = hex::encode(random).into();
        let principal = match asker.issuer.is_empty() {
            true => authn.in_session(asker, &name(&id)),
            false => Arc::clone(asker),
        };
        let place = self.place(&principal, most)?;
        let declared = frame.param("capabilities");
        let client = declared.filter(|raw| raw.starts_with('{') && raw.len() <= CAPABILITIES).unwrap_or("{}");
        let stamp = Stamp::new().map_err(|_| SessionError::TooMany)?;
        let store = Store::new(self.rooms.of(&principal.tenant), stamp).on(line);
        let session = Session::new(id, principal, Arc::clone(server), (revision, client), store);
        *lock(&session.place) = Some(place);
        Ok(Arc::new(session))
    }

    /// A place for one more session of this principal. An anonymous one is a principal of its own.
    fn place(&self, principal: &Principal, most: Option<usize>) -> Result<Seated, SessionError> {
        let own = most.map_or(self.limits.per_principal, |most| most.min(self.limits.per_principal));
        let bounds = (own, SESSIONS);
        let taken = match self.roll.take(principal, bounds) {
            Err(Full::All) if self.end_most_silent() => self.roll.take(principal, bounds),
            taken => taken,
        };
        taken.map_err(|_| SessionError::TooMany)
    }

    /// Makes room when there is none: the tenant with the most sessions gives the one that was silent longest,
    /// so that nobody's flood costs another tenant a session.
    fn end_most_silent(&self) -> bool {
        let idle = self.roll.of_greediest().into_iter().filter(|session| !session.is_busy());
        let Some(silent) = idle.max_by_key(|session| session.silence()) else { return false };
        self.end(&silent);
        true
    }

    /// Makes a drafted session real.
    pub(crate) fn open(&self, session: &Arc<Session>) {
        self.metrics.sessions(1);
        self.roll.enter(session);
        self.open.pin().insert(Arc::clone(&session.id), Arc::clone(session));
    }

    /// Ends a session: what runs is given up, its processes are stopped by whoever reads `ended`.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        if self.open.pin().remove(&session.id).is_none() {
            return;
        }
        self.metrics.sessions(-1);
        self.roll.leave(session);
        session.end();
        // The reader ends only after the last session.
        let _ = self.ended.send(Arc::clone(session));
    }

    /// Ends every session that is old or silent for too long, and forgets streams nobody came back to.
    pub(crate) fn sweep(&self) {
        let open = self.open.pin();
        open.values().for_each(|session| session.forget_streams());
        let old: Vec<_> = open.values().filter(|session| session.expired(&self.limits)).cloned().collect();
        for session in old {
            self.end(&session);
        }
    }

    /// How often to sweep: fine enough that a session lives at most a quarter longer than it may.
    pub(crate) fn sweep_interval(&self) -> Duration {
        (self.limits.idle / 4).clamp(Duration::from_millis(250), Duration::from_secs(10))
    }

    /// All sessions that are open.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.open.pin().values().cloned().collect()
    }

    /// The sessions at a virtual server.
    pub(crate) fn at(&self, tenant: &TenantId, server: &str) -> Vec<Arc<Session>> {
        self.roll.at(tenant, server)
    }

    /// The sessions that a seat of servers serves; none for one that serves whoever comes.
    pub(crate) fn of_seat(&self, tenant: &TenantId, seat: &Seat) -> Vec<Arc<Session>> {
        match seat {
            Seat::Shared => Vec::new(),
            Seat::Principal(owner) => self.roll.of_owner(tenant, owner),
            Seat::Session(name) => self.roll.named(tenant, name).into_iter().collect(),
        }
    }

    /// A session wants to hear from this level on.
    pub(crate) fn want(&self, session: &Session, level: Level) {
        self.roll.want(session, level);
    }

    /// The least severe level that a session at one of these virtual servers has asked for.
    pub(crate) fn least<'a>(
        &self,
        tenant: &TenantId,
        servers: impl Iterator<Item = &'a Arc<str>>,
    ) -> Option<Level> {
        self.roll.least(tenant, servers)
    }

    /// No new sessions from now on; open streams end, running requests may finish.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        for session in self.open.pin().values() {
            session.close_streams();
        }
        self.lines.nudge();
        self.tracker.close();
    }

    /// Ends all that is left.
    pub(crate) fn end_all(&self) {
        self.given_up.cancel();
        for session in self.all() {
            self.end(&session);
        }
        self.lines.end();
    }

    /// Whether new sessions are refused.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}

/// Whether a session's owner asks: the same subject of the same issuer in the same tenant, whatever its
/// credential (spec H-13). An anonymous session is its own principal; its id is all that anybody can show.
pub(super) fn is_same(owner: &Principal, asker: &Principal) -> bool {
    owner.tenant == asker.tenant
        && owner.issuer == asker.issuer
        && (asker.issuer.is_empty() || owner.subject == asker.subject)
}

/// A name for a session that gives its id away to nobody. 128 bits of a hash, since processes and cursors
/// are keyed by it.
pub(crate) fn name(id: &str) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(id.as_bytes())).chars().take(32).collect()
}
