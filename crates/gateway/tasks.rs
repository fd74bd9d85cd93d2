//! Calls that became tasks: under which ids clients know them, whose they are, and who runs them (spec 7.6).
//!
//! A task runs at its upstream, which alone knows it by its own id, or here: a call of a server that has no tasks, which
//! goes on for a client that has (`hosting.rs`). Whoever asks about a task asks about the tool it came from, and is judged
//! so.

mod awaited;
mod began;
mod hosting;
mod remote;
mod serve;
mod sight;
mod status;
mod table;
mod watch;
mod wish;
mod written;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use admission::{TenantId, Thing};
use bytes::Bytes;
use time::OffsetDateTime;
use tokio::sync::watch::Sender as Turns;
use tokio_util::sync::CancellationToken;
use upstream::{Connection, Hold, Upstream, Watching};
use wire::{Era, code, input::said, task::Status};

pub(crate) use awaited::Awaited;
pub(crate) use began::{Became, Birth, SoFar};
pub(crate) use hosting::{Front, Hosting, Standing, front, may_become_one};
pub(crate) use serve::{list, serve};
pub(crate) use status::{changed, reported, told};
pub(crate) use table::{Slot, Tasks};
pub(crate) use watch::watched;
pub(crate) use wish::{TAKES_TASKS, Wish, admit, takes_tasks};

use crate::{audit::Timestamp, error::TaskError, relay::Progress, session::Session};

/// The longest time that a task is kept, whoever asks for more (spec U-39).
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How long one is kept when nobody says.
pub(crate) const USUAL: Duration = Duration::from_secs(60 * 60);
/// What clients of our own tasks are told to wait between two looks, in milliseconds.
const INTERVAL: u64 = 500;
/// Looks at one task: so many at once, and so many more a second (spec U-39).
const LOOKS: f64 = 40.0;
const LOOKS_A_SECOND: f64 = 20.0;
/// What is kept of what an upstream says of a task, in bytes.
const SAID: usize = 1024;
/// Questions of one task that are known to be on record. One that comes beyond that is recorded each time it is seen.
const SHOWN: usize = 1_024;

/// A task as its client knows it.
pub(crate) struct Task {
    /// Ours, which tells nothing of the upstream's.
    pub(crate) id: Box<str>,
    tenant: TenantId,
    /// The principal's key within the tenant.
    owner: Arc<str>,
    /// The virtual server it was begun at.
    server: Arc<str>,
    /// The tool it came from.
    thing: Arc<Thing>,
    created: Instant,
    created_at: String,
    ttl: Duration,
    place: Place,
    state: Mutex<State>,
    /// Something that its client can see has changed.
    turned: Arc<Turns<()>>,
    /// Nothing more becomes of it, as far as we know.
    over: CancellationToken,
    /// Bytes of its ending that count among those its tenant keeps. Changed under the table's lock.
    counted: AtomicUsize,
}

/// Who runs it.
enum Place {
    /// An upstream.
    There(Box<There>),
    /// We do.
    Here(Arc<Hosting>),
    /// Nobody: it was over when it began.
    Nowhere,
}

/// Where an upstream runs it.
struct There {
    /// Its own id.
    native: Box<str>,
    upstream: Arc<Upstream>,
    connection: Weak<Connection>,
    era: Era,
    /// Who is told of changes.
    session: Option<Weak<Session>>,
    /// Keeps the seat's process while the task runs, and has a modern server tell of it whose client is told unasked.
    held: Mutex<Option<(Hold, Option<Watching>)>>,
    /// What its client wants to hear of it while it runs.
    progress: Option<Reports>,
}

/// Progress of a call that became a task of 2025-11-25: it goes on until the task is over (spec U-12).
struct Reports {
    /// Our token of the call.
    number: u64,
    relayed: Mutex<Progress>,
}

struct State {
    status: Status,
    /// What is said of it, JSON text.
    message: Option<String>,
    updated_at: String,
    interval: Option<u64>,
    /// How it ended, where that is kept here.
    ending: Option<Ending>,
    /// Questions of it that are on record, by what they are: a server may use a key for two of them.
    shown: HashSet<[u8; 32]>,
    looks: f64,
    looked: Instant,
}

/// How a task ended.
#[derive(Clone)]
enum Ending {
    /// With this result, the text of an object.
    Result(Bytes),
    /// With this error, the text of an object.
    Error(Bytes),
    /// Without an answer.
    Failed(TaskError),
}

