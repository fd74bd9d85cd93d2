//! A small MCP client for the command line: one session, one request at a time, answers in either form (spec H-38).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::timeout;
use wire::{Budget, Frame, Revision, Shape, sse};

use crate::failure::Failure;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// How long the other side may be silent. A gateway sends a sign of life every few seconds.
const SILENCE: Duration = Duration::from_secs(120);

const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The most of an error page that is read.
const ERROR_BYTES: usize = 64 * 1024;

/// An open session.
pub(crate) struct Client {
    http: Http,
    url: Uri,
    credential: Option<HeaderValue>,
    session: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    last_id: u64,
}

impl Client {
    /// Shakes hands with an MCP server. `token` is shown to it as a bearer.
    pub(crate) async fn connect(url: &str, token: Option<&str>) -> Result<Client, Failure> {
        let mut client = Client {
            http: Http::new(),
            url: parse(url)?,
            credential: token.map(bearer).transpose()?,
            session: None,
            revision: None,
            last_id: 0,
        };
        let hello = serde_json::json!({
            "protocolVersion": Revision::LATEST_LEGACY.text(),
            "capabilities": {},
            "clientInfo": { "name": "portcullis-cli", "version": env!("CARGO_PKG_VERSION") },
        });
        let answer = client.request("initialize", &hello.to_string()).await?;
        let agreed =
            answer.result_member("protocolVersion").and_then(|raw| serde_json::from_str::<String>(raw).ok());
        client.revision = agreed.and_then(|revision| HeaderValue::from_str(&revision).ok());
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        client.send(Method::POST, Bytes::from_static(ready.as_bytes())).await?;
        Ok(client)
    }

    /// Sends a request and waits for its answer, a result or an error. `params` is raw JSON, sent as it is.
    pub(crate) async fn request(&mut self, method: &str, params: &str) -> Result<Frame, Failure> {
        self.last_id += 1;
        let id = self.last_id;
        let method = wire::quote(method);
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}");
        let response = self.send(Method::POST, text.into()).await?;
        if let Some(session) = response.headers().get(SESSION) {
            self.session = Some(session.clone());
        }
        let kind =
            response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if kind.to_ascii_lowercase().starts_with(b"text/event-stream") {
            return self.answer_among_events(id, response.into_body()).await;
        }
        let frame =
            Frame::parse(read(response.into_body(), Budget::UPSTREAM.bytes).await?, &Budget::UPSTREAM);
        frame.map_err(|error| self.garbled(&error))
    }

    /// Ends the session. It would end by itself, later.
    pub(crate) async fn close(self) {
        if self.session.is_some() {
            let _ = self.send(Method::DELETE, Bytes::new()).await;
        }
    }

    async fn answer_among_events(&self, id: u64, mut body: Incoming) -> Result<Frame, Failure> {
        let mut decoder = sse::Decoder::new(Budget::UPSTREAM.bytes);
        loop {
            let Some(chunk) = timeout(SILENCE, body.frame()).await.map_err(|_| silent())? else {
                return Err(Failure::unavailable(format!("{} ended the stream without an answer", self.url)));
            };
            let chunk = chunk.map_err(|error| Failure::unavailable(format!("{}: {error}", self.url)))?;
            let Some(bytes) = chunk.data_ref() else { continue };
            for event in decoder.push(bytes).map_err(|error| self.garbled(&error))? {
                if event.data.is_empty() {
                    continue;
                }
                let frame =
                    Frame::parse(event.data, &Budget::UPSTREAM).map_err(|error| self.garbled(&error))?;
                let answers = matches!(frame.shape(), Shape::Result | Shape::Failure);
                if answers && frame.id().is_none_or(|of| of.as_number() == Some(id)) {
                    return Ok(frame);
                }
            }
        }
    }

    async fn send(&self, method: Method, body: Bytes) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let credential = (header::AUTHORIZATION, &self.credential);
        for (name, value) in [credential, (SESSION, &self.session), (REVISION, &self.revision)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        self.http.send(request).await
    }

    fn garbled(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::unavailable(format!("{} does not speak MCP: {error}", self.url))
    }
}

