//! What `check` lets pass compiles, and decides whatever it is asked.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use admission::{
    AskKind, Call, Checks, Claims, Decision, Facts, Principal, Scene, Sort, Standing, Target, TenantId,
    Thing, Trust,
};
use bytes::Bytes;
use config::{Files, Flaw, Loaded, Problem, Subject};
use proptest::prelude::*;
use wire::{Budget, Frame, Method};

/// A configuration with one policy file.
struct Memory(String);

impl Files for Memory {
    fn condition(&self, text: &str, about: &[Subject]) -> Result<(), Vec<Flaw>> {
        super::check_condition(text, about)
    }

    fn resources(&self, glob: &str) -> Result<(), Flaw> {
        super::check_resources(glob)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        Ok(match path.to_str() {
            Some("/p.yaml") => "tenants: t.yaml\nstate_dir: /nowhere\n".to_owned(),
            Some("/t.yaml") => {
                "tenant: acme\nupstreams:\n  files: { command: npx }\npolicies: [a.yaml]\n".to_owned()
            }
            _ => self.0.clone(),
        })
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![pattern.to_owned()])
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn secret(&self, _: &str) -> Option<String> {
        None
    }

    fn program(&self, _: &str, _: Option<&Path>) -> Option<PathBuf> {
        Some(PathBuf::from("/usr/bin/npx"))
    }
}

fn load(rules: &str) -> Result<Loaded, Vec<Problem>> {
    config::load(Path::new("/p.yaml"), &Memory(rules.to_owned()))
}

fn checks(rules: &str) -> Checks {
    let loaded = load(rules).unwrap_or_else(|problems| panic!("{}", config::render(&problems)));
    Checks { policy: super::compile(&loaded.config).unwrap(), ..Checks::default() }
}

