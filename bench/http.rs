//! HTTP/1.1 messages as they arrive: enough for both ends of a measurement.

use std::ops::Range;

use memchr::memmem;

use crate::failure::Failure;

/// No message of ours is larger, in bytes.
const LARGEST: usize = 64 * 1024 * 1024;

/// How far one message has been read from the front of a buffer.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    stage: Stage,
    /// Bytes of the head, the empty line included.
    head: usize,
    /// The body, when it came in chunks.
    joined: Vec<u8>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Head,
    /// A body that ends here.
    Length(usize),
    /// A body in chunks, the next of which begins here.
    Chunks(usize),
}

/// Where the parts of a whole message stand in its buffer.
#[derive(Debug)]
pub(crate) struct Whole {
    head: usize,
    body: Body,
    /// Bytes of all of it.
    pub(crate) end: usize,
}

#[derive(Debug)]
enum Body {
    InPlace(Range<usize>),
    Joined(Vec<u8>),
}

/// One message.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    /// The start line and all header lines.
    pub(crate) head: &'a [u8],
    /// Without chunk sizes.
    pub(crate) body: &'a [u8],
}

impl Progress {
    /// Looks at what is there; `None` when more has to come.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Result<Option<Whole>, Failure> {
        if bytes.len() > LARGEST {
            return Err(Failure::new(format!("a message of more than {LARGEST} bytes")));
        }
        if let Stage::Head = self.stage {
            let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
            self.head = end + 4;
            self.stage = body_of(bytes.get(..self.head).unwrap_or_default())?.from(self.head);
        }
        match self.stage {
            Stage::Head => Ok(None),
            Stage::Length(end) if bytes.len() < end => Ok(None),
            Stage::Length(end) => Ok(Some(self.whole(end, Body::InPlace(self.head..end)))),
            Stage::Chunks(at) => self.chunks(bytes, at),
        }
    }

    fn chunks(&mut self, bytes: &[u8], mut at: usize) -> Result<Option<Whole>, Failure> {
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(line) = memmem::find(rest, b"\r\n") else { return Ok(None) };
            let size = chunk_size(rest.get(..line).unwrap_or_default())?;
            let Some(chunk) = rest.get(line + 2..line + 2 + size + 2) else { return Ok(None) };
            at += line + 2 + size + 2;
            if size == 0 {
                let joined = std::mem::take(&mut self.joined);
                return Ok(Some(self.whole(at, Body::Joined(joined))));
            }
            self.joined.extend_from_slice(chunk.get(..size).unwrap_or_default());
            self.stage = Stage::Chunks(at);
        }
    }

    fn whole(&mut self, end: usize, body: Body) -> Whole {
        let head = self.head;
        *self = Progress::default();
        Whole { head, body, end }
    }
}

impl Stage {
    /// The same, counted from the end of the head.
    fn from(self, head: usize) -> Stage {
        match self {
            Stage::Head => Stage::Head,
            Stage::Length(length) => Stage::Length(head + length),
            Stage::Chunks(at) => Stage::Chunks(head + at),
        }
    }
}

impl Whole {
    /// The message, in the buffer that it was found in.
    pub(crate) fn message<'a>(&'a self, bytes: &'a [u8]) -> Message<'a> {
        let body = match &self.body {
            Body::InPlace(range) => bytes.get(range.clone()).unwrap_or_default(),
            Body::Joined(joined) => joined,
        };
        Message { head: bytes.get(..self.head).unwrap_or_default(), body }
    }
}

impl Message<'_> {
    /// The status of a response; 0 when there is none.
    pub(crate) fn status(&self) -> u16 {
        let digits = self.head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
    }

    /// The value of a header line.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(self.head, name)
    }

    /// Its first bytes as text, for a failure.
    pub(crate) fn beginning(&self) -> String {
        let start = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes.get(..bytes.len().min(300)).unwrap_or_default()).into_owned()
        };
        format!("status {} and `{}`", self.status(), start(self.body))
    }
}

fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = head.split(|byte| *byte == b'\n');
    let found = lines.into_iter().find_map(|line| {
        let (before, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        before.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
    })?;
    Some(std::str::from_utf8(found).ok()?.trim())
}

fn body_of(head: &[u8]) -> Result<Stage, Failure> {
    if let Some(length) = header(head, "content-length") {
        let length = length.parse().map_err(|_| Failure::new(format!("content-length `{length}`")))?;
        return Ok(Stage::Length(length));
    }
    let chunked =
        header(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
    // Neither: a request without a body, or a response like 202.
    Ok(if chunked { Stage::Chunks(0) } else { Stage::Length(0) })
}

fn chunk_size(line: &[u8]) -> Result<usize, Failure> {
    let digits = line.split(|byte| *byte == b';').next().and_then(|digits| std::str::from_utf8(digits).ok());
    let size = digits.and_then(|digits| usize::from_str_radix(digits.trim(), 16).ok());
    size.ok_or_else(|| Failure::new(format!("a chunk of size `{}`", String::from_utf8_lossy(line))))
}

/// The path of a request.
pub(crate) fn path(head: &[u8]) -> &str {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.split(|byte| *byte == b' ')
        .nth(1)
        .and_then(|path| std::str::from_utf8(path).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Head, body and length of the first message, byte by byte as from a slow network.
    fn read(bytes: &[u8]) -> Option<(String, String, usize)> {
        let mut progress = Progress::default();
        (0..=bytes.len()).find_map(|length| {
            let whole = progress.look(&bytes[..length]).unwrap()?;
            let message = whole.message(bytes);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            Some((text(message.head), text(message.body), whole.end))
        })
    }

    #[test]
    fn a_body_has_a_length_or_chunks_or_is_none() {
        for (head, body, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5", "hello", "hello"),
            ("HTTP/1.1 200 OK\r\ncontent-length:0", "", ""),
            ("HTTP/1.1 202 Accepted\r\nserver: x", "", ""),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
                "3\r\nhel\r\nA;x=y\r\nlo, world!\r\n0\r\n\r\n",
                "hello, world!",
            ),
        ] {
            let text = format!("{head}\r\n\r\n{body}");
            let more = format!("{text}HTTP/1.1 200 OK\r\n");
            let (_, found, end) = read(more.as_bytes()).unwrap();
            assert_eq!((found.as_str(), end), (expected, text.len()), "{text}");
        }
    }

    #[test]
    fn half_a_message_is_none() {
        for text in
            ["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhe"]
        {
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        ] {
            assert!(Progress::default().look(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn status_and_headers_are_read_without_regard_to_case() {
        let message = Message { head: b"HTTP/1.1 404 Not Found\r\nMcp-Session-Id:  a b \r\n\r\n", body: b"" };
        assert_eq!((message.status(), message.header("mcp-session-id")), (404, Some("a b")));
        assert_eq!(message.header("mcp-session"), None);
    }
}
