//! The upstream: one process that answers as fast as it can, over HTTP or on its standard input and output.
//!
//! Over HTTP the path says which server it is: `/legacy/json/10` has ten tools and answers JSON, `/modern/sse/600`
//! speaks the other era and answers in event streams, `/stateless/json/10` is a legacy server without sessions.

use std::{
    collections::HashMap,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Mutex,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

use crate::{
    affinity::Pinned,
    failure::Failure,
    http::{Message, Progress},
    service::{Era, SESSION, Said, Service},
};

/// Room for one read, in bytes.
const READ: usize = 64 * 1024;

/// How answers are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Events,
}

/// One server of this process.
#[derive(Debug)]
struct Place {
    service: Service,
    form: Form,
    sessions: bool,
}

impl Place {
    /// The server that a path names.
    fn of(path: &str) -> Option<Place> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let (era, sessions) = match parts.next()? {
            "legacy" => (Era::Legacy, true),
            "stateless" => (Era::Legacy, false),
            "modern" => (Era::Modern, false),
            _ => return None,
        };
        let form = match parts.next()? {
            "json" => Form::Json,
            "sse" => Form::Events,
            _ => return None,
        };
        let tools = parts.next()?.parse().ok()?;
        Some(Place { service: Service::new(era, tools), form, sessions })
    }

    /// Writes the whole answer to one request; `body` is room to render in.
    fn answer(&self, request: &Message<'_>, body: &mut Vec<u8>, out: &mut Vec<u8>) {
        if !request.head.starts_with(b"POST ") {
            out.extend_from_slice(
                b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n",
            );
            return;
        }
        body.clear();
        let (status, opens) = match self.service.answer(request.body, body) {
            Said::Nothing => {
                out.extend_from_slice(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
                return;
            }
            Said::Result { opens } => ("200 OK", opens && self.sessions),
            Said::Unknown => (self.service.era().status_of_unknown(), false),
        };
        let session = if opens { format!("mcp-session-id: {SESSION}\r\n") } else { String::new() };
        for part in ["HTTP/1.1 ", status, "\r\n", &session] {
            out.extend_from_slice(part.as_bytes());
        }
        // Writing to memory cannot fail.
        let _ = match self.form {
            Form::Json => {
                write!(out, "content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len())
            }
            Form::Events => write!(
                out,
                "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\nevent: message\ndata: ",
                body.len() + "event: message\ndata: \n\n".len()
            ),
        };
        out.extend_from_slice(body);
        if self.form == Form::Events {
            out.extend_from_slice(b"\n\n\r\n0\r\n\r\n");
        }
    }
}

/// Serves over HTTP at this port of loopback (0: any), says on stdout which one it is, and ends with its stdin.
pub(crate) fn over_http(port: u16) -> Result<(), Failure> {
    let _pinned = Pinned::to_last()?;
    std::thread::spawn(|| {
        // Whoever started this holds the other end, and may die without a word.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
        let places = Rc::new(Places::default());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let places = Rc::clone(&places);
            tokio::task::spawn_local(async move {
                // A connection that breaks is seen at its other end.
                let _ = serve(stream, &places).await;
            });
        }
    })
}

/// All servers that were asked for so far.
#[derive(Debug, Default)]
struct Places(Mutex<HashMap<String, Option<Rc<Place>>>>);

impl Places {
    fn at(&self, path: &str) -> Option<Rc<Place>> {
        let mut places = self.0.lock().ok()?;
        places.entry(path.to_owned()).or_insert_with(|| Place::of(path).map(Rc::new)).clone()
    }
}

async fn serve(mut stream: TcpStream, places: &Places) -> Result<(), Failure> {
    let (mut bytes, mut out, mut body) = (Vec::with_capacity(READ), Vec::new(), Vec::new());
    let mut progress = Progress::default();
    let mut last: Option<(String, Rc<Place>)> = None;
    loop {
        bytes.reserve(READ);
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        out.clear();
        while let Some(whole) = progress.look(&bytes)? {
            let request = whole.message(&bytes);
            let path = path(request.head);
            // A connection is nearly always for one server.
            let place = match &last {
                Some((known, place)) if known == path => Some(Rc::clone(place)),
                Some(_) | None => places.at(path),
            };
            match &place {
                Some(place) => place.answer(&request, &mut body, &mut out),
                None => out.extend_from_slice(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
            }
            if last.as_ref().is_none_or(|(known, _)| known != path) {
                last = place.map(|place| (path.to_owned(), place));
            }
            bytes.drain(..whole.end);
        }
        stream.write_all(&out).await?;
    }
}

/// The path of a request.
fn path(head: &[u8]) -> &str {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.split(|byte| *byte == b' ')
        .nth(1)
        .and_then(|path| std::str::from_utf8(path).ok())
        .unwrap_or_default()
}

/// Serves one legacy client on stdin and stdout until stdin ends.
pub(crate) fn over_stdio(tools: usize) -> Result<(), Failure> {
    let _pinned = Pinned::to_last()?;
    let service = Service::new(Era::Legacy, tools);
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    let mut piece = vec![0; READ];
    loop {
        let read = input.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(piece.get(..read).unwrap_or_default());
        out.clear();
        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
        for line in bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n') {
            if !line.is_empty() && service.answer(line, &mut out) != Said::Nothing {
                out.push(b'\n');
            }
        }
        bytes.drain(..whole);
        // What several lines ask is answered with one write.
        output.write_all(&out)?;
        output.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(path: &str, body: &str) -> String {
        let mut out = Vec::new();
        let request = Message { head: b"POST / HTTP/1.1\r\n\r\n", body: body.as_bytes() };
        Place::of(path).unwrap().answer(&request, &mut Vec::new(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_path_says_which_server_it_is() {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        let answer = answered("/legacy/json/10", initialize);
        assert!(answer.contains(SESSION) && answer.contains("application/json"), "{answer}");
        let answer = answered("/stateless/sse/10", initialize);
        assert!(!answer.contains(SESSION) && answer.contains("data: {\"jsonrpc\""), "{answer}");
        assert!(answered("/modern/json/10", initialize).starts_with("HTTP/1.1 404 "));
        assert!(Place::of("/nobody/json/10").is_none() && Place::of("/legacy/json").is_none());
    }

    #[test]
    fn events_are_whole_chunks() {
        let answer = answered("/legacy/sse/1", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let whole = Progress::default().look(answer.as_bytes()).unwrap().unwrap();
        assert_eq!(whole.end, answer.len());
        assert!(whole.message(answer.as_bytes()).body.ends_with(b"\"result\":{}}\n\n"));
    }
}
