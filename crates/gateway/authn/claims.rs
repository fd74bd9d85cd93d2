//! JSON as tokens and key sets carry it, read so that no two readers can differ about it.
//!
//! Untyped on purpose: which claims matter is a matter of configuration. What is too large never gets here.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// A JSON object without a member named twice, at any level (security row 16).
#[derive(Debug, Default)]
pub(super) struct Claims(Vec<(String, Claim)>);

/// A JSON value.
#[derive(Debug)]
pub(super) enum Claim {
    /// `null`: no claim we read has such a value.
    Null,
    /// `true` or `false`.
    Truth(bool),
    /// A number; none that is infinite.
    Number(f64),
    Text(String),
    List(Vec<Claim>),
    Object(Claims),
}

/// A claim is there and is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrong;

impl Claims {
    /// Reads one object; nothing may follow it.
    pub(super) fn read(text: &[u8]) -> Result<Claims, Wrong> {
        match serde_json::from_slice(text).map_err(|_| Wrong)? {
            Claim::Object(claims) => Ok(claims),
            _ => Err(Wrong),
        }
    }

    /// The member of this name, or where it begins with `/` what this JSON pointer leads to (RFC 6901) by names.
    pub(super) fn get(&self, name: &str) -> Option<&Claim> {
        let Some(path) = name.strip_prefix('/') else { return self.member(name) };
        let mut steps = path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let mut found = self.member(&steps.next()?)?;
        for step in steps {
            let Claim::Object(inner) = found else { return None };
            found = inner.member(&step)?;
        }
        Some(found)
    }

    fn member(&self, name: &str) -> Option<&Claim> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, claim)| claim)
    }

    /// Whether there is one, whatever it holds.
    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A text that must be there.
    pub(super) fn text(&self, name: &str) -> Result<&str, Wrong> {
        self.optional_text(name)?.ok_or(Wrong)
    }

    /// A text, when there is one.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&str>, Wrong> {
        match self.get(name) {
            None => Ok(None),
            Some(Claim::Text(text)) => Ok(Some(text)),
            Some(_) => Err(Wrong),
        }
    }

    /// Whether it says yes; it must be there.
    pub(super) fn truth(&self, name: &str) -> Result<bool, Wrong> {
        match self.get(name) {
            Some(Claim::Truth(truth)) => Ok(*truth),
            Some(_) | None => Err(Wrong),
        }
    }

    /// A point in time in whole seconds, when there is one (RFC 7519 `NumericDate`, which may have a fraction).
    pub(super) fn date(&self, name: &str) -> Result<Option<u64>, Wrong> {
        // Beyond this a double counts no single seconds, and no clock will get there.
        const LATEST: f64 = 9_007_199_254_740_992.0;
        match self.get(name) {
            None => Ok(None),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range was looked at, and a fraction of a second is no matter"
            )]
            Some(Claim::Number(seconds)) if (0.0..LATEST).contains(seconds) => Ok(Some(*seconds as u64)),
            Some(_) => Err(Wrong),
        }
    }

    /// One text or a list of texts; empty when there is none.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<&str>, Wrong> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Claim::Text(text)) => Ok(vec![text]),
            Some(Claim::List(list)) => list
                .iter()
                .map(|item| match item {
                    Claim::Text(text) => Ok(text.as_str()),
                    _ => Err(Wrong),
                })
                .collect(),
            Some(_) => Err(Wrong),
        }
    }

    /// A list of objects that must be there.
    pub(super) fn objects(&self, name: &str) -> Result<Vec<&Claims>, Wrong> {
        let Some(Claim::List(list)) = self.get(name) else { return Err(Wrong) };
        list.iter()
            .map(|item| match item {
                Claim::Object(object) => Ok(object),
                _ => Err(Wrong),
            })
            .collect()
    }
}

impl<'de> Deserialize<'de> for Claim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Claim, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Claim;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Claim, E> {
        Ok(Claim::Null)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Claim, E> {
        Ok(Claim::Truth(truth))
    }

