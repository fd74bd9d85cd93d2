//! One message as a list of shared byte slices, written without being joined.

use bytes::{Bytes, BytesMut};

use crate::text;

/// One message, ready to be written. A large result is a slice of what arrived, not a copy of it.
// INVARIANT: no piece that came through `one` or `push` holds a raw line break.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    list: Vec<Bytes>,
}

impl Pieces {
    /// A message in one piece of JSON text.
    pub fn one(bytes: Bytes) -> Pieces {
        let mut pieces = Pieces::default();
        pieces.push(bytes);
        pieces
    }

    /// Appends JSON text. A line break in its white space becomes a space, since a message is one line on
    /// stdio and in an event (spec P-01, H-09); only then the piece is copied.
    pub fn push(&mut self, bytes: Bytes) {
        if memchr::memchr2(b'\n', b'\r', &bytes).is_none() {
            self.list.push(bytes);
            return;
        }
        let mut copy = BytesMut::from(&*bytes);
        text::on_one_line(&mut copy);
        self.list.push(copy.freeze());
    }

    pub(crate) fn with_capacity(count: usize) -> Pieces {
        Pieces { list: Vec::with_capacity(count) }
    }

    /// Appends bytes that are known to need no look, or that frame the message.
    pub(crate) fn push_as_is(&mut self, bytes: Bytes) {
        self.list.push(bytes);
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.list.iter().map(Bytes::len).sum()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.list.iter().all(Bytes::is_empty)
    }

    /// The slices in order.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.list.iter()
    }

    /// The message in one slice; copies unless it is one already.
    pub fn join(mut self) -> Bytes {
        if self.list.len() < 2 {
            return self.list.pop().unwrap_or_default();
        }
        let mut joined = BytesMut::with_capacity(self.len());
        self.list.iter().for_each(|piece| joined.extend_from_slice(piece));
        joined.freeze()
    }
}

impl IntoIterator for Pieces {
    type Item = Bytes;
    type IntoIter = std::vec::IntoIter<Bytes>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Pieces {
        Pieces::one(bytes)
    }
}

#[cfg(test)]
mod tests;
