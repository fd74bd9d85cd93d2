//! One seat: keeps one process of one server running, or one session open, and knows when to leave it alone.

use crate::caller::{Caller, Speaker};
use crate::connection::Connection;
use crate::counters::Counters;
use crate::declared::{Behalf, Behind, Declared};
use crate::error::UpstreamError;
use crate::keeper::Keeper;
use crate::notice::{Notice, Voice};
use crate::spec::{EraMemory, Seat, Spec};
use crate::wishes::{Watching, Wishes};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wire::Revision;

/// How often somebody who waits for a seat to come to rest looks at it.
const LOOK: Duration = Duration::from_millis(20);

/// How a seat stands.
#[derive(Debug, Clone)]
pub enum State {
    /// The first start, or the one right after a process that was up went away.
    Starting {
        /// Since when.
        since: Instant,
    },
    /// Initialized and open.
    Up {
        /// The process we started; 0 for a server over HTTP.
        pid: u32,
        /// Since when.
        since: Instant,
        /// The revision it speaks with us.
        revision: Revision,
    },
    /// Failed: waiting for the next try, or in one that has not succeeded yet. Calls fail at once.
    Waiting {
        /// When the next try begins or began.
        until: Instant,
        /// For the operator: with exit status and the last line on stderr.
        why: String,
        /// Failures since it was last up for a while.
        failures: u32,
    },
    /// Stopped for good.
    Stopped,
}

/// What keeper and askers share.
#[derive(Debug, Clone)]
pub(crate) enum Status {
    Starting { since: Instant },
    Up { connection: Arc<Connection>, since: Instant },
    Waiting { until: Instant, detail: String, error: UpstreamError, failures: u32 },
    Stopped,
}

/// Keeps a seat's process running though nobody asks for it.
#[derive(Debug)]
pub struct Hold {
    _held: Arc<()>,
}

/// One seat of one upstream. Dropping it stops the process too, but only [`Upstream::stop`] waits for that.
pub struct Upstream {
    spec: Arc<Spec>,
    seat: Seat,
    declared: Declared,
    wishes: Wishes,
    speaker: Speaker,
    status: watch::Receiver<Status>,
    counters: Arc<Counters>,
    used: Mutex<Instant>,
    held: Arc<()>,
    stop: CancellationToken,
    task: TaskTracker,
    _stop_on_drop: DropGuard,
}

impl Upstream {
    /// Starts the process and keeps it running until [`Upstream::stop`].
    pub fn start(
        spec: Arc<Spec>,
        seat: Seat,
        declared: Declared,
        memory: Arc<dyn EraMemory>,
        notices: mpsc::Sender<Notice>,
    ) -> Arc<Self> {
        let (told, status) = watch::channel(Status::Starting { since: Instant::now() });
        let stop = CancellationToken::new();
        let counters = Arc::<Counters>::default();
        let behalf = Behalf { behind: Behind::of(&seat, declared), ..Behalf::default() };
        let declared = behalf.behind.declared();
        let voice =
            Voice { spec: Arc::clone(&spec), seat: seat.clone(), declared: declared.clone(), notices };
        let keeper = Keeper::new(voice, behalf.clone(), memory, told, Arc::clone(&counters));
        let task = TaskTracker::new();
        task.spawn(keeper.run(stop.clone()));
        task.close();
        let guard = stop.clone().drop_guard();
        let used = Mutex::new(Instant::now());
        let Behalf { wishes, speaker, .. } = behalf;
        Arc::new(Self {
            spec,
            seat,
            declared,
            wishes,
            speaker,
            status,
            counters,
            used,
            held: Arc::default(),
            stop,
            task,
            _stop_on_drop: guard,
        })
    }

