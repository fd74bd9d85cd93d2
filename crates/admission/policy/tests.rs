//! What rules decide, and that nothing of what they decide contradicts itself.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use wire::{Budget, Frame};

use super::*;
use crate::{Checks, Claims, Decision, Scene, Standing};

fn glob(text: &str) -> Glob {
    let regex: String = text
        .chars()
        .map(|c| if c == '*' { ".*".to_owned() } else { regex::escape(&c.to_string()) })
        .collect();
    Glob { text: text.into(), regex: regex::Regex::new(&format!(r"\A(?s:{regex})\z")).unwrap() }
}

fn globs(texts: &[&str]) -> Option<Vec<Glob>> {
    (!texts.is_empty()).then(|| texts.iter().map(|text| glob(text)).collect())
}

fn draft(name: &str, effect: Effect) -> Draft {
    Draft {
        name: name.into(),
        who: Who::default(),
        upstreams: None,
        servers: None,
        methods: None,
        what: What::default(),
        when: None,
        effect,
        shadow: false,
        message: None,
    }
}

fn tools(name: &str, effect: Effect, tools: &[&str], when: &str) -> Draft {
    let what = What { tools: globs(tools), ..What::default() };
    Draft { what, when: (!when.is_empty()).then(|| when.to_owned()), ..draft(name, effect) }
}

fn checks(rules: Vec<Draft>, default: Effect) -> Checks {
    let rules = Rules::compile(rules, default).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    Checks { policy: Policy::new([(TenantId::new("acme".into()), rules)].into()), ..Checks::default() }
}

fn ada(groups: &[&str], claims: &str) -> Principal {
    let named = Principal::named(TenantId::new("acme".into()), "https://id".into(), "ada".into());
    let claims = if claims.is_empty() { Claims::default() } else { Claims::of(claims) };
    Principal { groups: groups.iter().map(|group| (*group).into()).collect(), claims, ..named }
}

fn thing(sort: Sort, name: &str) -> Thing {
    Thing {
        upstream: name.split_once("__").map_or("files", |(upstream, _)| upstream).into(),
        sort,
        exposed: name.into(),
        native: name.split_once("__").map_or(name, |(_, native)| native).into(),
        digest: None,
        standing: Standing::Offered,
        mirrors: Arc::default(),
        tasks: Default::default(),
        facts: Arc::new(Facts::unknown(name)),
    }
}

fn call(asker: Principal, method: Method, thing: Thing, args: &str) -> Call {
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"name":"x","arguments":{args}}}}}"#);
    Call {
        principal: Arc::new(asker),
        method,
        target: Target::Thing(Arc::new(thing)),
        frame: Frame::parse(Bytes::from(body), &Budget::CLIENT).unwrap(),
        received: Instant::now(),
        grant: None,
        scene: Scene::at("default".into(), 1_796_000_000),
    }
}

/// `allow`, `hold`, `deny RULE`, `hide RULE` or `error RULE`.
fn said(checks: &Checks, asker: Principal, tool: &str, args: &str) -> String {
    match checks.decide(call(asker, Method::ToolsCall, thing(Sort::Tool, tool), args)) {
        Decision::Admitted(_) => "allow".to_owned(),
        Decision::Held(held) => format!("hold {}", held.rule),
        Decision::Denied(denial) => {
            let word = match &denial.refusal {
                refusal if refusal.hides => "hide",
                refusal if refusal.error.is_some() => "error",
                _ => "deny",
            };
            format!("{word} {}", denial.refusal.rule)
        }
    }
}

#[test]
fn deny_beats_approve_beats_allow_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let all = [
            tools("a", Effect::Allow, &["files__*"], ""),
            tools("b", Effect::Approve, &["files__w*"], ""),
            tools("c", Effect::Deny, &["files__wipe"], ""),
        ];
        let checks = checks(order.map(|at: usize| all[at].clone()).to_vec(), Effect::Deny);
        for (tool, expected) in [
            ("files__read", "allow"),
            ("files__write", "hold b"),
            ("files__wipe", "hide c"),
            ("x__y", "hide default"),
        ] {
            assert_eq!(said(&checks, ada(&[], ""), tool, "{}"), expected, "{tool} {order:?}");
        }
    }
}

