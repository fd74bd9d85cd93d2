//! The form of what may be written: the description that the reader, the reference page and the
//! schemas share.

use serde_json::Value;

/// What a value looks like.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// One scalar: in words, and as a JSON Schema.
    Scalar { words: String, schema: Value },
    /// One word of a few.
    Choice(&'static [Choice]),
    /// Any number of values of one form.
    List(Box<Form>),
    /// Values by name; `of` says what the names are.
    Map { of: &'static str, value: Box<Form> },
    /// Known keys.
    Section(Section),
    /// One word, or known keys.
    WordOr(&'static Choice, Section),
}

/// A mapping with known keys.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// The heading on the reference page.
    pub(crate) title: &'static str,
    /// What it is for.
    pub(crate) doc: String,
    /// The keys that work.
    pub(crate) keys: Vec<Key>,
    /// The keys that are known and refused.
    pub(crate) refused: Vec<Refused>,
}

/// One key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) doc: String,
    pub(crate) form: Form,
    pub(crate) presence: Presence,
}

/// What happens when a key is left out.
#[derive(Clone, Debug)]
pub(crate) enum Presence {
    /// The file is refused.
    Required,
    /// The file is refused unless the other key is there; and when both are.
    Either { or: &'static str },
    /// It is off.
    Optional,
    /// This value is taken.
    Default(Value),
}

/// A key of a later version. Nothing that looks like a control is ever silently ignored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) name: &'static str,
    /// What would not happen.
    pub(crate) why: &'static str,
    /// The value that says "off" and is therefore accepted.
    pub(crate) off: Off,
}

/// The spelling of "off" of a refused key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Off {
    /// There is none.
    Never,
    /// `[]`
    EmptyList,
    /// `null`
    Null,
}

/// One word of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) word: &'static str,
    pub(crate) doc: &'static str,
    /// Why it is not available, when it is known only.
    pub(crate) refused: Option<&'static str>,
}

impl Form {
    /// A text scalar.
    pub(crate) fn text(words: &str) -> Form {
        Form::Scalar { words: words.to_owned(), schema: serde_json::json!({ "type": "string" }) }
    }

    /// A text scalar in a syntax; a reference may stand for it or in it.
    pub(crate) fn pattern(words: &str, pattern: &str) -> Form {
        let pattern = format!(r"^{pattern}$|\$\{{");
        Form::Scalar {
            words: words.to_owned(),
            schema: serde_json::json!({ "type": "string", "pattern": pattern }),
        }
    }

    /// What is expected, for messages and the reference page.
    pub(crate) fn words(&self) -> String {
        match self {
            Form::Scalar { words, .. } => words.clone(),
            Form::Choice(choices) => {
                let words: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.word)).collect();
                words.join(" or ")
            }
            Form::List(item) => format!("a list ({})", item.words()),
            Form::Map { of, .. } => format!("a mapping by {of}"),
            Form::Section(_) => "a mapping".to_owned(),
            Form::WordOr(choice, _) => format!("`{}` or a mapping", choice.word),
        }
    }
}
