//! Where the browser brings the answer of a login: one address on this machine, open while the answer is awaited
//! (RFC 8252 7.3).

use std::{cell::RefCell, convert::Infallible, future::ready, net::Ipv4Addr, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{
    authorize::{Answer, Attempt},
    error::LoginError,
};
use config::Secret;

const PATH: &str = "/callback";

/// Connections that may be open at once, and all that come for one login. A browser opens some ahead of need.
const MOST_OPEN: usize = 8;
const MOST_EVER: usize = 64;

/// How long one connection may take.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

/// The most of a head that is read, in bytes. A code may be long.
const HEAD_BYTES: usize = 32 * 1024;

const DONE: &str = "The answer has arrived. Go back to your program; this page can be closed.\n";
const STRAY: &str = "This is not the answer to the login that is awaited here.\n";
const NOTHING: &str = "There is nothing here.\n";

/// An address where an answer is awaited.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

impl Callback {
    /// Opens the port; 0 is any.
    pub(super) async fn open(port: u16) -> Result<Callback, LoginError> {
        let cannot = |error| LoginError::Machine(format!("cannot await the login on port {port}: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        Ok(Callback { listener, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// What the authorization server sends the browser back to.
    pub(super) fn redirect(&self) -> String {
        format!("http://{}:{}{PATH}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// Waits for the answer, and closes the port.
    pub(super) async fn answer(self, attempt: &mut Attempt) -> Result<Secret, LoginError> {
        let (attempt, answered) = (RefCell::new(attempt), RefCell::new(None));
        let mut open = FuturesUnordered::new();
        let mut left = MOST_EVER;
        loop {
            tokio::select! {
                Some(()) = open.next() => (),
                accepted = self.listener.accept(), if open.len() < MOST_OPEN => {
                    left = left.checked_sub(1).ok_or(LoginError::Crowded)?;
                    let Ok((connection, _)) = accepted else { continue };
                    open.push(serve(connection, &attempt, &answered));
                }
            }
            // The page has been written by then.
            if let Some(code) = answered.take() {
                return code;
            }
        }
    }
}

async fn serve(
    connection: TcpStream,
    attempt: &RefCell<&mut Attempt>,
    answered: &RefCell<Option<Result<Secret, LoginError>>>,
) {
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(
            TokioIo::new(connection),
            service_fn(|request: Request<Incoming>| {
                let (status, text) = match (request.method(), request.uri().path()) {
                    (&Method::GET, PATH) => {
                        match attempt.borrow_mut().judge(request.uri().query().unwrap_or_default()) {
                            Answer::Stray => (StatusCode::BAD_REQUEST, STRAY),
                            Answer::Ours(code) => {
                                *answered.borrow_mut() = Some(code);
                                (StatusCode::OK, DONE)
                            }
                        }
                    }
                    _ => (StatusCode::NOT_FOUND, NOTHING),
                };
                ready(Ok::<_, Infallible>(page(status, text)))
            }),
        );
    // What a visitor does wrong concerns nobody but the visitor.
    let _ = timeout(CONNECTION_TIME, serving).await;
}

fn page(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut page = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *page.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        page.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    page
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn visit(port: u16, request: String) -> String {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        connection.read_to_string(&mut page).await.unwrap();
        page
    }

    fn get(target: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    }

    #[tokio::test]
    async fn strangers_are_sent_away_and_the_answer_closes_the_port() {
        let callback = Callback::open(0).await.unwrap();
        let port = callback.port();
        let mut attempt = Attempt::for_tests(&callback.redirect());
        let state = attempt.state().to_owned();
        let visits = async {
            // Browsers open connections that they may never use.
            let _idle = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            for (request, status) in [
                (get("/"), "404"),
                (get(&format!("/other?state={state}&code=c")), "404"),
                (get("/callback"), "400"),
                (get("/callback?state=guess&code=evil"), "400"),
                (get(&format!("/callback?state={state}&code=c")).replace("GET", "POST"), "404"),
                (get(&format!("/callback?state={state}&code=c")), "200"),
            ] {
                let page = visit(port, request.clone()).await;
                assert!(page.starts_with(&format!("HTTP/1.1 {status} ")), "{request}{page}");
                assert!(page.contains("no-store"), "{page}");
            }
        };
        let (code, ()) = tokio::join!(callback.answer(&mut attempt), visits);
        assert_eq!(code.unwrap().expose(), "c");
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err());
    }

    #[tokio::test]
    async fn too_many_visitors_end_a_login() {
        let callback = Callback::open(0).await.unwrap();
        let port = callback.port();
        let mut attempt = Attempt::for_tests(&callback.redirect());
        let visits = async {
            for _ in 0..=MOST_EVER {
                visit(port, get("/callback?state=guess&code=evil")).await;
            }
        };
        tokio::select! {
            code = callback.answer(&mut attempt) => assert_eq!(code, Err(LoginError::Crowded)),
            () = visits => unreachable!(),
        }
    }
}
