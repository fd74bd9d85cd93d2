//! YAML text in, a tree that remembers where each node stands; nothing is typed yet.
//!
//! A deserializer stops at its first mistake. The tree keeps going: duplicate keys, unknown anchors
//! and the like are noted and the rest stays readable, so that every problem is told at once.

use std::collections::HashMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{
    ErrorKind, Event, Marker, Options, Parser, ScalarStyle, Span as Range, StrInput, Tag, options,
};

/// The largest file, in bytes.
const FILE_BYTES: usize = 1 << 20;
/// The deepest nesting.
const DEPTH: usize = 24;
/// The most nodes of one file, each alias counted with all that it stands for.
const NODES: usize = 20_000;

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// First byte.
    pub(crate) start: usize,
    /// The byte after the last.
    pub(crate) end: usize,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
}

/// One value of the document.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) what: What,
    pub(crate) span: Span,
    /// Nodes below and including this one, aliases resolved.
    weight: usize,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum What {
    /// A scalar: its text, and whether it stands without quotes.
    Scalar { text: String, plain: bool },
    /// A sequence.
    List(Vec<Rc<Node>>),
    /// A mapping, in the order of the file; no key twice.
    Map(Vec<Entry>),
    /// Something whose problem is already noted.
    Broken,
}

/// One member of a mapping.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Rc<Node>,
}

/// A mistake of the YAML itself.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// Reads one document. The tree is missing when the text cannot be read as YAML at all.
pub(crate) fn parse(text: &str) -> (Option<Rc<Node>>, Vec<Fault>) {
    if text.len() > FILE_BYTES {
        let message = format!("the file is larger than {} KiB", FILE_BYTES / 1024);
        return (None, vec![Fault { span: Span::top(), message, hint: None }]);
    }
    let mut builder = Builder::default();
    let root = match builder.document(text) {
        Ok(root) => root,
        Err(fault) => {
            builder.faults.push(fault);
            None
        }
    };
    (root, builder.faults)
}

impl Span {
    /// The beginning of a file.
    pub(crate) fn top() -> Span {
        Span { start: 0, end: 0, line: 1, column: 1 }
    }

    fn of(range: &Range) -> Span {
        let start = Span::at(&range.start);
        Span { end: range.end.byte_offset().unwrap_or(start.start).max(start.start), ..start }
    }

    fn at(marker: &Marker) -> Span {
        let byte = marker.byte_offset().unwrap_or(0);
        Span { start: byte, end: byte, line: marker.line().max(1), column: marker.col() + 1 }
    }
}

impl Node {
    /// What the node is, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.what {
            What::Scalar { text, plain: true } => plain_kind(text),
            What::Scalar { plain: false, .. } => "text",
            What::List(_) => "a list",
            What::Map(_) => "a mapping",
            What::Broken => "something unreadable",
        }
    }

    /// The member of a mapping.
    pub(crate) fn member(&self, key: &str) -> Option<&Entry> {
        match &self.what {
            What::Map(entries) => entries.iter().find(|entry| entry.key == key),
            What::Scalar { .. } | What::List(_) | What::Broken => None,
        }
    }
}

/// What YAML's core schema makes of a scalar without quotes.
fn plain_kind(text: &str) -> &'static str {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => "nothing",
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => "true or false",
        _ if looks_like_number(text) => "a number",
        _ => "text",
    }
}

fn looks_like_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let based = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0o"));
    if let Some(based) = based {
        return !based.is_empty() && based.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let starts = digits.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'.');
    starts && digits.parse::<f64>().is_ok()
}

/// What is open while the events come in.
enum Open {
    List { span: Span, anchor: usize, items: Vec<Rc<Node>> },
    Map { span: Span, anchor: usize, entries: Vec<Entry>, key: Option<(Option<String>, Span)> },
}

#[derive(Default)]
struct Builder {
    faults: Vec<Fault>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    nodes: usize,
    root: Option<Rc<Node>>,
}

impl Builder {
    fn document(&mut self, text: &str) -> Result<Option<Rc<Node>>, Fault> {
        let options: Options =
            options! { emit_unresolved_aliases: true, disallow_directives: true, emit_comments: false };
        let mut documents = 0;
        for event in Parser::<StrInput<'_>>::new_from_str_with_options(text, options) {
            let (event, range) = event.map_err(|error| scan_fault(error.kind(), error.marker()))?;
            let span = Span::of(&range);
            if matches!(event, Event::DocumentStart(..)) {
                documents += 1;
                if documents > 1 {
                    let hint = Some("put one document in each file".to_owned());
                    return Err(Fault {
                        span,
                        message: "a second YAML document begins here".to_owned(),
                        hint,
                    });
                }
            }
            self.event(event, span)?;
        }
        if self.root.is_none() {
            self.note(Span::top(), "the file is empty", None);
        }
        Ok(self.root.take())
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.untagged(tag.as_deref(), span);
                let plain = style == ScalarStyle::Plain;
                let scalar = What::Scalar { text: text.into_owned(), plain };
                self.leaf(scalar, span, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.untagged(tag.as_deref(), span);
                self.deepen(Open::List { span, anchor, items: Vec::new() }, span)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.untagged(tag.as_deref(), span);
                self.deepen(Open::Map { span, anchor, entries: Vec::new(), key: None }, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(id) => self.alias(id, span),
            Event::UnresolvedAlias(name) => {
                self.note(span, &format!("no anchor `&{name}` stands before this alias"), None);
                self.leaf(What::Broken, span, 0)
            }
            // Stream and document marks, and kinds of events that were not asked for.
            _ => Ok(()),
        }
    }

