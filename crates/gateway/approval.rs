//! Redeem a grant, or ask a person.
//!
//! Nobody can be asked yet: whoever is held is refused with a reason of its own. The three steps stand where they will
//! do their work.

use admission::{Call, Grant, Held};
use wire::Method;

use crate::error::ApprovalError;

/// Grants and open questions; none exist in this release.
#[derive(Debug, Default)]
pub(crate) struct Approvals;

impl Approvals {
    /// The grant that matches exactly this call, without using it up.
    pub(crate) fn peek(&self, _call: &Call) -> Option<Grant> {
        None
    }

    /// Asks a person about a held call.
    ///
    /// # Errors
    /// `Unavailable`, always, in this release.
    pub(crate) fn ask(&self, held: &Held) -> Result<Grant, ApprovalError> {
        Err(ApprovalError::Unavailable { tool: held.call().method == Method::ToolsCall })
    }
}
