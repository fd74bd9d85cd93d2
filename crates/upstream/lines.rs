//! Bytes from a pipe to lines: no text is decoded here, so a character may be cut anywhere (bug B07).

use bytes::{Buf, Bytes, BytesMut};

/// What a pipe holds at most; also the most a short line keeps alive.
const CHUNK: usize = 64 * 1024;
/// Reading into less room than this is not worth a system call.
const LEAST_ROOM: usize = 4 * 1024;

/// Splits a byte stream at newlines. A line within one chunk is a slice of it; a longer one is joined once, so that a line of
/// n bytes costs about 2n in all (no doubling buffer).
pub(crate) struct Lines {
    cap: usize,
    chunk: BytesMut,
    /// Full chunks of the line that is not complete yet.
    parts: Vec<Bytes>,
    held: usize,
    /// How much of `chunk` is known to hold no newline.
    scanned: usize,
}

/// A line longer than the cap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, chunk: BytesMut::new(), parts: Vec::new(), held: 0, scanned: 0 }
    }

    /// Where to read to: never without room. Nothing is allocated before the first byte can be read.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        if self.chunk.capacity() - self.chunk.len() < LEAST_ROOM {
            if !self.chunk.is_empty() {
                self.held += self.chunk.len();
                self.parts.push(std::mem::take(&mut self.chunk).freeze());
            }
            self.chunk = BytesMut::with_capacity(CHUNK);
            self.scanned = 0;
        }
        &mut self.chunk
    }

    /// The next complete line without its newline, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        let unscanned = self.chunk.get(self.scanned..).unwrap_or_default();
        let Some(found) = memchr::memchr(b'\n', unscanned) else {
            self.scanned = self.chunk.len();
            return if self.held + self.scanned > self.cap { Err(TooLong) } else { Ok(None) };
        };
        let end = self.scanned + found;
        self.scanned = 0;
        if self.held + end > self.cap {
            return Err(TooLong);
        }
        let tail = self.chunk.split_to(end).freeze();
        self.chunk.advance(1);
        if self.parts.is_empty() {
            return Ok(Some(tail));
        }
        let mut whole = Vec::with_capacity(self.held + end);
        for part in self.parts.drain(..) {
            whole.extend_from_slice(&part);
        }
        whole.extend_from_slice(&tail);
        self.held = 0;
        Ok(Some(Bytes::from(whole)))
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Lines, TooLong};

    fn feed(lines: &mut Lines, mut bytes: &[u8], step: usize) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let room = lines.room();
            let take = step.min(room.capacity() - room.len()).min(bytes.len());
            room.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            while let Some(line) = lines.next()? {
                out.push(line.to_vec());
            }
        }
        Ok(out)
    }

    #[test]
    fn lines_are_the_same_whatever_the_chunks() {
        let text = "a\n\u{e9}\u{4e2d}\u{1f469}\u{200d}\u{1f680}\u{2028}x\n\nlast\r\n";
        for step in [1, 2, 3, 5, 1000] {
            let got = feed(&mut Lines::new(100), text.as_bytes(), step);
            let want: Vec<Vec<u8>> = text.lines_with_cr();
            assert_eq!(got, Ok(want), "step {step}");
        }
    }

    trait WithCr {
        fn lines_with_cr(&self) -> Vec<Vec<u8>>;
    }
    impl WithCr for str {
        fn lines_with_cr(&self) -> Vec<Vec<u8>> {
            self.strip_suffix('\n').unwrap_or(self).split('\n').map(|line| line.as_bytes().to_vec()).collect()
        }
    }

    #[test]
    fn long_lines_are_joined_and_short_ones_follow() {
        let long = vec![b'x'; 3 * CHUNK + 17];
        let mut bytes = long.clone();
        bytes.extend_from_slice(b"\nshort\n");
        let got = feed(&mut Lines::new(4 * CHUNK), &bytes, 10_007);
        assert_eq!(got, Ok(vec![long, b"short".to_vec()]));
    }

    #[test]
    fn the_cap_holds_with_and_without_a_newline() {
        for (size, end, fits) in [(100, "\n", true), (101, "\n", false), (101, "", false), (100, "", true)] {
            let mut bytes = vec![b'x'; size];
            bytes.extend_from_slice(end.as_bytes());
            assert_eq!(feed(&mut Lines::new(100), &bytes, 7).is_ok(), fits, "{size} {end:?}");
        }
    }
}
