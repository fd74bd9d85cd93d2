//! Limits around one call: charged before the checks, settled when it has ended.

use admission::{Call, Sort, Target, Trust};

use super::Entered;
use crate::{
    audit::{Outcome, Record},
    error::{Error, Refused},
    gateway::Gateway,
    limits::{Charge, Watched},
    router::Answered,
};

/// What a refusal says of a call.
pub(super) struct Said {
    pub(super) sort: Option<Sort>,
    pub(super) referred: bool,
    pub(super) name: Box<str>,
}

impl Said {
    pub(super) fn refused(self, denial: admission::Denial) -> Error {
        let Said { sort, referred, name } = self;
        Error::from(Box::new(Refused { denial, sort, referred, name }))
    }
}

/// What a call has taken, and who watches it. Held until it has ended, however it does.
pub(super) struct Measured {
    charge: Charge,
    watched: Option<Watched>,
}

impl Gateway {
    /// Charges one attempt, and looks whether it goes in circles. What is hidden is measured as what is missing, so that a
    /// refusal tells of neither.
    pub(super) fn measure(
        &self,
        entered: &Entered,
        call: &Call,
        record: &mut Record,
    ) -> Result<Measured, Error> {
        let (rules, checks) = (&entered.snapshot.limits, &entered.snapshot.checks);
        let arguments = record.arguments();
        let measured = self.limits.charge((rules, checks), call, &entered.visit).and_then(|charge| {
            let watched = self.limits.watch(rules, call, (&entered.visit, arguments))?;
            Ok(Measured { charge, watched })
        });
        Ok(measured.inspect_err(|error| record.limited(error.rule()))?)
    }

    /// An untrusted server is about to be heard.
    pub(super) fn heard(&self, entered: &Entered, call: &Call) {
        if let Target::Thing(thing) = &call.target
            && thing.facts.trust == Trust::Untrusted
        {
            self.limits.taint(&entered.snapshot.limits, &entered.visit);
        }
    }

    /// Settles what a call took.
    pub(super) fn settle(&self, measured: &Measured, done: &Result<Answered, Error>) {
        if let Ok(Answered::Message { body, .. } | Answered::Asked(body)) = done {
            self.limits.answered(&measured.charge, body.len());
        }
        let failed = match done {
            Ok(Answered::Message { outcome, .. }) => Some(*outcome != Outcome::Ok),
            Err(Error::Upstream(_) | Error::Relayed(_) | Error::Denied(_)) => Some(true),
            Ok(_) | Err(_) => None,
        };
        if let (Some(watched), Some(failed)) = (&measured.watched, failed) {
            self.limits.watched(watched, failed);
        }
    }
}
