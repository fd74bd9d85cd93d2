//! What is wanted of every conversation with a server, and how much of it the open one holds (spec H-15, P-06, U-14, X-07).
//!
//! `tending.rs` makes the one equal the other: it alone sends.

use crate::error::UpstreamError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Resources that are followed at one server for one seat.
const MOST_URIS: usize = 1024;
/// Tasks of one seat that a server is asked to tell of.
const MOST_TASKS: usize = 1024;
/// How long somebody waits until the server has taken, or let go, what they follow.
const SETTLING: Duration = Duration::from_secs(15);

/// What must hold on every conversation with a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wish {
    /// The least severe log message that anyone wants.
    level: Option<Box<str>>,
    /// The resources that somebody follows, by the server's own URIs.
    uris: BTreeSet<Box<str>>,
    /// The tasks that somebody watches, by the server's own ids, and how many do.
    tasks: BTreeMap<Box<str>, usize>,
}

/// The wishes of one seat, shared by those who have them and the keeper who sees to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes(Arc<watch::Sender<Standing>>);

/// What is wanted, and what the server is known to have taken in this conversation.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    wish: Wish,
    /// Which conversation; what was sent in an earlier one counts for nothing.
    turn: u64,
    /// The level that was sent, taken or not.
    level: Option<Box<str>>,
    held: BTreeSet<Box<str>>,
    refused: BTreeMap<Box<str>, UpstreamError>,
    /// Tasks of which the server does not tell.
    untold: BTreeSet<Box<str>>,
}

/// One thing to tell a legacy server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Level(Box<str>),
    Subscribe(Box<str>),
    Unsubscribe(Box<str>),
}

impl Wishes {
    pub(crate) fn watch(&self) -> watch::Receiver<Standing> {
        self.0.subscribe()
    }

    /// Wants this level from now on.
    pub(crate) fn hear(&self, level: Option<&str>) {
        self.0.send_if_modified(|standing| {
            let changed = standing.wish.level.as_deref() != level;
            if changed {
                standing.wish.level = level.map(Box::from);
            }
            changed
        });
    }

    /// Whether anybody follows anything.
    pub(crate) fn has_uris(&self) -> bool {
        !self.0.borrow().wish.uris.is_empty()
    }

    /// What is followed, without what the server refused.
    pub(crate) fn uris(&self) -> BTreeSet<Box<str>> {
        let standing = self.0.borrow();
        standing.wish.uris.iter().filter(|uri| !standing.refused.contains_key(*uri)).cloned().collect()
    }

    /// Follows a resource, and returns when the server has taken that. What it refuses, or does not take in time, is wanted no more;
    /// so too when the caller stops waiting.
    pub(crate) async fn add(&self, uri: &str) -> Result<(), UpstreamError> {
        let mut standing = self.0.subscribe();
        let (mut is_new, mut is_full) = (false, false);
        self.0.send_if_modified(|standing| {
            is_full = standing.wish.uris.len() >= MOST_URIS && !standing.wish.uris.contains(uri);
            is_new = !is_full && standing.wish.uris.insert(uri.into());
            standing.refused.remove(uri).is_some() || is_new
        });
        if is_full {
            return Err(UpstreamError::Busy);
        }
        let mut undo = Undo { wishes: self, uri: is_new.then_some(uri) };
        let settled = standing.wait_for(|standing| {
            standing.held.contains(uri)
                || standing.refused.contains_key(uri)
                || !standing.wish.uris.contains(uri)
        });
        match timeout(SETTLING, settled).await {
            Ok(Ok(standing)) if standing.held.contains(uri) => {
                undo.uri = None;
                Ok(())
            }
            Ok(Ok(standing)) => {
                // A refusal is for all who asked.
                undo.uri = Some(uri);
                let taken_back = || UpstreamError::incompatible("nobody follows that resource any more");
                Err(standing.refused.get(uri).cloned().unwrap_or_else(taken_back))
            }
            Ok(Err(_)) | Err(_) => Err(UpstreamError::TimedOut { sent: true }),
        }
    }

    /// Follows a resource no more, and returns when the server has heard of it.
    pub(crate) async fn remove(&self, uri: &str) -> Result<(), UpstreamError> {
        self.forget(uri);
        let mut standing = self.0.subscribe();
        match timeout(SETTLING, standing.wait_for(|standing| !standing.held.contains(uri))).await {
            Ok(_) => Ok(()),
            Err(_) => Err(UpstreamError::TimedOut { sent: true }),
        }
    }

