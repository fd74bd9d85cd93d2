//! Configured limits → compiled ones. They hold nothing of anybody's use: that is kept under their names.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use admission::{Call, Glob, Sort, Target, TenantId};
use config::{Config, Counted, LimitRule, Per, TenantLimits};
use wire::{Method, Plan};

use super::{
    bucket::Quota,
    meter::{Kept, Subjects},
    runaway::Watch,
};
use crate::policy;

/// Calls of a principal that may run at a time, unless a rule says otherwise.
const RUNNING_PER_PRINCIPAL: u32 = 256;
/// The same of a tenant: a quarter of what may run in all, so that no tenant can use that up.
const RUNNING_PER_TENANT: u32 = 2048;

/// The limits of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    tenants: HashMap<TenantId, TenantRules>,
}

/// The limits of one tenant.
#[derive(Debug)]
pub(crate) struct TenantRules {
    pub(super) rules: Vec<Rule>,
    /// Sessions that a principal may have.
    pub(super) sessions: Option<usize>,
    pub(super) watch: Option<Watch>,
    pub(super) taint: Duration,
    /// Looked up once.
    pub(super) kept: OnceLock<Arc<Kept>>,
}

/// One limit.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: Arc<str>,
    pub(super) per: Per,
    what: What,
    upstream: Option<Arc<str>>,
    tool: Option<Glob>,
    server: Option<Arc<str>>,
    pub(super) rate: Option<Quota>,
    pub(super) concurrent: Option<u32>,
    pub(super) bytes_in: Option<Quota>,
    pub(super) bytes_out: Option<Quota>,
    pub(super) budget: Option<u32>,
    pub(super) streams: Option<u32>,
    subjects: OnceLock<Arc<Subjects>>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// As configured.
    These(Counted),
    /// Whatever runs at an upstream.
    Running,
}

impl Rules {
    /// Compiles the limits of all tenants.
    pub(crate) fn compile(config: &Config) -> Rules {
        let tenants = config.tenants.iter();
        Rules::of_tenants(tenants.map(|tenant| (Arc::clone(&tenant.name), &tenant.limits)))
    }

    /// Compiles the limits of these tenants.
    pub(super) fn of_tenants<'a>(tenants: impl Iterator<Item = (Arc<str>, &'a TenantLimits)>) -> Rules {
        let tenant = |(name, limits)| (TenantId::new(name), TenantRules::new(limits));
        Rules { tenants: tenants.map(tenant).collect() }
    }

    pub(crate) fn of(&self, tenant: &TenantId) -> Option<&TenantRules> {
        self.tenants.get(tenant)
    }

    /// Sessions that a principal of this tenant may have, where a limit says so.
    pub(crate) fn sessions(&self, tenant: &TenantId) -> Option<usize> {
        self.of(tenant)?.sessions
    }
}

impl TenantRules {
    fn new(limits: &TenantLimits) -> TenantRules {
        let mut rules: Vec<Rule> = limits.rules.iter().map(Rule::new).collect();
        rules.extend(defaults(&limits.rules));
        TenantRules {
            rules,
            sessions: limits.rules.iter().filter_map(|rule| rule.sessions).min(),
            watch: limits.runaway.as_ref().map(Watch::new),
            taint: limits.taint,
            kept: OnceLock::new(),
        }
    }

    /// Every limit by its name, those included that nobody wrote, and how many are counted apart by it now.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, usize)> {
        let counted = |rule: &Rule| rule.subjects.get().map_or(0, |subjects| subjects.len());
        self.rules.iter().map(move |rule| (&*rule.name, counted(rule)))
    }

    /// Whether agents that go in circles are held up.
    pub(crate) fn watches(&self) -> bool {
        self.watch.is_some()
    }
}

/// The bounds that hold where no rule without a selector says how many run at a time.
fn defaults(written: &[LimitRule]) -> impl Iterator<Item = Rule> {
    let said = |per| {
        written.iter().any(|rule| {
            let all = rule.method == Counted::Things
                && rule.upstream.is_none()
                && rule.tool.is_none()
                && rule.server.is_none();
            all && rule.per == per && rule.concurrent.is_some()
        })
    };
    let bound = |name: &str, per, most| (!said(per)).then(|| Rule::running(name, per, most));
    let principal = bound("running-principal", Per::Principal, RUNNING_PER_PRINCIPAL);
    let tenant = bound("running-tenant", Per::Tenant, RUNNING_PER_TENANT);
    principal.into_iter().chain(tenant)
}

