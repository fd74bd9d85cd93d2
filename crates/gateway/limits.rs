//! Rate and concurrency; charged once an attempt.
//!
//! Rate rules come with identities; what exists already is the bound that keeps one conversation from
//! taking the gateway's memory: so many requests at once.

use admission::{Call, Target};
use wire::Method;

use crate::{error::LimitError, session::Session};

/// Requests one session may have running. Above it the model is told, nothing is queued.
const RUNNING_PER_SESSION: usize = 256;

/// What may be used up.
#[derive(Debug, Default)]
pub(crate) struct Limits;

impl Limits {
    /// Charges one attempt. Lists, handshakes and pings cost nothing.
    ///
    /// # Errors
    /// When a bound is reached; nothing was sent anywhere then.
    pub(crate) fn charge(&self, call: &Call, session: &Session) -> Result<(), LimitError> {
        match &call.target {
            Target::Ourselves | Target::Listing(_) => Ok(()),
            Target::Thing(_) | Target::Missing(..) if session.running() <= RUNNING_PER_SESSION => Ok(()),
            Target::Thing(_) | Target::Missing(..) => Err(LimitError::Concurrency {
                most: RUNNING_PER_SESSION,
                tool: call.method == Method::ToolsCall,
            }),
        }
    }
}