    fn forget(&self, uri: &str) {
        self.0.send_if_modified(|standing| {
            standing.refused.remove(uri).is_some() | standing.wish.uris.remove(uri)
        });
    }

    /// The tasks that are watched, without those of which the server does not tell.
    pub(crate) fn tasks(&self) -> BTreeSet<Box<str>> {
        let standing = self.0.borrow();
        standing.wish.tasks.keys().filter(|task| !standing.untold.contains(*task)).cloned().collect()
    }

    /// Has a server asked to tell when a task of its changes, for as long as what is returned lives. Whether it does is not
    /// known: whoever has to know looks.
    pub(crate) fn watch_task(&self, task: &str) -> Watching {
        let mut is_full = false;
        self.0.send_if_modified(|standing| {
            let tasks = &mut standing.wish.tasks;
            is_full = tasks.len() >= MOST_TASKS && !tasks.contains_key(task);
            if is_full {
                return false;
            }
            let watchers = tasks.entry(task.into()).or_default();
            *watchers += 1;
            *watchers == 1
        });
        Watching { wishes: self.clone(), task: (!is_full).then(|| task.into()) }
    }

    /// A modern server does not tell of these.
    pub(crate) fn untold(&self, tasks: impl Iterator<Item = Box<str>>) {
        self.0.send_modify(|standing| standing.untold.extend(tasks));
    }

    /// Another conversation, which holds nothing yet.
    pub(crate) fn begin(&self) {
        self.0.send_modify(|standing| {
            standing.turn += 1;
            standing.level = None;
            standing.held.clear();
            standing.refused.clear();
            standing.untold.clear();
        });
    }

    /// What a legacy server is to be told next, and in which conversation.
    pub(crate) fn next(&self) -> Option<(u64, Step)> {
        let standing = self.0.borrow();
        standing.next().map(|step| (standing.turn, step))
    }

    /// Returns when there is nothing to tell. The caller bounds the time.
    pub(crate) async fn settled(&self) {
        let mut standing = self.0.subscribe();
        let _ended = standing.wait_for(|standing| standing.next().is_none()).await;
    }

    /// What became of a step.
    pub(crate) fn done(&self, turn: u64, step: Step, end: Result<(), UpstreamError>) {
        self.0.send_if_modified(|standing| {
            if standing.turn != turn {
                return false;
            }
            match (step, end) {
                (Step::Level(level), _) => standing.level = Some(level),
                (Step::Subscribe(uri), Ok(())) => drop(standing.held.insert(uri)),
                (Step::Subscribe(uri), Err(error)) => drop(standing.refused.insert(uri, error)),
                // Whatever it says: nobody listens any more.
                (Step::Unsubscribe(uri), _) => drop(standing.held.remove(&uri)),
            }
            true
        });
    }

    /// What a modern server honours of the resources `asked`, and why not of the others.
    pub(crate) fn listened(
        &self,
        asked: &BTreeSet<Box<str>>,
        honoured: BTreeSet<Box<str>>,
        why: &UpstreamError,
    ) {
        self.0.send_modify(|standing| {
            let refused = asked.difference(&honoured).map(|uri| (uri.clone(), why.clone()));
            standing.refused.extend(refused);
            standing.held = honoured;
        });
    }

    /// A modern server does not honour these; all else is as it was.
    pub(crate) fn refuse(&self, uris: impl Iterator<Item = Box<str>>, why: &UpstreamError) {
        self.0.send_modify(|standing| standing.refused.extend(uris.map(|uri| (uri, why.clone()))));
    }
}

impl Standing {
    fn next(&self) -> Option<Step> {
        if let Some(level) = self.wish.level.as_ref().filter(|level| self.level.as_ref() != Some(level)) {
            return Some(Step::Level(level.clone()));
        }
        let mut over = self.held.difference(&self.wish.uris);
        let mut wanted = self.wish.uris.difference(&self.held).filter(|uri| !self.refused.contains_key(*uri));
        let unsubscribe = over.next().cloned().map(Step::Unsubscribe);
        unsubscribe.or_else(|| wanted.next().cloned().map(Step::Subscribe))
    }
}

/// That somebody watches a task of a server.
#[derive(Debug)]
pub struct Watching {
    wishes: Wishes,
    task: Option<Box<str>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let Some(task) = &self.task else { return };
        self.wishes.0.send_if_modified(|standing| {
            let Some(watchers) = standing.wish.tasks.get_mut(task) else { return false };
            *watchers -= 1;
            if *watchers > 0 {
                return false;
            }
            standing.untold.remove(task);
            standing.wish.tasks.remove(task).is_some()
        });
    }
}

