//! Rules tried without a gateway: what they say of a call that nobody makes, and what each of them thinks of it.

use std::{sync::Arc, time::Instant};

use admission::{
    Call, Check, Claims, Facts, Notes, Opinion, Policy, Principal, Said, Scene, Scopes, Sort, Standing,
    Target, TenantId, Thing, Verdict,
};
use bytes::Bytes;
use config::{Asked, Config, Expectation, PolicyTest, Tenant, TestFacts, TestPrincipal};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use wire::{Budget, Frame, FrameError, Method, task::Support};

use super::{PolicyError, compile, trust};
use crate::catalog;

/// The rules of a configuration, for trying them.
#[derive(Debug)]
pub struct Trial {
    policy: Policy,
}

/// A call to try.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Who asks.
    pub principal: &'a TestPrincipal,
    /// The issuer that vouches for the principal; empty for nobody.
    pub issuer: &'a str,
    /// What is asked for.
    pub asked: &'a Asked,
    /// The arguments: a JSON object.
    pub args: &'a str,
    /// The virtual server.
    pub server: &'a str,
    /// The upstream, where its id does not stand before `__` in the name.
    pub upstream: Option<&'a str>,
    /// What is known of the tool; without it the worst is taken, and the tier is that of its upstream.
    pub facts: Option<TestFacts>,
    /// What its server says of it, as raw JSON, where that counts.
    pub annotations: Option<&'a str>,
}

impl<'a> From<&'a PolicyTest> for Question<'a> {
    fn from(test: &'a PolicyTest) -> Question<'a> {
        Question {
            principal: &test.principal,
            issuer: "",
            asked: &test.asked,
            args: &test.args,
            server: &test.server,
            upstream: test.upstream.as_deref(),
            facts: test.described.then_some(test.facts),
            annotations: None,
        }
    }
}

/// A call that cannot be tried: no client could send it.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The arguments are no JSON.
    #[error("the arguments are no JSON: {0}")]
    Arguments(serde_json::Error),
    /// What no gateway takes, such as an object with a key twice.
    #[error("the message would be refused: {0}")]
    Frame(#[from] FrameError),
}

/// What came of it.
#[derive(Debug)]
pub struct Tried {
    /// `allow`, `approve`, `deny` or `hide`.
    pub outcome: Expectation,
    /// The rule that decided; none where the default holds.
    pub rule: Option<Box<str>>,
    /// What the model would read of a denial.
    pub message: Option<Arc<str>>,
    /// What each rule says, in their order.
    pub opinions: Vec<View>,
}

/// What one rule says of the call.
#[derive(Debug, Serialize)]
pub struct View {
    /// The rule.
    pub rule: Arc<str>,
    /// What it says where it matches: `allow`, `approve` or `deny`.
    pub effect: &'static str,
    /// Whether it only records.
    pub shadow: bool,
    /// `matches`, `differs`, `error` or `depends`.
    pub verdict: &'static str,
    /// What differs, or why its condition has no answer.
    pub why: Option<String>,
}

impl From<Opinion> for View {
    fn from(Opinion { rule, effect, shadow, said }: Opinion) -> View {
        let (verdict, why) = match said {
            Said::Matches => ("matches", None),
            Said::Differs(key) => ("differs", Some(key.to_owned())),
            Said::Error(error) => ("error", Some(error.to_string())),
            Said::Depends => ("depends", None),
        };
        View { rule, effect: effect.word(), shadow, verdict, why }
    }
}

impl Trial {
    /// Compiles the rules of all tenants.
    ///
    /// # Errors
    /// When a condition does not compile; a configuration that was checked has none such.
    pub fn of(config: &Config) -> Result<Trial, PolicyError> {
        Ok(Trial { policy: compile(config)? })
    }

