//! Scripted servers over HTTP for the tests: a function from what was asked to what is answered.

use crate::scripted::{LONG, Memory};
use crate::{Address, Declared, EraMemory, Notice, Patience, Seat, Spec, Upstream, What};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use url::Url;

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The HTTP method.
    pub(crate) verb: String,
    /// The request target, as it was written.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn is(&self, verb: &str, method: &str) -> bool {
        self.verb == verb && self.method() == method
    }

    /// The answer with this result.
    pub(crate) fn result(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }

    pub(crate) fn error(&self, code: i64, data: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": {"code": code, "message": "no", "data": data}})
    }
}

pub(crate) type Reply = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

pub(crate) fn full(status: u16, kind: &str, body: impl Into<Bytes>) -> Reply {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).header("content-type", kind).body(body).unwrap()
}

/// One JSON message.
pub(crate) fn message(status: u16, body: &Value) -> Reply {
    full(status, "application/json", body.to_string())
}

pub(crate) fn text(status: u16, body: &str) -> Reply {
    full(status, "text/plain", body.to_owned())
}

pub(crate) fn empty(status: u16) -> Reply {
    let mut reply = text(status, "");
    reply.headers_mut().clear();
    reply
}

pub(crate) fn with(mut reply: Reply, name: &'static str, value: &'static str) -> Reply {
    reply.headers_mut().insert(name, http::HeaderValue::from_static(value));
    reply
}

/// A whole event stream.
pub(crate) fn events(body: impl Into<Bytes>) -> Reply {
    full(200, "text/event-stream", body)
}

pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// Writes into an event stream; dropping it ends the stream.
pub(crate) type Pen = mpsc::UnboundedSender<Bytes>;

/// An event stream that is written by the test. The pen is closed when the reader goes away.
pub(crate) fn stream() -> (Pen, Reply) {
    let (pen, written) = mpsc::unbounded_channel::<Bytes>();
    let chunks = stream::unfold(written, |mut written| async move {
        let text = written.recv().await?;
        Some((Ok(Frame::data(text)), written))
    });
    let body = BodyExt::boxed_unsync(StreamBody::new(chunks));
    (pen, Response::builder().header("content-type", "text/event-stream").body(body).unwrap())
}

/// Never answers.
pub(crate) async fn silence() -> Reply {
    std::future::pending().await
}

type Script = Arc<dyn Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync>;

/// A server, its journal, and what its upstream says to the gateway.
pub(crate) struct Fake {
    pub(crate) spec: Spec,
    pub(crate) memory: Arc<Memory>,
    journal: watch::Sender<Vec<Asked>>,
    notices: mpsc::Sender<Notice>,
    pub(crate) told: mpsc::Receiver<Notice>,
    serving: AbortHandle,
}

/// Answers what every legacy server has to; the rest is for `on`.
pub(crate) fn legacy<F>(
    on: impl Fn(Asked) -> F + Send + Sync + 'static,
) -> impl Fn(Asked) -> BoxFuture<'static, Reply>
where
    F: Future<Output = Reply> + Send + 'static,
{
    move |asked| match (asked.verb.as_str(), asked.method()) {
        ("POST", "server/discover") => ready(text(400, "what?")),
        ("POST", "initialize") => ready(message(200, &asked.result(hello("2025-11-25")))),
        ("POST", "ping") => ready(message(200, &asked.result(json!({})))),
        ("POST", method) if method.starts_with("notifications/") || method.is_empty() => ready(empty(202)),
        ("GET", _) => ready(empty(405)),
        ("DELETE", _) => ready(empty(204)),
        _ => Box::pin(on(asked)),
    }
}

/// The answer to every call of a server that does nothing.
pub(crate) async fn fine(asked: Asked) -> Reply {
    message(200, &asked.result(json!({"ok": 1})))
}

pub(crate) fn ready(reply: Reply) -> BoxFuture<'static, Reply> {
    Box::pin(std::future::ready(reply))
}