fn call(sort: Sort, name: &str, args: &str) -> Call {
    let named = Principal::named(TenantId::new("acme".into()), "https://id".into(), "ada".into());
    let claims = Claims::of(r#"{"sub":"ada","level":3,"roles":["a","b"]}"#);
    let facts = if sort == Sort::Resource { Facts::resource(name) } else { Facts::unknown(name) };
    let method = match sort {
        Sort::Tool => Method::ToolsCall,
        Sort::Prompt => Method::PromptsGet,
        Sort::Resource => Method::ResourcesRead,
    };
    let thing = Thing {
        upstream: "files".into(),
        sort,
        exposed: name.into(),
        native: name.trim_start_matches("files__").into(),
        digest: None,
        standing: Standing::Offered,
        mirrors: Arc::default(),
        tasks: Default::default(),
        facts: Arc::new(facts),
    };
    let params = format!(r#"{{"name":"x","arguments":{args}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}","params":{params}}}"#, method.name());
    Call {
        principal: Arc::new(Principal { groups: ["eng".into()].into(), claims, ..named }),
        method,
        target: Target::Thing(Arc::new(thing)),
        frame: Frame::parse(Bytes::from(body), &Budget::CLIENT).unwrap(),
        received: Instant::now(),
        grant: None,
        scene: Scene::at("default".into(), 1_796_000_000),
    }
}

fn is_denied(checks: &Checks, asked: Call) -> bool {
    matches!(checks.decide(asked), Decision::Denied(_))
}

#[test]
fn rules_about_uris_see_through_their_spelling() {
    let checks = checks(
        "default: allow\nrules:\n  - { name: no, effect: deny, resources: [\"HTTPS://Bad.example/*\", \"file:///my docs/*\"] }\n",
    );
    for (uri, denied) in [
        ("https://bad.example/x", true),
        ("https://BAD.example:443/x", true),
        ("https://good.example/x", false),
        ("file:///my%20docs/x", true),
        ("file://localhost/my docs/x", true),
        ("file:///my%2520docs/x", true),
        ("file:///other/x", false),
    ] {
        assert_eq!(is_denied(&checks, call(Sort::Resource, uri, "{}")), denied, "{uri}");
    }
}

#[test]
fn a_condition_about_other_things_is_told_where_it_is() {
    let problems = load(
        "rules:\n  - name: r\n    resources: [\"mem://*\"]\n    when: 'tool.trust == \"trusted\"'\n    effect: deny\n",
    );
    let problems = problems.unwrap_err();
    let told: Vec<_> = problems.iter().map(|it| (it.line, it.column, &*it.message)).collect();
    assert_eq!(told, [(4, 12, "the condition names `tool`, and a resource has none")]);
}

const VALUES: [&str; 30] = [
    "principal.id",
    "principal.groups",
    "claims.roles",
    "claims.?level.orValue(0)",
    "claims",
    "claims.roles[0]",
    "tool.name",
    "tool.destructive",
    "tool.annotations",
    "resource.uri",
    "prompt.name",
    "args.x",
    "args.list",
    "args",
    "args.list[0]",
    "args.x + args.x",
    "request.method",
    "session.tainted",
    "now",
    "now.getHours()",
    "has(args.x)",
    "size(args)",
    "args.list.all(x, x == 'a')",
    "args.list.exists(g, g.startsWith('e'))",
    "['a', 'b']",
    "{'a': 1}",
    "'a'",
    "1",
    "-9223372036854775808",
    "1.5e300",
];

const WORDS: [&str; 19] = [
    ".all(x, x == 'a')",
    ".exists(",
    ".matches('^a+$')",
    ".contains('a')",
    "[0]",
    "==",
    "<",
    "in",
    "&&",
    "||",
    "!",
    "+",
    "-",
    "/",
    "?",
    ":",
    "(",
    ")",
    "args.x",
];

fn any_condition() -> impl Strategy<Value = String> {
    let soup =
        prop::collection::vec(prop::sample::select(&WORDS[..]), 1..9).prop_map(|words| words.join(" "));
    let operator = prop::sample::select(vec!["==", "!=", "<", ">=", "in"]);
    let value = prop::sample::select(&VALUES[..]);
    let pair = (value.clone(), operator, value).prop_map(|(a, operator, b)| format!("{a} {operator} {b}"));
    let joined = prop::collection::vec(pair, 1..3).prop_map(|pairs| pairs.join(" || "));
    prop_oneof![1 => soup, 8 => joined, 1 => any::<String>()]
}

fn any_rule() -> impl Strategy<Value = String> {
    let glob = "[a-z*?_:/.%+ ]{1,12}";
    let key = prop::sample::select(vec!["tools", "resources", "prompts", "upstreams", "servers"]);
    let what = prop_oneof![2 => Just(String::new()), 1 => (key, glob).prop_map(|(key, glob)| format!("{key}: [{glob:?}], "))];
    let effect = prop::sample::select(vec!["allow", "deny", "approve"]);
    (what, any_condition(), effect).prop_map(|(what, when, effect)| {
        format!("{what}when: {}, effect: {effect}", wire::code::quote(&when))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn what_is_checked_decides(
        rules in prop::collection::vec(any_rule(), 1..3),
        args in prop_oneof![
            Just("{}"), Just(r#"{"x":1,"list":["a"]}"#), Just(r#"{"x":"a","list":{"a":1}}"#),
            Just(r#"{"x":null,"list":[[1e400]]}"#), Just("null"), Just("[1]"), Just(r#""x""#),
        ],
        name in prop::sample::select(vec![(Sort::Tool, "files__x"), (Sort::Prompt, "files__x"), (Sort::Resource, "mem://x/../%2f")]),
    ) {
        let rules = rules.iter().enumerate().map(|(n, rule)| format!("  - {{ name: r{n}, {rule} }}\n"));
        match load(&format!("rules:\n{}", rules.collect::<String>())) {
            Err(problems) => prop_assert!(!config::render(&problems).is_empty()),
            Ok(loaded) => {
                let policy = super::compile(&loaded.config);
                prop_assert!(policy.is_ok(), "what was checked does not compile: {:?}", policy.err());
                let checks = Checks { policy: policy.unwrap_or_default(), ..Checks::default() };
                let asked = call(name.0, name.1, args);
                checks.policy.opinions(&asked);
                checks.policy.may_ask(&asked.principal, &asked.scene, ("files", Trust::Standard), AskKind::Roots);
                for method in [asked.method, Method::Complete, Method::TasksGet] {
                    checks.decide(Call { method, ..asked.clone() });
                }
            }
        }
    }
}