    /// The open connection. Waits for a first start, up to `patience.start`; a seat that failed answers at once with the reason.
    pub async fn connection(&self) -> Result<Arc<Connection>, UpstreamError> {
        self.touch();
        if let Some(connection) = self.open_now() {
            return Ok(connection);
        }
        let mut status = self.status.clone();
        let open = status.wait_for(|status| match status {
            Status::Starting { .. } => false,
            // Closed a moment ago: the keeper says shortly what comes next.
            Status::Up { connection, .. } => connection.is_open(),
            // The keeper looks at once whether another caller's token is taken.
            Status::Waiting { error: UpstreamError::Credential { .. }, .. } => !self.speaker.is_news(),
            Status::Waiting { .. } | Status::Stopped => true,
        });
        let Ok(Ok(status)) = tokio::time::timeout(self.spec.patience.start, open).await else {
            return Err(UpstreamError::not_running("it is still starting"));
        };
        match &*status {
            Status::Up { connection, .. } => Ok(Arc::clone(connection)),
            Status::Waiting { error, .. } => Err(error.clone()),
            Status::Starting { .. } => Err(UpstreamError::not_running("it is still starting")),
            Status::Stopped => Err(UpstreamError::not_running("it was stopped")),
        }
    }

    fn open_now(&self) -> Option<Arc<Connection>> {
        match &*self.status.borrow() {
            Status::Up { connection, .. } if connection.is_open() => Some(Arc::clone(connection)),
            Status::Up { .. } | Status::Starting { .. } | Status::Waiting { .. } | Status::Stopped => None,
        }
    }

    /// How the seat stands now.
    pub fn state(&self) -> State {
        match &*self.status.borrow() {
            Status::Starting { since } => State::Starting { since: *since },
            Status::Up { connection, since } => {
                State::Up { pid: connection.pid(), since: *since, revision: connection.facts().revision }
            }
            Status::Waiting { until, detail, failures, .. } => {
                State::Waiting { until: *until, why: detail.clone(), failures: *failures }
            }
            Status::Stopped => State::Stopped,
        }
    }

    /// Which upstream it is.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// For whom it runs.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// What is declared to its server.
    pub fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Who calls by this seat, where its server hears of that. A seat of one principal waits for it before it says anything.
    pub fn speak_for(&self, caller: &Arc<Caller>) {
        self.speaker.is(caller);
    }

    /// The least severe log message that anyone wants, one of the eight levels, in every conversation with its server from now on, the
    /// one that is open included. None asks for nothing more. A modern server is told with each request instead.
    pub fn want(&self, level: Option<&str>) {
        self.wishes.hear(level);
    }

    /// Follows a resource, and returns when the server has taken that. It holds for every later conversation too.
    pub async fn subscribe(&self, uri: &str) -> Result<(), UpstreamError> {
        self.connection().await?;
        self.wishes.add(uri).await
    }

    /// Follows a resource no more, and returns when the server has heard of it.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), UpstreamError> {
        self.wishes.remove(uri).await
    }

    /// Asks a modern server to tell when one of its tasks changes, by its own id, for as long as what is returned lives. It need
    /// not; what it tells comes as a notice.
    pub fn watch_task(&self, task: &str) -> Watching {
        self.wishes.watch_task(task)
    }

    /// What happened here that nobody was told about.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Stops it for good: the ladder, and then nothing of the process is left.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.task.wait().await;
    }

    /// Returns when nothing is in flight there.
    pub(crate) async fn rest(&self) {
        let mut look = tokio::time::interval(LOOK);
        while self.is_busy() {
            look.tick().await;
        }
    }

    fn is_busy(&self) -> bool {
        let in_flight = match &*self.status.borrow() {
            Status::Up { connection, .. } => connection.in_flight() > 0,
            Status::Starting { .. } | Status::Waiting { .. } | Status::Stopped => false,
        };
        in_flight || Arc::strong_count(&self.held) > 1
    }

    /// Keeps it from being idle for as long as this is held: something of somebody's runs there.
    pub fn hold(&self) -> Hold {
        Hold { _held: Arc::clone(&self.held) }
    }

    /// Marks it as used now.
    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// For how long nobody has asked for it and nothing has been in flight.
    pub(crate) fn idle(&self) -> Duration {
        if let Status::Up { connection, .. } = &*self.status.borrow()
            && (connection.in_flight() > 0 || self.wishes.has_uris() || Arc::strong_count(&self.held) > 1)
        {
            self.touch();
        }
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}
