//! Ids: two are the same exactly when their JSON type and value are.

use std::{collections::HashSet, str};

use wire::Id;

use crate::{
    halves,
    oracle::{self, Kind},
};

/// Two texts as ids.
pub(crate) fn check(data: &[u8]) {
    let (one, other) = halves(data);
    let (Ok(one), Ok(other)) = (str::from_utf8(one), str::from_utf8(other)) else { return };
    let (first, second) = (read(one), read(other));
    if let (Some(first), Some(second)) = (first, second) {
        let is_equal = value(one) == value(other);
        assert_eq!(first == second, is_equal, "{one} {other}");
        let distinct = HashSet::from([first, second]).len();
        assert_eq!(distinct == 1, is_equal, "{one} {other}");
    }
}

fn read(text: &str) -> Option<Id> {
    let id = Id::from_raw(text);
    assert_eq!(id.is_ok(), is_id(text), "{text}");
    let id = id.ok()?;
    assert_eq!(id.raw(), text);
    if let Some(number) = id.as_number() {
        let said = value(text).unwrap().1;
        assert_eq!(said, number.to_string(), "{text}");
    }
    Some(id)
}

/// A JSON string or integer of at most 256 bytes, without anything around it.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() <= 256 && value(text).is_some()
}

/// Whether it is a number, and what it says.
fn value(text: &str) -> Option<(bool, String)> {
    let node = oracle::read(text.as_bytes()).ok().filter(|node| node.raw.len() == text.len())?;
    match node.kind {
        Kind::Text(said) => Some((false, said)),
        Kind::Number if !text.contains(['.', 'e', 'E']) => {
            Some((true, if text == "-0" { "0".to_owned() } else { text.to_owned() }))
        }
        Kind::Number | Kind::Word | Kind::List(_) | Kind::Object(_) => None,
    }
}
