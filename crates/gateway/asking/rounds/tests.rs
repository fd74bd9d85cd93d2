//! What clients carry from one round of a call to the next.

use std::time::Instant;

use admission::{Facts, Principal, Scene, Sort, Standing, Target, TenantId};
use wire::Budget;

use super::*;
use crate::seal::SealKey;

struct Fixture {
    seal: Seal,
    call: Call,
    thing: Thing,
    server: &'static str,
}

impl Fixture {
    fn new(params: &str) -> Fixture {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let principal =
            Principal::named(TenantId::new("acme".into()), "https://issuer.example".into(), "ada".into());
        let call = Call {
            principal: Arc::new(principal),
            method: Method::ToolsCall,
            target: Target::Ourselves,
            frame: Frame::parse(text.into(), &Budget::CLIENT).unwrap(),
            received: Instant::now(),
            grant: None,
            scene: Scene::at("default".into(), 0),
        };
        let thing = Thing {
            upstream: "hub".into(),
            sort: Sort::Tool,
            exposed: "hub__act".into(),
            native: "act".into(),
            digest: None,
            standing: Standing::Offered,
            mirrors: Arc::default(),
            tasks: Default::default(),
            facts: Arc::new(Facts::unknown("hub__act")),
        };
        let seal = Seal::new(vec![SealKey { id: 1, key: [7; 32], current: true }]).unwrap();
        Fixture { seal, call, thing, server: "default" }
    }

    fn sealed(&self) -> Sealed<'_> {
        Sealed { seal: &self.seal, call: &self.call, thing: &self.thing, server: self.server }
    }

    fn read(&self) -> Result<Retry, CatalogError> {
        Retry::read(&self.sealed(), &Visit::Alone(Arc::clone(&self.call.principal)))
    }
}

const FIRST: &str = r#"{"name":"hub__act","arguments":{"a":1}}"#;

fn with(state: &str) -> String {
    format!(
        r#"{{"name":"hub__act","arguments":{{"a": 1.0e0}},"inputResponses":{{"k":{{}}}},"requestState":"{state}"}}"#
    )
}

#[test]
fn a_state_comes_back_byte_for_byte_and_none_is_not_an_empty_one() {
    let first = Fixture::new(FIRST);
    for (state, carried) in
        [(None, None), (Some("\"\""), Some("\"\"")), (Some(r#""a\u0062 \/""#), Some(r#""a\u0062 \/""#))]
    {
        let text = first.sealed().close(&Carried::State(state), until()).unwrap();
        // The same arguments, spelled differently.
        let retry = Fixture::new(&with(&text)).read().unwrap();
        assert_eq!(retry.state.as_deref(), carried);
        assert_eq!(retry.responses.as_deref(), Some(r#"{"k":{}}"#));
    }
    let text = first.sealed().close(&Carried::Again, until()).unwrap();
    assert_eq!(Fixture::new(&with(&text)).read().unwrap(), Retry::default());
}

#[test]
fn a_state_is_good_for_one_caller_one_call_and_one_hour() {
    let text = Fixture::new(FIRST).sealed().close(&Carried::State(None), until()).unwrap();
    let changed = |change: &dyn Fn(&mut Fixture)| {
        let mut fixture = Fixture::new(&with(&text));
        change(&mut fixture);
        fixture.read().is_ok()
    };
    assert!(changed(&|_| ()));
    let principal = |change: &dyn Fn(&mut Principal)| {
        changed(&|fixture| {
            let mut other = Principal::clone(&fixture.call.principal);
            change(&mut other);
            fixture.call.principal = Arc::new(other);
        })
    };
    assert!(!principal(&|other| other.subject = "bob".into()));
    assert!(!principal(&|other| other.issuer = "https://other.example".into()));
    assert!(!principal(&|other| other.tenant = TenantId::new("globex".into())));
    assert!(!changed(&|fixture| fixture.thing.exposed = "hub__other".into()));
    assert!(!changed(&|fixture| fixture.thing.upstream = "other".into()));
    assert!(!changed(&|fixture| fixture.server = "docs"));
    assert!(!changed(&|fixture| fixture.call.method = Method::PromptsGet));
    let other = with(&text).replace("1.0e0", "2");
    assert!(Fixture::new(&other).read().is_err());
    let tampered = format!("{}{text}", if text.starts_with('A') { "B" } else { "A" });
    assert!(Fixture::new(&with(&tampered)).read().is_err());
    let old = Fixture::new(FIRST).sealed().close(&Carried::State(None), now() - 1).unwrap();
    assert!(Fixture::new(&with(&old)).read().is_err());
}

#[test]
fn answers_must_be_an_object_and_need_no_state() {
    let read = |responses: &str| {
        Fixture::new(&format!(r#"{{"name":"hub__act","inputResponses":{responses}}}"#)).read()
    };
    for malformed in ["null", "[]", "\"x\"", "1"] {
        assert!(read(malformed).is_err(), "{malformed}");
    }
    assert_eq!(read(r#"{"k":1}"#).unwrap().responses.as_deref(), Some(r#"{"k":1}"#));
    for malformed in ["null", "7", "{}"] {
        let params = format!(r#"{{"name":"hub__act","requestState":{malformed}}}"#);
        assert!(Fixture::new(&params).read().is_err(), "{malformed}");
    }
}

mod forged;
