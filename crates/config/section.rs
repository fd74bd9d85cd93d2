//! Mappings: `section!` turns one table into the struct that is read and the description of it, and
//! `Map` is for mappings whose keys are names.

use serde_json::Value;

use crate::form::{Choice, Form};
use crate::reader::{At, Reader, Written};
use crate::tree::{Node, What};
use crate::word::Word;

/// Declares a mapping with known keys.
///
/// `"key" field: Type = default;` is a key with a default, `"key" field: Type;` an optional one and
/// `"key" field: Type, required;` one that must be there; with `required or "other"` it or the optional key `other`
/// must, never both. The struct keeps what was written, and a key with a default gets a method of its name that answers
/// what holds. Name, type, default and doc line of a key stand in this one place: the reader, the reference page
/// and the schemas are made from it.
macro_rules! section {
    (
        $title:literal
        $(#[doc = $doc:literal])*
        $name:ident {
            $($(#[doc = $key_doc:literal])* $key:literal $field:ident: $type:ty $(= $default:expr)? $(, $must:ident $(or $other:literal)?)?;)*
        }
        refused { $($refused:literal $(or $off:ident)? : $why:literal;)* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name {
            $(pub(crate) $field: Option<$crate::reader::At<$type>>,)*
        }

        impl $name {
            /// The keys that work.
            pub(crate) const KEYS: &'static [&'static str] = &[$($key),*];
            /// The keys that are known and refused.
            pub(crate) const REFUSED: &'static [$crate::form::Refused] = &[
                $($crate::form::Refused { name: $refused, why: $why, off: section!(@off $($off)?) }),*
            ];

            $($(
                /// What holds: as written, or the default.
                pub(crate) fn $field(&self) -> $type {
                    match &self.$field {
                        Some(written) => written.value.clone(),
                        None => $default,
                    }
                }
            )?)*
        }

        impl $crate::reader::Written for $name {
            fn form() -> $crate::form::Form {
                $crate::form::Form::Section($crate::form::Section {
                    title: $title,
                    doc: $crate::section::joined(&[$($doc),*]),
                    keys: vec![$($crate::form::Key {
                        name: $key,
                        doc: $crate::section::joined(&[$($key_doc),*]),
                        form: <$type as $crate::reader::Written>::form(),
                        presence: section!(@presence $type; $($default)? $($must $($other)?)?),
                    }),*],
                    refused: Self::REFUSED.to_vec(),
                })
            }

            fn read(node: &$crate::tree::Node, reader: &mut $crate::reader::Reader<'_>) -> Option<Self> {
                let $crate::tree::What::Map(entries) = &node.what else {
                    reader.wrong_type(node, &Self::form());
                    return None;
                };
                reader.keys(entries, Self::KEYS, Self::REFUSED);
                $($(section!(@must $must); reader.require(node, &[$key $(, $other)?], Self::KEYS);)?)*
                Some($name { $($field: reader.member(node, $key),)* })
            }

            fn sample(&self) -> ::serde_json::Value {
                // A section has no default of its own: its keys have theirs.
                ::serde_json::Value::Null
            }
        }
    };
    (@off) => { $crate::form::Off::Never };
    (@off empty_list) => { $crate::form::Off::EmptyList };
    (@off null) => { $crate::form::Off::Null };
    (@must required) => {};
    (@presence $type:ty;) => { $crate::form::Presence::Optional };
    (@presence $type:ty; required) => { $crate::form::Presence::Required };
    (@presence $type:ty; required $other:literal) => { $crate::form::Presence::Either { or: $other } };
    (@presence $type:ty; $default:expr) => {
        $crate::form::Presence::Default(<$type as $crate::reader::Written>::sample(&$default))
    };
}
pub(crate) use section;

/// The lines of a doc comment as one paragraph.
pub(crate) fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// A mapping whose keys are names. A name whose value is wrong is kept: others may refer to it.
#[derive(Clone, Debug)]
pub(crate) struct Map<K, V> {
    /// What could be read, in the order of the file.
    pub(crate) entries: Vec<(At<K>, Option<At<V>>)>,
    /// How many entries were written, with those whose name is wrong.
    pub(crate) written: usize,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Map { entries: Vec::new(), written: 0 }
    }
}

/// What the keys of a map are.
pub(crate) trait Name: Word {
    /// In the plural, for the reference page.
    const NAMES: &'static str;
}

impl<K: Name, V: Written> Written for Map<K, V> {
    fn form() -> Form {
        Form::Map { of: K::NAMES, value: Box::new(V::form()) }
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let What::Map(entries) = &node.what else {
            reader.wrong_type(node, &Self::form());
            return None;
        };
        let mut read = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = K::parse(&entry.key);
            let value = reader.under(reader.step(&entry.key), &entry.value);
            match name {
                Ok(name) => read.push((At { value: name, place: reader.place(entry.key_span) }, value)),
                Err(mistake) => {
                    reader.note(entry.key_span, format!("`{}` {}", entry.key, mistake.why), mistake.hint);
                }
            }
        }
        Some(Map { entries: read, written: entries.len() })
    }

    fn sample(&self) -> Value {
        // Only empty maps are defaults.
        Value::Object(serde_json::Map::new())
    }
}

/// A section that one word may stand in the place of.
pub(crate) trait OrWord: Written {
    /// That word.
    const WORD: &'static Choice;
}

/// A section, or the word in its place.
#[derive(Clone, Debug)]
pub(crate) enum WordOr<S> {
    /// The word.
    Word,
    /// The section.
    This(Box<S>),
}

impl<S: OrWord> Written for WordOr<S> {
    fn form() -> Form {
        match S::form() {
            Form::Section(section) => Form::WordOr(S::WORD, section),
            other => other,
        }
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.what {
            What::Scalar { text, .. } if text == S::WORD.word => Some(WordOr::Word),
            What::Map(_) => Some(WordOr::This(Box::new(S::read(node, reader)?))),
            What::Scalar { .. } | What::List(_) | What::Broken => {
                reader.wrong_type(node, &Self::form());
                None
            }
        }
    }

    fn sample(&self) -> Value {
        match self {
            WordOr::Word => Value::from(S::WORD.word),
            // A section has no default of its own: its keys have theirs.
            WordOr::This(_) => Value::Null,
        }
    }
}