/// Takes a wish back that came to nothing.
struct Undo<'a> {
    wishes: &'a Wishes,
    uri: Option<&'a str>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(uri) = self.uri {
            self.wishes.forget(uri);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_TASKS, MOST_URIS, Step, Wishes};
    use crate::error::UpstreamError;

    /// Wants this and nothing else.
    fn want(wishes: &Wishes, level: Option<&str>, uris: &[&str]) {
        wishes.hear(level);
        wishes.0.send_modify(|standing| standing.wish.uris = uris.iter().map(|uri| (*uri).into()).collect());
    }

    /// Plays a server that takes everything.
    fn carry_out(wishes: &Wishes) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((turn, step)) = wishes.next() {
            wishes.done(turn, step.clone(), Ok(()));
            steps.push(step);
        }
        steps
    }

    #[test]
    fn only_differences_are_sent_and_everything_again_to_another_conversation() {
        let wishes = Wishes::default();
        want(&wishes, Some("debug"), &["a:1", "a:2"]);
        let all = [Step::Level("debug".into()), Step::Subscribe("a:1".into()), Step::Subscribe("a:2".into())];
        assert_eq!(carry_out(&wishes), all);
        want(&wishes, Some("info"), &["a:2", "a:3"]);
        let differences =
            [Step::Level("info".into()), Step::Unsubscribe("a:1".into()), Step::Subscribe("a:3".into())];
        assert_eq!(carry_out(&wishes), differences);
        wishes.begin();
        let all = [Step::Level("info".into()), Step::Subscribe("a:2".into()), Step::Subscribe("a:3".into())];
        assert_eq!(carry_out(&wishes), all);
    }

    #[test]
    fn what_was_sent_in_an_earlier_conversation_counts_for_nothing() {
        let wishes = Wishes::default();
        want(&wishes, None, &["a:1"]);
        let (turn, step) = wishes.next().unwrap();
        wishes.begin();
        wishes.done(turn, step, Ok(()));
        assert_eq!(carry_out(&wishes), [Step::Subscribe("a:1".into())]);
    }

    #[tokio::test]
    async fn what_is_refused_is_said_and_wanted_no_more() {
        let wishes = Wishes::default();
        let server = wishes.clone();
        let why = UpstreamError::garbled("no");
        let refused = async {
            let (turn, step) = loop {
                match server.next() {
                    Some(next) => break next,
                    None => tokio::task::yield_now().await,
                }
            };
            server.done(turn, step, Err(why.clone()));
        };
        let (answer, ()) = tokio::join!(wishes.add("a:1"), refused);
        assert_eq!(answer, Err(why));
        assert!(!wishes.has_uris() && wishes.next().is_none());
    }

    #[tokio::test]
    async fn who_stops_waiting_wants_nothing() {
        let wishes = Wishes::default();
        let given_up = tokio::time::timeout(std::time::Duration::ZERO, wishes.add("a:1")).await;
        assert!(given_up.is_err() && !wishes.has_uris());
    }

    #[test]
    fn a_task_is_listened_for_while_somebody_watches_it_and_its_server_tells_of_it() {
        let wishes = Wishes::default();
        let (one, two) = (wishes.watch_task("1"), wishes.watch_task("1"));
        let other = wishes.watch_task("2");
        assert_eq!(wishes.tasks(), ["1".into(), "2".into()].into());
        wishes.untold(["2".into()].into_iter());
        assert_eq!(wishes.tasks(), ["1".into()].into());
        // Another conversation may be with one that tells.
        wishes.begin();
        assert_eq!(wishes.tasks().len(), 2);
        drop((one, other));
        assert_eq!(wishes.tasks(), ["1".into()].into());
        drop(two);
        assert!(wishes.tasks().is_empty());
        let many: Vec<_> = (0..=MOST_TASKS).map(|n| wishes.watch_task(&n.to_string())).collect();
        assert_eq!(wishes.tasks().len(), MOST_TASKS);
        drop(many);
        assert!(wishes.tasks().is_empty());
    }

    #[tokio::test]
    async fn wishes_are_bounded() {
        let wishes = Wishes::default();
        let many: Vec<String> = (0..MOST_URIS).map(|n| format!("a:{n:04}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        want(&wishes, None, &many);
        assert_eq!(carry_out(&wishes).len(), MOST_URIS);
        assert_eq!(wishes.add("b:1").await, Err(UpstreamError::Busy));
        assert_eq!(wishes.add("a:0001").await, Ok(()), "it is held already");
    }
}
