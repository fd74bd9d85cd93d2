//! What servers say unasked, put where it belongs.
//!
//! Sorting waits for nothing and looks nobody up. What is for clients goes into the backlog of its upstream, which is bounded
//! and has a task of its own: however much one upstream says, no other waits for it (security 53).

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use admission::TenantId;
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep},
};
use upstream::{Connection, Notice, Seat, Spec, What};
use wire::{Frame, Kind, Method};

use super::{Inbox, Inboxes};
use crate::{
    catalog::Catalog,
    gateway::Gateway,
    logging,
    subscriptions::{self, Place},
    tasks,
};

/// Questions of one upstream that are put on record in one window; the rest are refused and counted, so that
/// nobody fills the disk by asking.
const QUESTIONS: u32 = 60;
const WINDOW: Duration = Duration::from_secs(60);

/// Notifications of one upstream that wait, and their bytes. Of more, the newest are dropped and counted.
const WAITING: usize = 256;
const WAITING_BYTES: usize = 1024 * 1024;
/// The largest that is passed on, in bytes.
const LARGEST: usize = 64 * 1024;
/// Questions of one upstream that wait for their record.
const ASKED: usize = 64;
/// Log messages of one process that anybody is looked up for in one second, and processes that are told apart.
const LOGGED: u32 = 1000;
const PROCESSES: usize = 1024;
/// Log messages of one upstream that stand in our own log in one second.
const KEPT: u32 = 10;
/// Changes that come closer together than this are told together.
const BETWEEN: Duration = Duration::from_millis(100);

/// How many questions an upstream has asked in this window.
#[derive(Default)]
struct Questions {
    since: Option<Instant>,
    asked: u32,
}

impl Questions {
    /// Counts one, and says whether it is put on record.
    fn take(&mut self) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            if self.asked > QUESTIONS {
                tracing::warn!(
                    unrecorded = self.asked - QUESTIONS,
                    "an upstream asked more than is recorded"
                );
            }
            *self = Questions { since: Some(now), asked: 0 };
        }
        self.asked = self.asked.saturating_add(1);
        self.asked <= QUESTIONS
    }
}

/// What one upstream said to clients and nobody has passed on yet.
#[derive(Default)]
pub(super) struct Backlog {
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Default)]
struct Waiting {
    said: VecDeque<Said>,
    bytes: usize,
    asked: Vec<Asked>,
    questions: Questions,
    logs: HashMap<Seat, logging::Window>,
}

/// A notification for clients.
struct Said {
    place: Place,
    about: About,
    frame: Frame,
}

#[derive(Debug, PartialEq, Eq)]
enum About {
    Log,
    /// The resource of this name has changed.
    Changed(Box<str>),
}

impl About {
    fn of(frame: &Frame) -> Option<About> {
        match frame.method() {
            Some(Method::LogMessage) => Some(About::Log),
            _ => frame.param_text("uri").map(|uri| About::Changed(uri.into())),
        }
    }
}

/// A question that is refused and put on record.
struct Asked {
    spec: Arc<Spec>,
    seat: Seat,
    connection: Arc<Connection>,
    question: Frame,
}

/// What became of a question.
enum Taken {
    /// It waits for its record.
    Waits,
    /// There are too many: it is refused at once, and only counted.
    Refused(Asked),
}

impl Backlog {
    /// Takes a notification, if there is room. Of a resource that changes again before anybody was told, one word is
    /// enough.
    fn say(&self, said: Said) -> bool {
        let length = said.frame.bytes().len();
        let mut waiting = self.waiting();
        let is_same = |one: &Said| one.about == said.about && one.place == said.place;
        if said.about != About::Log && waiting.said.iter().any(is_same) {
            return true;
        }
        let has_turn = said.about != About::Log || waiting.hears(&said.place.seat);
        let has_room = waiting.said.len() < WAITING && waiting.bytes + length <= WAITING_BYTES;
        if !has_turn || !has_room || length > LARGEST {
            return false;
        }
        waiting.bytes += length;
        waiting.said.push_back(said);
        drop(waiting);
        self.filled.notify_one();
        true
    }

