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
    Call, Check, CheckName, Facts, Flaw, Notes, Principal, Refusal, Sort, Target, TenantId, Thing, Trust,
    Verdict,
};

mod bounds;
mod condition;
mod index;
mod roots;
mod rule;
#[cfg(test)]
mod tests;

pub use condition::RuleError;
pub use rule::{AskKind, Draft, Effect, Glob, What, Who};

use index::Index;
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

/// Whether a condition compiles.
///
/// # Errors
/// With everything that is wrong with it.
pub fn check_condition(source: &str) -> Result<(), Vec<Flaw>> {
    condition::Condition::compile(source).map(|_| ())
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
        let enforced = |effect| rules.iter().any(|rule| rule.effect == effect && !rule.shadow);
        let hides = default == Effect::Deny || enforced(Effect::Deny);
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
        is_plain(thing) && rules.shows(&roots, Subject::Thing(thing.sort, &thing.facts.name))
    }

    /// What each rule says of a call, in their order.
    pub fn opinions(&self, call: &Call) -> Vec<Opinion> {
        let Target::Thing(thing) = &call.target else { return Vec::new() };
        let Some(rules) = self.tenants.get(&call.principal.tenant) else { return Vec::new() };
        let seen = Seen::new(call.frame.param("arguments"));
        let asked = Asked { method: call.method.name(), scene: &call.scene, seen: &seen };
        let roots =
            of_thing(&call.principal, &call.scene.server, thing, has_arguments(call).then_some(asked));
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

    /// Whether a server may ask this principal something.
    pub fn may_ask(
        &self,
        asker: &Principal,
        server: &str,
        upstream: (&str, Trust),
        kind: AskKind,
    ) -> Verdict {
        let Some(rules) = self.tenants.get(&asker.tenant) else { return Verdict::Allow };
        let (upstream, trust) = upstream;
        let facts = Facts { trust, ..Facts::unknown("") };
        let reads = Default::default();
        let roots = Roots {
            asker,
            server,
            upstream,
            sort: None,
            thing: None,
            facts: &facts,
            call: None,
            reads: &reads,
        };
        let judged = rules.judge(&roots, Subject::Ask(kind));
        // Nobody is asked whether somebody may be asked; and what depends on a call has no answer here.
        match judged.strongest {
            Some(rule) if rule.effect == Effect::Allow => Verdict::Allow,
            Some(rule) => Verdict::Deny(Refusal::by(rule.name()).said(rule.message.clone())),
            None if rules.default == Effect::Allow => Verdict::Allow,
            None => Verdict::Deny(Refusal::by("default")),
        }
    }

    /// The verdict on a call of a thing.
    fn weigh(&self, call: &Call, thing: &Thing, notes: &mut Notes) -> Verdict {
        let Some(rules) = self.tenants.get(&call.principal.tenant) else { return Verdict::Allow };
        let seen = Seen::new(call.frame.param("arguments"));
        let asked = Asked { method: call.method.name(), scene: &call.scene, seen: &seen };
        let roots = of_thing(&call.principal, &call.scene.server, thing, Some(asked));
        let subject = Subject::Thing(thing.sort, &thing.facts.name);
        if !has_arguments(call) {
            // What is asked about a task, or about the values of an argument, is for whoever may see the thing.
            return match self.shows(&call.principal, &call.scene.server, thing) {
                true => Verdict::Allow,
                false => Verdict::Deny(Refusal::by("default").hiding()),
            };
        }
        if !is_plain(thing) {
            return Verdict::Deny(Refusal::by("uri_form").hiding());
        }
        let judged = rules.judge(&roots, subject);
        notes.shadows = judged.shadows;
        notes.rule = judged.strongest.map(Rule::name);
        let hides = || !self.shows(&call.principal, &call.scene.server, thing);
        let refusal = match (judged.strongest, judged.error) {
            (Some(rule), _) if rule.effect == Effect::Deny => {
                Refusal::by(rule.name()).said(rule.message.clone())
            }
            (_, Some((rule, error))) => Refusal::by(rule.name()).failed(error),
            (Some(rule), None) if rule.effect == Effect::Approve => return Verdict::Hold(rule.name()),
            (Some(_), None) => return Verdict::Allow,
            (None, None) if rules.default == Effect::Allow => return Verdict::Allow,
            (None, None) => Refusal::by("default"),
        };
        Verdict::Deny(if hides() { refusal.hiding() } else { refusal })
    }
}

/// Rules about arguments speak of what is done with a thing, and not of what is asked about it.
fn has_arguments(call: &Call) -> bool {
    call.method.row().plan != Plan::Task && call.method != Method::Complete
}

fn of_thing<'c, 'a>(
    asker: &'c Principal,
    server: &'c str,
    thing: &'c Thing,
    call: Option<Asked<'c, 'a>>,
) -> Roots<'c, 'a> {
    static NOTHING: bounds::Reads = bounds::Reads::NOTHING;
    let (facts, sort) = (&*thing.facts, Some(thing.sort));
    Roots { asker, server, upstream: &thing.upstream, sort, thing: Some(thing), facts, call, reads: &NOTHING }
}

/// A URI that reads the same however it is normalised (RFC 3986 6.2.2): rules judge what is written, and a server may
/// read another thing out of dot segments or of characters that need no escape.
fn is_plain(thing: &Thing) -> bool {
    if thing.sort != Sort::Resource {
        return true;
    }
    let uri = &*thing.facts.name;
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let dots = uri.split(['/', '?', '#']).any(|part| part == "." || part == "..");
    let escapes = uri.match_indices('%').any(|(at, _)| {
        let byte = uri.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        byte.is_none_or(|byte| {
            byte.is_ascii_alphanumeric() || byte.is_ascii_control() || b"-._~/\\%".contains(&byte)
        })
    });
    let odd = uri.contains(|c: char| c.is_control() || c == '\\');
    !dots && !escapes && !odd && !scheme.contains(|c: char| c.is_ascii_uppercase())
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
