//! JSON as the values that conditions compute with, read only where a condition asks for it.

use std::collections::{BTreeMap, HashMap};

use cel::{
    Value,
    common::value::Val,
    objects::{Key, Map},
};
use serde_json::value::RawValue;

use crate::policy::Size;

/// The most values that are read of one text.
pub(crate) const NODES: usize = 10_000;

/// The most bytes that are read of one text.
pub(crate) const BYTES: usize = 256 * 1024;

/// Why a text cannot be computed with. Whoever asks gets an error, and errors deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(crate) enum Unfit {
    /// It is larger than a rule may read.
    #[error("larger than rules may read (256 KiB, 10,000 values)")]
    TooLarge,
    /// A number has more digits than conditions can compute with (design 0.1.9).
    #[error("a number in it cannot be held exactly")]
    Inexact,
    /// No JSON, or too deep.
    #[error("no JSON that can be read")]
    Unreadable,
}

/// The members of an object, by name and raw text; an error for anything else.
pub(crate) fn members(raw: &str) -> Result<Vec<(String, &str)>, Unfit> {
    if raw.len() > BYTES {
        return Err(Unfit::TooLarge);
    }
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(raw).map_err(|_| Unfit::Unreadable)?;
    Ok(members.into_iter().map(|(name, raw)| (name, raw.get())).collect())
}

/// A value as conditions compute with it.
pub(crate) struct Read {
    pub(crate) value: Box<dyn Val>,
    pub(crate) size: Size,
}

impl Read {
    /// The value that this raw text stands for.
    pub(crate) fn of(raw: &str, value: Value) -> Result<Read, Unfit> {
        let size = Size { work: raw.len() + Size::VALUE * count(raw), longest: longest(&value) };
        Ok(Read { value: value.try_into().map_err(|_| Unfit::Unreadable)?, size })
    }
}

/// The value that a raw text stands for.
pub(crate) fn value(raw: &str) -> Result<Value, Unfit> {
    if raw.len() > BYTES || count(raw) > NODES {
        return Err(Unfit::TooLarge);
    }
    if !numbers(raw).all(is_exact) {
        return Err(Unfit::Inexact);
    }
    let tree: serde_json::Value = serde_json::from_str(raw).map_err(|_| Unfit::Unreadable)?;
    Ok(computed(tree))
}

/// How many elements the longest list in a value has: a loop ends soon when it goes through few.
fn longest(value: &Value) -> usize {
    match value {
        Value::List(list) => list.iter().map(longest).max().unwrap_or(0).max(list.len()),
        Value::Map(map) => map.map.values().map(longest).max().unwrap_or(0).max(map.map.len()),
        _ => 0,
    }
}

fn computed(tree: serde_json::Value) -> Value {
    match tree {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(value),
        serde_json::Value::Number(number) => {
            let whole = number.as_i64().map(Value::Int).or_else(|| number.as_u64().map(Value::UInt));
            // INVARIANT: whoever asks looked at the number: a double is what it says.
            whole.unwrap_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN)))
        }
        serde_json::Value::String(text) => Value::from(text),
        serde_json::Value::Array(items) => {
            Value::List(items.into_iter().map(computed).collect::<Vec<_>>().into())
        }
        serde_json::Value::Object(members) => {
            let member = |(name, value)| (Key::from(name), computed(value));
            Value::Map(Map { map: members.into_iter().map(member).collect::<HashMap<_, _>>().into() })
        }
    }
}

/// How many values a JSON text has at most: each but the first stands behind a bracket, a comma or a colon.
pub(crate) fn count(raw: &str) -> usize {
    let mut texts = false;
    let mut escaped = false;
    let mut count = 1;
    for byte in raw.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if texts => escaped = true,
            b'"' => texts = !texts,
            b'[' | b',' if !texts => count += 1,
            _ => {}
        }
    }
    count
}

/// The numbers in a JSON text, as they are written.
fn numbers(raw: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = raw.as_bytes();
        loop {
            match bytes.get(at)? {
                b'"' => {
                    at += 1;
                    while let Some(byte) = bytes.get(at) {
                        at += if *byte == b'\\' { 2 } else { 1 };
                        if *byte == b'"' {
                            break;
                        }
                    }
                }
                b'-' | b'0'..=b'9' => {
                    let from = at;
                    while bytes
                        .get(at)
                        .is_some_and(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
                    {
                        at += 1;
                    }
                    return raw.get(from..at);
                }
                _ => at += 1,
            }
        }
    })
}

/// Whether one of the number types of conditions has exactly this value, or prints as it.
fn is_exact(number: &str) -> bool {
    if !number.contains(['.', 'e', 'E']) {
        return number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    match number.parse::<f64>() {
        Ok(double) if double.is_finite() => {
            wire::digest::canonical_number(number) == wire::digest::canonical_number(&format!("{double:e}"))
        }
        Ok(_) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_refused() {
        for (number, exact) in [
            ("0", true),
            ("-0", true),
            ("9223372036854775807", true),
            ("18446744073709551615", true),
            ("18446744073709551616", false),
            ("-9223372036854775809", false),
            ("0.1", true),
            ("1e2", true),
            ("1.50", true),
            ("0.1000000000000000055511151231257827", false),
            ("1e400", false),
            ("123456789012345678.5", false),
        ] {
            assert_eq!(is_exact(number), exact, "{number}");
        }
        assert_eq!(value(r#"{"a":"1e400","b":[1.5]}"#).map(|_| ()), Ok(()), "a number in a text is none");
        assert_eq!(value(r#"{"a":["\"",1e400]}"#).err(), Some(Unfit::Inexact));
    }

    #[test]
    fn what_is_too_large_is_not_read() {
        let many = format!("[{}0]", "0,".repeat(NODES));
        assert_eq!(value(&many).err(), Some(Unfit::TooLarge));
        let long = format!("\"{}\"", "x".repeat(BYTES));
        assert_eq!(value(&long).err(), Some(Unfit::TooLarge));
        assert_eq!(value(&"[".repeat(200)).err(), Some(Unfit::Unreadable));
    }

    #[test]
    fn members_are_found_without_being_read() {
        let found = members(r#"{"a":1,"b\u0063":{"x":[1e400]}}"#).unwrap();
        assert_eq!(found, [("a".to_owned(), "1"), ("bc".to_owned(), r#"{"x":[1e400]}"#)]);
        assert_eq!(members("[1]").err(), Some(Unfit::Unreadable));
    }
}
