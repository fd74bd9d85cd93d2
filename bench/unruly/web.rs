//! Unruly servers over HTTP, one a path: `/legacy/NAME` and `/modern/NAME`.

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    time::Duration,
};

use hyper::StatusCode;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::LocalSet,
    time::sleep,
};

use super::{Answer, HELD, Heard, Unruly};
use crate::{
    failure::Failure,
    http::{Progress, path},
    service::{Era, SESSION, Said},
};

/// Room for one read, in bytes.
const READ: usize = 16 * 1024;

/// Answers come after less than so many milliseconds.
const SOON: usize = 4;

type Servers = Rc<RefCell<HashMap<String, Rc<RefCell<Unruly>>>>>;

/// Serves at a free port of loopback, says on stdout which one it is, and ends with its stdin.
pub(crate) fn serve() -> Result<(), Failure> {
    std::thread::spawn(|| {
        // Whoever started this holds the other end, and may die without a word.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
        let servers = Servers::default();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let servers = Rc::clone(&servers);
            tokio::task::spawn_local(async move {
                // A connection that breaks is seen at its other end.
                let _ = connection(stream, &servers).await;
            });
        }
    })
}

async fn connection(mut stream: TcpStream, servers: &Servers) -> Result<(), Failure> {
    let mut bytes = Vec::with_capacity(READ);
    let mut progress = Progress::default();
    loop {
        bytes.reserve(READ);
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        while let Some(whole) = progress.look(&bytes)? {
            let request = whole.message(&bytes);
            let answer = match named(servers, path(request.head)) {
                Some(unruly) if request.head.starts_with(b"POST ") => respond(&unruly, request.body).await,
                Some(_) => {
                    b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n".to_vec()
                }
                None => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
            };
            stream.write_all(&answer).await?;
            bytes.drain(..whole.end);
        }
    }
}

fn named(servers: &Servers, path: &str) -> Option<Rc<RefCell<Unruly>>> {
    if let Some(known) = servers.borrow().get(path) {
        return Some(Rc::clone(known));
    }
    let (era, name) = path.strip_prefix('/')?.split_once('/')?;
    let era = match era {
        "legacy" => Era::Legacy,
        "modern" => Era::Modern,
        _ => return None,
    };
    let made = Rc::new(RefCell::new(Unruly::new(era, name)));
    servers.borrow_mut().insert(path.to_owned(), Rc::clone(&made));
    Some(made)
}

async fn respond(unruly: &RefCell<Unruly>, message: &[u8]) -> Vec<u8> {
    let heard = unruly.borrow_mut().hear(message);
    match heard {
        Heard::Nothing => b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec(),
        Heard::Now(answer, said) => at_once(unruly.borrow().era(), &answer, said),
        Heard::Call(answer) => {
            let soon = unruly.borrow_mut().chance().below(SOON).and_then(|soon| u64::try_from(soon).ok());
            let wait = if answer.is_late { HELD } else { soon.unwrap_or_default() };
            sleep(Duration::from_millis(wait)).await;
            events(&mut unruly.borrow_mut(), answer)
        }
    }
}

fn at_once(era: Era, answer: &[u8], said: Said) -> Vec<u8> {
    let status = if said == Said::Unknown { era.status_of_unknown() } else { StatusCode::OK };
    let opens = said == Said::Result { opens: true };
    let session = if opens { format!("mcp-session-id: {SESSION}\r\n") } else { String::new() };
    let length = answer.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{session}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), answer].concat()
}

/// An event stream of all that is said, or the first of it that is an answer alone in JSON.
fn events(unruly: &mut Unruly, answer: Answer) -> Vec<u8> {
    if unruly.chance().one_in(4) {
        return at_once(unruly.era(), &answer.text, Said::Result { opens: false });
    }
    let mut out =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for message in unruly.released(answer) {
        let event = [b"event: message\ndata: ", &*message, b"\n\n"].concat();
        out.extend_from_slice(format!("{:x}\r\n", event.len()).as_bytes());
        out.extend_from_slice(&event);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}
