//! Whoever is known, and comes no further: on record all the same.

use super::{Failure, close, refusal};
use crate::{
    arrival::{Head, Reply},
    error::{AuthnError, Error},
    gateway::Gateway,
    snapshot::Snapshot,
};

impl Gateway {
    /// Refuses who is not let in here. Whose credential is good, only not for this endpoint, is no stranger.
    pub(super) async fn turn_away(&self, snapshot: &Snapshot, head: &Head, failure: Failure) -> Reply {
        let holder = match failure.error {
            Error::Authn(AuthnError::NoEndpoint | AuthnError::Scope) => snapshot.authn.holder(head),
            _ => None,
        };
        let Some(holder) = holder else {
            self.metrics.unauthenticated();
            return refusal(&failure);
        };
        match self.open_record(head, &holder).await {
            Ok(record) => close(record, Err(failure)),
            Err(failure) => refusal(&failure),
        }
    }
}
