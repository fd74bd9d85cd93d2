//! HTTP/1.1 by hand: what is sent is exactly what a test says, and nothing that comes back is hidden.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
};

use serde_json::Value;
use wire::sse::Decoder;

use crate::wait::LONG;

/// A request in the making.
#[derive(Clone, Debug)]
pub struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// One open connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A whole response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header fields, names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    /// The body, unframed.
    pub body: Vec<u8>,
}

/// A response whose body is an event stream, read as it comes. Dropping it closes the connection.
#[derive(Debug)]
pub struct Stream {
    /// The head; its body stays empty.
    pub head: Answer,
    /// Every byte of the body so far.
    pub raw: Vec<u8>,
    connection: Connection,
    framing: Framing,
    decoder: Decoder,
    messages: VecDeque<Value>,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Chunked,
    Length(usize),
    Close,
}

impl Request {
    /// A request without a body. `Host` is added when it is sent.
    pub fn new(verb: &str, path: &str) -> Request {
        Request { line: format!("{verb} {path} HTTP/1.1"), headers: Vec::new(), body: Vec::new() }
    }

    /// A POST of one message, as a client would send it.
    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Request {
        let body = body.into();
        let mut request = Request::new("POST", path)
            .with("content-type", "application/json")
            .with("accept", "application/json, text/event-stream")
            .with("content-length", &body.len().to_string());
        request.body = body;
        request
    }

    /// Sets a header field, whatever it was.
    pub fn with(mut self, name: &str, value: &str) -> Request {
        self = self.without(name);
        self.and(name, value)
    }

    /// Adds a header field, beside those of the same name.
    pub fn and(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a header field out.
    pub fn without(mut self, name: &str) -> Request {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Sends the body in chunks of unknown number.
    pub fn chunked(mut self) -> Request {
        let mut chunks = Vec::new();
        for chunk in self.body.chunks(64 * 1024) {
            chunks.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            chunks.extend(chunk);
            chunks.extend(b"\r\n");
        }
        chunks.extend(b"0\r\n\r\n");
        self.body = chunks;
        self.without("content-length").with("transfer-encoding", "chunked")
    }

    /// The bytes to send to this address. `Host` is the address unless it was set.
    pub fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut bytes = format!("{}\r\n", self.line).into_bytes();
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            bytes.extend(format!("host: {address}\r\n").into_bytes());
        }
        for (name, value) in &self.headers {
            // An empty `Host` stands for none at all.
            if !(value.is_empty() && name == "host") {
                bytes.extend(format!("{name}: {value}\r\n").into_bytes());
            }
        }
        bytes.extend(b"\r\n");
        bytes.extend(&self.body);
        bytes
    }
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect_timeout(&address, LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, unread: Vec::new() }
    }

    /// Sends bytes. The other side may have closed; what it said before that can still be read.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Ends our side.
    pub fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads one whole response.
    pub fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        answer.body = match framing(&answer) {
            Framing::Length(length) => self.take(length),
            Framing::Chunked => {
                let mut body = Vec::new();
                while let Some(chunk) = self.chunk() {
                    body.extend(chunk);
                }
                body
            }
            Framing::Close => self.rest(),
        };
        answer
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.unread)
    }

    /// Reads a response whose body comes piece by piece.
    pub fn stream(mut self) -> Stream {
        let head = self.head();
        let framing = framing(&head);
        Stream {
            head,
            raw: Vec::new(),
            connection: self,
            framing,
            decoder: Decoder::new(64 * 1024 * 1024),
            messages: VecDeque::new(),
        }
    }

    fn head(&mut self) -> Answer {
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines[1..].iter().map(|line| line.split_once(':').unwrap());
        let headers =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        Answer { status, headers, body: Vec::new() }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.take(end + 2);
                return String::from_utf8_lossy(&line[..end]).into_owned();
            }
            assert!(
                self.fill(),
                "the connection ended within a line: {:?}",
                String::from_utf8_lossy(&self.unread)
            );
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert!(self.fill(), "the connection ended {} bytes early", length - self.unread.len());
        }
        self.unread.drain(..length).collect()
    }

    /// The next chunk of a chunked body; none at its end.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line(), 16).unwrap();
        let chunk = self.take(length);
        self.line();
        (length > 0).then_some(chunk)
    }

    /// Reads more; false at the end of the connection.
    fn fill(&mut self) -> bool {
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => false,
            Ok(length) => {
                self.unread.extend(&piece[..length]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing came within {LONG:?}: {error}"),
        }
    }
}

impl Answer {
    /// A header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).into_iter().next()
    }

    /// Every header field of that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    /// The messages of the body, whether it is JSON or an event stream.
    pub fn messages(&self) -> Vec<Value> {
        if self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let mut decoder = Decoder::new(64 * 1024 * 1024);
            return parsed(&decoder.push(&self.body).unwrap());
        }
        if self.body.is_empty() { Vec::new() } else { vec![self.json()] }
    }

    /// The only message.
    pub fn message(&self) -> Value {
        let mut messages = self.messages();
        assert_eq!(messages.len(), 1, "{} {:?}", self.status, self.text());
        messages.remove(0)
    }

    /// The code of the error it carries.
    pub fn code(&self) -> Option<i64> {
        self.messages().last()?["error"]["code"].as_i64()
    }

    /// Status and code, for comparing with a table.
    pub fn verdict(&self) -> (u16, Option<i64>) {
        (self.status, self.code())
    }
}

impl Stream {
    /// The next message; none when the stream ends.
    pub fn next_message(&mut self) -> Option<Value> {
        while self.messages.is_empty() {
            let piece = self.piece()?;
            let events = self.decoder.push(&piece).unwrap();
            self.messages.extend(parsed(&events));
            self.raw.extend(piece);
        }
        self.messages.pop_front()
    }

    /// Reads until the body so far contains this.
    pub fn reads(&mut self, part: &[u8]) {
        while !self.raw.windows(part.len()).any(|window| window == part) {
            let piece = self.piece().expect("the stream ended");
            let events = self.decoder.push(&piece).unwrap();
            self.messages.extend(parsed(&events));
            self.raw.extend(piece);
        }
    }

    /// All messages up to the end.
    pub fn all(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next_message()).collect()
    }

    fn piece(&mut self) -> Option<Vec<u8>> {
        match &mut self.framing {
            Framing::Chunked => self.connection.chunk(),
            Framing::Length(0) => None,
            Framing::Length(left) => {
                let piece = self.connection.take(*left);
                *left = 0;
                Some(piece)
            }
            Framing::Close => Some(self.connection.rest()).filter(|rest| !rest.is_empty()),
        }
    }
}

fn parsed(events: &[wire::sse::Event]) -> Vec<Value> {
    // HTTP+SSE has events that are no messages.
    let full = events.iter().filter(|event| !event.data.is_empty() && &*event.name == "message");
    full.map(|event| serde_json::from_slice(&event.data).unwrap()).collect()
}

fn framing(head: &Answer) -> Framing {
    if head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        return Framing::Chunked;
    }
    match head.header("content-length") {
        Some(length) => Framing::Length(length.parse().unwrap()),
        None if [100, 202, 204].contains(&head.status) => Framing::Length(0),
        None => Framing::Close,
    }
}