impl Task {
    fn new(slot: &Slot, (server, thing): (&Arc<str>, &Arc<Thing>), ttl: Option<u64>, place: Place) -> Task {
        let now = Instant::now();
        let at = stamp();
        let ttl = ttl.map_or(USUAL, Duration::from_millis).min(LONGEST);
        let turned = match &place {
            Place::Here(hosting) => Arc::clone(hosting.turned()),
            Place::There(_) | Place::Nowhere => Arc::default(),
        };
        Task {
            id: slot.id().into(),
            tenant: slot.tenant().clone(),
            owner: Arc::clone(slot.owner()),
            server: Arc::clone(server),
            thing: Arc::clone(thing),
            created: now,
            created_at: at.clone(),
            ttl,
            place,
            turned,
            state: Mutex::new(State {
                status: Status::Working,
                message: None,
                updated_at: at,
                interval: None,
                ending: None,
                shown: HashSet::new(),
                looks: LOOKS,
                looked: now,
            }),
            over: CancellationToken::new(),
            counted: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it came from this tool. What bears the name of its tool today may be something else than what runs it, and
    /// is what was judged.
    fn is_of(&self, tool: &Thing) -> bool {
        tool.upstream == self.thing.upstream && tool.native == self.thing.native
    }

    fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    fn is_expired(&self, now: Instant) -> bool {
        now.duration_since(self.created) >= self.ttl
    }

    /// For how long it is still kept.
    fn left(&self) -> Duration {
        self.ttl.saturating_sub(self.created.elapsed())
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts one look; false when there were too many.
    fn look(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        let more = now.duration_since(state.looked).as_secs_f64() * LOOKS_A_SECOND;
        state.looks = (state.looks + more).min(LOOKS);
        state.looked = now;
        let may = state.looks >= 1.0;
        if may {
            state.looks -= 1.0;
        }
        may
    }

    /// Its upstream said how far it is.
    fn heard(&self, status: Status, message: Option<&str>, interval: Option<u64>) {
        let mut state = self.state();
        // What its client cancelled stays cancelled, whatever becomes of it.
        if state.ending.is_some() {
            return;
        }
        let message = message.and_then(kept);
        let is_new = state.status != status;
        let turns = is_new || state.message != message;
        if is_new {
            state.updated_at = stamp();
        }
        state.status = status;
        state.message = message;
        state.interval = interval;
        drop(state);
        if turns {
            self.turn();
        }
        if status.is_over() {
            self.rest();
        }
    }

    /// A question of it is on record.
    fn show(&self, digest: [u8; 32]) {
        let shown = &mut self.state().shown;
        if shown.len() < SHOWN {
            shown.insert(digest);
        }
    }

    /// It ended, and how is kept here. The first ending stands.
    fn end(&self, ending: Ending) -> bool {
        let mut state = self.state();
        if state.ending.is_some() {
            return false;
        }
        state.status = ending.status(Era::Modern);
        state.updated_at = stamp();
        state.message = None;
        state.ending = Some(ending);
        drop(state);
        self.turn();
        self.rest();
        true
    }

    /// Whoever watches it looks at it again.
    fn turn(&self) {
        self.turned.send_replace(());
    }

    /// What ran it is gone, and it with it.
    fn lose(&self) {
        self.end(Ending::Failed(TaskError::Lost));
    }

    fn rest(&self) {
        if let Place::There(there) = &self.place {
            there.held.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(progress), Some(connection)) = (&there.progress, there.connection.upgrade()) {
                connection.stop_reporting(progress.number);
            }
        }
        self.over.cancel();
    }

    fn ending(&self) -> Option<Ending> {
        self.state().ending.clone()
    }
}

impl Ending {
    /// As an era has it: in 2025-11-25 a result that says it failed is a failure (spec U-36).
    fn status(&self, era: Era) -> Status {
        match (self, era) {
            (Ending::Result(result), Era::Legacy) if written::says_error(result) => Status::Failed,
            (Ending::Result(_), _) => Status::Completed,
            (Ending::Failed(TaskError::Cancelled), _) => Status::Cancelled,
            (Ending::Error(_) | Ending::Failed(_), _) => Status::Failed,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Ending::Result(text) | Ending::Error(text) => text.len(),
            Ending::Failed(_) => 0,
        }
    }
}

/// What is kept of what an upstream says of a task, as JSON text: it stays for as long as the task, and is listed.
fn kept(message: &str) -> Option<String> {
    let said = said(message)?;
    let mut kept: String = said.chars().filter(|c| !c.is_control()).take(SAID).collect();
    kept.truncate(kept.floor_char_boundary(SAID));
    Some(code::quote(&kept))
}

/// This moment, as tasks say it.
fn stamp() -> String {
    Timestamp(OffsetDateTime::now_utc()).text()
}
