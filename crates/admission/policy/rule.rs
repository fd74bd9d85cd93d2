//! One rule: whom and what it is about, under which condition, and what it says then.

use std::sync::Arc;

use regex::Regex;
use wire::Method;

use super::{
    condition::{Condition, RuleError},
    roots::Roots,
};
use crate::{Flaw, Principal, Rule as Name, Sort};

/// What a rule says when it matches. Later in this list beats earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The call may leave.
    Allow,
    /// A person must say yes first.
    Approve,
    /// It may not.
    Deny,
}

impl Effect {
    /// The word in policy files and records.
    pub fn word(self) -> &'static str {
        match self {
            Effect::Allow => "allow",
            Effect::Approve => "approve",
            Effect::Deny => "deny",
        }
    }
}

/// A text with `*` and `?`, compiled; it matches whole texts.
#[derive(Clone, Debug)]
pub struct Glob {
    text: Box<str>,
    regex: Regex,
    shape: Shape,
}

/// Most globs are a whole text, or the beginning of one, and need no automaton.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Any,
    Whole,
    /// It begins with so many bytes of the text.
    Beginning(usize),
    Other,
}

impl Glob {
    /// As it is written, and what it is compiled to, anchored at both ends.
    pub fn new(text: &str, regex: Regex) -> Glob {
        let is_plain = |part: &str| !part.contains(['*', '?']);
        let shape = match text.strip_suffix('*') {
            Some("") => Shape::Any,
            Some(beginning) if is_plain(beginning) => Shape::Beginning(beginning.len()),
            None if is_plain(text) => Shape::Whole,
            Some(_) | None => Shape::Other,
        };
        Glob { text: text.into(), regex, shape }
    }

    /// Whether it matches.
    pub fn matches(&self, text: &str) -> bool {
        match self.shape {
            Shape::Any => true,
            Shape::Whole => *self.text == *text,
            Shape::Beginning(length) => self.text.get(..length).is_some_and(|start| text.starts_with(start)),
            Shape::Other => self.regex.is_match(text),
        }
    }

    /// The expression it is compiled to.
    pub(super) fn expression(&self) -> &str {
        self.regex.as_str()
    }

    /// The text, when it stands for nothing but itself.
    pub(super) fn literal(&self) -> Option<&str> {
        matches!(self.shape, Shape::Whole).then_some(&self.text)
    }
}

/// Whom a rule is about: every list that is there must have a match.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// Names of principals.
    pub ids: Option<Vec<Glob>>,
    /// Groups, of which the principal has at least one.
    pub groups: Option<Vec<Glob>>,
    /// Scopes, of which the credential carries at least one.
    pub scopes: Option<Vec<Glob>>,
    /// Issuers.
    pub issuers: Option<Vec<Glob>>,
    /// Claims of the token, by name: a text, or one text of a list.
    pub claims: Vec<(Box<str>, Vec<Glob>)>,
}

/// What messages a server may begin with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskKind {
    /// `sampling/createMessage`.
    Sampling,
    /// `elicitation/create`.
    Elicitation,
    /// `roots/list`.
    Roots,
}

impl AskKind {
    fn method(self) -> Method {
        match self {
            AskKind::Sampling => Method::SamplingCreate,
            AskKind::Elicitation => Method::ElicitationCreate,
            AskKind::Roots => Method::RootsList,
        }
    }
}

/// What a rule is about; without any of it, it is about everything.
#[derive(Clone, Debug, Default)]
pub struct What {
    /// Tools, by the name `UPSTREAM__NAME`.
    pub tools: Option<Vec<Glob>>,
    /// Prompts, by the name `UPSTREAM__NAME`.
    pub prompts: Option<Vec<Glob>>,
    /// Resources, by the URI that is forwarded.
    pub resources: Option<Vec<Glob>>,
    /// Questions of upstreams.
    pub asks: Option<Vec<AskKind>>,
}

/// A rule as it is written, with what could be compiled compiled.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Its name.
    pub name: Arc<str>,
    /// Whom it is about.
    pub who: Who,
    /// The ids of upstreams it is about.
    pub upstreams: Option<Vec<Glob>>,
    /// The virtual servers it is about.
    pub servers: Option<Vec<Glob>>,
    /// The methods it is about.
    pub methods: Option<Vec<Method>>,
    /// What it is about.
    pub what: What,
    /// The condition, in CEL.
    pub when: Option<String>,
    /// What it says.
    pub effect: Effect,
    /// It only records.
    pub shadow: bool,
    /// What the model is told when it denies.
    pub message: Option<Arc<str>>,
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: Arc<str>,
    who: Who,
    upstreams: Option<Vec<Glob>>,
    servers: Option<Vec<Glob>>,
    methods: Option<Vec<Method>>,
    pub(super) what: What,
    when: Option<Condition>,
    pub(super) effect: Effect,
    pub(super) shadow: bool,
    pub(super) message: Option<Arc<str>>,
}

/// What a rule says of a call, or could say of calls like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It is about the call.
    Yes,
    /// It is about something else; the word says what does not fit.
    No(&'static str),
    /// Its condition has no answer: of a call that is an error.
    Error(RuleError),
    /// It may be about the call: that depends on what is not known yet.
    Open,
}

impl Rule {
    /// Compiles a draft.
    ///
    /// # Errors
    /// With every flaw of its condition.
    pub(super) fn compile(draft: Draft) -> Result<Rule, Vec<Flaw>> {
        let Draft { name, who, upstreams, servers, methods, what, when, effect, shadow, message } = draft;
        let when = when.as_deref().map(|when| Condition::about(when, &what.sorts())).transpose()?;
        Ok(Rule { name, who, upstreams, servers, methods, what, when, effect, shadow, message })
    }

