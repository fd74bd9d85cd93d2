//! What the rules of a tenant mean.

use std::sync::Arc;

use crate::filter::Pattern;

use super::Trust;

/// The rules of a tenant, of all its files together.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What holds where no rule matches.
    pub default: Effect,
    /// The rules, in the order of the files and within them.
    pub rules: Vec<PolicyRule>,
    /// What they must say.
    pub tests: Vec<PolicyTest>,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The call may leave.
    Allow,
    /// A person must say yes first.
    Approve,
    /// It may not.
    Deny,
}

/// Whether a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It does.
    Enforce,
    /// It only records what it would have said.
    Shadow,
}

/// What upstreams ask of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asking {
    /// What the client's model says.
    Sampling,
    /// What its user says.
    Elicitation,
    /// Which folders it works in.
    Roots,
}

/// The kinds of things that rules are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Tools.
    Tool,
    /// Prompts.
    Prompt,
    /// Resources.
    Resource,
    /// Questions of upstreams.
    Ask,
}

/// What is done with a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    /// `tools/call`
    Call,
    /// `prompts/get`
    Get,
    /// `resources/read`
    Read,
    /// `resources/subscribe`
    Subscribe,
    /// `completion/complete`
    Complete,
}

/// What a test expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expectation {
    /// It may leave.
    Allow,
    /// A person must say yes first.
    Approve,
    /// It may not, hidden or not.
    Deny,
    /// It may not, and is not even shown.
    Hide,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct PolicyRule {
    /// The name, unique in the tenant.
    pub name: Arc<str>,
    /// Whom it is about.
    pub principals: Principals,
    /// The upstreams it is about.
    pub upstreams: Option<Vec<Pattern>>,
    /// The virtual servers it is about.
    pub servers: Option<Vec<Pattern>>,
    /// What is done.
    pub methods: Option<Vec<Deed>>,
    /// The tools it is about.
    pub tools: Option<Vec<Pattern>>,
    /// The prompts it is about.
    pub prompts: Option<Vec<Pattern>>,
    /// The resources it is about.
    pub resources: Option<Vec<Pattern>>,
    /// The questions it is about.
    pub asks: Option<Vec<Asking>>,
    /// The condition, in CEL; it compiles.
    pub when: Option<String>,
    /// What it says.
    pub effect: Effect,
    /// Whether it decides.
    pub mode: Mode,
    /// Who may say yes where a person must.
    pub approvers: Option<Approvers>,
    /// What the model reads.
    pub message: Option<Arc<str>>,
}

/// Who may say yes.
#[derive(Clone, Debug)]
pub struct Approvers {
    /// Names.
    pub ids: Option<Vec<Pattern>>,
    /// Groups.
    pub groups: Option<Vec<Pattern>>,
}

/// Whom a rule is about.
#[derive(Clone, Debug, Default)]
pub struct Principals {
    /// Names.
    pub ids: Option<Vec<Pattern>>,
    /// Groups.
    pub groups: Option<Vec<Pattern>>,
    /// Scopes.
    pub scopes: Option<Vec<Pattern>>,
    /// Issuers.
    pub issuers: Option<Vec<Pattern>>,
    /// Claims by name.
    pub claims: Vec<(String, Vec<Pattern>)>,
}

/// One thing that the rules must say.
#[derive(Clone, Debug)]
pub struct PolicyTest {
    /// `FILE:LINE`, for reports.
    pub place: String,
    /// Who asks.
    pub principal: TestPrincipal,
    /// What is asked for.
    pub asked: Asked,
    /// The arguments, as JSON.
    pub args: String,
    /// The virtual server.
    pub server: String,
    /// The upstream, where its id does not stand in the name.
    pub upstream: Option<String>,
    /// What is known of the tool.
    pub facts: TestFacts,
    /// Whether the test itself says what is known of the tool.
    pub described: bool,
    /// What must come of it.
    pub expect: Expectation,
}

/// What a test asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A tool, as clients see it.
    Tool(String),
    /// A prompt, as clients see it.
    Prompt(String),
    /// A resource, as its server writes it.
    Resource(String),
}

/// Who asks in a test.
#[derive(Clone, Debug)]
pub struct TestPrincipal {
    /// The name.
    pub id: String,
    /// The groups.
    pub groups: Vec<String>,
    /// The scopes.
    pub scopes: Vec<String>,
    /// The claims, as JSON.
    pub claims: Option<String>,
}

/// What is known of a tool in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestFacts {
    /// Whether it may destroy something.
    pub destructive: bool,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it carries data out.
    pub egress: bool,
    /// How far its upstream is trusted.
    pub trust: Trust,
}
