//! Is this name in the caller's catalog? Hidden equals missing (spec T-04): both are denied here.

use crate::{Call, Check, CheckName, Standing, Target, Verdict};

/// Denies whatever the catalog does not offer to this caller.
#[derive(Debug, Default)]
pub struct Visibility;

impl Check for Visibility {
    fn name(&self) -> CheckName {
        CheckName::Visibility
    }

    fn judge(&self, call: &Call) -> Verdict {
        match &call.target {
            Target::Ourselves | Target::Listing(_) => Verdict::Allow,
            Target::Missing(..) => Verdict::Deny("missing".into()),
            Target::Thing(thing) => match thing.standing {
                Standing::Offered => Verdict::Allow,
                Standing::Filtered => Verdict::Deny("filter".into()),
                Standing::Excluded(why) => Verdict::Deny(why.into()),
            },
        }
    }
}
