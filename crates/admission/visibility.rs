//! Is this name in the caller's catalog? Hidden equals missing (spec T-04): both are denied here.

use crate::{Call, Check, CheckName, Notes, Refusal, Standing, Target, Verdict};

/// Denies whatever the catalog does not offer to this caller.
#[derive(Debug, Default)]
pub struct Visibility;

impl Check for Visibility {
    fn name(&self) -> CheckName {
        CheckName::Visibility
    }

    fn judge(&self, call: &Call, _notes: &mut Notes) -> Verdict {
        let hidden = |rule: &str| Verdict::Deny(Refusal::by(rule).hiding());
        match &call.target {
            Target::Ourselves | Target::Listing(_) => Verdict::Allow,
            Target::Missing(..) => hidden("missing"),
            Target::Thing(thing) => match thing.standing {
                Standing::Offered => Verdict::Allow,
                Standing::Filtered => hidden("filter"),
                Standing::Excluded(why) => hidden(why),
            },
        }
    }
}
