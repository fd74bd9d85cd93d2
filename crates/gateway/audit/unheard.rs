//! A message whose body is on its way: an entry, should nobody wait for it to the end.

use std::sync::Arc;

use admission::Principal;

use super::{Audit, Outcome};
use crate::arrival::Head;

/// Dropped before the message was heard, because there is no room for it or its client has gone, it leaves an entry.
/// Nothing is reserved for that before.
pub(crate) struct Unheard<'a>(Option<(&'a Arc<Audit>, &'a Head, &'a Arc<Principal>)>);

impl<'a> Unheard<'a> {
    /// A message of this asker, of which no more than the head is known.
    pub(crate) fn of(audit: &'a Arc<Audit>, head: &'a Head, asker: &'a Arc<Principal>) -> Unheard<'a> {
        Unheard(Some((audit, head, asker)))
    }

    /// The body is here, or it is known why not: somebody else has the record now.
    pub(crate) fn heard(mut self) {
        self.0 = None;
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if let Some((audit, head, asker)) = self.0
            && let Some(mut record) = audit.open_now()
        {
            record.arrived(head);
            record.identified(asker);
            record.close(Outcome::Abandoned, Some("body_not_read"), 0);
        }
    }
}
