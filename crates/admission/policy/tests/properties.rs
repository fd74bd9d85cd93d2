//! What must hold for any rules and any calls.

use proptest::prelude::*;

use super::*;

const CONDITIONS: [&str; 13] = [
    "",
    "'eng' in principal.groups",
    "args.x == 1",
    "tool.destructive",
    "args.x == 1 && 'eng' in principal.groups",
    "args.x == 1 || 'eng' in principal.groups",
    "claims.level > 1",
    "has(args.x) && session.tainted",
    "request.method == 'tools/call'",
    "request.method == 'resources/read' || 'eng' in principal.groups",
    "resource.uri == 'mem://a' || tool.native == 'read'",
    "now.getFullYear() > 2000 && claims.level > 1",
    "session.id == 'x' || principal.groups.exists(g, g == 'eng')",
];

fn any_rule() -> impl Strategy<Value = Draft> {
    let effects = prop_oneof![Just(Effect::Allow), Just(Effect::Approve), Just(Effect::Deny)];
    let names = prop::sample::select(vec!["files__read", "files__*", "*", "", "x__y"]);
    let groups = prop_oneof![Just(None), Just(globs(&["eng"])), Just(globs(&["o*"]))];
    let methods = prop_oneof![
        3 => Just(None),
        1 => Just(Some(vec![Method::ToolsCall, Method::ResourcesRead])),
        1 => Just(Some(vec![Method::Complete])),
        1 => Just(Some(vec![Method::ResourcesSubscribe])),
    ];
    let resources =
        prop_oneof![3 => Just(None), 1 => Just(globs(&["mem://*"])), 1 => Just(globs(&["mem://a"]))];
    let what = (names, resources).prop_map(|(name, resources)| {
        let tools = if name.is_empty() { None } else { globs(&[name]) };
        What { tools, resources, ..What::default() }
    });
    let parts = (effects, what, 0..CONDITIONS.len(), groups, methods, any::<bool>());
    parts.prop_filter_map("a condition for another kind of thing", |parts| {
        let (effect, what, when, groups, methods, shadow) = parts;
        let who = Who { groups, ..Who::default() };
        let when = CONDITIONS.get(when).filter(|when| !when.is_empty()).map(|when| (*when).to_owned());
        let rule = Draft { who, methods, shadow, what, when, ..draft("rule", effect) };
        Rules::compile(vec![rule.clone()], Effect::Allow).is_ok().then_some(rule)
    })
}

fn any_asker() -> impl Strategy<Value = Principal> {
    let groups = prop::sample::select(vec!["none", "eng", "ops"]);
    let claims = prop_oneof![Just(""), Just(r#"{"level":2}"#), Just(r#"{"level":"x"}"#)];
    (groups, claims).prop_map(|(group, claims)| ada(&[group], claims))
}

fn any_call() -> impl Strategy<Value = Call> {
    let names = prop_oneof![
        Just("files__read"),
        Just("files__write"),
        Just("x__y"),
        Just("mem://a"),
        Just("mem://b"),
        Just("mem://b/../a")
    ];
    let args = prop_oneof![Just("{}"), Just(r#"{"x":1}"#), Just(r#"{"x":"a"}"#), Just("[1]")];
    (any_asker(), names, args, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(asker, name, args, method, tainted)| {
            let (sort, methods): (_, &[Method]) = match name.starts_with("mem:") {
                true => (
                    Sort::Resource,
                    &[
                        Method::ResourcesRead,
                        Method::ResourcesSubscribe,
                        Method::ResourcesUnsubscribe,
                        Method::Complete,
                    ],
                ),
                false => (
                    Sort::Tool,
                    &[Method::ToolsCall, Method::ToolsCall, Method::TasksGet, Method::TasksResult],
                ),
            };
            let mut asked = call(asker, *method.get(methods), thing(sort, name), args);
            asked.scene.tainted = tainted;
            asked
        },
    )
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
        let Target::Thing(thing) = &asked.target else { unreachable!() };
        let method = if thing.sort == Sort::Tool { Method::ToolsCall } else { Method::ResourcesRead };
        let takes = !thing.facts.name.contains("..") || !checks.policy.shapes_lists(&asked.principal.tenant);
        let asked = Call { method, ..asked };
        let opinions = checks.policy.opinions(&asked);
        let enforced = opinions.iter().filter(|opinion| !opinion.shadow);
        let matching = enforced.clone().filter(|opinion| opinion.said == Said::Matches);
        let strongest = matching.map(|opinion| opinion.effect).max();
        let failed = enforced.clone().any(|opinion| matches!(opinion.said, Said::Error(_)));
        let expected = match strongest {
            _ if !takes => "denied",
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
