//! How the answers of the checks become one decision. The same function decides and explains.

use std::{fmt, sync::Arc};

use wire::Frame;

use crate::{Call, Grant, Pins, Policy, RuleError, Scopes, Screen, Shadow, Visibility};

/// One question asked of every call, whatever its method.
pub trait Check: Send + Sync {
    /// Which check this is, for records and for the error table.
    fn name(&self) -> CheckName;

    /// May this call leave? Pure: no waiting, no I/O, no clock but `call.received`.
    /// What the record should say besides goes into the notes.
    fn judge(&self, call: &Call, notes: &mut Notes) -> Verdict;

    /// The same question asked of what came back. Most checks have none.
    fn judge_reply(&self, _call: &Call, _reply: &Frame) -> Verdict {
        Verdict::Allow
    }
}

/// What one check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing against it.
    Allow,
    /// A person must say yes first.
    Hold(Rule),
    /// No.
    Deny(Refusal),
}

/// Why a check says no, and how much of it the caller may know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that spoke.
    pub rule: Rule,
    /// What the operator wants the model to read.
    pub message: Option<Arc<str>>,
    /// The condition of the rule has no answer, which denies.
    pub error: Option<RuleError>,
    /// Whether the caller must not know that the thing exists: no call of it could be admitted.
    pub hides: bool,
    /// All scopes that the call needs, if it is for want of them.
    pub lacks: Box<[Box<str>]>,
}

impl Refusal {
    /// By this rule.
    pub fn by(rule: impl Into<Rule>) -> Refusal {
        Refusal { rule: rule.into(), message: None, error: None, hides: false, lacks: Box::default() }
    }

    /// With what the model reads.
    pub fn said(self, message: Option<Arc<str>>) -> Refusal {
        Refusal { message, ..self }
    }

    /// Since a condition has no answer.
    pub fn failed(self, error: RuleError) -> Refusal {
        Refusal { error: Some(error), ..self }
    }

    /// For want of some of these scopes.
    pub fn lacking(self, scopes: Box<[Box<str>]>) -> Refusal {
        Refusal { lacks: scopes, ..self }
    }

    /// Of something that must look missing (spec T-04).
    pub fn hiding(self) -> Refusal {
        Refusal { hides: true, ..self }
    }
}

/// What the record says beside the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The rule that let it pass, or wants a person.
    pub rule: Option<Rule>,
    /// Rules that only record, and what they would have said.
    pub shadows: Vec<Shadow>,
}

/// The name of the rule that spoke. It goes to the record, never to the client.
pub type Rule = Box<str>;

/// The checks, in the order they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckName {
    /// Is this name in the caller's catalog?
    Visibility,
    /// Is the definition the one that was approved?
    Pins,
    /// Do the rules allow it, or want a person?
    Policy,
    /// Does the caller carry the scopes that it needs?
    Scopes,
    /// Is the content acceptable, asking and answering?
    Screen,
}

impl CheckName {
    /// The word for records and metrics.
    pub fn word(self) -> &'static str {
        match self {
            CheckName::Visibility => "visibility",
            CheckName::Pins => "pins",
            CheckName::Policy => "policy",
            CheckName::Scopes => "scopes",
            CheckName::Screen => "screen",
        }
    }
}

/// What all checks say together.
#[derive(Debug)]
pub enum Decision {
    /// It may leave.
    Admitted(Admitted),
    /// It waits for a person.
    Held(Held),
    /// It may not.
    Denied(Denial),
}

/// A call that every check let through.
///
/// INVARIANT: the field is private and [`Checks::decide`] is its only maker, so whatever holds an
/// `Admitted` holds the proof that the call was judged.
#[derive(Debug)]
pub struct Admitted {
    call: Call,
    notes: Notes,
}

/// A call that waits for a person.
#[derive(Debug)]
pub struct Held {
    call: Call,
    /// The check that wants a person.
    pub by: CheckName,
    /// Its rule.
    pub rule: Rule,
    /// What the record says beside.
    pub notes: Notes,
}

/// The decision no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The check that said no.
    pub by: CheckName,
    /// Why.
    pub refusal: Refusal,
    /// What the record says beside.
    pub notes: Notes,
}

impl Denial {
    /// With nothing to note beside.
    pub fn of(by: CheckName, refusal: Refusal) -> Denial {
        Denial { by, refusal, notes: Notes::default() }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "denied by {}: {}", self.by.word(), self.refusal.rule)
    }
}

impl std::error::Error for Denial {}

/// All checks, compiled from one configuration.
#[derive(Debug, Default)]
pub struct Checks {
    /// See `visibility.rs`.
    pub visibility: Visibility,
    /// See `pins.rs`.
    pub pins: Pins,
    /// See `policy.rs`.
    pub policy: Policy,
    /// See `scopes.rs`.
    pub scopes: Scopes,
    /// See `screen.rs`.
    pub screen: Screen,
}

impl Checks {
    /// The order is the design: what must not be seen is refused before it is explained.
    fn in_order(&self) -> [&dyn Check; 5] {
        [&self.visibility, &self.pins, &self.policy, &self.scopes, &self.screen]
    }

    /// The first denial ends it; a hold waits until every check had a chance to deny, so that nobody
    /// is asked about a call that would be refused anyway.
    pub fn decide(&self, call: Call) -> Decision {
        let (mut hold, mut notes) = (None, Notes::default());
        for check in self.in_order() {
            match check.judge(&call, &mut notes) {
                Verdict::Allow => (),
                Verdict::Hold(rule) => hold = hold.or(Some((check.name(), rule))),
                Verdict::Deny(refusal) => {
                    return Decision::Denied(Denial { by: check.name(), refusal, notes });
                }
            }
        }
        match hold {
            None => Decision::Admitted(Admitted { call, notes }),
            Some((by, rule)) => Decision::Held(Held { call, by, rule, notes }),
        }
    }

    /// What each check would say: `decide` without the decision.
    pub fn explain(&self, call: &Call) -> [(CheckName, Verdict); 5] {
        let mut notes = Notes::default();
        self.in_order().map(|check| (check.name(), check.judge(call, &mut notes)))
    }

    /// The reply's turn: the first check that denies what came back.
    pub fn judge_reply(&self, call: &Call, reply: &Frame) -> Result<(), Denial> {
        for check in self.in_order() {
            match check.judge_reply(call, reply) {
                Verdict::Allow => (),
                // A reply cannot wait for a person: it exists already. Whoever wants one says no.
                Verdict::Hold(rule) => return Err(Denial::of(check.name(), Refusal::by(rule))),
                Verdict::Deny(refusal) => return Err(Denial::of(check.name(), refusal)),
            }
        }
        Ok(())
    }
}

impl Held {
    /// The waiting call, for whoever is asked.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The call with a person's yes, to be decided again on today's rules.
    pub fn granted(self, grant: Grant) -> Call {
        Call { grant: Some(grant), ..self.call }
    }
}

impl Admitted {
    /// The call that was admitted.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// What the record says beside.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }
}

#[cfg(test)]
mod tests;
