//! What rules decide, and that nothing of what they decide contradicts itself.

use std::time::Instant;

use bytes::Bytes;
use wire::{Budget, Frame};

use super::*;
use crate::{Checks, Claims, Decision, Standing};

mod properties;

fn glob(text: &str) -> Glob {
    let part = |letter: char| match letter {
        '*' => ".*".to_owned(),
        '?' => ".".to_owned(),
        other => regex::escape(&other.to_string()),
    };
    let regex: String = text.chars().map(part).collect();
    Glob::new(text, regex::Regex::new(&format!(r"\A(?s:{regex})\z")).unwrap())
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
        facts: Arc::new(match sort {
            Sort::Tool | Sort::Prompt => Facts::unknown(name),
            Sort::Resource => Facts::resource(name),
        }),
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
    told(checks, call(asker, Method::ToolsCall, thing(Sort::Tool, tool), args))
}

fn told(checks: &Checks, asked: Call) -> String {
    match checks.decide(asked) {
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
        ("FILE:///srv/a", true),
        ("file://LOCALHOST/srv/a", true),
        ("file:///srv//a", false),
    ] {
        let resource = thing(Sort::Resource, uri);
        assert_eq!(checks.policy.shows(&ada(&[], ""), "default", &resource), admitted, "{uri}");
        let decision = checks.decide(call(ada(&[], ""), Method::ResourcesRead, resource, "{}"));
        assert_eq!(matches!(decision, Decision::Admitted(_)), admitted, "{uri}");
    }
}

#[test]
fn what_is_asked_about_a_tool_needs_no_arguments() {
    let complete = Some(vec![Method::Complete]);
    let rules = vec![
        tools("open", Effect::Allow, &["files__read"], "args.path == 'x'"),
        tools("ask", Effect::Approve, &["files__write"], ""),
        tools("no", Effect::Deny, &["files__wipe"], ""),
        tools("all", Effect::Allow, &["files__list", "files__late", "files__asked"], ""),
        Draft { methods: complete.clone(), ..tools("quiet", Effect::Deny, &["files__list"], "") },
        Draft { methods: complete, ..tools("held", Effect::Approve, &["files__asked"], "") },
        tools("late", Effect::Deny, &["files__late"], "now.getFullYear() > 2000"),
    ];
    let checks = checks(rules, Effect::Deny);
    for (tool, complete, task) in [
        ("files__read", "allow", "allow"),
        ("files__write", "allow", "allow"),
        ("files__wipe", "hide no", "hide default"),
        ("files__list", "deny quiet", "allow"),
        ("files__asked", "hold held", "allow"),
        ("files__late", "deny late", "allow"),
        ("files__other", "hide default", "hide default"),
    ] {
        for (method, expected) in [(Method::Complete, complete), (Method::TasksGet, task)] {
            let asked = call(ada(&[], ""), method, thing(Sort::Tool, tool), "{}");
            assert_eq!(told(&checks, asked), expected, "{tool} {method:?}");
        }
    }
}

#[test]
fn what_no_list_shows_is_not_followed_either() {
    let what = What { resources: globs(&["mem://a"]), ..What::default() };
    let read = Some(vec![Method::ResourcesRead]);
    let rules = vec![Draft { methods: read, what, ..draft("unread", Effect::Deny) }];
    let checks = checks(rules, Effect::Allow);
    for method in [Method::ResourcesRead, Method::ResourcesSubscribe, Method::Complete] {
        let asked = call(ada(&[], ""), method, thing(Sort::Resource, "mem://a"), "{}");
        assert!(told(&checks, asked).starts_with("hide "), "{method:?}");
    }
}

