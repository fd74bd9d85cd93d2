//! The canonical hash of a definition: what reads the same has the same digest, whatever it is spelled like.
//!
//! The text that is hashed follows RFC 8785 (keys in the order of their UTF-16 code units, no white space,
//! the shortest escapes), but numbers count by their exact decimal value: they are never taken for binary
//! fractions (design 0.1.11). Code points are kept as they are, without normalisation.

use std::{cmp::Ordering, fmt, ops::Range};

use sha2::{Digest as _, Sha256};

use crate::{
    scan::{self, Member},
    text,
    walk::{self, Elements, Ends},
};

pub(crate) mod number;

/// A SHA-256 digest; prints as `sha256:` and hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
    let mut out = Output { hasher: Sha256::new(), buffer: String::with_capacity(4096), piece: 3072 };
    if scan::check(raw.as_bytes()).is_ok() {
        write_canonical(raw.as_bytes(), &mut out);
    } else {
        // No canonical text begins so.
        out.push("\0");
        out.push(raw);
    }
    out.finish()
}

/// A container that is being written.
enum Open<'a> {
    Object(std::vec::IntoIter<Member>),
    Array(Elements<'a>),
}

/// Nesting lies on a heap of its own, so that no text exhausts the stack.
fn write_canonical(text: &[u8], out: &mut Output) {
    let ends = Ends::of(text);
    let from = walk::space_end(text, 0);
    let mut value = from..walk::value_end(text, from).unwrap_or(text.len());
    let mut open: Vec<Open<'_>> = Vec::new();
    loop {
        let mut is_first = true;
        match text.get(value.start) {
            Some(b'{') => {
                out.push("{");
                open.push(Open::Object(sorted_members(text, value, &ends)));
            }
            Some(b'[') => {
                out.push("[");
                open.push(Open::Array(ends.elements(text, value)));
            }
            _ => {
                write_leaf(text.get(value).unwrap_or_default(), out);
                is_first = false;
            }
        }
        let Some(next) = next_value(text, &mut open, is_first, out) else { return };
        value = next;
    }
}

/// Closes what ends and gives the value that follows; `None` after the last one.
fn next_value(
    text: &[u8],
    open: &mut Vec<Open<'_>>,
    is_first: bool,
    out: &mut Output,
) -> Option<Range<usize>> {
    let mut separator = if is_first { "" } else { "," };
    loop {
        let close = match open.last_mut()? {
            Open::Object(members) => {
                if let Some(member) = members.next() {
                    out.push(separator);
                    write_leaf(text.get(member.key.quoted()).unwrap_or_default(), out);
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

fn sorted_members(text: &[u8], span: Range<usize>, ends: &Ends) -> std::vec::IntoIter<Member> {
    let mut members: Vec<Member> =
        ends.members(text, span).map(|(key, value)| Member::new(key, value)).collect();
    members.sort_by(|one, other| by_utf16(&one.key.bytes(text), &other.key.bytes(text)));
    members.into_iter()
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

fn write_leaf(raw: &[u8], out: &mut Output) {
    match raw.first() {
        Some(b'"') if raw.contains(&b'\\') => {
            text::write_quoted(&mut out.buffer, &text::string(raw).unwrap_or_default());
            out.push("");
        }
        Some(b'-' | b'0'..=b'9') => {
            number::write_canonical(text::plain(raw), &mut out.buffer);
            out.push("");
        }
        // A string without escapes is written as it is, and so are the three words.
        _ => out.push(text::plain(raw)),
    }
}

/// Gathers text, so that the hash is fed in large pieces.
struct Output {
    hasher: Sha256,
    buffer: String,
    /// From this length on the buffer is fed.
    piece: usize,
}

impl Output {
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
