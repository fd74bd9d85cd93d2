//! Does the caller's token carry what the operator asks of whoever calls this? Who lacks it may get it, so the thing is
//! visible all the same (spec A-06).

use crate::{Call, Check, CheckName, Notes, Refusal, Target, Verdict};

/// Denies what needs scopes that the caller does not carry.
#[derive(Debug, Default)]
pub struct Scopes;

impl Check for Scopes {
    fn name(&self) -> CheckName {
        CheckName::Scopes
    }

    fn judge(&self, call: &Call, _notes: &mut Notes) -> Verdict {
        let Target::Thing(thing) = &call.target else { return Verdict::Allow };
        let (needed, carried) = (&thing.facts.scopes, &call.principal.scopes);
        match needed.iter().all(|scope| carried.contains(scope)) {
            true => Verdict::Allow,
            false => Verdict::Deny(Refusal::by("scopes").lacking(needed.clone())),
        }
    }
}