    fn ask(&self, asked: Asked) -> Taken {
        let mut waiting = self.waiting();
        if !waiting.questions.take() || waiting.asked.len() >= ASKED {
            return Taken::Refused(asked);
        }
        waiting.asked.push(asked);
        drop(waiting);
        self.filled.notify_one();
        Taken::Waits
    }

    fn take(&self) -> (Vec<Asked>, VecDeque<Said>) {
        let mut waiting = self.waiting();
        waiting.bytes = 0;
        (mem::take(&mut waiting.asked), mem::take(&mut waiting.said))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Whether a process may log one more now.
    fn hears(&mut self, seat: &Seat) -> bool {
        if self.logs.len() >= PROCESSES && !self.logs.contains_key(seat) {
            self.logs.retain(|_, window| !window.is_over());
            if self.logs.len() >= PROCESSES {
                return false;
            }
        }
        self.logs.entry(seat.clone()).or_default().take(LOGGED)
    }
}

/// Puts each notice where it belongs.
pub(super) async fn sort(gateway: Arc<Gateway>, inboxes: Inboxes, mut notices: mpsc::Receiver<Notice>) {
    while let Some(Notice { spec, seat, declared, what }) = notices.recv().await {
        let inbox = {
            let inboxes = inboxes.lock().unwrap_or_else(PoisonError::into_inner);
            let followed = inboxes.get(&(Arc::clone(&spec.tenant), Arc::clone(&spec.id)));
            // What is not configured any more, or otherwise, has nothing to say.
            followed.filter(|followed| followed.spec == spec).map(|followed| Arc::clone(&followed.inbox))
        };
        let Some(inbox) = inbox else { continue };
        // Lists are fed by the shared connection alone (product rule "Catalog connections").
        let feeds = seat == Seat::Shared;
        match what {
            What::Request(connection, question) => {
                let asked = Asked { spec, seat, connection, question };
                if let Taken::Refused(asked) = inbox.backlog.ask(asked) {
                    // Nothing is written, so this waits for nothing.
                    asked.refuse(&gateway, false).await;
                }
            }
            What::Notification(frame) => match frame.method() {
                Some(Method::ElicitationComplete) => {
                    gateway.router.asking.links.tell_completed(&spec, &seat, &frame);
                }
                Some(said @ (Method::TaskStatus | Method::TaskChanged | Method::Progress)) => {
                    let tenant = TenantId::new(Arc::clone(&spec.tenant));
                    let place = Place { seat, declared, upstream: Arc::clone(&spec.id) };
                    let tell = match said {
                        Method::Progress => tasks::reported,
                        Method::TaskChanged => tasks::changed,
                        _ => tasks::told,
                    };
                    tell(&gateway, &tenant, place, &frame);
                }
                Some(Method::LogMessage | Method::ResourceUpdated) => {
                    let place = Place { seat, declared, upstream: Arc::clone(&spec.id) };
                    let Some(about) = About::of(&frame) else { continue };
                    let is_log = about == About::Log;
                    if !inbox.backlog.say(Said { place, about, frame }) && is_log {
                        gateway.metrics.log_message_dropped(&spec.tenant);
                    }
                }
                said if feeds => inbox.ring(|pending| {
                    pending.changed.extend(Kind::ALL.into_iter().filter(|kind| said == Some(kind.changed())));
                }),
                _ => (),
            },
            What::Up(connection) => {
                // What its sessions want to hear may have been said before it was there (spec U-14).
                let tenant = TenantId::new(Arc::clone(&spec.tenant));
                if let Some(catalog) = gateway.snapshot.load().catalogs.get(&tenant) {
                    logging::spread(&gateway.router, &gateway.sessions, catalog, &seat);
                }
                if feeds {
                    inbox.ring(|pending| {
                        pending.down = None;
                        pending.up = Some(connection);
                    });
                }
            }
            What::Down { why } if feeds => inbox.ring(|pending| {
                pending.up = None;
                pending.down = Some(why);
            }),
            What::Down { .. } => (),
        }
    }
}

/// Passes on what one upstream says, for ever.
pub(super) async fn pass_on(gateway: Arc<Gateway>, catalog: Arc<Catalog>, id: Arc<str>, inbox: Arc<Inbox>) {
    let Some(source) = catalog.source(&id) else { return };
    let spec = &source.spec;
    let mut kept = logging::Window::default();
    loop {
        inbox.backlog.filled.notified().await;
        let (asked, said) = inbox.backlog.take();
        for asked in asked {
            asked.refuse(&gateway, true).await;
        }
        let mut changed = false;
        for Said { place, about, frame } in said {
            match about {
                About::Changed(uri) => {
                    changed = true;
                    subscriptions::updated(&gateway, &catalog, &place, (&uri, &frame)).await;
                }
                About::Log if logging::deliver(&gateway, &catalog, &place, &frame) => (),
                About::Log => {
                    gateway.metrics.log_message_dropped(&spec.tenant);
                    if kept.take(KEPT) {
                        let (tenant, upstream) = (&*spec.tenant, &*spec.id);
                        let data = logging::excerpt(&frame, spec);
                        tracing::info!(tenant, upstream, ?data, "logged by the upstream");
                    }
                }
            }
            tokio::task::consume_budget().await;
        }
        if changed {
            sleep(BETWEEN).await;
        }
    }
}

impl Asked {
    async fn refuse(self, gateway: &Gateway, recorded: bool) {
        let Asked { spec, seat, connection, question } = self;
        gateway.ask_back((&spec, &seat), &connection, &question, recorded).await;
    }
}

#[cfg(test)]
mod tests {
    use upstream::Declared;
    use wire::Budget;

