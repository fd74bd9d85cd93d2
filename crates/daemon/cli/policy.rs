//! `portcullis policy`: the rules of a configuration tried without a gateway.

use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use config::{Asked, Config, Expectation, Loaded, PolicyTest, Tenant, TestFacts, TestPrincipal, Trust};
use gateway::{Question, Trial, Tried};
use serde_json::{Value, json};

use crate::{
    cli::{ConfigFile, ExplainArgs, Form, PolicyCommand, output, serve},
    failure::Failure,
};

/// What is said of a tool on the command line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fact {
    Destructive(bool),
    ReadOnly(bool),
    Egress(bool),
    Trust(Trust),
}

/// One fact, `KEY=VALUE`.
pub(super) fn fact(text: &str) -> Result<Fact, String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    let truth = || match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{key}` is `true` or `false`")),
    };
    Ok(match key {
        "destructive" => Fact::Destructive(truth()?),
        "readOnly" => Fact::ReadOnly(truth()?),
        "egress" => Fact::Egress(truth()?),
        "trust" => Fact::Trust(match value {
            "untrusted" => Trust::Untrusted,
            "standard" => Trust::Standard,
            "trusted" => Trust::Trusted,
            _ => return Err("`trust` is `untrusted`, `standard` or `trusted`".to_owned()),
        }),
        _ => return Err("known facts are `destructive`, `readOnly`, `egress` and `trust`".to_owned()),
    })
}

/// Does what was asked of the rules.
pub(super) fn run(command: PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::Test { file, output } => test(file, output.output),
        PolicyCommand::Explain(args) => explain(*args),
    }
}

fn load(file: ConfigFile) -> Result<(Config, Trial), Failure> {
    let Loaded { config, warnings, .. } = serve::load(&serve::find(file.config)?)?;
    output::complain(config::render(&warnings).trim_end());
    let trial = Trial::of(&config).map_err(|error| Failure::config(error.to_string()))?;
    Ok((config, trial))
}

/// Rules about the time of day are tried at this moment.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Runs all tests of all tenants.
fn test(file: ConfigFile, form: Form) -> Result<(), Failure> {
    let (config, trial) = load(file)?;
    let tests: Vec<(&Tenant, &PolicyTest)> = config
        .tenants
        .iter()
        .flat_map(|tenant| {
            tenant.policy.iter().flat_map(move |policy| policy.tests.iter().map(move |test| (tenant, test)))
        })
        .collect();
    let (mut failed, mut report) = (Vec::new(), Vec::new());
    for &(tenant, test) in &tests {
        let tried = trial.try_call(tenant, &Question::from(test), now());
        let (got, rule, passed) = match &tried {
            Ok(tried) => (word(tried.outcome).to_owned(), tried.decided_by(), tried.meets(test.expect)),
            Err(error) => (error.to_string(), "", false),
        };
        if !passed {
            let (place, thing, want) = (&test.place, name(&test.asked), word(test.expect));
            failed.push(match &tried {
                Ok(_) => format!("{place}: {thing}: expected {want}, got {got} by `{rule}`"),
                Err(_) => format!("{place}: {thing}: {got}"),
            });
        }
        report.push(json!({
            "place": test.place, "tenant": tenant.name, "thing": name(&test.asked), "passed": passed,
            "expected": word(test.expect), "got": got, "rule": rule,
        }));
    }
    if form == Form::Json {
        output::print(&output::harmless_json(&Value::from(report).to_string()));
    }
    let several = |count: usize| format!("{count} {}", if count == 1 { "test" } else { "tests" });
    if !failed.is_empty() {
        let of = format!("{} of {} failed", failed.len(), several(tests.len()));
        return Err(Failure::answer(format!("{}\n{of}", failed.join("\n"))));
    }
    if form == Form::Table {
        let none = "no tests: write `tests:` beside the rules".to_owned();
        output::print(&if tests.is_empty() { none } else { format!("ok: {}", several(tests.len())) });
    }
    Ok(())
}

/// What each rule says of one call. A denial is an answer like any other: the exit code is 0.
fn explain(args: ExplainArgs) -> Result<(), Failure> {
    let (config, trial) = load(args.file)?;
    let tenant = tenant(&config, args.tenant.as_deref())?;
    if !tenant.virtual_servers.iter().any(|server| *server.name == *args.server) {
        return Err(Failure::usage(format!(
            "tenant `{}` has no virtual server `{}`",
            tenant.name, args.server
        )));
    }
    let asked = match (args.tool, args.prompt, args.resource) {
        (Some(tool), ..) => Asked::Tool(tool),
        (None, Some(prompt), _) => Asked::Prompt(prompt),
        (None, None, resource) => Asked::Resource(resource.unwrap_or_default()),
    };
    let principal =
        TestPrincipal { id: args.principal, groups: args.groups, scopes: args.scopes, claims: args.claims };
    let question = Question {
        principal: &principal,
        issuer: &args.issuer,
        asked: &asked,
        args: &args.args,
        server: &args.server,
        upstream: args.upstream.as_deref(),
        facts: facts(&args.facts),
    };
    let tried =
        trial.try_call(tenant, &question, now()).map_err(|error| Failure::usage(error.to_string()))?;
    match args.output.output {
        Form::Json => output::print(&output::harmless_json(&machine(&tried).to_string())),
        Form::Table => output::print(&output::harmless(&readable(tenant, &tried))),
    }
    Ok(())
}

fn tenant<'a>(config: &'a Config, named: Option<&str>) -> Result<&'a Tenant, Failure> {
    let names = || config.tenants.iter().map(|tenant| &*tenant.name).collect::<Vec<_>>().join(", ");
    match (named, config.tenants.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(Failure::usage(format!("say which tenant with --tenant: {}", names()))),
        (Some(name), tenants) => tenants
            .iter()
            .find(|tenant| *tenant.name == *name)
            .ok_or_else(|| Failure::usage(format!("no tenant `{name}`: there is {}", names()))),
    }
}

/// What nothing is said of stays the worst.
fn facts(said: &[Fact]) -> Option<TestFacts> {
    let mut facts = TestFacts { destructive: true, read_only: false, egress: false, trust: Trust::Standard };
    for fact in said {
        match *fact {
            Fact::Destructive(is) => facts.destructive = is,
            Fact::ReadOnly(is) => facts.read_only = is,
            Fact::Egress(is) => facts.egress = is,
            Fact::Trust(tier) => facts.trust = tier,
        }
    }
    (!said.is_empty()).then_some(facts)
}

fn machine(tried: &Tried) -> Value {
    json!({
        "outcome": word(tried.outcome), "rule": tried.decided_by(), "message": tried.message, "rules": tried.opinions,
    })
}

fn readable(tenant: &Tenant, tried: &Tried) -> String {
    let Some(_) = &tenant.policy else {
        return format!("allow: tenant `{}` has no rules", tenant.name);
    };
    let mut text = format!("{} by `{}`\n", word(tried.outcome), tried.decided_by());
    if let Some(message) = &tried.message {
        let _ = writeln!(text, "its model reads: {message}");
    }
    for view in &tried.opinions {
        let shadow = if view.shadow { ", in shadow" } else { "" };
        let why = match (view.verdict, &view.why) {
            ("differs", Some(key)) => format!("does not match: {key}"),
            ("error", Some(why)) => format!("has no answer, which denies: {why}"),
            (verdict, _) => verdict.to_owned(),
        };
        let _ = writeln!(text, "  {} ({}{shadow}): {why}", view.rule, view.effect);
    }
    text
}

fn name(asked: &Asked) -> &str {
    match asked {
        Asked::Tool(name) | Asked::Prompt(name) | Asked::Resource(name) => name,
    }
}

fn word(outcome: Expectation) -> &'static str {
    match outcome {
        Expectation::Allow => "allow",
        Expectation::Approve => "approve",
        Expectation::Deny => "deny",
        Expectation::Hide => "hide",
    }
}
