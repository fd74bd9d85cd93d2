//! What conditions can cost: each that somebody could mean badly is refused when it is loaded, or ends soon whatever it is
//! asked about.
//!
//! A test program of its own, since a program has one allocator.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is tests, and a test that cannot go on has failed"
)]

use std::{
    alloc::System,
    sync::Arc,
    time::{Duration, Instant},
};

use admission::{
    Call, Checks, Claims, Draft, Effect, Facts, Glob, Policy, Principal, Rules, Scene, Sort, Standing,
    Target, TenantId, Thing, What, Who,
};
use bytes::Bytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wire::{Budget, Frame, Method};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The most that one condition may allocate for one call, all of it together.
const BYTES: usize = 8 << 20;

/// The most that it may compute, and so many times more where nothing is optimised.
const TIME: Duration = Duration::from_millis(10);
const SLOWER: u32 = 40;

fn rule(name: &str, when: &str) -> Draft {
    Draft {
        name: name.into(),
        who: Who::default(),
        upstreams: None,
        servers: None,
        methods: None,
        what: What::default(),
        when: Some(when.to_owned()),
        effect: Effect::Deny,
        shadow: false,
        message: None,
    }
}

fn checks(rules: Rules) -> Checks {
    Checks { policy: Policy::new([(TenantId::new("acme".into()), rules)].into()), ..Checks::default() }
}

fn call(groups: usize, claims: &str, args: &str) -> Call {
    let named = Principal::named(TenantId::new("acme".into()), "https://id".into(), "ada".into());
    let groups = (0..groups).map(|n| format!("group-{n}").into()).collect();
    let thing = Thing {
        upstream: "files".into(),
        sort: Sort::Tool,
        exposed: "files__read".into(),
        native: "read".into(),
        digest: None,
        standing: Standing::Offered,
        mirrors: Arc::default(),
        tasks: Default::default(),
        facts: Arc::new(Facts::unknown("files__read")),
    };
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"name":"x","arguments":{args}}}}}"#);
    Call {
        principal: Arc::new(Principal { groups, claims: Claims::of(claims), ..named }),
        method: Method::ToolsCall,
        target: Target::Thing(Arc::new(thing)),
        frame: Frame::parse(Bytes::from(body), &Budget::CLIENT).unwrap(),
        received: Instant::now(),
        grant: None,
        scene: Scene::at("default".into(), 1_796_000_000),
    }
}

/// What this thread has computed so far; how long it waited for a processor does not count.
fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

fn is_optimised() -> bool {
    !std::env::current_exe().unwrap().components().any(|part| part.as_os_str() == "debug")
}

fn repeated(part: &str, times: usize, between: &str) -> String {
    vec![part; times].join(between)
}

