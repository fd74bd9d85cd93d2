//! Reads one scalar: its type, its references, what becomes of secrets in it, and its own syntax.

use serde_json::Value;

use crate::expand::Expanded;
use crate::form::Form;
use crate::problem::Problem;
use crate::reader::{Reader, Written};
use crate::tree::{Node, What};

/// How much of a wrong value a message repeats.
const SHOWN_CHARS: usize = 60;

/// A type that is written as one scalar.
pub(crate) trait Word: Sized {
    /// Which scalars without quotes it takes, in the words of [`Node::kind`].
    const PLAIN: &'static [&'static str] = &["text"];
    /// Whether quotes are fine.
    const QUOTED: bool = true;
    /// What becomes of secrets in it.
    const SECRETS: Secrets = Secrets::Refused;

    /// What it looks like.
    fn form() -> Form;
    /// Reads it.
    fn parse(text: &str) -> Result<Self, Mistake>;
    /// The value as it would be written.
    fn sample(&self) -> Value;
}

/// Whether a secret may be part of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// It may not: the value is shown somewhere.
    Refused,
    /// It may, but others on the machine can see it.
    Exposed,
    /// It may: the value is held as a secret.
    Held,
}

/// What is wrong with a word. The message goes on after the word itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// `is no address`
    pub(crate) why: String,
    pub(crate) hint: Option<String>,
    /// The byte of the word where it goes wrong.
    pub(crate) at: Option<usize>,
}

impl Mistake {
    pub(crate) fn new(why: impl Into<String>) -> Mistake {
        Mistake { why: why.into(), hint: None, at: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Mistake {
        self.hint = Some(hint.into());
        self
    }
}

/// Reads a word: type, references, secrets, syntax, in this order.
impl<T: Word> Written for T {
    fn form() -> Form {
        <T as Word>::form()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<T> {
        let What::Scalar { text, plain } = &node.what else {
            reader.wrong_type(node, &<T as Word>::form());
            return None;
        };
        let expanded = reader.expanded(node, text)?;
        // What a reference brings is text of unknown kind: the syntax alone decides.
        let fits = if *plain { T::PLAIN.contains(&node.kind()) } else { T::QUOTED };
        if !fits && !expanded.replaced {
            if node.kind() == "nothing" {
                reader.wrong_type(node, &<T as Word>::form());
                return None;
            }
            // A type that knows better than "wrong type" says so, for example about a missing unit.
            match T::parse(text) {
                Err(mistake) if mistake.hint.is_some() => report(reader, node, text, mistake),
                Err(_) | Ok(_) => reader.wrong_type(node, &<T as Word>::form()),
            }
            return None;
        }
        secrets(reader, node, &expanded, T::SECRETS)?;
        match T::parse(&expanded.text) {
            Ok(value) => Some(value),
            Err(mistake) if expanded.replaced => {
                // The value itself may be confidential, so only what is written is shown.
                let expected = format!("expected {}", <T as Word>::form().words());
                let why = format!("{}, once its references are replaced", mistake.why);
                report(reader, node, text, Mistake { why, hint: Some(expected), at: None });
                None
            }
            Err(mistake) => {
                report(reader, node, text, mistake);
                None
            }
        }
    }

    fn sample(&self) -> Value {
        <T as Word>::sample(self)
    }
}

fn secrets(reader: &mut Reader<'_>, node: &Node, expanded: &Expanded, rule: Secrets) -> Option<()> {
    if !expanded.secret {
        return Some(());
    }
    match rule {
        Secrets::Held => Some(()),
        Secrets::Exposed => {
            let place = reader.place(node.span);
            let message = "a secret in `args` can be read by every process of this machine";
            let hint = "pass it in `env`, if the server takes it there";
            reader.problems.push(Problem::warning(&place, message).hint(hint));
            Some(())
        }
        Secrets::Refused => {
            let hint = "a secret may stand in the `env` or the `credential` of an upstream only".to_owned();
            reader.note(node.span, "a secret would be shown in logs here".to_owned(), Some(hint));
            None
        }
    }
}

fn report(reader: &mut Reader<'_>, node: &Node, text: &str, mistake: Mistake) {
    let span = match mistake.at {
        Some(at) => reader.inside(node, text, at, 1),
        None => node.span,
    };
    // One problem is one line of a log, whatever is written.
    let one_line = |character: char| if character.is_control() { ' ' } else { character };
    let mut shown: String = text.chars().take(SHOWN_CHARS).map(one_line).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    reader.note(span, format!("`{shown}` {}", mistake.why), mistake.hint);
}