    /// What the rules of a tenant say of a call, and the scopes that its tool asks for, by the same functions that judge real
    /// ones. `now` is the wall clock, in seconds since 1970.
    ///
    /// # Errors
    /// When the arguments are no JSON, or larger than a client may send.
    pub fn try_call(&self, tenant: &Tenant, question: &Question<'_>, now: u64) -> Result<Tried, TrialError> {
        let call = made_up(tenant, question, now)?;
        let mut notes = Notes::default();
        let (outcome, rule, message) = match self.policy.judge(&call, &mut notes) {
            Verdict::Allow => match Scopes.judge(&call, &mut notes) {
                Verdict::Deny(refusal) => (Expectation::Deny, Some(refusal.rule), None),
                Verdict::Allow | Verdict::Hold(_) => (Expectation::Allow, notes.rule, None),
            },
            Verdict::Hold(rule) => (Expectation::Approve, Some(rule), None),
            Verdict::Deny(refusal) if refusal.hides => (Expectation::Hide, Some(refusal.rule), None),
            Verdict::Deny(refusal) => (Expectation::Deny, Some(refusal.rule), refusal.message),
        };
        let opinions = self.policy.opinions(&call).into_iter().map(View::from).collect();
        Ok(Tried { outcome, rule, message, opinions })
    }
}

impl Tried {
    /// Whether it is what a test wants. A denial that hides is a denial.
    pub fn meets(&self, wanted: Expectation) -> bool {
        self.outcome == wanted || (wanted == Expectation::Deny && self.outcome == Expectation::Hide)
    }

    /// The rule that decided, or `default`.
    pub fn decided_by(&self) -> &str {
        self.rule.as_deref().unwrap_or("default")
    }
}

/// The call a question is about, as the gateway would have it before its checks.
fn made_up(tenant: &Tenant, question: &Question<'_>, now: u64) -> Result<Call, TrialError> {
    let (sort, method, name) = match question.asked {
        Asked::Tool(name) => (Sort::Tool, Method::ToolsCall, name),
        Asked::Prompt(name) => (Sort::Prompt, Method::PromptsGet, name),
        Asked::Resource(uri) => (Sort::Resource, Method::ResourcesRead, uri),
    };
    let (prefix, native) = match sort {
        Sort::Resource => ("", name.as_str()),
        Sort::Tool | Sort::Prompt => name.split_once("__").unwrap_or(("", name)),
    };
    let upstream = question.upstream.unwrap_or(prefix);
    let configured = tenant.upstreams.iter().find(|one| *one.id == *upstream);
    let unknown = match sort {
        Sort::Resource => Facts::resource(name),
        Sort::Tool | Sort::Prompt => Facts::unknown(name.as_str()),
    };
    let unknown = match configured {
        Some(upstream) => catalog::configured(upstream, (sort, native), unknown),
        None => unknown,
    };
    let facts = match question.facts {
        Some(said) => Facts {
            trust: trust(said.trust),
            destructive: said.destructive,
            read_only: said.read_only,
            egress: said.egress,
            annotations: question.annotations.map(Into::into),
            ..unknown
        },
        None => unknown,
    };
    let who = question.principal;
    let principal = Principal {
        groups: who.groups.iter().map(|group| group.as_str().into()).collect(),
        scopes: who.scopes.iter().map(|scope| scope.as_str().into()).collect(),
        claims: who.claims.as_deref().map(Claims::of).unwrap_or_default(),
        ..Principal::named(
            TenantId::new(Arc::clone(&tenant.name)),
            question.issuer.into(),
            who.id.as_str().into(),
        )
    };
    Ok(Call {
        principal: Arc::new(principal),
        method,
        target: Target::Thing(Arc::new(Thing {
            upstream: upstream.into(),
            sort,
            exposed: name.as_str().into(),
            native: native.into(),
            digest: None,
            standing: Standing::Offered,
            mirrors: Arc::default(),
            tasks: Support::default(),
            facts: Arc::new(facts),
        })),
        frame: frame(method, sort, name, question.args)?,
        received: Instant::now(),
        grant: None,
        scene: Scene::at(question.server.into(), now),
    })
}

/// The arguments stay as they are written: a number that CEL cannot hold exactly is one here too.
fn frame(method: Method, sort: Sort, name: &str, args: &str) -> Result<Frame, TrialError> {
    let args: &RawValue = serde_json::from_str(args).map_err(TrialError::Arguments)?;
    let (method, name) = (method.name(), json!(name));
    let params = match sort {
        Sort::Resource => format!(r#"{{"uri":{name}}}"#),
        Sort::Tool | Sort::Prompt => format!(r#"{{"name":{name},"arguments":{args}}}"#),
    };
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    Ok(Frame::parse(Bytes::from(message), &Budget::CLIENT)?)
}
