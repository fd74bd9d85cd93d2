//! Do the rules allow it, or want a person?
//!
//! Deny beats approve beats allow; where no rule matches, the default of the tenant holds; a condition without an
//! answer denies. What depends on who asks alone also decides what lists show: a thing is shown unless no call of it,
//! whatever its arguments, could get past the rules.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use wire::{Method, Plan};

use crate::{
    Call, Check, CheckName, Facts, Flaw, Notes, Principal, Refusal, Scene, Sort, Target, TenantId, Thing,
    Trust, Verdict,
};

mod bounds;
mod condition;
mod index;
mod reads;
mod roots;
mod rule;
#[cfg(test)]
mod tests;
mod types;
mod uri;

pub use condition::RuleError;
pub(crate) use reads::Size;
pub use rule::{AskKind, Draft, Effect, Glob, What, Who};
pub(crate) use uri::judged;
pub use uri::resources_glob;

use index::Index;
use reads::Reads;
use roots::{Asked, Roots, Seen};
use rule::{Match, Rule, Subject};

/// The rules of all tenants. A tenant without any allows everything.
#[derive(Debug, Default)]
pub struct Policy {
    tenants: HashMap<TenantId, Rules>,
    edition: u64,
}

/// The rules of one tenant.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    index: Index,
    /// What holds where no rule matches.
    default: Effect,
    /// Whether a rule can keep a thing from somebody's lists.
    hides: bool,
}

/// What one rule says of a call, for whoever wants to know why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The rule.
    pub rule: Arc<str>,
    /// What it says where it matches.
    pub effect: Effect,
    /// Whether it only records.
    pub shadow: bool,
    /// Whether it matches.
    pub said: Said,
}

/// Whether a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It does.
    Matches,
    /// It does not, for this key of it.
    Differs(&'static str),
    /// Its condition has no answer.
    Error(RuleError),
    /// That depends on what is not known.
    Depends,
}

/// A rule in shadow mode that matched, and what it would have said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// The rule.
    pub rule: Arc<str>,
    /// What it would have said; a condition without an answer would have denied.
    pub would: Effect,
}

/// Whether a condition compiles, in a rule about these sorts of things; `None` among them is for questions of upstreams,
/// and without any the rule is about everything.
///
/// # Errors
/// With everything that is wrong with it.
pub fn check_condition(source: &str, sorts: &[Option<Sort>]) -> Result<(), Vec<Flaw>> {
    condition::Condition::about(source, sorts).map(|_| ())
}

impl Rules {
    /// Compiles the rules of a tenant, in their order.
    ///
    /// # Errors
    /// With every flaw of every rule: its position in the list, and what is wrong.
    pub fn compile(drafts: Vec<Draft>, default: Effect) -> Result<Rules, Vec<(usize, Flaw)>> {
        let (mut rules, mut flaws) = (Vec::with_capacity(drafts.len()), Vec::new());
        for (position, draft) in drafts.into_iter().enumerate() {
            match Rule::compile(draft) {
                Ok(rule) => rules.push(rule),
                Err(found) => flaws.extend(found.into_iter().map(|flaw| (position, flaw))),
            }
        }
        if !flaws.is_empty() {
            return Err(flaws);
        }
        // An approval asks for the form of URIs too: what could be read as another is hidden (`uri_form`).
        let keeps = rules.iter().any(|rule| rule.effect != Effect::Allow && !rule.shadow);
        let hides = default == Effect::Deny || keeps;
        Ok(Rules { index: Index::of(&rules), rules, default, hides })
    }

