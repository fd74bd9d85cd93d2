//! Rate and concurrency; charged once an attempt.
//!
//! Rate rules come with identities; what exists already is the bound that keeps one conversation from
//! taking the gateway's memory: so many requests at once.

use std::sync::Arc;

use admission::{Call, Target};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::Method;

use crate::{error::LimitError, visit::Visit};

/// Requests one session may have running. Above it the model is told, nothing is queued.
const RUNNING_PER_SESSION: usize = 256;

/// Requests that may run in all. Each holds a place in the audit log until it ends; this leaves as many
/// places to everything that is answered at once.
const RUNNING: usize = 8_192;

/// What may be used up.
#[derive(Debug)]
pub(crate) struct Limits {
    running: Arc<Semaphore>,
}

/// What a running request has taken; given back when dropped.
pub(crate) type Charge = Option<OwnedSemaphorePermit>;

impl Limits {
    /// Nothing is used up yet.
    pub(crate) fn new() -> Limits {
        Limits { running: Arc::new(Semaphore::new(RUNNING)) }
    }

    /// Charges one attempt. Lists, handshakes and pings cost nothing.
    ///
    /// # Errors
    /// When a bound is reached; nothing was sent anywhere then.
    pub(crate) fn charge(&self, call: &Call, visit: &Visit) -> Result<Charge, LimitError> {
        match &call.target {
            Target::Ourselves | Target::Listing(_) => return Ok(None),
            Target::Thing(_) | Target::Missing(..) => (),
        }
        let refused = |most| LimitError::Concurrency { most, tool: call.method == Method::ToolsCall };
        if visit.running() > RUNNING_PER_SESSION {
            return Err(refused(RUNNING_PER_SESSION));
        }
        match Arc::clone(&self.running).try_acquire_owned() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) => Err(refused(RUNNING)),
        }
    }
}
