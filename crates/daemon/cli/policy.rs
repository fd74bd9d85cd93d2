//! `portcullis policy`: the rules of a configuration tried, without a gateway or on the tools of one that runs.

use std::{
    fmt::Write as _,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use clap::{Args, Subcommand};
use config::{Asked, Config, Expectation, Loaded, PolicyTest, Tenant, TestFacts, TestPrincipal, Trust};
use gateway::{Question, ToolFacts, Trial, Tried};
use http::Method;
use serde_json::{Value, json, value::RawValue};

use crate::{
    cli::{ConfigFile, Form, Output, output, serve},
    client,
    failure::Failure,
    key, run,
};

/// What is asked of the rules.
#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Run the tests that stand beside the rules
    Test {
        #[command(flatten)]
        known: Known,
        #[command(flatten)]
        file: ConfigFile,
        #[command(flatten)]
        output: Output,
    },
    /// What each rule says of one call, and why
    Explain(Box<ExplainArgs>),
}

/// Where it is known what tools are like, if not from what is said of them.
#[derive(Debug, Args)]
pub(super) struct Known {
    /// The operators' listener of a running gateway: what it knows of its tools counts, where nothing else is said
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The file of the operators' key there [default: `admin.key` in the state folder that the configuration names]
    #[arg(long, value_name = "FILE", requires = "url")]
    key_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The tool, as clients see it
    #[arg(long, value_name = "NAME", required_unless_present_any = ["prompt", "resource"], conflicts_with_all = ["prompt", "resource"])]
    tool: Option<String>,
    /// The prompt, as clients see it
    #[arg(long, value_name = "NAME", conflicts_with = "resource")]
    prompt: Option<String>,
    /// The resource, as its server writes its URI; say which server with --upstream
    #[arg(long, value_name = "URI")]
    resource: Option<String>,
    /// The arguments, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Who asks [default: somebody without a name]
    #[arg(long, default_value = "")]
    principal: String,
    /// The issuer that vouches for them
    #[arg(long, value_name = "URL", default_value = "")]
    issuer: String,
    /// A group of theirs; may be repeated
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// A scope of their token; may be repeated
    #[arg(long = "scope", value_name = "NAME")]
    scopes: Vec<String>,
    /// The claims of their token, a JSON object [default: none]
    #[arg(long, value_name = "JSON")]
    claims: Option<String>,
    /// The virtual server
    #[arg(long, value_name = "NAME", default_value = "default")]
    server: String,
    /// The upstream [default: what stands before `__` in the name]
    #[arg(long, value_name = "ID")]
    upstream: Option<String>,
    /// What is known of the tool: `destructive=false`, `readOnly=true`, `egress=true`, `trust=trusted`; may be
    /// repeated [default: the worst, and the tier of its upstream]
    #[arg(long = "fact", conflicts_with = "url", value_name = "KEY=VALUE", value_parser = fact)]
    facts: Vec<Fact>,
    /// The tenant [default: the only one]
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    known: Known,
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    output: Output,
}

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
        "trust" => Fact::Trust(
            tier(value).ok_or_else(|| "`trust` is `untrusted`, `standard` or `trusted`".to_owned())?,
        ),
        _ => return Err("known facts are `destructive`, `readOnly`, `egress` and `trust`".to_owned()),
    })
}

fn tier(word: &str) -> Option<Trust> {
    [Trust::Untrusted, Trust::Standard, Trust::Trusted].into_iter().find(|tier| tier.word() == word)
}

/// Does what was asked of the rules.
pub(super) fn run(command: PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::Test { known, file, output } => test(&known, file, output.output),
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

impl Known {
    /// What the gateway knows of the tools of a tenant; nothing where none is named.
    fn tools(&self, config: &Config, tenant: &str) -> Result<Vec<ToolFacts>, Failure> {
        let Some(url) = &self.url else { return Ok(Vec::new()) };
        let file = self.key_file.clone().unwrap_or_else(|| config.state_dir.join(key::FILE));
        let url = format!("{}/admin/v1/tools/{tenant}", url.trim_end_matches('/'));
        let asked = client::ask(Method::GET, &url, Some(key::header(&file)?), Bytes::new());
        let page = run::on_one_thread(asked)?;
        serde_json::from_slice(&page).map_err(|error| {
            Failure::unavailable(format!("{url} does not tell what tools are like: {error}"))
        })
    }
}

/// Runs all tests of all tenants.
fn test(known: &Known, file: ConfigFile, form: Form) -> Result<(), Failure> {
    let (config, trial) = load(file)?;
    let mut tests: Vec<(&Tenant, &PolicyTest, Option<ToolFacts>)> = Vec::new();
    for tenant in &config.tenants {
        let Some(policy) = tenant.policy.as_ref().filter(|policy| !policy.tests.is_empty()) else { continue };
        let tools = known.tools(&config, &tenant.name)?;
        tests.extend(policy.tests.iter().map(|test| (tenant, test, known_of(&tools, &test.asked).cloned())));
    }
    let (mut failed, mut report) = (Vec::new(), Vec::new());
    for (tenant, test, tool) in &tests {
        let asked = Question::from(*test);
        let question = if test.described { asked } else { of_the_gateway(asked, tool.as_ref()) };
        let tried = trial.try_call(tenant, &question, now());
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
        annotations: None,
    };
    let tools = args.known.tools(&config, &tenant.name)?;
    let question = of_the_gateway(question, known_of(&tools, &asked));
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

fn known_of<'a>(tools: &'a [ToolFacts], asked: &Asked) -> Option<&'a ToolFacts> {
    match asked {
        Asked::Tool(name) => tools.iter().find(|tool| tool.name == *name),
        Asked::Prompt(_) | Asked::Resource(_) => None,
    }
}

/// The same question, with what a gateway knows of the tool.
fn of_the_gateway<'a>(question: Question<'a>, tool: Option<&'a ToolFacts>) -> Question<'a> {
    let Some(tool) = tool else { return question };
    let facts = TestFacts {
        destructive: tool.destructive,
        read_only: tool.read_only,
        egress: tool.egress,
        trust: tier(&tool.trust).unwrap_or(Trust::Untrusted),
    };
    Question { facts: Some(facts), annotations: tool.annotations.as_deref().map(RawValue::get), ..question }
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