/// Reads one page for operators, such as the status of a gateway.
pub(crate) async fn get(url: &str, key: Option<HeaderValue>) -> Result<Bytes, Failure> {
    let response = Http::new().send(page(Method::GET, url, key, Bytes::new())?).await?;
    read(response.into_body(), Budget::UPSTREAM.bytes).await
}

/// Asks a page for operators to do something. What the gateway will not or cannot do is the answer.
pub(crate) async fn ask(
    verb: Method,
    url: &str,
    key: Option<HeaderValue>,
    body: Bytes,
) -> Result<Bytes, Failure> {
    let request = page(verb, url, key, body)?;
    let uri = request.uri().clone();
    let response = Http::new().exchange(request).await?;
    let status = response.status();
    let body = read(response.into_body(), Budget::UPSTREAM.bytes).await?;
    match (status, error_message(&body)) {
        _ if status.is_success() => Ok(body),
        (StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::CONFLICT, Some(no)) => {
            Err(Failure::answer(no))
        }
        _ => Err(refused(&uri, status, &body)),
    }
}

fn page(
    verb: Method,
    url: &str,
    key: Option<HeaderValue>,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = verb;
    *request.uri_mut() = parse(url)?;
    if let Some(key) = key {
        request.headers_mut().insert(header::AUTHORIZATION, key);
    }
    Ok(request)
}

/// The header that shows a token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
    let mut value = value.map_err(|_| Failure::usage("the token has characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Plain HTTP/1.1, without redirects.
struct Http(legacy::Client<HttpConnector, Full<Bytes>>);

impl Http {
    fn new() -> Http {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIME));
        Http(legacy::Client::builder(TokioExecutor::new()).build(connector))
    }

    /// Sends a request; anything but success is a failure that says what the other side said.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let url = request.uri().clone();
        let response = self.exchange(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = read(response.into_body(), ERROR_BYTES).await.unwrap_or_default();
        Err(refused(&url, status, &body))
    }

    /// Sends a request, for any answer.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let url = request.uri().clone();
        let sent = timeout(SILENCE, self.0.request(request)).await.map_err(|_| silent())?;
        sent.map_err(|error| no_connection(&url, &error))
    }
}

fn parse(url: &str) -> Result<Uri, Failure> {
    let wrong = |why: &str| Failure::usage(format!("url `{url}`: {why}"));
    let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
    match uri.scheme_str() {
        Some("http") => Ok(uri),
        Some("https") => Err(wrong("this build speaks plain HTTP only: use the gateway's own address")),
        _ => Err(wrong("write it in full, such as http://127.0.0.1:7420/mcp")),
    }
}

async fn read(body: Incoming, most: usize) -> Result<Bytes, Failure> {
    let collected = timeout(SILENCE, Limited::new(body, most).collect()).await.map_err(|_| silent())?;
    let collected =
        collected.map_err(|error| Failure::unavailable(format!("cannot read the answer: {error}")))?;
    Ok(collected.to_bytes())
}

fn silent() -> Failure {
    Failure::unavailable(format!("no answer within {} s", SILENCE.as_secs()))
}

fn no_connection(url: &Uri, error: &legacy::Error) -> Failure {
    let mut why: &dyn std::error::Error = error;
    while let Some(source) = why.source() {
        why = source;
    }
    let advice =
        if error.is_connect() { "; is `portcullis serve` or `portcullis demo` running?" } else { "" };
    Failure::unavailable(format!("cannot reach {url}: {why}{advice}"))
}

fn refused(url: &Uri, status: StatusCode, body: &[u8]) -> Failure {
    match error_message(body) {
        Some(message) => Failure::unavailable(format!("{url} answered {status}: {message}")),
        None => Failure::unavailable(format!("{url} answered {status}")),
    }
}

/// What an answer says of its error, when it is one of a gateway.
fn error_message(body: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(answer.pointer("/error/message")?.as_str()?.to_owned())
}
