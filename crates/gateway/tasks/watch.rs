//! Tasks that a modern client listens for: each time one changes it is told all that `tasks/get` would say at that moment.
//!
//! Servers may tell of changes and need not, so what a server runs is looked at as well, as often as it wants to be.

use std::{collections::HashSet, sync::Arc, time::Duration};

use admission::Call;
use bytes::Bytes;
use futures_util::future::join_all;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use wire::{Era, input::member};

use super::{Place, Task, remote::Missed, serve::About, sight::judged, written::Look};
use crate::router::{Context, Lane, Router, offer};

/// Tasks that one stream tells of.
const MOST: usize = 64;
/// Looks at one task for one stream are no closer together than this, whatever its server says of it.
const CLOSEST: Duration = Duration::from_millis(100);
/// A server is not asked more often than this by itself.
const OFTENEST: Duration = Duration::from_millis(500);
/// A description that is larger waits for its turn where it is small: it is read again when there is room for it.
const LARGE: usize = 64 * 1024;

/// Tasks of the one who listens.
pub(crate) struct Watched(Vec<Arc<Task>>);

/// Those of these ids that are the asker's own, at this virtual server, and that it may ask about; each once.
pub(crate) fn watched(router: &Router, call: &Call, context: &Context, ids: &[Box<str>]) -> Watched {
    let mut seen = HashSet::new();
    let fresh = ids.iter().filter(|id| seen.insert(&***id));
    let own = fresh.filter_map(|id| router.tasks.find(&call.principal, &context.view.server, id));
    Watched(own.filter(|task| asked(router, task, call, context).is_some()).take(MOST).collect())
}

/// The question about a task, if its asker may put it now: a stream goes on for longer than what it began under.
fn asked(router: &Router, task: &Task, call: &Call, context: &Context) -> Option<Call> {
    let view = context.catalog.view(&context.view.server)?;
    judged(task, call, (&view, &router.snapshot.load().checks))
}

impl Watched {
    /// The ids, as their client knows them.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|task| &*task.id)
    }

    /// Tells of all of them, each notification with this `_meta`, until every one is over. A slow server holds up its own
    /// tasks only.
    pub(crate) async fn tell(
        &self,
        (router, call, context): (&Router, &Call, &Context),
        lane: &Lane,
        meta: &str,
        out: &mpsc::Sender<Bytes>,
    ) {
        let watchers = self.0.iter().map(|task| {
            // Only the listener can give this up, by closing its connection.
            let lane = Lane { outbox: Arc::clone(&lane.outbox), ticket: None, asker: None };
            Watcher { router, call, context, task, meta, out, lane, told: None }.run()
        });
        join_all(watchers).await;
    }
}

/// One task of one stream.
struct Watcher<'a> {
    router: &'a Router,
    call: &'a Call,
    context: &'a Context,
    task: &'a Arc<Task>,
    meta: &'a str,
    out: &'a mpsc::Sender<Bytes>,
    lane: Lane,
    /// What its client knows.
    told: Option<[u8; 32]>,
}

/// How it goes on.
enum Then {
    Watch,
    Rest,
}

impl Watcher<'_> {
    async fn run(mut self) {
        // A server that tells of changes is heard sooner than it would be asked.
        let _told = match &self.task.place {
            Place::There(there) if there.era == Era::Modern => Some(there.upstream.watch_task(&there.native)),
            Place::There(_) | Place::Here(_) | Place::Nowhere => None,
        };
        let mut turned = self.task.turned.subscribe();
        loop {
            turned.mark_unchanged();
            let looked = Instant::now();
            if matches!(self.tell().await, Then::Rest) {
                return;
            }
            let again = looked + self.pause();
            tokio::select! {
                changed = turned.changed() => if changed.is_err() { return },
                () = sleep_until(again) => (),
            }
            sleep_until(looked + CLOSEST).await;
        }
    }

    /// Until it is looked at though nothing is heard of it.
    fn pause(&self) -> Duration {
        match &self.task.place {
            Place::There(_) => self.task.pause().max(OFTENEST).min(self.task.patience()),
            Place::Here(_) | Place::Nowhere => self.task.patience(),
        }
    }

    /// Looks at the task, and tells what its client does not know.
    async fn tell(&mut self) -> Then {
        if self.router.tasks.find(&self.call.principal, &self.context.view.server, &self.task.id).is_none() {
            return Then::Rest;
        }
        let is_there = matches!(self.task.place, Place::There(_));
        // What bounds the looks of clients bounds these (spec U-39); rules change, and so do names.
        if is_there && !self.task.look() {
            return Then::Watch;
        }
        let mut look = match self.look().await {
            Ok(look) => look,
            Err(then) => return then,
        };
        let known = digest(&look);
        if self.told == Some(known) {
            return then(&look);
        }
        let is_large = look.more.len() > LARGE;
        if is_large {
            look.more = String::new();
        }
        let Ok(room) = self.out.reserve().await else { return Then::Rest };
        if is_large {
            look = match self.look().await {
                Ok(look) => look,
                Err(then) => return then,
            };
        }
        self.told = Some(digest(&look));
        room.send(look.notification(self.meta));
        then(&look)
    }

    /// How it is now, or what to do when nothing can be said of it.
    async fn look(&mut self) -> Result<Look, Then> {
        let call = asked(self.router, self.task, self.call, self.context).ok_or(Then::Watch)?;
        let source = &self.context.catalog.source(&self.task.thing.upstream).ok_or(Then::Rest)?;
        let id = call.frame.id().ok_or(Then::Rest)?;
        let offer = offer(&call, &self.context.visit, source);
        let about = About {
            router: self.router,
            call: &call,
            context: self.context,
            id,
            task: self.task,
            source,
            offer,
        };
        match about.look(&mut self.lane).await {
            Ok(look) => Ok(look),
            Err(Missed::Lost) => {
                self.task.lose();
                Ok(self.task.known(self.context.visit.era()))
            }
            // Whoever asks is told that nobody knows it any more.
            Err(Missed::Unknown) => {
                self.router.tasks.forget(self.task);
                Err(Then::Rest)
            }
            // It may answer the next time.
            Err(Missed::GivenUp | Missed::Error(_)) => Err(Then::Watch),
        }
    }
}

fn then(look: &Look) -> Then {
    if look.status.is_over() { Then::Rest } else { Then::Watch }
}

/// What counts as a change: not the moment at which a server says that it looked.
fn digest(look: &Look) -> [u8; 32] {
    let said = member(&look.task, "statusMessage").unwrap_or_default();
    Sha256::digest(format!("{}\0{said}\0{}", look.status.word(), look.more)).into()
}
