//! The upstream: one process that answers as fast as it can, over HTTP or on its standard input and output.
//!
//! Over HTTP the path says which server it is: `/legacy/json/10` has ten tools and answers JSON, `/modern/sse/600`
//! speaks the other era and answers in event streams, `/stateless/json/10` is a legacy server without sessions.

use std::{
    array::IntoIter,
    collections::HashMap,
    convert::Infallible,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Mutex,
};

use futures_util::stream::{self, Iter};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Frame, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

use crate::{
    affinity::Pinned,
    failure::Failure,
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

/// The body of an answer.
type Answer = Either<Full<Bytes>, StreamBody<Iter<IntoIter<Result<Frame<Bytes>, Infallible>, 1>>>>;

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

    /// The answer to one message.
    fn answer(&self, message: &[u8]) -> Response<Answer> {
        let mut body = match self.form {
            Form::Json => Vec::new(),
            Form::Events => b"event: message\ndata: ".to_vec(),
        };
        let (status, opens) = match self.service.answer(message, &mut body) {
            Said::Nothing => return empty(StatusCode::ACCEPTED),
            Said::Result { opens } => (StatusCode::OK, opens && self.sessions),
            Said::Unknown => (self.service.era().status_of_unknown(), false),
        };
        let form = match self.form {
            Form::Json => "application/json",
            Form::Events => {
                body.extend_from_slice(b"\n\n");
                "text/event-stream"
            }
        };
        let body = match self.form {
            Form::Json => Either::Left(Full::from(body)),
            // In chunks, as one whose end is not known.
            Form::Events => {
                let event = Ok::<_, Infallible>(Frame::data(Bytes::from(body)));
                Either::Right(StreamBody::new(stream::iter([event])))
            }
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
        if opens {
            answer.headers_mut().insert("mcp-session-id", HeaderValue::from_static(SESSION));
        }
        answer
    }
}

fn empty(status: StatusCode) -> Response<Answer> {
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.status_mut() = status;
    answer
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
                let _ = serve(stream, places).await;
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
        if let Some(place) = places.get(path) {
            return place.clone();
        }
        places.entry(path.to_owned()).or_insert_with(|| Place::of(path).map(Rc::new)).clone()
    }
}

/// One connection, by the library that MCP servers in Rust are built on: what it costs is part of going there directly.
async fn serve(stream: TcpStream, places: Rc<Places>) -> Result<(), hyper::Error> {
    let service = service_fn(|request| answer(request, &places));
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
}

async fn answer(request: Request<Incoming>, places: &Places) -> Result<Response<Answer>, hyper::Error> {
    let Some(place) = places.at(request.uri().path()) else { return Ok(empty(StatusCode::NOT_FOUND)) };
    if request.method() != hyper::Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    Ok(place.answer(&request.into_body().collect().await?.to_bytes()))
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

    async fn answered(path: &str, body: &str) -> (Response<()>, String) {
        let (head, body) = Place::of(path).unwrap().answer(body.as_bytes()).into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (Response::from_parts(head, ()), String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_path_says_which_server_it_is() {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        let (head, _) = answered("/legacy/json/10", initialize).await;
        assert_eq!(
            (&head.headers()["mcp-session-id"], &head.headers()[CONTENT_TYPE]),
            (&HeaderValue::from_static(SESSION), &HeaderValue::from_static("application/json"))
        );
        let (head, body) = answered("/stateless/sse/10", initialize).await;
        assert!(head.headers().get("mcp-session-id").is_none());
        assert!(body.starts_with("event: message\ndata: {\"jsonrpc\"") && body.ends_with("}\n\n"), "{body}");
        assert_eq!(answered("/modern/json/10", initialize).await.0.status(), StatusCode::NOT_FOUND);
        assert!(Place::of("/nobody/json/10").is_none() && Place::of("/legacy/json").is_none());
    }
}
