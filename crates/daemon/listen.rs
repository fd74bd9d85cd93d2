//! Sockets: binding, accepting, the bounds of one connection, and its end. Nothing here knows what MCP is.

use std::{
    any::Any,
    convert::Infallible,
    future::Future,
    io::{self, Write as _},
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceBuilder;
use tower_http::{
    catch_panic::{CatchPanicLayer, ResponseForPanic},
    set_header::SetResponseHeaderLayer,
};

use crate::{
    failure::Failure,
    socket::{Activity, Sending, Socket},
    transport::{body::Body, refusal::Refusal},
};

/// A connection may be idle for so long. Longer than the balancers in use keep theirs, so that they close first.
const IDLE_TIME: Duration = Duration::from_secs(620);

/// The largest head, and the most header fields (security 32).
const HEAD_BYTES: usize = 32 * 1024;
const HEAD_FIELDS: usize = 100;

/// What is served at a listener.
pub(crate) trait Site: Send + Sync + 'static {
    /// Answers one request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        ends: Ends,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// The two steps in which a listener stops.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    /// No new connection; those that are open go on.
    pub(crate) refuse: CancellationToken,
    /// What is being answered is finished, then every connection closes.
    pub(crate) finish: CancellationToken,
}

/// Takes an address, or says what stands in the way. `setting` is where the operator can change it.
pub(crate) async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "something listens there already: stop it, or change",
            io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege: use a higher one in",
            io::ErrorKind::AddrNotAvailable => "this machine does not have that address: change",
            _ => "change",
        };
        Failure::unavailable(format!("cannot listen on {address}: {error}; {advice} {setting}"))
    })
}

