//! What a credential says of its holder, ready for rules: read once a token, not once a call.

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use cel::{Value, objects::Key};

use crate::json::{self, Read, Unfit};

/// The most bytes of claims that rules may read; a token is shorter.
const BYTES: usize = 64 * 1024;

/// The most values of claims that rules may read.
const NODES: usize = 2_000;

/// The claims of a token. Without any, a rule that reads one is an error, which denies.
#[derive(Clone, Default)]
pub struct Claims(Option<Arc<Held>>);

struct Held {
    read: Result<Read, Unfit>,
    /// What is a text, or a list of texts, by name.
    texts: HashMap<String, Vec<Box<str>>>,
    /// What was read, for comparing.
    raw: Box<str>,
}

impl Claims {
    /// Those of one JSON object. What cannot be computed with exactly is an error for the rule that asks, not here.
    pub fn of(raw: &str) -> Claims {
        let value = match raw.len() {
            0..=BYTES if json::count(raw) <= NODES => json::value(raw),
            _ => Err(Unfit::TooLarge),
        };
        let texts = value.as_ref().map(texts).unwrap_or_default();
        let read = value.and_then(|value| Read::of(raw, value));
        Claims(Some(Arc::new(Held { read, texts, raw: raw.into() })))
    }

    /// `claims` in conditions; `None` when there are none.
    pub(crate) fn read(&self) -> Option<Result<&Read, Unfit>> {
        let held = self.0.as_deref()?;
        Some(held.read.as_ref().map_err(|unfit| *unfit))
    }

    /// A claim that is a text, or the texts of one that is a list; none of any other.
    pub(crate) fn texts(&self, name: &str) -> &[Box<str>] {
        self.0.as_deref().and_then(|held| held.texts.get(name)).map(Vec::as_slice).unwrap_or_default()
    }

    /// The claims as they were signed, raw JSON.
    pub(crate) fn raw(&self) -> Option<&str> {
        self.0.as_deref().map(|held| &*held.raw)
    }
}

fn texts(claims: &Value) -> HashMap<String, Vec<Box<str>>> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(Box::from(text.as_str())),
        _ => None,
    };
    let Value::Map(claims) = claims else { return HashMap::new() };
    let claim = |(name, value): (&Key, &Value)| {
        let texts: Vec<Box<str>> = match value {
            Value::List(list) => list.iter().map(text).collect::<Option<_>>()?,
            one => vec![text(one)?],
        };
        Some((name.to_string(), texts))
    };
    claims.map.iter().filter_map(claim).collect()
}

impl PartialEq for Claims {
    fn eq(&self, other: &Claims) -> bool {
        self.raw() == other.raw()
    }
}

impl Eq for Claims {}

impl Hash for Claims {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw().hash(state);
    }
}

/// They may say what no log should.
impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Claims(…)" } else { "Claims" })
    }
}
