//! What must hold for any bytes, for a few hundred cases a subject; `tests/long fuzz` looks at a million of each.

#![allow(clippy::panic, reason = "a property that does not hold is a panic")]

use properties::{cases::fault, target};

fn holds(name: &str) {
    let Some(target) = target(name) else { panic!("no subject `{name}`") };
    if let Some(fault) = fault(target, 400) {
        panic!("{fault}");
    }
}

macro_rules! subjects {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*

        #[test]
        fn every_subject_is_looked_at() {
            let all: Vec<_> = properties::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(all, [$(stringify!($name)),*]);
            for name in all {
                let target = format!("{}/../fuzz/fuzz_targets/{name}.rs", env!("CARGO_MANIFEST_DIR"));
                assert!(std::path::Path::new(&target).exists(), "nothing fuzzes {name}");
            }
        }
    };
}

subjects! {
    frame forward batch ids events lines sentinel mirror sealed cursor place uris names digest listing shape
}