/// Accepts connections until told to stop, and returns when the last of them is closed.
pub(crate) async fn serve<S: Site>(listener: TcpListener, site: Arc<S>, most: usize, stop: Stop) {
    let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.refuse.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Mostly the process has no file descriptor left; one will be free soon.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            tracing::warn!(%peer, most, "turned a connection away: too many are open");
            turn_away(stream);
            continue;
        };
        let connection = connection(stream, peer, Arc::clone(&site), stop.finish.clone());
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    // Closed before anything is waited for: new connections are refused at once (bug B85).
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Serves one connection. The tower layers of the product are all here; the first sees an answer last.
async fn connection<S: Site>(stream: TcpStream, peer: SocketAddr, site: Arc<S>, finish: CancellationToken) {
    let Ok(local) = stream.local_addr() else { return };
    let ends = Ends { local, peer };
    // Answers are written whole; waiting for more to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let activity = Arc::new(Activity::default());
    let shared = Arc::clone(&activity);
    let service = ServiceBuilder::new()
        .layer(fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed(header::CACHE_CONTROL, "no-store"))
        .layer(CatchPanicLayer::custom(Contained))
        .service_fn(move |request| {
            let (site, answering) = (Arc::clone(&site), shared.answer());
            // Boxed, so that a connection that waits for its next request does not keep room for the answer.
            let answer = Box::pin(site.answer(request, ends));
            async move {
                let response = answer.await;
                Ok::<_, Infallible>(response.map(|body| Sending::new(body, answering)))
            }
        });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIME)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEAD_FIELDS);
    let io = TokioIo::new(Socket::new(stream, Arc::clone(&activity), finish.clone()));
    let mut connection = pin!(http.serve_connection(io, TowerToHyperService::new(service)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = finish.cancelled() => {
            if !activity.was_used() {
                // Opened in advance, never used: there is nothing to finish.
                return;
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

fn fixed(name: header::HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}

/// A panic ends its own request and nothing else.
#[derive(Clone)]
struct Contained;

impl ResponseForPanic for Contained {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, panic: Box<dyn Any + Send>) -> Response<Body> {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        tracing::error!(panic = text, "a request panicked");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the operator's log says more").into()
    }
}

/// Best effort: the client is told if that costs nothing.
fn turn_away(stream: TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 10\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let Ok(mut stream) = stream.into_std() else { return };
    let _ = stream.write(ANSWER);
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        task::JoinHandle,
    };

    use super::*;
    use crate::transport::body;

    /// Panics, reads a body of at most 10 bytes, answers before it reads, or says hello.
    struct Echo;

    impl Site for Echo {
        async fn answer(self: Arc<Self>, request: Request<Incoming>, _: Ends) -> Response<Body> {
            let (head, incoming) = request.into_parts();
            match head.uri.path() {
                "/panic" => panic!("on purpose"),
                "/read" => {
                    let read = body::unread(incoming, 10).await;
                    Response::new(body::text(format!("{read:?}")))
                }
                "/refuse" => Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too large").into(),
                _ => Response::new(body::text("hello")),
            }
        }
    }

    async fn start(most: usize) -> (SocketAddr, Stop, JoinHandle<()>) {
        let listener = bind("127.0.0.1:0".parse().unwrap(), "`listen`").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Stop::default();
        let serving = tokio::spawn(serve(listener, Arc::new(Echo), most, stop.clone()));
        (address, stop, serving)
    }

    /// Sends bytes and reads until the other side has nothing more to say.
    async fn talk(stream: &mut TcpStream, sent: &[u8]) -> String {
        stream.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn once(address: SocketAddr, sent: &[u8]) -> String {
        talk(&mut TcpStream::connect(address).await.unwrap(), sent).await
    }

    /// Asks on a connection that stays open.
    async fn greet(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            answer.push(stream.read_u8().await.unwrap());
        }
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_panic_ends_its_own_request_only() {
        let (address, ..) = start(10).await;
        let two =
            b"GET /panic HTTP/1.1\r\nhost: h\r\n\r\nGET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
        let answers = once(address, two).await;
        assert!(answers.starts_with("HTTP/1.1 500 ") && answers.contains("internal error"), "{answers}");
        assert!(!answers.contains("on purpose"), "{answers}");
        assert!(answers.ends_with("hello"), "{answers}");
        assert_eq!(answers.matches("x-content-type-options: nosniff").count(), 2, "{answers}");
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        let (address, ..) = start(10).await;
        for (body, expected) in [
            ("content-length: 0\r\n\r\n", "Ok(b\"\")"),
            ("content-length: 10\r\n\r\n0123456789", "Ok(b\"0123456789\")"),
            ("content-length: 11\r\n\r\n01234567890", "Err(TooLarge { limit: 10 })"),
            (
                "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n2\r\ngh\r\n0\r\n\r\n",
                "Ok(b\"abcdefgh\")",
            ),
            (
                "transfer-encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n",
                "Err(TooLarge { limit: 10 })",
            ),
            ("transfer-encoding: chunked\r\n\r\nzz\r\n", "Err(Broken)"),
        ] {
            let request = format!("POST /read HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{body}");
            let answer = once(address, request.as_bytes()).await;
            assert!(answer.ends_with(expected), "{body}: {answer}");
        }
    }

    #[tokio::test]
    async fn a_refusal_arrives_although_the_client_is_still_sending() {
        let (address, ..) = start(10).await;
        let mut sent = b"POST /refuse HTTP/1.1\r\nhost: h\r\ncontent-length: 8000000\r\n\r\n".to_vec();
        sent.resize(8_000_000, b' ');
        let answer = once(address, &sent).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }

    #[tokio::test]
    async fn a_head_has_bounds() {
        let (address, ..) = start(10).await;
        let long = format!("GET / HTTP/1.1\r\nhost: h\r\nx: {}\r\n\r\n", "a".repeat(HEAD_BYTES));
        let many = format!("GET / HTTP/1.1\r\nhost: h\r\n{}\r\n", "x: y\r\n".repeat(HEAD_FIELDS));
        for head in [long, many] {
            let answer = once(address, head.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_connection_too_many_is_told_so() {
        let (address, ..) = start(1).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        greet(&mut first).await;
        let answer = once(address, b"").await;
        assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after"), "{answer}");
        assert!(greet(&mut first).await.ends_with("hello"));
    }

    #[tokio::test]
    async fn stopping_refuses_new_connections_first_and_closes_the_others_last() {
        let (address, stop, serving) = start(10).await;
        let mut open = TcpStream::connect(address).await.unwrap();
        let mut unused = TcpStream::connect(address).await.unwrap();
        greet(&mut open).await;
        stop.refuse.cancel();
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(greet(&mut open).await.ends_with("hello"), "an open connection goes on");
        stop.finish.cancel();
        serving.await.unwrap();
        assert_eq!(talk(&mut open, b"").await, "", "it is closed");
        assert_eq!(talk(&mut unused, b"").await, "", "and so is one that was never used");
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let (address, ..) = start(1).await;
        let failure = bind(address, "`listen`").await.unwrap_err().to_string();
        assert!(failure.contains(&address.to_string()) && failure.contains("`listen`"), "{failure}");
    }
}
