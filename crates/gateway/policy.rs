//! Configured rules → compiled ones, and what a condition that does not compile is told for.

use std::{collections::HashMap, sync::Arc};

use admission::{AskKind, Draft, Effect, Glob, Policy, Rules, Sort, TenantId, Trust, What, Who};
use config::{Asking, Config, Deed, Mode, Pattern, PolicyRule};
use wire::Method;

mod known;
mod trial;

pub use known::ToolFacts;
pub use trial::{Question, Trial, TrialError, Tried, View};

/// The rules of all tenants did not compile; the configuration was not checked before.
#[derive(Debug, thiserror::Error)]
#[error("tenant `{tenant}`: rule `{rule}` {why}")]
pub struct PolicyError {
    tenant: Arc<str>,
    rule: Arc<str>,
    why: String,
}

/// Whether the condition of a rule about such things compiles, for whoever checks a configuration.
///
/// # Errors
/// With everything that is wrong with it.
pub fn check_condition(text: &str, about: &[config::Subject]) -> Result<(), Vec<config::Flaw>> {
    let sort = |subject: &config::Subject| match subject {
        config::Subject::Tool => Some(Sort::Tool),
        config::Subject::Prompt => Some(Sort::Prompt),
        config::Subject::Resource => Some(Sort::Resource),
        config::Subject::Ask => None,
    };
    let sorts: Vec<_> = about.iter().map(sort).collect();
    admission::check_condition(text, &sorts).map_err(|flaws| flaws.into_iter().map(told).collect())
}

/// Whether a glob over the URIs of resources can match one.
///
/// # Errors
/// With what keeps it from that.
pub fn check_resources(glob: &str) -> Result<(), config::Flaw> {
    admission::resources_glob(glob).map(|_| ()).map_err(told)
}

fn told(flaw: admission::Flaw) -> config::Flaw {
    config::Flaw { why: flaw.why, hint: flaw.hint, at: flaw.at }
}

/// Compiles the rules of all tenants.
///
/// # Errors
/// When a condition does not compile.
pub(crate) fn compile(config: &Config) -> Result<Policy, PolicyError> {
    let mut tenants = HashMap::new();
    for tenant in &config.tenants {
        let Some(policy) = &tenant.policy else { continue };
        let drafts = policy.rules.iter().map(draft).collect();
        let rules = Rules::compile(drafts, effect(policy.default)).map_err(|flaws| {
            let (position, why) =
                flaws.into_iter().next().map_or((0, String::new()), |(at, flaw)| (at, flaw.why));
            let rule = policy.rules.get(position).map_or_else(Arc::default, |rule| Arc::clone(&rule.name));
            PolicyError { tenant: Arc::clone(&tenant.name), rule, why }
        })?;
        tenants.insert(TenantId::new(Arc::clone(&tenant.name)), rules);
    }
    Ok(Policy::new(tenants))
}

fn draft(rule: &PolicyRule) -> Draft {
    let who = &rule.principals;
    Draft {
        name: Arc::clone(&rule.name),
        who: Who {
            ids: globs(who.ids.as_deref()),
            groups: globs(who.groups.as_deref()),
            scopes: globs(who.scopes.as_deref()),
            issuers: globs(who.issuers.as_deref()),
            claims: who.claims.iter().map(|(name, list)| (name.as_str().into(), each(list))).collect(),
        },
        upstreams: globs(rule.upstreams.as_deref()),
        servers: globs(rule.servers.as_deref()),
        methods: rule.methods.as_ref().map(|deeds| deeds.iter().map(|deed| method(*deed)).collect()),
        what: What {
            tools: globs(rule.tools.as_deref()),
            prompts: globs(rule.prompts.as_deref()),
            resources: rule.resources.as_deref().map(resources),
            asks: rule.asks.as_ref().map(|asks| asks.iter().map(|asks| ask_kind(*asks)).collect()),
        },
        when: rule.when.clone(),
        effect: effect(rule.effect),
        shadow: rule.mode == Mode::Shadow,
        message: rule.message.clone(),
    }
}

fn globs(patterns: Option<&[Pattern]>) -> Option<Vec<Glob>> {
    patterns.map(each)
}

fn each(patterns: &[Pattern]) -> Vec<Glob> {
    patterns.iter().map(glob).collect()
}

/// A glob that was read.
pub(crate) fn glob(pattern: &Pattern) -> Glob {
    Glob::new(&pattern.text, pattern.expression().clone())
}

/// Globs over the URIs of resources, as those are judged. One that matches nothing was told of when it was checked.
fn resources(patterns: &[Pattern]) -> Vec<Glob> {
    let judged = |pattern: &Pattern| {
        admission::resources_glob(&pattern.text).ok().and_then(|glob| Pattern::glob(&glob).ok())
    };
    let patterns: Vec<Pattern> =
        patterns.iter().map(|pattern| judged(pattern).unwrap_or_else(|| pattern.clone())).collect();
    each(&patterns)
}

fn effect(effect: config::Effect) -> Effect {
    match effect {
        config::Effect::Allow => Effect::Allow,
        config::Effect::Approve => Effect::Approve,
        config::Effect::Deny => Effect::Deny,
    }
}

fn method(deed: Deed) -> Method {
    match deed {
        Deed::Call => Method::ToolsCall,
        Deed::Get => Method::PromptsGet,
        Deed::Read => Method::ResourcesRead,
        Deed::Subscribe => Method::ResourcesSubscribe,
        Deed::Complete => Method::Complete,
    }
}

fn ask_kind(asking: Asking) -> AskKind {
    match asking {
        Asking::Sampling => AskKind::Sampling,
        Asking::Elicitation => AskKind::Elicitation,
        Asking::Roots => AskKind::Roots,
    }
}

/// The tier of an upstream, as rules know it.
pub(crate) fn trust(trust: config::Trust) -> Trust {
    match trust {
        config::Trust::Untrusted => Trust::Untrusted,
        config::Trust::Standard => Trust::Standard,
        config::Trust::Trusted => Trust::Trusted,
    }
}

#[cfg(test)]
mod tests;