    /// What the rules say of something; `None` where no enforced rule matches.
    fn judge(&self, roots: &Roots<'_, '_>, subject: Subject<'_>) -> Judged<'_> {
        let mut judged = Judged::default();
        self.index.each(subject, |position| {
            let Some(rule) = self.rules.get(position) else { return };
            if !rule.shadow && judged.is_denied() {
                return;
            }
            match (rule.matches(roots, subject), rule.shadow) {
                (Match::No(_), _) => (),
                (Match::Yes, true) => judged.shadows.push(shadow(rule, rule.effect)),
                (Match::Error(_), true) => judged.shadows.push(shadow(rule, Effect::Deny)),
                (Match::Open, true) => (),
                (Match::Yes, false) => judged.spoke(rule),
                (Match::Error(error), false) => judged.error = judged.error.take().or(Some((rule, error))),
                (Match::Open, false) => judged.may_pass |= rule.effect != Effect::Deny,
            }
        });
        judged
    }

    /// Whether a thing can be judged: where nothing is kept from anybody, all can.
    fn takes(&self, thing: &Thing) -> bool {
        !self.hides || thing.sort != Sort::Resource || uri::is_judged(&thing.facts.name)
    }

    /// What they say together.
    fn verdict(&self, judged: Judged<'_>) -> Verdict {
        let Judged { strongest, error, may_pass, .. } = judged;
        match (strongest, error) {
            (Some(rule), _) if rule.effect == Effect::Deny => {
                Verdict::Deny(Refusal::by(rule.name()).said(rule.message.clone()))
            }
            (_, Some((rule, error))) => Verdict::Deny(Refusal::by(rule.name()).failed(error)),
            (Some(rule), None) if rule.effect == Effect::Approve => Verdict::Hold(rule.name()),
            (Some(_), None) => Verdict::Allow,
            (None, None) if may_pass || self.default == Effect::Allow => Verdict::Allow,
            (None, None) => Verdict::Deny(Refusal::by("default")),
        }
    }

    /// Whether some call of it could be admitted, or held.
    fn shows(&self, roots: &Roots<'_, '_>, subject: Subject<'_>) -> bool {
        if !self.hides {
            return true;
        }
        let judged = self.judge(roots, subject);
        match judged.strongest.map(|rule| rule.effect) {
            Some(Effect::Deny) => false,
            Some(Effect::Allow | Effect::Approve) => true,
            None => self.default != Effect::Deny || judged.may_pass,
        }
    }
}

fn shadow(rule: &Rule, would: Effect) -> Shadow {
    Shadow { rule: Arc::clone(&rule.name), would }
}

/// What the rules say together.
#[derive(Debug, Default)]
struct Judged<'r> {
    /// The rule that matches and beats the others that do.
    strongest: Option<&'r Rule>,
    /// The first whose condition has no answer.
    error: Option<(&'r Rule, RuleError)>,
    /// A rule that lets calls pass may match.
    may_pass: bool,
    shadows: Vec<Shadow>,
}

impl<'r> Judged<'r> {
    fn spoke(&mut self, rule: &'r Rule) {
        if self.strongest.is_none_or(|strongest| rule.effect > strongest.effect) {
            self.strongest = Some(rule);
        }
    }

    /// Whether no further rule changes anything: one that errs still denies what another allows.
    fn is_denied(&self) -> bool {
        self.strongest.is_some_and(|strongest| strongest.effect == Effect::Deny)
    }
}

impl Policy {
    /// The rules of each tenant that has some.
    pub fn new(tenants: HashMap<TenantId, Rules>) -> Policy {
        static EDITIONS: AtomicU64 = AtomicU64::new(1);
        Policy { tenants, edition: EDITIONS.fetch_add(1, Ordering::Relaxed) }
    }

    /// A number that no other rules of this process have: what was made by these rules is kept under it.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Whether a tenant has rules.
    pub fn governs(&self, tenant: &TenantId) -> bool {
        self.tenants.contains_key(tenant)
    }

    /// Whether rules can keep something from somebody's lists: where not, lists are the same for all.
    pub fn shapes_lists(&self, tenant: &TenantId) -> bool {
        self.tenants.get(tenant).is_some_and(|rules| rules.hides)
    }

    /// Whether some call of a thing, whatever its arguments, could be admitted or held for this asker.
    ///
    /// INVARIANT: where this is false every call is denied, and the denial hides the thing; where it is true no denial
    /// does.
    pub fn shows(&self, asker: &Principal, server: &str, thing: &Thing) -> bool {
        let Some(rules) = self.tenants.get(&asker.tenant) else { return true };
        let roots = of_thing(asker, server, thing, None);
        rules.takes(thing) && rules.shows(&roots, Subject::Thing(thing.sort, &thing.facts.name))
    }

    /// What each rule says of a call, in their order.
    pub fn opinions(&self, call: &Call) -> Vec<Opinion> {
        let Target::Thing(thing) = &call.target else { return Vec::new() };
        let Some(rules) = self.tenants.get(&call.principal.tenant) else { return Vec::new() };
        let seen = Seen::new(call.frame.param("arguments"));
        let roots = of_thing(&call.principal, &call.scene.server, thing, asked(call, &seen));
        let subject = Subject::Thing(thing.sort, &thing.facts.name);
        let opinion = |rule: &Rule| {
            let said = match rule.matches(&roots, subject) {
                Match::Yes => Said::Matches,
                Match::No(key) => Said::Differs(key),
                Match::Error(error) => Said::Error(error),
                Match::Open => Said::Depends,
            };
            Opinion { rule: Arc::clone(&rule.name), effect: rule.effect, shadow: rule.shadow, said }
        };
        rules.rules.iter().map(opinion).collect()
    }

