//! Rules over calls: what each counts, for whom, and that one that refuses charges nothing.

use std::time::Instant;

use admission::{Facts, Scene, Sort, Standing, Thing};
use config::{LimitRule, Rate, TenantLimits};
use wire::{Budget, Frame};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn rule(name: &str, per: Per, method: Counted) -> LimitRule {
    LimitRule {
        name: name.into(),
        per,
        method,
        upstream: None,
        tool: None,
        server: None,
        rate: None,
        concurrent: None,
        bytes_in: None,
        bytes_out: None,
        budget: None,
        sessions: None,
        streams: None,
    }
}

fn rated(name: &str, per: Per, method: Counted, burst: u64) -> LimitRule {
    let rate = Rate { count: 60, every: 60 * SECOND, burst };
    LimitRule { rate: Some(rate), ..rule(name, per, method) }
}

fn rules(rules: Vec<LimitRule>) -> Rules {
    let limits = TenantLimits { rules, runaway: None, taint: SECOND };
    Rules::of_tenants(["acme", "globex"].into_iter().map(|name| (name.into(), &limits)))
}

fn who(tenant: &str, subject: &str) -> Arc<Principal> {
    Arc::new(Principal::named(TenantId::new(tenant.into()), "portcullis".into(), subject.into()))
}

fn thing(upstream: &str, name: &str) -> Target {
    Target::Thing(Arc::new(Thing {
        upstream: upstream.into(),
        sort: Sort::Tool,
        exposed: format!("{upstream}__{name}").into(),
        native: name.into(),
        digest: None,
        standing: Standing::Offered,
        mirrors: Arc::default(),
        tasks: Default::default(),
        facts: Arc::new(Facts::unknown(name)),
    }))
}

fn call(principal: &Arc<Principal>, method: &str, target: Target) -> Call {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"x"}}}}"#);
    let frame = Frame::parse(text.into(), &Budget::CLIENT).unwrap();
    Call {
        principal: Arc::clone(principal),
        method: frame.method().unwrap(),
        target,
        frame,
        received: Instant::now(),
        grant: None,
        scene: Scene::at("default".into(), 0),
    }
}

/// A gateway's limits, and calls of tools.
struct Door(Limits, Rules);

impl Door {
    fn new(list: Vec<LimitRule>) -> Door {
        Door(Limits::new(), rules(list))
    }

    fn take(&self, call: &Call) -> Result<Charge, LimitError> {
        self.0.charge((&self.1, &Checks::default()), call, &Visit::Alone(Arc::clone(&call.principal)))
    }

    /// How many of so many calls of a tool pass.
    fn passed(&self, of: usize, principal: &Arc<Principal>, tool: (&str, &str)) -> usize {
        (0..of).filter(|_| self.take(&call(principal, "tools/call", thing(tool.0, tool.1))).is_ok()).count()
    }
}