    #[expect(clippy::cast_precision_loss, reason = "`date` refuses what a double cannot count")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Claim, E> {
        Ok(Claim::Number(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "`date` refuses what a double cannot count")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Claim, E> {
        Ok(Claim::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Claim, E> {
        Ok(Claim::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Claim, E> {
        Ok(Claim::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Claim, E> {
        Ok(Claim::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Claim, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Claim::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Claim, A::Error> {
        let mut claims = Claims::default();
        let mut names = std::collections::HashSet::new();
        while let Some((name, claim)) = members.next_entry::<String, Claim>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom("a member is named twice"));
            }
            claims.0.push((name, claim));
        }
        Ok(Claim::Object(claims))
    }
}

#[cfg(test)]
mod tests {
    use super::{Claims, Wrong};

    fn read(text: &str) -> Result<Claims, Wrong> {
        Claims::read(text.as_bytes())
    }

    #[test]
    fn only_one_whole_object_without_doubles_is_read() {
        let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
        for text in [
            "",
            "[1]",
            "1",
            "null",
            "\"a\"",
            "{",
            "{}{}",
            "{} x",
            "\u{feff}{}",
            "{\"a\":1e400}",
            "{\"a\":NaN}",
            "{\"a\":1,\"a\":1}",
            "{\"a\":1,\"\\u0061\":2}",
            "{\"b\":{\"a\":1,\"a\":1}}",
            "{\"b\":[{\"a\":1,\"a\":1}]}",
            "{\"a\":\"\\ud800\"}",
            "{'a':1}",
            "{\"a\":1,}",
            &deep,
        ] {
            assert!(read(text).is_err(), "{text:.60}");
        }
        assert!(Claims::read(b"{\"a\":\"\xff\"}").is_err());
        assert!(read("{\"a\":null,\"A\":true,\"b\":{\"a\":1}}").is_ok());
    }

    #[test]
    fn a_date_is_a_number_that_a_clock_can_reach() {
        for (text, expected) in [
            ("{}", Ok(None)),
            ("{\"exp\":0}", Ok(Some(0))),
            ("{\"exp\":1700000000}", Ok(Some(1_700_000_000))),
            ("{\"exp\":1700000000.9}", Ok(Some(1_700_000_000))),
            ("{\"exp\":1.7e9}", Ok(Some(1_700_000_000))),
            ("{\"exp\":-1}", Err(Wrong)),
            ("{\"exp\":-0.5}", Err(Wrong)),
            ("{\"exp\":1e300}", Err(Wrong)),
            ("{\"exp\":18446744073709551615}", Err(Wrong)),
            ("{\"exp\":\"1700000000\"}", Err(Wrong)),
            ("{\"exp\":true}", Err(Wrong)),
            ("{\"exp\":null}", Err(Wrong)),
            ("{\"exp\":[1700000000]}", Err(Wrong)),
        ] {
            assert_eq!(read(text).and_then(|claims| claims.date("exp")), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_one_or_a_list_and_nothing_else() {
        for (text, expected) in [
            ("{}", Ok(vec![])),
            ("{\"aud\":\"a\"}", Ok(vec!["a"])),
            ("{\"aud\":[\"a\",\"b\"]}", Ok(vec!["a", "b"])),
            ("{\"aud\":[]}", Ok(vec![])),
            ("{\"aud\":[[\"a\"]]}", Err(Wrong)),
            ("{\"aud\":[\"a\",1]}", Err(Wrong)),
            ("{\"aud\":{\"a\":1}}", Err(Wrong)),
            ("{\"aud\":null}", Err(Wrong)),
        ] {
            let claims = read(text).unwrap();
            assert_eq!(claims.texts("aud"), expected, "{text}");
        }
        let nested = read(r#"{"a/b":{"~":{"x":["one"]}},"/c":"top","d":"text"}"#).unwrap();
        assert_eq!(nested.texts("/a~1b/~0/x"), Ok(vec!["one"]));
        assert_eq!(nested.text("d"), Ok("text"));
        for absent in ["/a/b", "/d/x", "/a~1b/~0/x/0", "/", "/c", "a/b/x"] {
            assert_eq!(nested.texts(absent), Ok(vec![]), "{absent}");
        }
        assert_eq!(read("{\"sub\":1}").unwrap().text("sub"), Err(Wrong));
        assert_eq!(read("{}").unwrap().text("sub"), Err(Wrong));
    }
}
