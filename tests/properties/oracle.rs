//! JSON as another reader has it, to the letter: what this crate's subjects are compared with.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize as _, Deserializer as _,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Deeper text is not compared.
pub(crate) const DEPTH: usize = 120;

/// A value and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) raw: &'a str,
    pub(crate) kind: Kind<'a>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind<'a> {
    Word,
    Number,
    Text(String),
    List(Vec<Node<'a>>),
    /// In the order in which they stand.
    Object(Vec<(String, Node<'a>)>),
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    NotJson,
    Deep,
}

/// Reads one value.
pub(crate) fn read(data: &[u8]) -> Result<Node<'_>, Flaw> {
    let raw: &RawValue = serde_json::from_slice(data).map_err(|_| Flaw::NotJson)?;
    node(raw.get(), DEPTH)
}

fn node(raw: &str, depth: usize) -> Result<Node<'_>, Flaw> {
    let raw = raw.trim_matches([' ', '\t', '\n', '\r']);
    let deeper = || depth.checked_sub(1).ok_or(Flaw::Deep);
    let kind = match raw.as_bytes().first() {
        Some(b'{') => {
            let members = Members::of(raw)?;
            let below = deeper()?;
            let nodes = members.into_iter().map(|(key, raw)| Ok((key, node(raw, below)?)));
            Kind::Object(nodes.collect::<Result<_, Flaw>>()?)
        }
        Some(b'[') => {
            let below = deeper()?;
            let elements: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| Flaw::NotJson)?;
            let nodes = elements.into_iter().map(|raw| node(raw.get(), below));
            Kind::List(nodes.collect::<Result<_, Flaw>>()?)
        }
        Some(b'"') => Kind::Text(serde_json::from_str(raw).map_err(|_| Flaw::NotJson)?),
        Some(b't' | b'f' | b'n') => Kind::Word,
        _ => Kind::Number,
    };
    Ok(Node { raw, kind })
}

/// Reads an object without losing members.
struct Members;

impl Members {
    fn of(raw: &str) -> Result<Vec<(String, &str)>, Flaw> {
        let mut reader = serde_json::Deserializer::from_str(raw);
        reader.deserialize_map(Members).map_err(|_| Flaw::NotJson)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((key, raw)) = map.next_entry::<String, &RawValue>()? {
            members.push((key, raw.get()));
        }
        Ok(members)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Ok(Vec::new())
    }
}

impl<'a> Node<'a> {
    /// Whether no object in it holds a key twice.
    pub(crate) fn is_strict(&self) -> bool {
        match &self.kind {
            Kind::Word | Kind::Number | Kind::Text(_) => true,
            Kind::List(list) => list.iter().all(Node::is_strict),
            Kind::Object(members) => {
                let mut keys = HashSet::new();
                members.iter().all(|(key, value)| keys.insert(key) && value.is_strict())
            }
        }
    }

    /// The members of an object; none of anything else.
    pub(crate) fn members(&self) -> &[(String, Node<'a>)] {
        match &self.kind {
            Kind::Object(members) => members,
            Kind::Word | Kind::Number | Kind::Text(_) | Kind::List(_) => &[],
        }
    }

    /// The elements of a list; none of anything else.
    pub(crate) fn elements(&self) -> &[Node<'a>] {
        match &self.kind {
            Kind::List(list) => list,
            Kind::Word | Kind::Number | Kind::Text(_) | Kind::Object(_) => &[],
        }
    }

    /// The first member of this name.
    pub(crate) fn member(&self, key: &str) -> Option<&Node<'a>> {
        self.members().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// What a string says.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            Kind::Word | Kind::Number | Kind::List(_) | Kind::Object(_) => None,
        }
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object(_))
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_))
    }
}

/// With every raw line break as a space, which in JSON can only be white space.
pub(crate) fn on_one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Whether `text` is what another reader takes for one strict value.
pub(crate) fn is_strict_json(data: &[u8]) -> Option<bool> {
    match read(data) {
        Ok(node) => Some(node.is_strict()),
        Err(Flaw::NotJson) => Some(false),
        Err(Flaw::Deep) => None,
    }
}

/// Any JSON text as serde_json's own tree, where it can hold it.
pub(crate) fn tree(text: &str) -> Option<serde_json::Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_json::Value::deserialize(&mut reader).ok()
}
