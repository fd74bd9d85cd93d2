//! Is the content acceptable, asking and answering?
//!
//! No screening rule exists yet; the place is here so that the first one covers requests and replies
//! of every method at once.

use crate::{Call, Check, CheckName, Notes, Verdict};

/// The screening rules; none exist in this release.
#[derive(Debug, Default)]
pub struct Screen;

impl Check for Screen {
    fn name(&self) -> CheckName {
        CheckName::Screen
    }

    fn judge(&self, _call: &Call, _notes: &mut Notes) -> Verdict {
        Verdict::Allow
    }
}
