//! Is the definition the one that was approved?
//!
//! There is no lock file yet: every definition counts as not pinned, and what is not pinned passes.

use crate::{Call, Check, CheckName, Notes, Verdict};

/// The approved digests; none exist in this release.
#[derive(Debug, Default)]
pub struct Pins;

impl Check for Pins {
    fn name(&self) -> CheckName {
        CheckName::Pins
    }

    fn judge(&self, _call: &Call, _notes: &mut Notes) -> Verdict {
        Verdict::Allow
    }
}
