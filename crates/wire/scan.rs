//! One strict pass over JSON text: refuses what two parsers could read in two ways, and notes where members
//! stand.
//!
//! The budgets are applied before anything is allocated, nesting costs no stack, and a value costs no
//! allocation (security 34, 35). Leaves are only looked at: no number is converted, no string decoded.

use std::ops::Range;

use crate::{frame::FrameError, text};

mod keys;
mod leaves;
mod reserved;
mod spans;

use keys::{Keys, Object};
pub(crate) use spans::{Key, Member, Outer, short};

/// How large one message may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most bytes of text.
    pub bytes: usize,
    /// Most containers around a value.
    pub depth: usize,
    /// Most values, containers included.
    pub nodes: usize,
}

impl Budget {
    /// For what a client sends.
    pub const CLIENT: Budget = Budget { bytes: 4 << 20, depth: 64, nodes: 100_000 };
    /// For what an upstream sends: results may be large.
    pub const UPSTREAM: Budget = Budget { bytes: 16 << 20, depth: 128, nodes: 4_000_000 };
}

/// Spans are kept in 32 bits, one of them a flag.
const MOST_BYTES: usize = (1 << 31) - 1;

/// What the outermost value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    Object,
    Array,
    Scalar,
}

/// What one pass found.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    /// All of it, proved to be text.
    pub(crate) text: &'a str,
    pub(crate) root: Root,
    /// The members of the outermost object.
    pub(crate) outer: Outer,
    /// The members of `params`, `result` and `error` directly below it.
    pub(crate) inner: Vec<Member>,
    /// Whether white space inside the outermost value breaks lines.
    pub(crate) broken_lines: bool,
    /// Whether nothing was let pass that two parsers could read in two ways.
    pub(crate) is_strict: bool,
}

/// What is let pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Nothing.
    Strict,
    /// Equal keys and half surrogate pairs, below the members of `result`.
    Lenient,
    /// Near misses of reserved words: they are reserved in messages only.
    Value,
}

/// Reads `text` as one JSON value.
pub(crate) fn scan<'a>(text: &'a [u8], budget: &Budget) -> Result<Scan<'a>, FrameError> {
    read(text, budget, Rules::Strict)
}

/// Reads `text` as one JSON value, and lets equal keys and half surrogate pairs pass where only parts of a result
/// are spoilt by them: below the members of `result`. Grammar and budgets hold everywhere.
pub(crate) fn scan_leniently<'a>(text: &'a [u8], budget: &Budget) -> Result<Scan<'a>, FrameError> {
    read(text, budget, Rules::Lenient)
}

/// Whether `text`, of any size, is one JSON value that can be read in one way only.
pub(crate) fn check(text: &[u8]) -> Result<(), FrameError> {
    let any = Budget { bytes: usize::MAX, depth: usize::MAX, nodes: usize::MAX };
    read(text, &any, Rules::Value).map(|_| ())
}

fn read<'a>(text: &'a [u8], budget: &Budget, rules: Rules) -> Result<Scan<'a>, FrameError> {
    let limit = budget.bytes.min(MOST_BYTES);
    if text.len() > limit {
        return Err(FrameError::TooLarge { limit });
    }
    let proved = match std::str::from_utf8(text) {
        Ok(proved) => proved,
        Err(broken) => return Err(FrameError::Syntax { at: broken.valid_up_to(), why: "not UTF-8" }),
    };
    if text.starts_with(b"\xEF\xBB\xBF") {
        return Err(FrameError::Syntax { at: 0, why: "a byte order mark" });
    }
    let mut scanner = Scanner {
        text,
        at: 0,
        depth: budget.depth,
        nodes: budget.nodes,
        inside: Open { from: 0, holds: Holds::One, noted: false, keys: Object::default() },
        around: Vec::with_capacity(budget.depth.min(8)),
        keys: Keys::new(),
        below: Below::Other,
        rules,
        found: Scan {
            text: proved,
            root: Root::Scalar,
            outer: Outer::default(),
            inner: Vec::new(),
            broken_lines: false,
            is_strict: true,
        },
    };
    scanner.run().map_err(|error| *error)?;
    Ok(scanner.found)
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// How many containers may be open.
    depth: usize,
    /// How many values may still come.
    nodes: usize,
    /// The innermost container whose end has not been seen.
    inside: Open,
    /// Those around it, and the text around all; as many as there are open containers.
    around: Vec<Open>,
    keys: Keys,
    /// Which member of the outermost object is being read.
    below: Below,
    rules: Rules,
    found: Scan<'a>,
}

