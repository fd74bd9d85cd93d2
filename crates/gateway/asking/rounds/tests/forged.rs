//! Any state, any arguments, any damage: what comes back is what was given, or nothing (spec V-04, Q-19).

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_state_comes_back_as_it_was_and_only_for_the_same_call(state: String, one in ".{0,12}", other in ".{0,12}") {
        let (mine, theirs) = (code::quote(&one), code::quote(&other));
        let call = |arguments: &str, more: &str| {
            Fixture::new(&format!(r#"{{"name":"hub__act","arguments":{{"a":{arguments}}}{more}}}"#))
        };
        let state = code::quote(&state);
        let text = call(&mine, "").sealed().close(&Carried::State(Some(&state)), until()).unwrap();
        let more = format!(r#","requestState":{}"#, code::quote(&text));
        let back = call(&mine, &more).read().unwrap();
        prop_assert_eq!(back.state.as_deref(), Some(&*state));
        prop_assert_eq!(call(&theirs, &more).read().is_ok(), one == other);
    }

    #[test]
    fn what_was_made_up_or_changed_opens_nothing(made_up: String, at: prop::sample::Index, letter in "[A-Za-z0-9_-]") {
        let read = |state: &str| {
            let params = format!(r#"{{"name":"hub__act","arguments":{{"a":1}},"requestState":{}}}"#, code::quote(state));
            Fixture::new(&params).read().is_ok()
        };
        prop_assert!(!read(&made_up));
        let text = Fixture::new(FIRST).sealed().close(&Carried::Again, until()).unwrap();
        let at = at.index(text.len());
        let mut changed = text.clone();
        changed.replace_range(at..=at, &letter);
        prop_assert_eq!(read(&changed), changed == text);
        prop_assert!(!read(text.get(..at).unwrap()));
    }

    #[test]
    fn no_two_calls_have_one_place(one in prop::collection::vec("[a,\"\\\\]{0,4}", 3), other in prop::collection::vec("[a,\"\\\\]{0,4}", 3)) {
        let place = |parts: &[String]| {
            let mut fixture = Fixture::new(FIRST);
            let [upstream, exposed, native] = parts else { return String::new() };
            fixture.thing.upstream = upstream.as_str().into();
            fixture.thing.exposed = exposed.as_str().into();
            fixture.thing.native = native.as_str().into();
            fixture.sealed().place()
        };
        prop_assert_eq!(place(&one) == place(&other), one == other);
    }
}