/// Arguments with the members `s`, `t` (texts), `l`, `k` (lists) and `m` (a mapping), each as large as may be somewhere.
fn arguments() -> Vec<String> {
    let args = |s: &str, l: &str, k: &str, m: &str| {
        format!(r#"{{"s":"{s}","t":"{s}","l":[{l}],"k":[{k}],"m":{{{m}}}}}"#)
    };
    let entries = (0..256).map(|n| format!("\"k{n}\":\"v{n}\"")).collect::<Vec<_>>().join(",");
    let needles = repeated(&format!("\"{}b\"", "a".repeat(60)), 256, ",");
    let texts = repeated("\"aaaaaaaaaaaaaaaa\"", 256, ",");
    let long = "a".repeat(100 * 1024);
    let nested = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    vec![
        "{}".to_owned(),
        args(&long, &texts, "1", &entries),
        args(&"a".repeat(8 * 1024), &needles, &needles, &entries),
        args(&"a".repeat(1024), &needles, &needles, &entries),
        args("a", &repeated("1", 256, ","), &repeated("2", 4_500, ","), ""),
        args(
            "a",
            &repeated("[1,2,3,4,5,6,7,8]", 256, ","),
            &repeated("[1,2,3,4,5,6,7,8]", 256, ","),
            &entries,
        ),
        args("a", &repeated(&nested, 100, ","), "1", ""),
        args(&"é".repeat(50_000), &texts, &texts, &entries),
        args("", &repeated("\"\"", 256, ","), &repeated("\"\"", 256, ","), &entries),
        args("1", "1", "1", "\"a\":1e400"),
        format!("{{{}}}", (0..5_000).map(|n| format!("\"a{n}\":{n}")).collect::<Vec<_>>().join(",")),
        format!(r#"{{"s":"{}"}}"#, "a".repeat(250 * 1024)),
        format!(r#"{{"l":[{}]}}"#, repeated("0", 9_990, ",")),
        "[1,2]".to_owned(),
    ]
}

/// Loops that go on, and loops that do much.
fn loops() -> Vec<String> {
    let or = |part: &str, times: usize| repeated(part, times, " || ");
    vec![
        "args.l.all(x, x.matches('a.*b.*c.*d'))".to_owned(),
        "args.l.all(x, args.s.matches('a.*b.*c.*d'))".to_owned(),
        "args.l.all(x, args.l.exists(y, x == y))".to_owned(),
        "args.l.exists(x, args.s.contains(x))".to_owned(),
        "args.l.exists(x, args.s + args.s == x)".to_owned(),
        "args.l.exists(x, args.l == args.k)".to_owned(),
        "args.l.exists(x, x in args.k && false)".to_owned(),
        format!("args.l.exists(x, {})", or("args.s.contains(x)", 12)),
        format!("args.l.exists(x, {})", or("x in args.k && x in args.l && args.k == args.l", 3)),
        format!("args.l.exists(x, {})", or("x == x", 12)),
        format!("args.l.exists(x, {})", or("x in claims.roles", 12)),
        format!("args.l.exists(x, {})", or("x in principal.groups", 12)),
        format!("args.l.exists(x, {})", or("claims == claims", 12)),
        format!("claims.roles.exists(x, {})", or("x in claims.roles", 12)),
        format!("claims.roles.exists(x, {})", or("x == 'y'", 12)),
        format!("principal.groups.exists(x, {})", or("x.contains('y')", 12)),
        "args.m.exists(k, args.m[k] == args.s)".to_owned(),
        "args.exists(k, args[k] == args.s)".to_owned(),
        "dyn(args).exists(k, k == args.s)".to_owned(),
        "args.l.exists_one(x, x == args.s)".to_owned(),
        "args.l.exists(x, x > now) || args.l.exists(x, now < x)".to_owned(),
        or("args.l.exists(x, x == args.s)", 12),
    ]
}

/// What is too large, too deep, or looks at too much.
fn sums() -> Vec<String> {
    let nested = |depth: usize| format!("{}true{}", "args.l.all(x, ".repeat(depth), ")".repeat(depth));
    let or = |part: &str, times: usize| repeated(part, times, " || ");
    vec![
        nested(2),
        nested(6),
        "args.l.map(x, x + x).map(x, x + x).map(x, x + x).size() > 0".to_owned(),
        "args.l.filter(x, true).filter(x, true).size() > 0".to_owned(),
        "[1].map(x, x).all(y, y == 1)".to_owned(),
        format!("{}1 == 1", "1 + ".repeat(1500)),
        format!("{}true{}", "(".repeat(1500), ")".repeat(1500)),
        format!("{}true{}", "[".repeat(300), "]".repeat(300)),
        format!("{}true", "!".repeat(1500)),
        format!("{}1 < 2", "-".repeat(1001)),
        format!("args{}.x == 1", ".a".repeat(1500)),
        format!("{}args.s == ''", "args.s + ".repeat(400)),
        format!("{}args.s == ''", "args.s + ".repeat(8)),
        repeated("args.s", 40, " + ") + " == ''",
        or("args.s == args.t + 'x'", 8),
        or("args.s == args.t", 120),
        or("args.s.contains('aaaaaaaaaaaaaaaaaaab')", 100),
        or("args.s.endsWith(args.t)", 100),
        or("args.l == args.k", 120),
        or("args == args", 120),
        or("size(args) == 7", 100),
        or("string(args.s) == 'x'", 100),
        or("args.s in args.l", 120),
        or("args.l in [args.k, args.l]", 60),
        "true ? args.s == '' : ".repeat(70) + "false",
        "args.s.matches('(a{1000}){1000}')".to_owned(),
        "args.s.matches(args.s)".to_owned(),
        "args.s.matches('a' + 'b')".to_owned(),
        "args.s.matches('(x+x+)+y')".to_owned(),
        "args.s.matches('(a|aa)+$')".to_owned(),
        "args.s.matches('(?i)(é|a|b){0,200}c')".to_owned(),
        format!("args.s.matches('{}')", "(a*)*".repeat(100)),
        or("args.s.matches('(a|aa)+$')", 100),
        "{'a': args.s, 'b': args.s}.exists(k, k.size() > 9)".to_owned(),
        format!("args.s in [{}]", repeated("'x'", 450, ",")),
        format!("[{}].exists(x, x == args.t + 'y')", repeated("args.s", 200, ",")),
        format!("[{}].exists(x, x == args.t)", repeated("args.s", 200, ",")),
        "timestamp(args.s) < now".to_owned(),
        "timestamp('9999-12-31T23:59:59Z') + duration('99999999h') > now".to_owned(),
        or("timestamp('2026-01-01T00:00:00Z').getDayOfYear('Europe/Berlin') == 1", 40),
        "duration(args.s) > duration('1s')".to_owned(),
        "9223372036854775807 + args.n > 0 || -9223372036854775807 - 2 < 0".to_owned(),
        "1 / 0 == 1 || 1 % 0 == 1".to_owned(),
        "'x'.repeat(1000000) == ''".to_owned(),
        "b'x' == bytes(args.s)".to_owned(),
        "Point{x: 1}.x == 1".to_owned(),
        String::new(),
        " ".repeat(5_000),
    ]
}

#[test]
fn no_condition_costs_much() {
    let time = if is_optimised() { TIME } else { TIME * SLOWER };
    let roles = (0..1_900).map(|n| format!("\"role-{n}-of-many\"")).collect::<Vec<_>>().join(",");
    let claims = format!(r#"{{"roles":[{roles}]}}"#);
    let mut dear = Vec::new();
    let (mut refused, mut asked, mut worst) = (0, 0, (Duration::ZERO, 0));
    for when in loops().into_iter().chain(sums()) {
        let Ok(rules) = Rules::compile(vec![rule("r", &when)], Effect::Allow) else {
            refused += 1;
            continue;
        };
        let checks = checks(rules);
        for args in arguments() {
            let call = call(1_000, &claims, &args);
            let (before, region) = (cpu(), Region::new(ALLOCATOR));
            let decision = checks.decide(call);
            let (took, bytes) = (cpu() - before, region.change().bytes_allocated);
            drop(decision);
            if took > time || bytes > BYTES {
                let about: String = args.chars().take(60).collect();
                dear.push(format!("{took:?}, {bytes} bytes: `{when}` of {about}"));
            }
            asked += 1;
            worst = (worst.0.max(took), worst.1.max(bytes));
        }
    }
    assert!(dear.is_empty(), "{}", dear.join("\n"));
    let (time, bytes) = worst;
    eprintln!("{refused} refused, {asked} decided; the dearest took {time:?}, the largest {bytes} bytes");
    assert!(refused >= 15 && asked >= 300, "{refused} refused, {asked} decided");
}

/// `cargo test --profile cases -p admission --test cost -- --nocapture` shows how long a decision takes.
#[test]
fn few_of_many_rules_are_looked_at() {
    let per_call = |about: &str, rules: Vec<Draft>| {
        let checks = checks(Rules::compile(rules, Effect::Allow).unwrap_or_else(|flaws| panic!("{flaws:?}")));
        let call = call(10, "{}", r#"{"path":"/srv/x","list":["a","b"],"n":1}"#);
        let turns = if is_optimised() { 2_000 } else { 50 };
        let mut best = Duration::MAX;
        for _ in 0..7 {
            let calls: Vec<Call> = (0..turns).map(|_| call.clone()).collect();
            let before = cpu();
            for call in calls {
                std::hint::black_box(checks.decide(call));
            }
            best = best.min((cpu() - before) / turns);
        }
        eprintln!("{about}: {best:?} a decision");
        best
    };
    let named = |glob: &str, when: &str| Draft {
        what: What { tools: Some(vec![compiled(glob)]), ..What::default() },
        effect: Effect::Allow,
        ..rule("r", when)
    };
    let none = per_call("no rule", Vec::new());
    for count in [10, 50, 1_000] {
        let others = (0..count).map(|n| match n % 3 {
            0 => named(&format!("server{n}__*"), "args.x == 1"),
            1 => named(&format!("server{n}__tool"), "args.x == 1"),
            _ => named(&format!("server{n}__*_tool"), "args.x == 1"),
        });
        let many = per_call(&format!("{count} rules, none a candidate"), others.collect());
        assert!(many < none + Duration::from_micros(100), "{many:?} for {count} rules, {none:?} for none");
    }
    let conditions = [
        "args.path.startsWith('/srv/')",
        "has(args.n) && args.n < 5",
        "'group-7' in principal.groups",
        "tool.destructive && args.list.all(x, x != 'c')",
        "args.path.matches('^/srv/[a-z]+$')",
    ];
    for when in conditions {
        per_call(when, vec![named("files__*", when)]);
    }
    per_call("five candidates", conditions.map(|when| named("files__*", when)).to_vec());
}

fn compiled(glob: &str) -> Glob {
    let regex = regex::escape(glob).replace(r"\*", ".*");
    Glob::new(glob, regex::Regex::new(&format!(r"\A(?s:{regex})\z")).unwrap())
}
