//! Who calls, as far as a server may hear of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// A seat is made for somebody who calls: they are not far behind.
const PATIENCE: Duration = Duration::from_secs(5);

/// One principal that calls, with what it showed to us.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// Its tenant.
    pub tenant: Arc<str>,
    /// Who vouches for it; empty when nobody does.
    pub issuer: Box<str>,
    /// Its name within the issuer.
    pub subject: Arc<str>,
    /// Its groups.
    pub groups: Box<[Box<str>]>,
    /// The token it showed; none when that was no token.
    pub bearer: Option<Box<str>>,
}

impl fmt::Debug for Caller {
    /// What it showed is never printed.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Caller")
            .field("tenant", &self.tenant)
            .field("issuer", &self.issuer)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

/// For whom a seat speaks when nobody in particular asks: the last of its principal's callers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speaker(Arc<Last>);

#[derive(Debug, Default)]
struct Last {
    caller: watch::Sender<Option<Arc<Caller>>>,
    /// The keeper of the seat has not looked at it yet.
    is_news: AtomicBool,
    news: Notify,
}

impl Speaker {
    /// From now on it is this one.
    pub(crate) fn is(&self, caller: &Arc<Caller>) {
        let Last { caller: last, is_news, news } = &*self.0;
        let changed = last.send_if_modified(|last| {
            let same = last.as_ref().is_some_and(|last| last == caller);
            if !same {
                *last = Some(Arc::clone(caller));
            }
            !same
        });
        if changed {
            is_news.store(true, Ordering::SeqCst);
            news.notify_one();
        }
    }

    /// Who it is. Waits for the first.
    pub(crate) async fn caller(&self) -> Option<Arc<Caller>> {
        let mut callers = self.0.caller.subscribe();
        let found = timeout(PATIENCE, callers.wait_for(Option::is_some)).await.ok()?.ok()?;
        found.clone()
    }

    /// Whether another one came since [`Speaker::heard`].
    pub(crate) fn is_news(&self) -> bool {
        self.0.is_news.load(Ordering::SeqCst)
    }

    /// Whoever came so far is known.
    pub(crate) fn heard(&self) {
        self.0.is_news.store(false, Ordering::SeqCst);
    }

    /// Returns when another one came.
    pub(crate) async fn another(&self) {
        while !self.is_news() {
            self.0.news.notified().await;
        }
    }
}
