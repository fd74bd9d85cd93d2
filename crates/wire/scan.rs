//! One strict pass over JSON text: refuses what two parsers could read in two ways, and notes where members
//! stand.
//!
//! The budgets are applied before anything is allocated, nesting costs no stack, and a value costs no
//! allocation (security 34, 35). Leaves are only looked at: no number is converted, no string decoded.

use crate::{frame::FrameError, text};

mod keys;
mod reserved;
mod spans;

use keys::Keys;
pub(crate) use spans::{Key, Member, short};

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
pub(crate) struct Scan {
    pub(crate) root: Root,
    /// The members of the outermost object.
    pub(crate) outer: Vec<Member>,
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
pub(crate) fn scan(text: &[u8], budget: &Budget) -> Result<Scan, FrameError> {
    read(text, budget, Rules::Strict)
}

/// Reads `text` as one JSON value, and lets equal keys and half surrogate pairs pass where only parts of a result
/// are spoilt by them: below the members of `result`. Grammar and budgets hold everywhere.
pub(crate) fn scan_leniently(text: &[u8], budget: &Budget) -> Result<Scan, FrameError> {
    read(text, budget, Rules::Lenient)
}

/// Whether `text`, of any size, is one JSON value that can be read in one way only.
pub(crate) fn check(text: &[u8]) -> Result<(), FrameError> {
    let any = Budget { bytes: usize::MAX, depth: usize::MAX, nodes: usize::MAX };
    read(text, &any, Rules::Value).map(|_| ())
}

fn read(text: &[u8], budget: &Budget, rules: Rules) -> Result<Scan, FrameError> {
    let limit = budget.bytes.min(MOST_BYTES);
    if text.len() > limit {
        return Err(FrameError::TooLarge { limit });
    }
    if let Err(broken) = std::str::from_utf8(text) {
        return Err(FrameError::Syntax { at: broken.valid_up_to(), why: "not UTF-8" });
    }
    if text.starts_with(b"\xEF\xBB\xBF") {
        return Err(FrameError::Syntax { at: 0, why: "a byte order mark" });
    }
    let mut scanner = Scanner {
        text,
        at: 0,
        depth: budget.depth,
        nodes: budget.nodes,
        open: Vec::with_capacity(budget.depth.min(8)),
        keys: Keys::new(),
        below: Below::Other,
        rules,
        found: Scan {
            root: Root::Scalar,
            outer: Vec::new(),
            inner: Vec::new(),
            broken_lines: false,
            is_strict: true,
        },
    };
    scanner.run()?;
    Ok(scanner.found)
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// How many containers may be open.
    depth: usize,
    /// How many values may still come.
    nodes: usize,
    open: Vec<Open>,
    keys: Keys,
    /// Which member of the outermost object is being read.
    below: Below,
    rules: Rules,
    found: Scan,
}

/// A container whose end has not been seen.
#[derive(Clone, Copy)]
struct Open {
    from: u32,
    holds: Holds,
    noted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Elements,
    Members,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Params,
    Result,
    Error,
    Other,
}

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), FrameError> {
        loop {
            // A value stands next.
            self.space();
            self.nodes = self.nodes.checked_sub(1).ok_or(FrameError::TooManyNodes)?;
            let from = self.at;
            let is_open = match self.text.get(from) {
                Some(b'{') => self.begin(Holds::Members)?,
                Some(b'[') => self.begin(Holds::Elements)?,
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

    /// Opens a container; false when it is empty and so already closed.
    fn begin(&mut self, holds: Holds) -> Result<bool, FrameError> {
        if self.open.len() >= self.depth {
            return Err(FrameError::TooDeep);
        }
        let noted = holds == Holds::Members
            && match self.open.len() {
                0 => true,
                1 => self.below != Below::Other,
                _ => false,
            };
        if self.open.is_empty() {
            self.found.root = if holds == Holds::Members { Root::Object } else { Root::Array };
        }
        self.open.push(Open { from: short(self.at), holds, noted });
        self.at += 1;
        self.space();
        match holds {
            Holds::Members => {
                self.keys.begin();
                if self.text.get(self.at) == Some(&b'}') {
                    self.end(holds);
                    return Ok(false);
                }
                self.key()?;
            }
            Holds::Elements => {
                if self.text.get(self.at) == Some(&b']') {
                    self.end(holds);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn end(&mut self, holds: Holds) {
        self.at += 1;
        self.open.pop();
        if holds == Holds::Members {
            self.keys.end();
        }
    }

    /// A value has ended: closes what ends with it. True when that was all, false when another value stands
    /// next.
    fn ended(&mut self, mut from: usize) -> Result<bool, FrameError> {
        loop {
            self.note(from);
            self.space();
            let Some(open) = self.open.last().copied() else {
                return if self.at == self.text.len() {
                    Ok(true)
                } else {
                    Err(self.fault("text after the value"))
                };
            };
            match (open.holds, self.text.get(self.at)) {
                (Holds::Elements, Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (Holds::Members, Some(b',')) => {
                    self.at += 1;
                    self.space();
                    self.key()?;
                    return Ok(false);
                }
                (Holds::Elements, Some(b']')) | (Holds::Members, Some(b'}')) => {
                    self.end(open.holds);
                    from = open.from as usize;
                }
                (Holds::Elements, _) => return Err(self.fault("`,` or `]` is expected")),
                (Holds::Members, _) => return Err(self.fault("`,` or `}` is expected")),
            }
        }
    }

    /// Keeps the member that just ended, if it is one of those a frame knows.
    fn note(&mut self, from: usize) {
        let Some(Open { noted: true, .. }) = self.open.last() else { return };
        let Some(key) = self.keys.last() else { return };
        let member = Member::new(key, from..self.at);
        let list = if self.open.len() == 1 { &mut self.found.outer } else { &mut self.found.inner };
        if list.is_empty() {
            list.reserve(6);
        }
        list.push(member);
    }

    fn key(&mut self) -> Result<(), FrameError> {
        if self.text.get(self.at) != Some(&b'"') {
            return Err(self.fault("a key is expected"));
        }
        let from = self.at + 1;
        let escaped = self.string()?;
        let key = Key::new(from..self.at - 1, escaped);
        // What is spoilt already is not compared any more: many equal keys in one table would cost quadratic
        // time (security 34).
        let is_compared = self.found.is_strict || !self.is_lenient();
        if is_compared && !self.keys.add(key, self.text) {
            if !self.is_lenient() {
                return Err(FrameError::DuplicateKey { key: text::excerpt(&key.text(self.text)) });
            }
            self.found.is_strict = false;
        }
        if self.open.last().is_some_and(|open| open.noted) {
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
    fn look_at(&mut self, key: Key) -> Result<(), FrameError> {
        let key = key.text(self.text);
        let is_outermost = self.open.len() == 1;
        let reserved: &[&str] = match self.below {
            _ if is_outermost => reserved::OUTER,
            Below::Params => reserved::PARAMS,
            Below::Result | Below::Error | Below::Other => &[],
        };
        if self.rules != Rules::Value && reserved::is_near_miss(&key, reserved) {
            return Err(FrameError::Ambiguous { key: text::excerpt(&key) });
        }
        if is_outermost {
            self.below = match &*key {
                "params" => Below::Params,
                "result" => Below::Result,
                "error" => Below::Error,
                _ => Below::Other,
            };
        }
        Ok(())
    }

    /// Whether equal keys and half surrogate pairs pass here: below the members of `result`.
    fn is_lenient(&self) -> bool {
        self.rules == Rules::Lenient && self.below == Below::Result && self.open.len() > 2
    }

    /// Passes a string whose opening quote stands next; true when it holds an escape.
    fn string(&mut self) -> Result<bool, FrameError> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at += text::plain_length(self.text.get(self.at..).unwrap_or_default());
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err(self.fault("a control character in a string")),
                None => return Err(self.fault("a string does not end")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), FrameError> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match text::escaped_char(self.text.get(self.at..).unwrap_or_default()) {
                Some((_, length)) => self.at += length,
                None => {
                    let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
                    if !self.is_lenient() || digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                        return Err(self.fault("not four hexadecimal digits, or half a surrogate pair"));
                    }
                    self.found.is_strict = false;
                    self.at += 6;
                }
            },
            _ => return Err(self.fault("an unknown escape")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), FrameError> {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), FrameError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.fault("a digit is expected"));
        }
        self.at += count;
        Ok(())
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), FrameError> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.fault("a value is expected"));
        }
        self.at += word.len();
        Ok(())
    }

    fn space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.text.get(self.at) {
            if matches!(byte, b'\n' | b'\r') && !self.open.is_empty() {
                self.found.broken_lines = true;
            }
            self.at += 1;
        }
    }

    fn fault(&self, why: &'static str) -> FrameError {
        FrameError::Syntax { at: self.at, why }
    }
}

#[cfg(test)]
mod tests;
