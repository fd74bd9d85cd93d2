//! Event streams: one message an event going out, and whatever a server may send coming in (spec H-09, H-10).

use bytes::Bytes;

use crate::pieces::Pieces;

/// A comment, so that a silent stream is seen to live.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One message as one event with a single `data` line. `id` is what a client resumes from.
pub fn event(message: &Pieces, id: Option<&str>) -> Pieces {
    let mut pieces = Pieces::with_capacity(message.count() + 2);
    let head = match id {
        // A line break would end the field, and a NUL makes readers ignore it.
        Some(id) => format!("id: {}\ndata: ", id.replace(['\n', '\r', '\0'], "")).into(),
        None => Bytes::from_static(b"data: "),
    };
    pieces.push_as_is(head);
    message.iter().for_each(|piece| pieces.push_as_is(piece.clone()));
    pieces.push_as_is(Bytes::from_static(b"\n\n"));
    pieces
}

/// One message as one event of HTTP+SSE, whose readers tell events apart by their names (spec S-03).
pub fn named(message: &Pieces) -> Pieces {
    let mut pieces = Pieces::with_capacity(message.count() + 2);
    pieces.push_as_is(Bytes::from_static(b"event: message\ndata: "));
    message.iter().for_each(|piece| pieces.push_as_is(piece.clone()));
    pieces.push_as_is(Bytes::from_static(b"\n\n"));
    pieces
}

/// The first event of HTTP+SSE: the URI that messages are sent to, without line breaks (spec S-02).
pub fn endpoint(uri: &str) -> Pieces {
    let mut pieces = Pieces::with_capacity(1);
    pieces.push_as_is(format!("event: endpoint\ndata: {uri}\n\n").into());
    pieces
}

/// The first event of a stream: says where to come back to and after how many milliseconds, and nothing else (spec H-23).
pub fn priming(id: &str, retry: u32) -> Pieces {
    let mut pieces = Pieces::with_capacity(1);
    let id = id.replace(['\n', '\r', '\0'], "");
    pieces.push_as_is(format!("id: {id}\nretry: {retry}\ndata: \n\n").into());
    pieces
}

/// One event that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name; `message` when the server gave none.
    pub name: Box<str>,
    /// Its data lines, joined by line breaks. Not yet known to be UTF-8.
    pub data: Bytes,
    /// The last id the stream gave, in this event or before.
    pub id: Option<Box<str>>,
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is longer than the limit.
    #[error("an event is longer than {limit} bytes")]
    TooLarge {
        /// The most bytes.
        limit: usize,
    },
}

/// The longest event id that is kept, in bytes.
const ID_BYTES: usize = 1024;

/// Reads an event stream from chunks that are cut anywhere.
#[derive(Clone, Debug)]
pub struct Decoder {
    limit: usize,
    /// The line that has not ended.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    name: Option<Box<str>>,
    id: Option<Box<str>>,
    retry: Option<u64>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    is_start: bool,
}

impl Decoder {
    /// A reader that holds at most `limit` bytes of one event.
    pub fn new(limit: usize) -> Decoder {
        Decoder {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: None,
            id: None,
            retry: None,
            after_return: false,
            is_start: true,
        }
    }

    /// The last id the stream gave.
    pub fn last_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// How many milliseconds the server wants to be left alone before the stream is opened again.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Takes the next chunk and returns the events that it completes. After an error the stream is of no more
    /// use.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<Event>, SseError> {
        let mut events = Vec::new();
        let mut rest = chunk;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
            let (line, tail) = rest.split_at(at);
            rest = match tail {
                [b'\r', b'\n', tail @ ..] => tail,
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [_, tail @ ..] => tail,
                [] => &[],
            };
            events.extend(self.end_line(line)?);
        }
        self.check(rest)?;
        self.line.extend_from_slice(rest);
        Ok(events)
    }

    fn check(&self, more: &[u8]) -> Result<(), SseError> {
        if self.line.len() + self.data.len() + more.len() > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }

    /// A line ends with `rest`, which is all of it unless it began in an earlier chunk.
    fn end_line(&mut self, rest: &[u8]) -> Result<Option<Event>, SseError> {
        self.check(rest)?;
        let mut begun = std::mem::take(&mut self.line);
        let mut text = if begun.is_empty() {
            rest
        } else {
            begun.extend_from_slice(rest);
            &begun
        };
        if std::mem::take(&mut self.is_start) {
            text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        }
        if text.is_empty() {
            return Ok(self.end_event());
        }
        self.field(text);
        Ok(None)
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = self.name.take();
        let data = std::mem::take(&mut self.data);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        Some(Event { name: name.unwrap_or_else(|| "message".into()), data: data.into(), id: self.id.clone() })
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(at) => line.split_at(at),
            None => (line, &[] as &[u8]),
        };
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = (!value.is_empty()).then(|| String::from_utf8_lossy(value).into()),
            // A long one is not kept: it stands in every event from here on, and goes back in a header.
            b"id" if !value.contains(&0) && value.len() <= ID_BYTES => {
                self.id = (!value.is_empty()).then(|| String::from_utf8_lossy(value).into());
            }
            b"retry" => {
                let digits =
                    std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                self.retry = digits.and_then(|digits| digits.parse().ok()).or(self.retry);
            }
            // A comment, or a field nobody knows.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