    /// Whether a server may ask something of this principal, where it is known of the conversation.
    pub fn may_ask(
        &self,
        asker: &Principal,
        scene: &Scene,
        (upstream, trust): (&str, Trust),
        kind: AskKind,
    ) -> Verdict {
        let Some(rules) = self.tenants.get(&asker.tenant) else { return Verdict::Allow };
        let facts = Facts { trust, ..Facts::unknown("") };
        let subject = Subject::Ask(kind);
        let method = subject.used_by().map_or("", Method::name);
        let roots = Roots {
            asker,
            server: &scene.server,
            upstream,
            sort: None,
            thing: None,
            facts: &facts,
            call: Some(Asked { method, scene, seen: None }),
            reads: &NOTHING,
        };
        // Nobody is asked whether somebody may be asked.
        match rules.verdict(rules.judge(&roots, subject)) {
            Verdict::Hold(rule) => Verdict::Deny(Refusal::by(rule)),
            other => other,
        }
    }

    /// The verdict on a call of a thing.
    fn weigh(&self, call: &Call, thing: &Thing, notes: &mut Notes) -> Verdict {
        let Some(rules) = self.tenants.get(&call.principal.tenant) else { return Verdict::Allow };
        let shown = || self.shows(&call.principal, &call.scene.server, thing);
        if !rules.takes(thing) {
            return Verdict::Deny(Refusal::by("uri_form").hiding());
        }
        let seen = Seen::new(call.frame.param("arguments"));
        let subject = Subject::Thing(thing.sort, &thing.facts.name);
        let verdict = match asked(call, &seen) {
            Some(asked) => {
                let roots = of_thing(&call.principal, &call.scene.server, thing, Some(asked));
                let judged = rules.judge(&roots, subject);
                notes.shadows.clone_from(&judged.shadows);
                notes.rule = judged.strongest.map(Rule::name);
                let named = judged.strongest.is_some_and(Rule::names_methods);
                match rules.verdict(judged) {
                    // Whoever fills in a form has done nothing yet that somebody must approve of.
                    Verdict::Hold(_) if call.method == Method::Complete && !named => Verdict::Allow,
                    other => other,
                }
            }
            None => Verdict::Allow,
        };
        match verdict {
            Verdict::Deny(refusal) if !shown() => Verdict::Deny(refusal.hiding()),
            // Of what no list shows there is nothing to ask, to follow or to wait for.
            Verdict::Allow | Verdict::Hold(_) if subject.used_by() != Some(call.method) && !shown() => {
                Verdict::Deny(Refusal::by("default").hiding())
            }
            other => other,
        }
    }
}

static NOTHING: Reads = Reads::NOTHING;

/// What is known of a call. What is asked about a task is no call: whoever may see the tool may see to its tasks. A
/// completion says nothing of what is done with the thing in the end.
fn asked<'c, 'a>(call: &'c Call, seen: &'c Seen<'a>) -> Option<Asked<'c, 'a>> {
    if call.method.row().plan == Plan::Task {
        return None;
    }
    let seen = (call.method != Method::Complete).then_some(seen);
    Some(Asked { method: call.method.name(), scene: &call.scene, seen })
}

fn of_thing<'c, 'a>(
    asker: &'c Principal,
    server: &'c str,
    thing: &'c Thing,
    call: Option<Asked<'c, 'a>>,
) -> Roots<'c, 'a> {
    let (facts, sort) = (&*thing.facts, Some(thing.sort));
    Roots { asker, server, upstream: &thing.upstream, sort, thing: Some(thing), facts, call, reads: &NOTHING }
}

impl Check for Policy {
    fn name(&self) -> CheckName {
        CheckName::Policy
    }

    fn judge(&self, call: &Call, notes: &mut Notes) -> Verdict {
        match &call.target {
            Target::Thing(thing) => self.weigh(call, thing, notes),
            Target::Ourselves | Target::Listing(_) | Target::Missing(..) => Verdict::Allow,
        }
    }
}