fn spent_of(refused: Result<Charge, LimitError>) -> (String, SpentOf) {
    match refused {
        Err(LimitError::Spent(spent)) => (spent.rule.to_string(), spent.of),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_is_counted_apart_from_the_others() {
    let tool = ("files", "read");
    let (ada, bob, eve) = (who("acme", "ada"), who("acme", "bob"), who("globex", "ada"));
    let door = Door::new(vec![rated("each", Per::Principal, Counted::ToolsCall, 3)]);
    assert_eq!(
        (door.passed(5, &ada, tool), door.passed(5, &bob, tool), door.passed(5, &eve, tool)),
        (3, 3, 3)
    );
    let door = Door::new(vec![rated("all", Per::Tenant, Counted::Things, 3)]);
    assert_eq!(
        (door.passed(5, &ada, tool), door.passed(5, &bob, tool), door.passed(5, &eve, tool)),
        (3, 0, 3)
    );
    let door = Door::new(vec![rated("up", Per::Upstream, Counted::Calls, 3)]);
    assert_eq!((door.passed(5, &ada, tool), door.passed(5, &bob, ("web", "get"))), (3, 3));
    let door = Door::new(vec![rated("tool", Per::Tool, Counted::Calls, 3)]);
    assert_eq!((door.passed(5, &ada, tool), door.passed(5, &ada, ("files", "stat"))), (3, 3));
}

#[test]
fn only_what_is_selected_is_counted() {
    let ada = who("acme", "ada");
    let glob = config::Pattern::glob("github__create_*").unwrap();
    let only = LimitRule { tool: Some(glob), ..rated("create", Per::Principal, Counted::Things, 2) };
    let door = Door::new(vec![only]);
    assert_eq!(door.passed(5, &ada, ("github", "create_issue")), 2);
    assert_eq!(door.passed(5, &ada, ("github", "create_label")), 0);
    assert_eq!(door.passed(5, &ada, ("github", "list")), 5);
    let elsewhere = LimitRule { server: Some("other".into()), ..rated("o", Per::Server, Counted::Things, 1) };
    assert_eq!(Door::new(vec![elsewhere]).passed(5, &ada, ("files", "read")), 5);
}

#[test]
fn lists_handshakes_and_pings_eat_no_budget() {
    let ada = who("acme", "ada");
    let door = Door::new(vec![rated("all", Per::Principal, Counted::Things, 1)]);
    for method in ["initialize", "ping", "tools/list", "notifications/initialized"] {
        for _ in 0..5 {
            assert!(door.take(&call(&ada, method, Target::Ourselves)).is_ok(), "{method}");
        }
    }
    assert_eq!(door.passed(5, &ada, ("files", "read")), 1);
    let lists = Door::new(vec![rated("lists", Per::Principal, Counted::Lists, 2)]);
    let list = || lists.take(&call(&ada, "tools/list", Target::Listing(wire::Kind::Tools)));
    assert!(list().is_ok() && list().is_ok() && list().is_err());
}

#[test]
fn what_is_hidden_costs_what_a_missing_name_costs() {
    let ada = who("acme", "ada");
    let hidden = |name: &str| {
        let Target::Thing(thing) = thing("files", name) else { unreachable!() };
        let facts = Arc::clone(&thing.facts);
        let (upstream, exposed, native) = (Arc::clone(&thing.upstream), thing.exposed.clone(), name.into());
        Target::Thing(Arc::new(Thing {
            upstream,
            sort: Sort::Tool,
            exposed,
            native,
            digest: None,
            standing: Standing::Filtered,
            mirrors: Arc::default(),
            tasks: Default::default(),
            facts,
        }))
    };
    let missing = |name: &str| Target::Missing(Sort::Tool, format!("files__{name}").into());
    // Asked for seven times; then somebody looks what is left for the tools that there are.
    let left = |target: &dyn Fn(&str) -> Target| {
        let upstream =
            LimitRule { upstream: Some("files".into()), ..rated("up", Per::Principal, Counted::Things, 9) };
        let rules = vec![
            rated("all", Per::Principal, Counted::Things, 20),
            upstream,
            rated("tool", Per::Tool, Counted::Calls, 9),
        ];
        let door = Door::new(rules);
        let passed = (0..7).filter(|_| door.take(&call(&ada, "tools/call", target("none"))).is_ok()).count();
        (passed, door.passed(30, &ada, ("files", "read")), door.passed(30, &ada, ("web", "get")))
    };
    // A rule that selects an upstream or a tool is not used up by what nobody sees; the others are.
    assert_eq!(left(&missing), (7, 9, 4));
    assert_eq!(left(&hidden), left(&missing));
}

#[test]
fn probing_is_an_attempt() {
    let ada = who("acme", "ada");
    let door = Door::new(vec![rated("all", Per::Principal, Counted::ToolsCall, 3)]);
    let missing = || Target::Missing(Sort::Tool, "files__none".into());
    let passed = (0..9).filter(|_| door.take(&call(&ada, "tools/call", missing())).is_ok()).count();
    assert_eq!((passed, door.passed(1, &ada, ("files", "read"))), (3, 0));
}

#[test]
fn a_refusal_charges_nobody() {
    let (ada, bob) = (who("acme", "ada"), who("acme", "bob"));
    let budget = LimitRule { budget: Some(6), ..rule("day", Per::Tenant, Counted::Things) };
    let each = rated("each", Per::Principal, Counted::Things, 2);
    let places = LimitRule { concurrent: Some(1), ..rule("one", Per::Tool, Counted::Things) };
    let door = Door::new(vec![budget, places, each]);
    assert_eq!(door.passed(50, &ada, ("files", "read")), 2);
    assert_eq!(door.passed(2, &bob, ("files", "read")), 2);
    door.0.clock.pass(2 * SECOND);
    assert_eq!(door.passed(2, &bob, ("files", "read")), 2, "the refused ones were not counted");
    door.0.clock.pass(2 * SECOND);
    let refused = door.take(&call(&ada, "tools/call", thing("files", "read")));
    assert_eq!(spent_of(refused), ("day".to_owned(), SpentOf::Budget));
}

#[test]
fn a_day_begins_at_midnight_and_a_budget_with_it() {
    let ada = who("acme", "ada");
    let door = Door::new(vec![LimitRule { budget: Some(2), ..rule("day", Per::Principal, Counted::Calls) }]);
    assert_eq!(door.passed(5, &ada, ("files", "read")), 2);
    let left = door.0.clock.now().left;
    assert!(left <= 86_400 * SECOND);
    let refused = door.take(&call(&ada, "tools/call", thing("files", "read"))).unwrap_err();
    assert!(refused.retry_after().unwrap() >= left.as_secs());
    door.0.clock.pass(left);
    assert_eq!(door.passed(5, &ada, ("files", "read")), 2);
}

#[test]
fn a_place_is_given_back_when_the_call_is_dropped() {
    let ada = who("acme", "ada");
    let door =
        Door::new(vec![LimitRule { concurrent: Some(2), ..rule("two", Per::Principal, Counted::Things) }]);
    let read = || door.take(&call(&ada, "tools/call", thing("files", "read")));
    let (one, _two) = (read().unwrap(), read().unwrap());
    assert_eq!(spent_of(read()), ("two".to_owned(), SpentOf::Places));
    drop(one);
    assert!(read().is_ok());
}

#[test]
fn no_principal_and_no_tenant_can_take_every_place() {
    let door = Door::new(Vec::new());
    let read = |who: &Arc<Principal>| door.take(&call(who, "tools/call", thing("files", "read")));
    let mut held = Vec::new();
    for number in 0.. {
        let somebody = who("acme", &number.to_string());
        let before = held.len();
        held.extend((0..300).map_while(|_| read(&somebody).ok()));
        match held.len() - before {
            256 => assert_eq!(spent_of(read(&somebody)), ("running-principal".to_owned(), SpentOf::Places)),
            0 => break,
            other => panic!("{other}"),
        }
    }
    assert_eq!(held.len(), 2048);
    assert_eq!(spent_of(read(&who("acme", "late"))), ("running-tenant".to_owned(), SpentOf::Places));
    assert!(read(&who("globex", "ada")).is_ok());
}

#[test]
fn bytes_are_owed_and_paid() {
    let ada = who("acme", "ada");
    let volume = |count| Some(Rate { count, every: 60 * SECOND, burst: count / 10 });
    let both = LimitRule { bytes_out: volume(6000), ..rule("out", Per::Tenant, Counted::Things) };
    let door = Door::new(vec![both]);
    let read = || door.take(&call(&ada, "tools/call", thing("files", "read")));
    let charge = read().unwrap();
    door.0.answered(&charge, 6600);
    let refused = read().unwrap_err();
    assert_eq!(refused.retry_after(), Some(60));
    door.0.clock.pass(59 * SECOND);
    assert!(read().is_err());
    door.0.clock.pass(2 * SECOND);
    assert!(read().is_ok());
}

#[test]
fn another_configuration_goes_on_with_what_was_used_up() {
    let ada = who("acme", "ada");
    let mut door = Door::new(vec![rated("each", Per::Principal, Counted::Things, 3)]);
    assert_eq!(door.passed(5, &ada, ("files", "read")), 3);
    door.1 = rules(vec![rated("each", Per::Principal, Counted::Calls, 4)]);
    assert_eq!(door.passed(5, &ada, ("files", "read")), 1);
    door.1 = rules(vec![rated("another", Per::Principal, Counted::Calls, 4)]);
    assert_eq!(door.passed(5, &ada, ("files", "read")), 4);
}

#[test]
fn many_names_take_no_more_room_than_there_is() {
    let rate = Some(Rate { count: 1, every: 3600 * SECOND, burst: 1 });
    let door = Door::new(vec![LimitRule { rate, ..rule("each", Per::Principal, Counted::Things) }]);
    let name = |number: usize| who("acme", &number.to_string());
    let passed = (0..120_000).filter(|number| door.passed(1, &name(*number), ("files", "read")) == 1).count();
    // Two rules count each of them; whoever comes late shares what is left.
    assert!((49_000..51_000).contains(&passed), "{passed}");
    door.0.sweep();
    assert_eq!(door.passed(1, &name(1), ("files", "read")), 0);
    door.0.clock.pass(3600 * SECOND);
    door.0.sweep();
    assert_eq!(door.passed(1, &name(130_000), ("files", "read")), 1);
}

#[test]
fn questions_of_an_upstream_are_counted_too() {
    let ada = who("acme", "ada");
    let door = Door::new(vec![rated("ask", Per::Upstream, Counted::Sampling, 2)]);
    let ask = |upstream| door.0.question(&door.1, &ada, (Counted::Sampling, upstream)).is_ok();
    assert!(ask("files") && ask("files") && !ask("files") && ask("web"));
    assert!(door.0.question(&door.1, &ada, (Counted::Elicitation, "files")).is_ok());
}

#[test]
fn streams_are_counted_by_principal() {
    let (ada, bob) = (who("acme", "ada"), who("acme", "bob"));
    let door = Door::new(vec![LimitRule { streams: Some(1), ..rule("s", Per::Principal, Counted::Things) }]);
    let one = door.0.stream(&door.1, &ada).unwrap();
    assert!(door.0.stream(&door.1, &ada).is_err() && door.0.stream(&door.1, &bob).is_ok());
    drop(one);
    assert!(door.0.stream(&door.1, &ada).is_ok());
}