    /// Whether it is about what is asked. Without a call, about calls of it.
    pub(super) fn matches(&self, roots: &Roots<'_, '_>, subject: Subject<'_>) -> Match {
        if !self.what.covers(subject) || !self.speaks_of(roots.sort) {
            return Match::No("what it is about");
        }
        if !any(self.upstreams.as_deref(), roots.upstream) {
            return Match::No("upstreams");
        }
        if !any(self.servers.as_deref(), roots.server) {
            return Match::No("servers");
        }
        if let Err(key) = self.who.is(roots.asker) {
            return Match::No(key);
        }
        let open = match (&self.methods, roots.call) {
            (None, _) => false,
            (Some(methods), Some(call)) => {
                if !methods.iter().any(|method| method.name() == call.method) {
                    return Match::No("methods");
                }
                false
            }
            (Some(methods), None) => !methods.iter().any(|method| Some(*method) == subject.used_by()),
        };
        match self.holds(roots) {
            Match::Yes if open => Match::Open,
            other => other,
        }
    }

    /// A rule that names no kind of thing is about those that have what its condition looks at: one over
    /// `tool.destructive` is about tools.
    fn speaks_of(&self, sort: Option<Sort>) -> bool {
        self.when.as_ref().is_none_or(|when| when.reads.suits(sort))
    }

    fn holds(&self, roots: &Roots<'_, '_>) -> Match {
        let Some(when) = &self.when else { return Match::Yes };
        let known = roots.knows(&when.reads);
        let roots = roots.reading(&when.reads);
        let error = |error| if known { Match::Error(error) } else { Match::Open };
        if let Some(unfit) = roots.unfit() {
            return error(RuleError::new(unfit.to_string()));
        }
        match when.holds(&roots) {
            Ok(true) => Match::Yes,
            Ok(false) => Match::No("when"),
            Err(why) => error(why),
        }
    }

    /// Whether it says which methods it is about.
    pub(super) fn names_methods(&self) -> bool {
        self.methods.is_some()
    }

    /// The name, as decisions carry it.
    pub(super) fn name(&self) -> Name {
        Name::from(&*self.name)
    }
}

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'s> {
    /// A thing, by the name that rules know it by.
    Thing(Sort, &'s str),
    /// A question of an upstream.
    Ask(AskKind),
}

impl Subject<'_> {
    /// The method that things like it are there for.
    pub(super) fn used_by(self) -> Option<Method> {
        match self {
            Subject::Thing(Sort::Tool, _) => Some(Method::ToolsCall),
            Subject::Thing(Sort::Prompt, _) => Some(Method::PromptsGet),
            Subject::Thing(Sort::Resource, _) => Some(Method::ResourcesRead),
            Subject::Ask(kind) => Some(kind.method()),
        }
    }
}

impl What {
    fn is_everything(&self) -> bool {
        self.tools.is_none() && self.prompts.is_none() && self.resources.is_none() && self.asks.is_none()
    }

    /// The sorts of things it names, `None` for questions; nothing where it is about everything.
    fn sorts(&self) -> Vec<Option<Sort>> {
        let named = [
            (self.tools.is_some(), Some(Sort::Tool)),
            (self.prompts.is_some(), Some(Sort::Prompt)),
            (self.resources.is_some(), Some(Sort::Resource)),
            (self.asks.is_some(), None),
        ];
        named.into_iter().filter(|(named, _)| *named).map(|(_, sort)| sort).collect()
    }

    fn covers(&self, subject: Subject<'_>) -> bool {
        let named = |globs: &Option<Vec<Glob>>, name: &str| {
            globs.as_ref().is_some_and(|globs| globs.iter().any(|glob| glob.matches(name)))
        };
        self.is_everything()
            || match subject {
                Subject::Thing(Sort::Tool, name) => named(&self.tools, name),
                Subject::Thing(Sort::Prompt, name) => named(&self.prompts, name),
                Subject::Thing(Sort::Resource, name) => named(&self.resources, name),
                Subject::Ask(kind) => self.asks.as_ref().is_some_and(|asks| asks.contains(&kind)),
            }
    }
}

impl Who {
    /// Whether it is this principal; else the key that does not fit.
    fn is(&self, asker: &Principal) -> Result<(), &'static str> {
        let one_of = |globs: &Option<Vec<Glob>>, texts: &[Box<str>]| {
            globs.is_none() || texts.iter().any(|text| any(globs.as_deref(), text))
        };
        if !any(self.ids.as_deref(), &asker.subject) {
            return Err("principals.ids");
        }
        if !any(self.issuers.as_deref(), &asker.issuer) {
            return Err("principals.issuers");
        }
        if !one_of(&self.groups, &asker.groups) {
            return Err("principals.groups");
        }
        if !one_of(&self.scopes, &asker.scopes) {
            return Err("principals.scopes");
        }
        let claimed = |(name, globs): &(Box<str>, Vec<Glob>)| {
            asker.claims.texts(name).iter().any(|text| any(Some(globs), text))
        };
        if !self.claims.iter().all(claimed) {
            return Err("principals.claims");
        }
        Ok(())
    }
}

/// Whether one of the globs matches; without globs everything does.
fn any(globs: Option<&[Glob]>, text: &str) -> bool {
    globs.is_none_or(|globs| globs.iter().any(|glob| glob.matches(text)))
}