/// What values stand in: a container whose end has not been seen, or the text as a whole.
#[derive(Clone, Copy)]
struct Open {
    from: u32,
    holds: Holds,
    noted: bool,
    /// Its keys; none but for an object.
    keys: Object,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// One value, as the text does.
    One,
    Elements,
    Members,
}

/// A member of the outermost object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl Below {
    fn key(key: &[u8]) -> Below {
        match key {
            b"jsonrpc" => Below::Jsonrpc,
            b"id" => Below::Id,
            b"method" => Below::Method,
            b"params" => Below::Params,
            b"result" => Below::Result,
            b"error" => Below::Error,
            _ => Below::Other,
        }
    }

    fn has_noted_members(self) -> bool {
        matches!(self, Below::Params | Below::Result | Below::Error)
    }
}

/// Errors are boxed on their way out: all that is tried returns in registers. What is rare, or long, is kept out of
/// the functions that run for every key and value, which then need few registers.
impl Scanner<'_> {
    fn run(&mut self) -> Result<(), Box<FrameError>> {
        loop {
            // A value stands next, in an object behind its key.
            self.space();
            if self.inside.holds == Holds::Members {
                self.key()?;
                self.space();
            }
            self.nodes = self.nodes.checked_sub(1).ok_or_else(|| Box::new(FrameError::TooManyNodes))?;
            let from = self.at;
            let is_open = match self.text.get(from) {
                Some(b'{') => {
                    self.begin(Holds::Members)?;
                    !self.ends_at_once(b'}')
                }
                Some(b'[') => {
                    self.begin(Holds::Elements)?;
                    !self.ends_at_once(b']')
                }
                Some(b'"') => self.string().map(|_| false)?,
                Some(b'-' | b'0'..=b'9') => self.number().map(|()| false)?,
                Some(b't') => self.word(b"true").map(|()| false)?,
                Some(b'f') => self.word(b"false").map(|()| false)?,
                Some(b'n') => self.word(b"null").map(|()| false)?,
                _ => return Err(self.fault("a value is expected")),
            };
            if !is_open && self.ended(from)? {
                return Ok(());
            }
        }
    }

    /// Opens a container.
    fn begin(&mut self, holds: Holds) -> Result<(), Box<FrameError>> {
        if self.around.len() >= self.depth {
            return Err(Box::new(FrameError::TooDeep));
        }
        let noted = holds == Holds::Members
            && self.rules != Rules::Value
            && match self.around.len() {
                0 => true,
                1 => self.below.has_noted_members(),
                _ => false,
            };
        if self.around.is_empty() {
            self.found.root = if holds == Holds::Members { Root::Object } else { Root::Array };
        }
        self.around.push(self.inside);
        self.inside = Open { from: short(self.at), holds, noted, keys: self.keys.begin() };
        self.at += 1;
        self.space();
        Ok(())
    }

    /// Closes the container that was just opened, if it is empty.
    fn ends_at_once(&mut self, closing: u8) -> bool {
        let is_empty = self.text.get(self.at) == Some(&closing);
        if is_empty {
            self.end();
        }
        is_empty
    }

    fn end(&mut self) {
        self.at += 1;
        self.keys.end(self.inside.keys);
        // INVARIANT: what ends was begun, and then something was around it.
        if let Some(around) = self.around.pop() {
            self.inside = around;
        }
    }

    /// A value has ended: closes what ends with it. True when that was all, false when another value stands
    /// next.
    fn ended(&mut self, mut from: usize) -> Result<bool, Box<FrameError>> {
        loop {
            if self.inside.noted {
                self.note(from..self.at);
            }
            self.space();
            match (self.inside.holds, self.text.get(self.at)) {
                (Holds::Elements | Holds::Members, Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (Holds::Elements, Some(b']')) | (Holds::Members, Some(b'}')) => {
                    from = self.inside.from as usize;
                    self.end();
                }
                (Holds::One, None) => return Ok(true),
                (Holds::One, Some(_)) => return Err(self.fault("text after the value")),
                (Holds::Elements, _) => return Err(self.fault("`,` or `]` is expected")),
                (Holds::Members, _) => return Err(self.fault("`,` or `}` is expected")),
            }
        }
    }

    /// Keeps the member that just ended, one of those a frame knows.
    fn note(&mut self, value: Range<usize>) {
        if self.around.len() == 1 {
            self.note_outer(value);
            return;
        }
        let Some(key) = self.keys.last() else { return };
        if self.found.inner.is_empty() {
            self.found.inner.reserve(6);
        }
        self.found.inner.push(Member::new(key, value));
    }

    fn note_outer(&mut self, value: Range<usize>) {
        let outer = &mut self.found.outer;
        outer.count += 1;
        let place = match self.below {
            Below::Jsonrpc => &mut outer.jsonrpc,
            Below::Id => &mut outer.id,
            Below::Method => &mut outer.method,
            Below::Params => &mut outer.params,
            Below::Result => &mut outer.result,
            Below::Error => &mut outer.error,
            Below::Other => return,
        };
        *place = Some(value);
    }

    fn key(&mut self) -> Result<(), Box<FrameError>> {
        if self.text.get(self.at) != Some(&b'"') {
            return Err(self.fault("a key is expected"));
        }
        let from = self.at + 1;
        let escaped = self.string()?;
        let key = Key::new(from..self.at - 1, escaped);
        // What is spoilt already is not compared any more: many equal keys in one table would cost quadratic
        // time (security 34).
        let is_compared = self.found.is_strict || !self.is_lenient();
        if is_compared && !self.keys.add(&mut self.inside.keys, key, self.text) {
            if !self.is_lenient() {
                let key = text::excerpt(&key.text(self.text));
                return Err(Box::new(FrameError::DuplicateKey { key }));
            }
            self.found.is_strict = false;
        }
        if self.inside.noted {
            self.look_at(key)?;
        }
        self.space();
        if self.text.get(self.at) != Some(&b':') {
            return Err(self.fault("`:` is expected"));
        }
        self.at += 1;
        Ok(())
    }

    /// A key of the outermost object or of `params`: no spelling that only nearly is a reserved word.
    #[inline(never)]
    fn look_at(&mut self, key: Key) -> Result<(), Box<FrameError>> {
        if key.is_escaped() {
            return self.look_at_said(key.text(self.text).as_bytes());
        }
        self.look_at_said(self.text.get(key.span()).unwrap_or_default())
    }

    #[inline]
    fn look_at_said(&mut self, said: &[u8]) -> Result<(), Box<FrameError>> {
        let is_outermost = self.around.len() == 1;
        if is_outermost {
            self.below = Below::key(said);
        }
        let reserved = match self.below {
            Below::Other if is_outermost => reserved::OUTER,
            Below::Params if !is_outermost => reserved::PARAMS,
            // One of the words itself, or nothing is reserved here.
            _ => return Ok(()),
        };
        if reserved::is_near_miss(said, reserved) {
            let key = text::excerpt(text::plain(said));
            return Err(Box::new(FrameError::Ambiguous { key }));
        }
        Ok(())
    }

    /// Whether equal keys and half surrogate pairs pass here: below the members of `result`.
    fn is_lenient(&self) -> bool {
        self.rules == Rules::Lenient && self.below == Below::Result && self.around.len() > 2
    }

    #[inline]
    fn space(&mut self) {
        if self.text.get(self.at).is_some_and(|byte| *byte <= b' ') {
            self.pass_space();
        }
    }

    #[inline(never)]
    fn pass_space(&mut self) {
        let mut breaks_lines = false;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' => {}
                b'\n' | b'\r' => breaks_lines = true,
                _ => break,
            }
            self.at += 1;
            // Lines may be indented far.
            while self.text.get(self.at..).is_some_and(|rest| rest.starts_with(&[b' '; 8])) {
                self.at += 8;
            }
        }
        self.found.broken_lines |= breaks_lines && !self.around.is_empty();
    }

    #[cold]
    fn fault(&self, why: &'static str) -> Box<FrameError> {
        Box::new(FrameError::Syntax { at: self.at, why })
    }
}

#[cfg(test)]
mod tests;
