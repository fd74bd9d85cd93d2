//! The canonical hash of a definition: what reads the same has the same digest, whatever it is spelled like.
//!
//! The text that is hashed follows RFC 8785 (keys in the order of their UTF-16 code units, no white space,
//! the shortest escapes), but numbers count by their exact decimal value: they are never taken for binary
//! fractions (design 0.1.11). Code points are kept as they are, without normalisation.

use std::{cmp::Ordering, fmt, ops::Range};

use sha2::{Digest as _, Sha256};

use crate::{
    scan::{self, Key, Member},
    text,
    walk::{self, Elements, Ends},
};

pub(crate) mod number;

/// A SHA-256 digest; prints as `sha256:` and hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// `sha256:` and the hexadecimal digits.
    pub fn text(&self) -> String {
        format!("sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The plain SHA-256 of some bytes: for telling whether they changed, where form does matter.
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// The digest of one JSON value. Text that is no JSON has a digest of its own, which no JSON value shares.
pub fn digest(raw: &str) -> Digest {
    if scan::check(raw.as_bytes()).is_ok() {
        return digest_of_value(raw.as_bytes());
    }
    let mut out = Output::for_text(raw.as_bytes());
    // No canonical text begins so.
    out.push("\0");
    out.push(raw);
    out.finish()
}

/// A JSON number by its exact decimal value: two that are spelled alike here are equal.
pub fn canonical_number(raw: &str) -> String {
    let mut text = String::new();
    number::write_canonical(raw, &mut text);
    text
}

/// The digest of a JSON value that was read strictly already: the one that [`digest`] gives it, without a second
/// look.
pub(crate) fn digest_of_value(raw: &[u8]) -> Digest {
    let mut out = Output::for_text(raw);
    write_canonical(raw, &mut out);
    out.finish()
}

/// A container that is being written.
enum Open<'a> {
    /// The members that are left are those behind so many.
    Object(usize),
    Array(Elements<'a>),
}

/// Nesting lies on a heap of its own, so that no text exhausts the stack.
fn write_canonical(bytes: &[u8], out: &mut Output) {
    let text = text::plain(bytes);
    let ends = Ends::of(bytes);
    let from = walk::space_end(bytes, 0);
    // Where a container ends is not asked, and behind anything else stands white space only.
    let mut value = from..bytes.trim_ascii_end().len();
    let mut open: Vec<Open<'_>> = Vec::with_capacity(4);
    // What is left of all open objects, the innermost last and each in reverse.
    let mut left: Vec<Member> = Vec::with_capacity(8);
    loop {
        let mut is_first = true;
        match bytes.get(value.start) {
            Some(b'{') => {
                out.push("{");
                open.push(Open::Object(left.len()));
                add_members(bytes, value, &ends, &mut left);
            }
            Some(b'[') => {
                out.push("[");
                open.push(Open::Array(ends.elements(bytes, value)));
            }
            _ => {
                write_leaf(text.get(value).unwrap_or_default(), out);
                is_first = false;
            }
        }
        let Some(next) = next_value(text, &mut open, &mut left, is_first, out) else { return };
        value = next;
    }
}

/// Closes what ends and gives the value that follows; `None` after the last one.
fn next_value(
    text: &str,
    open: &mut Vec<Open<'_>>,
    left: &mut Vec<Member>,
    is_first: bool,
    out: &mut Output,
) -> Option<Range<usize>> {
    let mut separator = if is_first { "" } else { "," };
    loop {
        let close = match open.last_mut()? {
            Open::Object(first) => {
                if left.len() > *first
                    && let Some(member) = left.pop()
                {
                    out.push(separator);
                    write_key(member.key, text, out);
                    out.push(":");
                    return Some(member.value());
                }
                "}"
            }
            Open::Array(elements) => {
                if let Some(element) = elements.next() {
                    out.push(separator);
                    return Some(element);
                }
                "]"
            }
        };
        out.push(close);
        open.pop();
        separator = ",";
    }
}

/// Adds the members of the object at `span`, the one that is written first last.
fn add_members(text: &[u8], span: Range<usize>, ends: &Ends, left: &mut Vec<Member>) {
    let first = left.len();
    left.extend(ends.members(text, span).map(|(key, value)| Member::new(key, value)));
    let added = left.get_mut(first..).unwrap_or_default();
    added.sort_unstable_by(|one, other| by_utf16(&other.key.bytes(text), &one.key.bytes(text)));
}

/// The order of the UTF-16 code units of two texts in UTF-8. It is that of the bytes, but for what UTF-16
/// writes with surrogates (from 0xF0 on): that comes before U+E000 to U+FFFF (0xEE and 0xEF).
fn by_utf16(one: &[u8], other: &[u8]) -> Ordering {
    let differing = one.iter().zip(other).find(|(one, other)| one != other);
    let Some((one, other)) = differing else { return one.len().cmp(&other.len()) };
    if *one.min(other) >= 0xEE && *one.min(other) < 0xF0 && *one.max(other) >= 0xF0 {
        return other.cmp(one);
    }
    one.cmp(other)
}

fn write_key(key: Key, text: &str, out: &mut Output) {
    let raw = text.get(key.quoted()).unwrap_or_default();
    if key.is_escaped() { write_escaped(raw, out) } else { out.push(raw) }
}

fn write_leaf(raw: &str, out: &mut Output) {
    match raw.as_bytes().first() {
        Some(b'"') if memchr::memchr(b'\\', raw.as_bytes()).is_some() => write_escaped(raw, out),
        Some(b'-' | b'0'..=b'9') => {
            number::write_canonical(raw, &mut out.buffer);
            out.push("");
        }
        // A string without escapes is written as it is, and so are the three words.
        _ => out.push(raw),
    }
}

fn write_escaped(raw: &str, out: &mut Output) {
    text::write_quoted(&mut out.buffer, &text::string(raw.as_bytes()).unwrap_or_default());
    out.push("");
}

/// Gathers text, so that the hash is fed in large pieces.
struct Output {
    hasher: Sha256,
    buffer: String,
    /// From this length on the buffer is fed.
    piece: usize,
}

impl Output {
    const PIECE: usize = 3072;

    /// With room for what is written of `raw`, as far as it is gathered.
    fn for_text(raw: &[u8]) -> Output {
        let buffer = String::with_capacity(raw.len().min(Output::PIECE) + 64);
        Output { hasher: Sha256::new(), buffer, piece: Output::PIECE }
    }

    fn push(&mut self, text: &str) {
        self.buffer.push_str(text);
        if self.buffer.len() >= self.piece {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }

    fn finish(mut self) -> Digest {
        self.hasher.update(&self.buffer);
        Digest(self.hasher.finalize().into())
    }
}

#[cfg(test)]
mod tests;
