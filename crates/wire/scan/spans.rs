//! Where keys and values stand in a text, in few bytes.

use std::{borrow::Cow, ops::Range};

use crate::text;

/// A key as it stands in the text, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    from: u32,
    /// Length, doubled; odd when it holds an escape.
    size: u32,
}

impl Key {
    pub(crate) fn new(span: Range<usize>, escaped: bool) -> Key {
        let (from, size) = (short(span.start), short(span.end - span.start));
        Key { from, size: size << 1 | u32::from(escaped) }
    }

    /// Where it stands, quotes included.
    pub(crate) fn quoted(self) -> Range<usize> {
        let span = self.span();
        span.start.saturating_sub(1)..span.end + 1
    }

    /// What it says.
    pub(crate) fn text(self, text: &[u8]) -> Cow<'_, str> {
        text::decoded(text.get(self.span()).unwrap_or_default()).unwrap_or_default()
    }

    /// What it says, in UTF-8; cheaper than the text.
    pub(crate) fn bytes(self, text: &[u8]) -> Cow<'_, [u8]> {
        if self.is_escaped() {
            return self.text(text).into_owned().into_bytes().into();
        }
        text.get(self.span()).unwrap_or_default().into()
    }

    #[inline]
    pub(crate) fn says(self, word: &str, text: &[u8]) -> bool {
        if self.is_escaped() {
            return self.text(text) == word;
        }
        text.get(self.span()) == Some(word.as_bytes())
    }

    /// Whether both are written with the same bytes.
    #[inline]
    pub(super) fn is_spelled(self, other: Key, text: &[u8]) -> bool {
        self.size == other.size && text.get(self.span()) == text.get(other.span())
    }

    /// Whether both say the same.
    pub(super) fn same(self, other: Key, text: &[u8]) -> bool {
        if self.is_escaped() || other.is_escaped() {
            return self.bytes(text) == other.bytes(text);
        }
        self.is_spelled(other, text)
    }

    pub(super) fn span(self) -> Range<usize> {
        let from = self.from as usize;
        from..from + self.len()
    }

    pub(super) fn len(self) -> usize {
        (self.size >> 1) as usize
    }

    pub(crate) fn is_escaped(self) -> bool {
        self.size & 1 == 1
    }
}

/// One member of an object: its key and where its value stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) key: Key,
    from: u32,
    to: u32,
}

impl Member {
    pub(crate) fn new(key: Key, value: Range<usize>) -> Member {
        Member { key, from: short(value.start), to: short(value.end) }
    }

    pub(crate) fn value(self) -> Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// Where the members of the outermost object stand that JSON-RPC knows.
#[derive(Debug, Default)]
pub(crate) struct Outer {
    pub(crate) jsonrpc: Option<Range<usize>>,
    pub(crate) id: Option<Range<usize>>,
    pub(crate) method: Option<Range<usize>>,
    pub(crate) params: Option<Range<usize>>,
    pub(crate) result: Option<Range<usize>>,
    pub(crate) error: Option<Range<usize>>,
    /// How many members it has, those included that nobody knows: only tests ask.
    pub(super) count: usize,
}

#[cfg(test)]
impl Outer {
    pub(super) fn len(&self) -> usize {
        self.count
    }
}

// INVARIANT: no text longer than `MOST_BYTES` is scanned, so nothing is cut here.
pub(crate) fn short(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