#[test]
fn a_condition_is_about_the_things_that_have_what_it_looks_at() {
    let rule = |when: &str| vec![Draft { when: Some(when.to_owned()), ..draft("no", Effect::Deny) }];
    for (when, tool, prompt, resource) in [
        ("tool.destructive", "hide no", "allow", "allow"),
        ("prompt.native == 'x'", "allow", "hide no", "allow"),
        ("resource.uri != ''", "allow", "allow", "hide no"),
        ("tool.native == 'x' || resource.upstream == 'files'", "hide no", "allow", "hide no"),
        ("has(args.x)", "deny no", "deny no", "allow"),
        ("tool.native == 'x' && has(args.x)", "deny no", "allow", "allow"),
        ("principal.id == 'ada'", "hide no", "hide no", "hide no"),
    ] {
        let checks = checks(rule(when), Effect::Allow);
        for (sort, method, name, expected) in [
            (Sort::Tool, Method::ToolsCall, "files__x", tool),
            (Sort::Prompt, Method::PromptsGet, "files__x", prompt),
            (Sort::Resource, Method::ResourcesRead, "mem://x", resource),
        ] {
            let asked = call(ada(&[], ""), method, thing(sort, name), r#"{"x":1}"#);
            assert_eq!(told(&checks, asked), expected, "{when} {sort:?}");
        }
    }
    let what = What { tools: globs(&["a"]), resources: globs(&["b"]), ..What::default() };
    let mixed = Draft { what, when: Some("tool.destructive".to_owned()), ..draft("r", Effect::Deny) };
    let flaws = Rules::compile(vec![mixed], Effect::Allow).unwrap_err();
    assert_eq!(flaws[0].1.why, "names `tool`, and a resource has none");
    assert_eq!(flaws[0].1.at, Some((0, 4)));
}

#[test]
fn servers_ask_whom_the_rules_let_them_ask() {
    let asks = |name: &str, kinds: &[AskKind], when: &str, effect| Draft {
        what: What { asks: Some(kinds.to_vec()), ..What::default() },
        when: (!when.is_empty()).then(|| when.to_owned()),
        ..draft(name, effect)
    };
    let rules = vec![
        asks("none", &[AskKind::Sampling], "", Effect::Deny),
        asks("yes", &[AskKind::Elicitation], "", Effect::Allow),
        asks("tainted", &[AskKind::Elicitation], "session.tainted", Effect::Deny),
        asks("claimed", &[AskKind::Roots], "claims.level > 1", Effect::Deny),
        asks("roots", &[AskKind::Roots], "request.method == 'roots/list'", Effect::Allow),
    ];
    let checks = checks(rules, Effect::Deny);
    let asked = |claims: &str, tainted, kind| {
        let scene = Scene { tainted, ..Scene::at("default".into(), 0) };
        match checks.policy.may_ask(&ada(&[], claims), &scene, ("files", Trust::Standard), kind) {
            Verdict::Allow => "allow".to_owned(),
            Verdict::Hold(rule) => format!("hold {rule}"),
            Verdict::Deny(refusal) => format!("deny {}", refusal.rule),
        }
    };
    for (claims, tainted, kind, expected) in [
        ("", false, AskKind::Sampling, "deny none"),
        ("", false, AskKind::Elicitation, "allow"),
        ("", true, AskKind::Elicitation, "deny tainted"),
        ("", false, AskKind::Roots, "deny claimed"),
        (r#"{"level":1}"#, false, AskKind::Roots, "allow"),
        (r#"{"level":2}"#, false, AskKind::Roots, "deny claimed"),
    ] {
        assert_eq!(asked(claims, tainted, kind), expected, "{claims} {tainted} {kind:?}");
    }
}

#[test]
fn a_glob_matches_whole_texts_whatever_shape_it_has() {
    for (text, fits, differs) in [
        ("*", &["", "a", "a\nb"][..], &[][..]),
        ("files__*", &["files__", "files__read", "files__\n"], &["files_", "xfiles__read", ""]),
        ("files__read", &["files__read"], &["files__read2", "files__rea", ""]),
        ("*__read", &["a__read", "__read"], &["a__reads"]),
        ("f?le*", &["file", "fülen"], &["fle", "fiile"]),
        ("a**", &["a", "ab"], &["b"]),
    ] {
        let glob = glob(text);
        assert!(fits.iter().all(|one| glob.matches(one)), "{text}");
        assert!(!differs.iter().any(|one| glob.matches(one)), "{text}");
    }
}
