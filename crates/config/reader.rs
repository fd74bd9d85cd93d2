//! Reads the tree into typed values and notes every problem on the way instead of stopping.

use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value;

use crate::Files;
use crate::expand::{Expanded, expand};
use crate::form::{Form, Off, Refused};
use crate::problem::{Place, Problem, Source};
use crate::tree::{Entry, Node, Span, What};

/// A value and where it was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<T> At<T> {
    /// A value that stands in no file, such as a default.
    pub(crate) fn nowhere(value: T) -> At<T> {
        At { value, place: Place::default() }
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A type that can be written in a file.
pub(crate) trait Written: Sized {
    /// What it looks like.
    fn form() -> Form;
    /// Reads it; `None` when a problem was noted and there is nothing to go on with.
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self>;
    /// The value as it would be written, for defaults.
    fn sample(&self) -> Value;
}

/// The reader of one file.
pub(crate) struct Reader<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) source: Rc<Source>,
    pub(crate) problems: Vec<Problem>,
    /// Keys of the other kind of file, and where they belong.
    elsewhere: (&'static [&'static str], &'static str),
    path: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        files: &'a dyn Files,
        source: Rc<Source>,
        elsewhere: (&'static [&'static str], &'static str),
    ) -> Reader<'a> {
        Reader { files, source, problems: Vec::new(), elsewhere, path: Vec::new() }
    }

    /// The place of a span under the path that is being read.
    pub(crate) fn place(&self, span: Span) -> Place {
        Place { source: Rc::clone(&self.source), span, path: self.path.concat() }
    }

    /// Reads the whole document.
    pub(crate) fn document<T: Written>(&mut self, root: &Node) -> Option<At<T>> {
        let value = T::read(root, self)?;
        Some(At { value, place: self.place(root.span) })
    }

    /// Reads a value under one more key.
    pub(crate) fn under<T: Written>(&mut self, step: String, node: &Node) -> Option<At<T>> {
        self.path.push(step);
        let value = T::read(node, self);
        let place = self.place(node.span);
        self.path.pop();
        value.map(|value| At { value, place })
    }

    /// The step from the path so far to a key.
    pub(crate) fn step(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!(".{key}") }
    }

    /// Reads the member of a section.
    pub(crate) fn member<T: Written>(&mut self, section: &Node, key: &str) -> Option<At<T>> {
        let entry = section.member(key)?;
        let step = self.step(key);
        self.under(step, &entry.value)
    }

    /// Notes that a key is missing, or one of two that exclude each other, unless a misspelt key explains it; and
    /// that both of two are there.
    pub(crate) fn require(&mut self, section: &Node, keys: &[&'static str], known: &[&str]) {
        let What::Map(entries) = &section.what else { return };
        let misspelt = |entry: &Entry| {
            let written = entry.key.as_str();
            !known.contains(&written) && nearest(written, keys.iter().copied()).is_some()
        };
        let there: Vec<&Entry> = entries.iter().filter(|entry| keys.contains(&entry.key.as_str())).collect();
        match there.as_slice() {
            [] if entries.iter().any(misspelt) => {}
            [] => {
                let hints: Vec<String> = keys.iter().map(|key| format!("`{key}: …`")).collect();
                let message = format!("the key `{}` is missing", keys.join("` or `"));
                self.note(section.span, message, Some(format!("add {}", hints.join(" or "))));
            }
            [_] => {}
            [first, second, ..] => {
                let message = format!("`{}` and `{}` exclude each other", first.key, second.key);
                self.note(second.key_span, message, Some("keep one of them".to_owned()));
            }
        }
    }

    /// Notes a problem and goes on.
    pub(crate) fn note(&mut self, span: Span, message: String, hint: Option<String>) {
        let mut problem = Problem::error(&self.place(span), message);
        problem.hint = hint;
        self.problems.push(problem);
    }

    /// Notes that a node is of another type than expected.
    pub(crate) fn wrong_type(&mut self, node: &Node, expected: &Form) {
        let what = &node.what;
        if matches!(what, What::Broken) {
            return;
        }
        let hint = match (what, expected) {
            _ if node.kind() == "nothing" => Some("give it a value, or remove the key".to_owned()),
            (What::Scalar { text, .. }, Form::List(_)) => Some(format!("write it as a list: `[{text}]`")),
            (What::Scalar { text, plain: true }, Form::Scalar { schema, .. })
                if schema.get("type").is_some_and(|kind| kind == "string") =>
            {
                Some(format!("quote it: `\"{text}\"`"))
            }
            (What::Scalar { plain: false, .. }, Form::Scalar { .. }) => Some("remove the quotes".to_owned()),
            _ => None,
        };
        self.note(node.span, format!("expected {}, found {}", expected.words(), node.kind()), hint);
    }

    /// Notes keys of a section that are not known, and those that are known and not available.
    pub(crate) fn keys(&mut self, entries: &[Entry], known: &[&'static str], refused: &[Refused]) {
        for entry in entries {
            if known.contains(&entry.key.as_str()) {
                continue;
            }
            let step = self.step(&entry.key);
            self.path.push(step);
            match refused.iter().find(|refused| refused.name == entry.key) {
                Some(refused) => self.refused_key(entry, *refused),
                None => self.unknown_key(entry, known, refused),
            }
            self.path.pop();
        }
    }

    fn refused_key(&mut self, entry: &Entry, refused: Refused) {
        let off = match &entry.value.what {
            What::List(items) => refused.off == Off::EmptyList && items.is_empty(),
            What::Scalar { .. } => refused.off == Off::Null && entry.value.kind() == "nothing",
            What::Map(_) | What::Broken => false,
        };
        if !off {
            let message = format!("`{}` is not available in this version: {}", refused.name, refused.why);
            self.note(entry.key_span, message, Some("remove the key".to_owned()));
        }
    }

    fn unknown_key(&mut self, entry: &Entry, known: &[&'static str], refused: &[Refused]) {
        let names = known.iter().copied().chain(refused.iter().map(|refused| refused.name));
        let (others, place) = self.elsewhere;
        let hint = match nearest(&entry.key, names) {
            _ if self.path.len() == 1 && others.contains(&entry.key.as_str()) => {
                format!("it belongs in {place}")
            }
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("known keys here: {}", known.join(", ")),
        };
        self.note(entry.key_span, format!("unknown key `{}`", entry.key), Some(hint));
    }

    /// The text of a scalar with its references replaced.
    pub(crate) fn expanded(&mut self, node: &Node, text: &str) -> Option<Expanded> {
        let upstream = match self.path.as_slice() {
            [section, id, ..] if section == "upstreams" => id.strip_prefix('.').map(str::to_owned),
            _ => None,
        };
        match expand(text, self.files, upstream.as_deref()) {
            Ok(expanded) => Some(expanded),
            Err(unresolved) => {
                for each in unresolved {
                    let span = self.inside(node, text, each.at, each.len);
                    self.note(span, each.message, Some(each.hint));
                }
                None
            }
        }
    }

    /// The place of a part of a scalar; the whole scalar when escapes or folds hide where it is.
    pub(crate) fn inside(&self, node: &Node, text: &str, at: usize, len: usize) -> Span {
        self.source.inside(node.span, text, at, len)
    }
}

/// A list of values.
impl<T: Written> Written for Vec<At<T>> {
    fn form() -> Form {
        Form::List(Box::new(T::form()))
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Vec<At<T>>> {
        let What::List(items) = &node.what else {
            reader.wrong_type(node, &Self::form());
            return None;
        };
        let read = |(position, item): (usize, &Rc<Node>)| reader.under(format!("[{position}]"), item);
        // All items are read before the list is given up, so that all problems are noted.
        let items: Vec<Option<At<T>>> = items.iter().enumerate().map(read).collect();
        items.into_iter().collect()
    }

    fn sample(&self) -> Value {
        self.iter().map(|item| item.value.sample()).collect()
    }
}

/// The name that was probably meant.
pub(crate) fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let folded = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let target = folded(written);
    let far = 1 + target.chars().count() / 4;
    names
        .map(|name| (strsim::damerau_levenshtein(&target, &folded(name)), name))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