impl Rule {
    fn new(rule: &LimitRule) -> Rule {
        Rule {
            name: Arc::clone(&rule.name),
            per: rule.per,
            what: What::These(rule.method),
            upstream: rule.upstream.clone(),
            tool: rule.tool.as_ref().map(policy::glob),
            server: rule.server.clone(),
            rate: rule.rate.map(Quota::new),
            concurrent: rule.concurrent,
            bytes_in: rule.bytes_in.map(Quota::new),
            bytes_out: rule.bytes_out.map(Quota::new),
            budget: rule.budget,
            streams: rule.streams,
            subjects: OnceLock::new(),
        }
    }

    fn running(name: &str, per: Per, most: u32) -> Rule {
        Rule {
            name: name.into(),
            per,
            what: What::Running,
            upstream: None,
            tool: None,
            server: None,
            rate: None,
            concurrent: Some(most),
            bytes_in: None,
            bytes_out: None,
            budget: None,
            streams: None,
            subjects: OnceLock::new(),
        }
    }

    pub(super) fn subjects(&self, kept: &Kept) -> &Subjects {
        self.subjects.get_or_init(|| kept.subjects(&self.name))
    }

    /// Whether it counts calls at all.
    pub(super) fn counts_calls(&self) -> bool {
        self.rate.is_some()
            || self.concurrent.is_some()
            || self.bytes_in.is_some()
            || self.bytes_out.is_some()
            || self.budget.is_some()
    }

    /// Whether it counts this call.
    pub(super) fn counts(&self, call: &Call) -> bool {
        let what = match self.what {
            What::Running => matches!(call.target, Target::Thing(_) | Target::Missing(..)),
            What::These(counted) => counts(counted, call.method),
        };
        let here = || self.server.as_ref().is_none_or(|server| *server == call.scene.server);
        what && here() && self.selects(&call.target)
    }

    fn selects(&self, target: &Target) -> bool {
        match target {
            Target::Thing(thing) => {
                let named = |glob: &Glob| thing.sort == Sort::Tool && glob.matches(&thing.exposed);
                self.upstream.as_ref().is_none_or(|upstream| *upstream == thing.upstream)
                    && self.tool.as_ref().is_none_or(named)
            }
            Target::Ourselves | Target::Listing(_) | Target::Missing(..) => !self.is_selective(),
        }
    }

    /// Whether what it counts depends on the tool, or on whose it is.
    pub(super) fn is_selective(&self) -> bool {
        self.upstream.is_some() || self.tool.is_some() || matches!(self.per, Per::Upstream | Per::Tool)
    }

    /// Whether it counts what this upstream asks.
    pub(super) fn counts_question(&self, method: Counted, upstream: &str) -> bool {
        self.what == What::These(method) && self.upstream.as_deref().is_none_or(|only| only == upstream)
    }
}

fn counts(counted: Counted, method: Method) -> bool {
    match counted {
        Counted::Things => is_call(method) || is_read(method),
        Counted::Calls => is_call(method),
        Counted::Reads => is_read(method),
        Counted::Lists => matches!(method.row().plan, Plan::List(_)),
        Counted::ToolsCall => method == Method::ToolsCall,
        Counted::PromptsGet => method == Method::PromptsGet,
        Counted::ResourcesRead => method == Method::ResourcesRead,
        Counted::ResourcesSubscribe => method == Method::ResourcesSubscribe,
        Counted::Complete => method == Method::Complete,
        Counted::Initialize => method == Method::Initialize,
        Counted::Sampling | Counted::Elicitation | Counted::Roots => false,
    }
}

fn is_call(method: Method) -> bool {
    matches!(method, Method::ToolsCall | Method::PromptsGet | Method::Complete)
}

fn is_read(method: Method) -> bool {
    matches!(method, Method::ResourcesRead | Method::ResourcesSubscribe)
}