    use super::*;

    fn place(seat: &str) -> Place {
        let seat = Seat::Principal(seat.into());
        Place { seat, declared: Declared::nothing(), upstream: "alpha".into() }
    }

    fn said(seat: &str, about: About, bytes: usize) -> Said {
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","x":"{}"}}"#, "x".repeat(bytes));
        Said { place: place(seat), about, frame: Frame::parse(text.into(), &Budget::UPSTREAM).unwrap() }
    }

    fn changed(uri: &str) -> About {
        About::Changed(uri.into())
    }

    #[test]
    fn a_resource_that_changes_again_waits_once_for_each_process() {
        let backlog = Backlog::default();
        for (seat, uri) in [("ann", "a"), ("ann", "a"), ("bob", "a"), ("ann", "b"), ("ann", "a")] {
            assert!(backlog.say(said(seat, changed(uri), 1)));
        }
        let waits: Vec<_> = backlog.take().1.into_iter().map(|said| (said.place, said.about)).collect();
        let want = [("ann", "a"), ("bob", "a"), ("ann", "b")].map(|(seat, uri)| (place(seat), changed(uri)));
        assert_eq!(waits, want);
        assert!(backlog.take().1.is_empty());
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_in_bytes() {
        let backlog = Backlog::default();
        let taken = |bytes: usize| {
            let taken = (0..2 * WAITING).filter(|n| backlog.say(said("ann", changed(&n.to_string()), bytes)));
            let taken = taken.count();
            backlog.take();
            taken
        };
        assert_eq!(taken(1), WAITING);
        assert_eq!(taken(LARGEST), 0);
        assert!((WAITING_BYTES / LARGEST..2 * WAITING_BYTES / LARGEST).contains(&taken(LARGEST - 100)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_process_logs_up_to_the_bound_and_takes_nothing_from_another() {
        let backlog = Backlog::default();
        let log = |seat: &str| {
            let taken = backlog.say(said(seat, About::Log, 1));
            backlog.take();
            taken
        };
        assert_eq!((0..2 * LOGGED).filter(|_| log("ann")).count(), LOGGED as usize);
        assert!(log("bob"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(log("ann"));
        for n in 0..PROCESSES {
            log(&n.to_string());
        }
        assert!(!log("one more"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(log("one more"));
    }
}