pub(crate) fn hello(revision: &str) -> Value {
    json!({"protocolVersion": revision, "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "fake", "version": "1"}})
}

/// With a session id in the headers.
pub(crate) fn in_session(mut reply: Reply, id: &str) -> Reply {
    reply.headers_mut().insert("mcp-session-id", id.parse().unwrap());
    reply
}

/// Who turns a TCP connection into what HTTP is spoken over.
pub(crate) type Accept<S> =
    Arc<dyn Fn(tokio::net::TcpStream) -> BoxFuture<'static, std::io::Result<S>> + Send + Sync>;

impl Fake {
    pub(crate) async fn new<F>(script: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        Self::over("http", Arc::new(|tcp| Box::pin(async { Ok(tcp) })), script).await
    }

    pub(crate) async fn over<S, F>(
        scheme: &str,
        accept: Accept<S>,
        script: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        F: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script: Script = Arc::new(move |asked| Box::pin(script(asked)));
        let journal = watch::Sender::default();
        let noted = journal.clone();
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let (script, noted, accept) = (Arc::clone(&script), noted.clone(), Arc::clone(&accept));
                connections.spawn(async move {
                    let Ok(stream) = accept(tcp).await else { return };
                    let service = service_fn(|request| serve(request, Arc::clone(&script), noted.clone()));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _broken = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self::at(&format!("{scheme}://localhost:{port}/mcp"), journal, serving.abort_handle())
    }

    fn at(url: &str, journal: watch::Sender<Vec<Asked>>, serving: AbortHandle) -> Self {
        let patience = Patience { start: LONG, ..Patience::default() };
        let address = Address::new(Url::parse(url).unwrap());
        let spec = Spec::http("acme".into(), "web".into(), address, patience, 4 << 20);
        let (notices, told) = mpsc::channel(256);
        Self { spec, memory: Arc::default(), journal, notices, told, serving }
    }

    /// A server that answers each request with bytes of its own making, and goes on reading.
    pub(crate) async fn raw(script: impl Fn(Asked) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let journal = watch::Sender::default();
        let (noted, script) = (journal.clone(), Arc::new(script));
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut tcp, _)) = listener.accept().await {
                let (noted, script) = (noted.clone(), Arc::clone(&script));
                connections.spawn(async move {
                    while let Some(asked) = read_request(&mut tcp).await {
                        noted.send_modify(|journal: &mut Vec<Asked>| journal.push(asked.clone()));
                        tcp.write_all(&script(asked)).await.unwrap();
                    }
                });
            }
        });
        Self::at(&format!("http://localhost:{port}/mcp"), journal, serving.abort_handle())
    }

    pub(crate) fn address(&mut self) -> &mut Address {
        match &mut self.spec.reach {
            crate::Reach::Http(address) => address,
            crate::Reach::Stdio(_) => panic!("fakes are over HTTP"),
        }
    }

    pub(crate) fn start(&self) -> Arc<Upstream> {
        self.start_for(Seat::Shared, Declared::nothing())
    }

    /// For one client, which can do this.
    pub(crate) fn start_for(&self, seat: Seat, declared: Declared) -> Arc<Upstream> {
        let memory: Arc<dyn EraMemory> = Arc::<Memory>::clone(&self.memory);
        Upstream::start(Arc::new(self.spec.clone()), seat, declared, memory, self.notices.clone())
    }

    /// No connection is answered any more, and the port is closed.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }

    pub(crate) fn journal(&self) -> Vec<Asked> {
        self.journal.borrow().clone()
    }

    /// What was asked so far, in two words each.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = |asked: &Asked| format!("{} {}", asked.verb, asked.method()).trim_end().to_owned();
        self.journal.borrow().iter().map(words).collect()
    }

    pub(crate) fn count(&self, verb: &str, method: &str) -> usize {
        self.journal.borrow().iter().filter(|asked| asked.is(verb, method)).count()
    }

    /// Returns when that was asked so often.
    pub(crate) async fn until(&self, verb: &str, method: &str, times: usize) -> Asked {
        let mut journal = self.journal.subscribe();
        let asked_often = journal
            .wait_for(|journal| journal.iter().filter(|asked| asked.is(verb, method)).count() >= times);
        let found = timeout(LONG, asked_often)
            .await
            .unwrap_or_else(|_| panic!("{verb} {method} was not asked {times} times"));
        found.unwrap().iter().filter(|asked| asked.is(verb, method)).nth(times - 1).unwrap().clone()
    }

    /// The next notice.
    pub(crate) async fn notice(&mut self) -> What {
        timeout(LONG, self.told.recv()).await.expect("no notice came").unwrap().what
    }

    /// The reason of the next `Down`.
    pub(crate) async fn down(&mut self) -> String {
        loop {
            if let What::Down { why } = self.notice().await {
                return why;
            }
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    request: Request<Incoming>,
    script: Script,
    journal: watch::Sender<Vec<Asked>>,
) -> Result<Reply, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let asked = Asked {
        verb: head.method.to_string(),
        target: head.uri.to_string(),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    journal.send_modify(|journal| journal.push(asked.clone()));
    Ok(script(asked).await)
}

/// Reads one request off a connection, with little regard to the finer points of HTTP.
pub(crate) async fn read_request(tcp: &mut (impl AsyncRead + Unpin)) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (verb, target) = (words.next()?, words.next()?);
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers.append(http::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
    }
    let length = headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    tcp.read_exact(&mut body).await.ok()?;
    let text = |_| Value::String(String::from_utf8_lossy(&body).into_owned());
    let body = serde_json::from_slice(&body).unwrap_or_else(text);
    Some(Asked { verb, target, headers, body })
}

/// A counter for scripts that answer differently each time.
#[derive(Clone, Default)]
pub(crate) struct Turn(Arc<Mutex<usize>>);

impl Turn {
    /// 1, 2, 3 …
    pub(crate) fn next(&self) -> usize {
        let mut turn = self.0.lock().unwrap();
        *turn += 1;
        *turn
    }
}