    fn leaf(&mut self, what: What, span: Span, anchor: usize) -> Result<(), Fault> {
        self.finish(Node { what, span, weight: 1 }, anchor)
    }

    fn deepen(&mut self, open: Open, span: Span) -> Result<(), Fault> {
        if self.open.len() >= DEPTH {
            return Err(too_much(span, &format!("nested deeper than {DEPTH} levels")));
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let (what, mut span, anchor, weight) = match open {
            Open::List { span, anchor, items } => {
                let weight = items.iter().map(|item| item.weight).sum::<usize>();
                (What::List(items), span, anchor, weight)
            }
            Open::Map { span, anchor, entries, .. } => {
                let entries = self.merged(entries);
                let weight = entries.iter().map(|entry| entry.value.weight + 1).sum::<usize>();
                (What::Map(entries), span, anchor, weight)
            }
        };
        span.end = end.end.max(span.end);
        self.finish(Node { what, span, weight: weight + 1 }, anchor)
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), Fault> {
        let Some(target) = self.anchors.get(&id).cloned() else {
            self.note(span, "this alias stands inside of what it repeats", None);
            return self.leaf(What::Broken, span, 0);
        };
        self.place(target, span)
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        let span = node.span;
        let node = Rc::new(node);
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.place(node, span)
    }

    /// Puts a finished node where it belongs. Weights are known before anybody walks the tree, so a
    /// file of aliases upon aliases is refused without being unfolded (security 65).
    fn place(&mut self, node: Rc<Node>, span: Span) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes.max(node.weight) > NODES {
            return Err(too_much(span, &format!("more than {NODES} values, aliases counted")));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { key: pending @ None, .. }) => {
                let name = match &node.what {
                    What::Scalar { text, .. } => Some(text.clone()),
                    What::List(_) | What::Map(_) | What::Broken => None,
                };
                let readable = name.is_some();
                *pending = Some((name, span));
                if !readable {
                    self.note(span, "a key must be text", None);
                }
            }
            Some(Open::Map { entries, key, .. }) => {
                let Some((Some(name), key_span)) = key.take() else { return Ok(()) };
                let first = entries.iter().find(|entry| entry.key == name).map(|entry| entry.key_span.line);
                match first {
                    None => entries.push(Entry { key: name, key_span, value: node }),
                    Some(line) => self.duplicate(&name, key_span, line),
                }
            }
        }
        Ok(())
    }

    fn duplicate(&mut self, name: &str, span: Span, first: usize) {
        let hint = format!("it already stands in line {first}; keep one of them");
        self.note(span, &format!("duplicate key `{name}`"), Some(hint));
    }

    /// Resolves `<<`: members of the merged mappings, as far as they are not written here.
    fn merged(&mut self, mut entries: Vec<Entry>) -> Vec<Entry> {
        let Some(position) = entries.iter().position(|entry| entry.key == "<<") else { return entries };
        let merge = entries.remove(position);
        let sources = match &merge.value.what {
            What::List(items) => items.clone(),
            What::Map(_) | What::Scalar { .. } | What::Broken => vec![Rc::clone(&merge.value)],
        };
        for source in sources {
            let What::Map(members) = &source.what else {
                self.note(merge.key_span, "`<<` takes an alias of a mapping", None);
                continue;
            };
            for member in members {
                if !entries.iter().any(|entry| entry.key == member.key) {
                    entries.push(member.clone());
                }
            }
        }
        entries
    }

    fn untagged(&mut self, tag: Option<&Tag>, span: Span) {
        if let Some(tag) = tag {
            let message = format!("the tag `{}` has no meaning here", tag.original());
            self.note(span, &message, Some("remove it; quote a value to make it text".to_owned()));
        }
    }

    fn note(&mut self, span: Span, message: &str, hint: Option<String>) {
        self.faults.push(Fault { span, message: message.to_owned(), hint });
    }
}

fn too_much(span: Span, what: &str) -> Fault {
    Fault { span, message: format!("the file is refused: {what}"), hint: None }
}

fn scan_fault(kind: &ErrorKind, marker: &Marker) -> Fault {
    let hint = match kind {
        ErrorKind::DirectiveDisallowed => "remove the line that begins with `%`",
        _ => "indent with spaces, and quote text that holds `: `, ` #`, or begins with one of `*&!%@[{`",
    };
    Fault { span: Span::at(marker), message: format!("not YAML: {kind}"), hint: Some(hint.to_owned()) }
}
