//! Properties of the decision itself: order, combination, and that explaining agrees with deciding.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use proptest::prelude::*;
use wire::{Budget, Frame, Kind, Method};

use super::*;
use crate::{Facts, Principal, Scene, Sort, Standing, Target, TenantId, Thing};

fn call(target: Target) -> Call {
    let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#);
    Call {
        principal: Arc::new(Principal::named(TenantId::new("acme".into()), "".into(), "ada".into())),
        method: Method::ToolsCall,
        target,
        frame: Frame::parse(body, &Budget::CLIENT).expect("a frame"),
        received: Instant::now(),
        grant: None,
        scene: Scene::at("default".into(), 0),
    }
}

fn thing(standing: Standing) -> Target {
    Target::Thing(Arc::new(Thing {
        upstream: "files".into(),
        sort: Sort::Tool,
        exposed: "files__read".into(),
        native: "read".into(),
        digest: None,
        standing,
        mirrors: Arc::default(),
        tasks: Default::default(),
        facts: Arc::new(Facts::unknown("files__read")),
    }))
}

fn targets() -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(Target::Ourselves),
        Just(Target::Listing(Kind::Tools)),
        Just(Target::Missing(Sort::Tool, "nope".into())),
        Just(thing(Standing::Offered)),
        Just(thing(Standing::Filtered)),
        Just(thing(Standing::Excluded("twin"))),
    ]
}

proptest! {
    #[test]
    fn explaining_agrees_with_deciding(target in targets()) {
        let checks = Checks::default();
        let asked = call(target);
        let explained = checks.explain(&asked);
        let denied = explained.iter().find_map(|(by, verdict)| match verdict {
            Verdict::Deny(refusal) => Some(Denial::of(*by, refusal.clone())),
            Verdict::Allow | Verdict::Hold(_) => None,
        });
        match (checks.decide(asked), denied) {
            (Decision::Denied(denial), Some(expected)) => prop_assert_eq!(denial, expected),
            (Decision::Admitted(_), None) => (),
            (decision, expected) => prop_assert!(false, "{decision:?} against {expected:?}"),
        }
    }

    #[test]
    fn only_what_is_offered_is_admitted(target in targets()) {
        let offered = match &target {
            Target::Ourselves | Target::Listing(_) => true,
            Target::Thing(thing) => thing.standing == Standing::Offered,
            Target::Missing(..) => false,
        };
        let admitted = matches!(Checks::default().decide(call(target)), Decision::Admitted(_));
        prop_assert_eq!(admitted, offered);
    }
}

#[test]
fn a_hidden_thing_is_denied_by_the_same_check_as_a_missing_one() {
    let by = |target| match Checks::default().decide(call(target)) {
        Decision::Denied(denial) => denial.by,
        other => panic!("{other:?}"),
    };
    assert_eq!(by(thing(Standing::Filtered)), CheckName::Visibility);
    assert_eq!(by(thing(Standing::Excluded("twin"))), CheckName::Visibility);
    assert_eq!(by(Target::Missing(Sort::Tool, "nope".into())), CheckName::Visibility);
}