#[test]
fn a_condition_is_about_the_caller_the_tool_and_the_arguments() {
    let when = |text: &str, args: &str| {
        let checks = checks(vec![tools("r", Effect::Allow, &["files__*"], text)], Effect::Deny);
        said(
            &checks,
            ada(&["eng", "ops"], r#"{"email":"ada@acme","level":3,"big":[1,2]}"#),
            "files__read",
            args,
        )
    };
    for (text, args, expected) in [
        ("principal.id == 'ada'", "{}", "allow"),
        ("'eng' in principal.groups", "{}", "allow"),
        ("'none' in principal.groups", "{}", "hide default"),
        ("claims.email.endsWith('@acme')", "{}", "allow"),
        ("claims.level > 2 && claims.big.exists(x, x == 2)", "{}", "allow"),
        ("claims.missing == 1", "{}", "error r"),
        ("claims.?missing.orValue(1) == 1", "{}", "allow"),
        ("has(claims.missing)", "{}", "hide default"),
        ("tool.destructive && !tool.readOnly && tool.trust == 'standard'", "{}", "allow"),
        ("tool.name == 'files__read' && tool.native == 'read' && tool.upstream == 'files'", "{}", "allow"),
        ("args.path.startsWith('/srv/')", r#"{"path":"/srv/x"}"#, "allow"),
        ("args.path.startsWith('/srv/')", r#"{"path":"/etc/x"}"#, "deny default"),
        ("args.path.startsWith('/srv/')", r#"{"path":7}"#, "error r"),
        ("args.path.startsWith('/srv/')", "{}", "error r"),
        ("!has(args.path) || args.path == ''", "{}", "allow"),
        ("args['path'] == 'x'", r#"{"path":"x"}"#, "allow"),
        ("size(args) == 2", r#"{"a":1,"b":2}"#, "allow"),
        ("args.amount > 100", r#"{"amount":100.5}"#, "allow"),
        ("args.amount > 100", r#"{"amount":12345678901234567890123}"#, "error r"),
        ("args.other == 1", r#"{"amount":12345678901234567890123,"other":1}"#, "allow"),
        ("args.text.matches('^a+$')", r#"{"text":"aaa"}"#, "allow"),
        ("args.list.all(x, x < 3)", r#"{"list":[1,2]}"#, "allow"),
        ("request.method == 'tools/call' && request.server == 'default'", "{}", "allow"),
        ("session.tainted", "{}", "deny default"),
        ("now < timestamp('2027-01-01T00:00:00Z')", "{}", "allow"),
        ("now.getFullYear() == 2026", "{}", "allow"),
    ] {
        assert_eq!(when(text, args), expected, "{text} {args}");
    }
}

#[test]
fn a_typo_is_told_when_the_rule_is_loaded() {
    for (text, why, hint) in [
        (
            "tool.desctructive",
            "names `tool.desctructive`, which does not exist",
            "did you mean `tool.destructive`?",
        ),
        ("clams.x == 1", "names `clams`, which does not exist", "did you mean `claims`?"),
        ("args.x.startWith('a')", "calls `startWith`, which does not exist", "did you mean `startsWith`?"),
        ("principal.mail == 'x'", "names `principal.mail`, which does not exist", ""),
        ("args.x ==", "is no valid expression", ""),
    ] {
        let flaws = Rules::compile(vec![tools("r", Effect::Deny, &[], text)], Effect::Allow);
        let flaws = flaws.err().unwrap_or_else(|| panic!("`{text}` compiles"));
        let (_, flaw) = &flaws[0];
        assert!(flaw.why.starts_with(why), "`{text}`: {flaw:?}");
        assert!(flaw.hint.as_deref().unwrap_or_default().starts_with(hint), "`{text}`: {flaw:?}");
    }
}

#[test]
fn rules_in_shadow_only_record() {
    let shadow = Draft { shadow: true, ..tools("s", Effect::Deny, &["files__read"], "") };
    let failing = Draft { shadow: true, ..tools("f", Effect::Allow, &["files__read"], "claims.x") };
    let checks = checks(vec![shadow, failing, tools("a", Effect::Allow, &[], "")], Effect::Deny);
    let decision =
        checks.decide(call(ada(&[], ""), Method::ToolsCall, thing(Sort::Tool, "files__read"), "{}"));
    let Decision::Admitted(admitted) = decision else { panic!("{decision:?}") };
    let shadows =
        [Shadow { rule: "s".into(), would: Effect::Deny }, Shadow { rule: "f".into(), would: Effect::Deny }];
    assert_eq!((admitted.notes().rule.as_deref(), &*admitted.notes().shadows), (Some("a"), &shadows[..]));
}

#[test]
fn resources_are_judged_by_what_a_server_would_read() {
    let what = What { resources: globs(&["file:///srv/*"]), ..What::default() };
    let checks = checks(vec![Draft { what, ..draft("srv", Effect::Allow) }], Effect::Deny);
    for (uri, admitted) in [
        ("file:///srv/a", true),
        ("file:///srv/a%20b", true),
        ("file:///etc/passwd", false),
        ("file:///srv/../etc/passwd", false),
        ("file:///srv/%2e%2e/etc/passwd", false),
        ("file:///srv/%2E./x", false),
        ("file:///srv/./x", false),
        ("file:///srv/%73ecret", false),
        ("file:///srv/a%2fb", false),
        ("file:///srv/a%00", false),
        ("file:///srv/a%", false),
        ("file:///srv/a\\b", false),
        ("FILE:///srv/a", false),
    ] {
        let resource = thing(Sort::Resource, uri);
        assert_eq!(checks.policy.shows(&ada(&[], ""), "default", &resource), admitted, "{uri}");
        let decision = checks.decide(call(ada(&[], ""), Method::ResourcesRead, resource, "{}"));
        assert_eq!(matches!(decision, Decision::Admitted(_)), admitted, "{uri}");
    }
}

#[test]
fn what_is_asked_about_a_tool_needs_no_arguments() {
    let rules = vec![
        tools("open", Effect::Allow, &["files__read"], "args.path == 'x'"),
        tools("no", Effect::Deny, &["files__wipe"], ""),
    ];
    let checks = checks(rules, Effect::Deny);
    for (tool, admitted) in [("files__read", true), ("files__wipe", false), ("files__other", false)] {
        for method in [Method::Complete, Method::TasksGet] {
            let decision = checks.decide(call(ada(&[], ""), method, thing(Sort::Tool, tool), "{}"));
            assert_eq!(matches!(decision, Decision::Admitted(_)), admitted, "{tool} {method:?}");
        }
    }
}

#[test]
fn servers_ask_whom_the_rules_let_them_ask() {
    let what = What { asks: Some(vec![AskKind::Sampling]), ..What::default() };
    let rules = vec![
        Draft { what: what.clone(), ..draft("none", Effect::Deny) },
        Draft {
            what: What { asks: Some(vec![AskKind::Elicitation]), ..What::default() },
            ..draft("yes", Effect::Allow)
        },
    ];
    let checks = checks(rules, Effect::Deny);
    let asked = |kind| checks.policy.may_ask(&ada(&[], ""), "default", ("files", Trust::Standard), kind);
    assert_eq!(asked(AskKind::Sampling), Verdict::Deny(Refusal::by("none")));
    assert_eq!(asked(AskKind::Elicitation), Verdict::Allow);
    assert_eq!(asked(AskKind::Roots), Verdict::Deny(Refusal::by("default")));
}

/// Each is refused when it is loaded, or ends soon whatever it is asked about.
#[test]
fn no_rule_costs_much() {
    let nested = |depth: usize| format!("{}true{}", "args.l.all(x, ".repeat(depth), ")".repeat(depth));
    let hostile = [
        nested(6),
        "args.l.map(x, x + x).map(x, x + x).map(x, x + x).size() > 0".to_owned(),
        format!("{}1 == 1", "1 + ".repeat(1500)),
        format!("{}true{}", "(".repeat(1500), ")".repeat(1500)),
        format!("{}true", "!".repeat(1500)),
        format!("{}1 < 2", "-".repeat(1001)),
        "args.s.matches('(a{1000}){1000}')".to_owned(),
        "args.s.matches(args.s)".to_owned(),
        "args.s.matches('(x+x+)+y')".to_owned(),
        "args.s.matches('(a|aa)+$')".to_owned(),
        format!("args.s.matches('{}')", "(a*)*".repeat(100)),
        "args.l.all(x, args.l.exists(y, x == y))".to_owned(),
        "args.l.filter(x, true).filter(x, true).size() > 0".to_owned(),
        "args.l.all(x, args.s.contains(x))".to_owned(),
        "args.l.all(x, args.s.matches('a.*b.*c.*d'))".to_owned(),
        format!("{}args.s == ''", "args.s + ".repeat(400)),
        format!("{}args.s == ''", "args.s + ".repeat(8)),
        "args.l.all(x, args.s + args.s != x)".to_owned(),
        "args.m.all(k, args.m[k] != args.s)".to_owned(),
        format!("args.s in [{}]", vec!["'x'"; 450].join(",")),
        format!("[{}].all(x, x == args.s)", vec!["args.s"; 200].join(",")),
        "timestamp(args.s) < now".to_owned(),
        "args.l.exists_one(x, x == args.s)".to_owned(),
        "dyn(args).all(k, k != args.s)".to_owned(),
        "{'a': args.s, 'b': args.s}.all(k, k.size() > 0)".to_owned(),
        format!("args{}.x == 1", ".a".repeat(1500)),
    ];
    let long = "a".repeat(64 * 1024);
    let list = format!("[{}]", vec!["\"aaaaaaaaaaaaaaaa\""; 256].join(","));
    let map = format!("{{{}}}", (0..256).map(|n| format!("\"k{n}\":\"v\"")).collect::<Vec<_>>().join(","));
    let args = format!(r#"{{"s":"{long}","l":{list},"m":{map}}}"#);
    let mut loaded = 0;
    for when in hostile {
        let Ok(rules) = Rules::compile(vec![tools("r", Effect::Deny, &[], &when)], Effect::Allow) else {
            continue;
        };
        loaded += 1;
        let checks = Checks {
            policy: Policy::new([(TenantId::new("acme".into()), rules)].into()),
            ..Checks::default()
        };
        let asked = call(ada(&[], ""), Method::ToolsCall, thing(Sort::Tool, "files__read"), &args);
        let before = cpu();
        let _ = checks.decide(asked);
        // Ten milliseconds of a release build; this one is slower by far.
        assert!(cpu() - before < Duration::from_millis(400), "`{when}` took {:?}", cpu() - before);
    }
    assert!(loaded > 4, "only {loaded} load: nothing was measured");
}

/// What this thread has computed so far; how long it waited for a processor does not count.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

const CONDITIONS: [&str; 9] = [
    "",
    "'eng' in principal.groups",
    "args.x == 1",
    "tool.destructive",
    "args.x == 1 && 'eng' in principal.groups",
    "args.x == 1 || 'eng' in principal.groups",
    "claims.level > 1",
    "has(args.x) && session.tainted",
    "request.method == 'tools/call'",
];

fn any_rule() -> impl Strategy<Value = Draft> {
    let effects = prop_oneof![Just(Effect::Allow), Just(Effect::Approve), Just(Effect::Deny)];
    let names = prop::sample::select(vec!["files__read", "files__*", "*", "", "x__y"]);
    let groups = prop_oneof![Just(None), Just(globs(&["eng"])), Just(globs(&["o*"]))];
    let methods =
        prop_oneof![Just(None), Just(Some(vec![Method::ToolsCall])), Just(Some(vec![Method::Complete]))];
    (effects, names, 0..CONDITIONS.len(), groups, methods, any::<bool>()).prop_map(
        |(effect, names, when, groups, methods, shadow)| Draft {
            who: Who { groups, ..Who::default() },
            methods,
            shadow,
            ..tools(
                "rule",
                effect,
                if names.is_empty() { &[] } else { std::slice::from_ref(&names) },
                CONDITIONS[when],
            )
        },
    )
}

fn any_asker() -> impl Strategy<Value = Principal> {
    let groups = prop::sample::select(vec!["none", "eng", "ops"]);
    let claims = prop_oneof![Just(""), Just(r#"{"level":2}"#), Just(r#"{"level":"x"}"#)];
    (groups, claims).prop_map(|(group, claims)| ada(&[group], claims))
}

fn any_call() -> impl Strategy<Value = Call> {
    let names = prop_oneof![Just("files__read"), Just("files__write"), Just("x__y")];
    let args = prop_oneof![Just("{}"), Just(r#"{"x":1}"#), Just(r#"{"x":"a"}"#), Just("[1]")];
    let methods = prop_oneof![Just(Method::ToolsCall), Just(Method::Complete), Just(Method::TasksGet)];
    (any_asker(), names, args, methods)
        .prop_map(|(asker, name, args, method)| call(asker, method, thing(Sort::Tool, name), args))
}

fn any_default() -> impl Strategy<Value = Effect> {
    prop_oneof![Just(Effect::Allow), Just(Effect::Deny)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_denial_hides_exactly_what_lists_do_not_show(
        rules in prop::collection::vec(any_rule(), 0..6),
        default in any_default(),
        asked in any_call(),
    ) {
        let checks = checks(rules, default);
        let Target::Thing(thing) = &asked.target else { unreachable!() };
        let shown = checks.policy.shows(&asked.principal, "default", thing);
        match checks.decide(asked) {
            Decision::Admitted(_) | Decision::Held(_) => prop_assert!(shown),
            Decision::Denied(denial) => prop_assert_eq!(denial.refusal.hides, !shown),
        }
    }

    #[test]
    fn one_more_deny_never_admits_more(
        rules in prop::collection::vec(any_rule(), 0..6),
        more in any_rule(),
        at in 0..6_usize,
        default in any_default(),
        asked in any_call(),
    ) {
        let mut stricter = rules.clone();
        stricter.insert(at.min(rules.len()), Draft { effect: Effect::Deny, shadow: false, ..more });
        let (before, after) = (checks(rules, default), checks(stricter, default));
        let passes = |decision| !matches!(decision, Decision::Denied(_));
        prop_assert!(passes(before.decide(asked.clone())) || !passes(after.decide(asked.clone())));
        if let Target::Thing(thing) = &asked.target {
            let shown = |checks: &Checks| checks.policy.shows(&asked.principal, "default", thing);
            prop_assert!(shown(&before) || !shown(&after));
        }
    }

    #[test]
    fn what_is_explained_is_what_is_decided(
        rules in prop::collection::vec(any_rule(), 0..6),
        default in any_default(),
        asked in any_call(),
    ) {
        let checks = checks(rules, default);
        let asked = Call { method: Method::ToolsCall, ..asked };
        let opinions = checks.policy.opinions(&asked);
        let enforced = opinions.iter().filter(|opinion| !opinion.shadow);
        let matching = enforced.clone().filter(|opinion| opinion.said == Said::Matches);
        let strongest = matching.map(|opinion| opinion.effect).max();
        let failed = enforced.clone().any(|opinion| matches!(opinion.said, Said::Error(_)));
        let expected = match strongest {
            Some(Effect::Deny) => "denied",
            _ if failed => "denied",
            Some(Effect::Approve) => "held",
            Some(Effect::Allow) => "admitted",
            None if default == Effect::Allow => "admitted",
            None => "denied",
        };
        let decided = match checks.decide(asked) {
            Decision::Admitted(_) => "admitted",
            Decision::Held(_) => "held",
            Decision::Denied(_) => "denied",
        };
        prop_assert_eq!(decided, expected);
    }
}
