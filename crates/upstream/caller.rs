//! Who calls, as far as a server may hear of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
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
pub(crate) struct Speaker(Arc<watch::Sender<Option<Arc<Caller>>>>);

impl Speaker {
    /// From now on it is this one.
    pub(crate) fn is(&self, caller: &Arc<Caller>) {
        self.0.send_if_modified(|last| {
            let same = last.as_ref().is_some_and(|last| last == caller);
            if !same {
                *last = Some(Arc::clone(caller));
            }
            !same
        });
    }

    /// Who it is. Waits for the first.
    pub(crate) async fn caller(&self) -> Option<Arc<Caller>> {
        let mut callers = self.0.subscribe();
        let found = timeout(PATIENCE, callers.wait_for(Option::is_some)).await.ok()?.ok()?;
        found.clone()
    }
}
