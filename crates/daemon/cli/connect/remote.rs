//! The server behind the URL: what is sent to it, and the session with it.

use std::{cell::RefCell, collections::HashMap, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::{sleep, timeout};
use wire::{Era, Frame, Kind, Method, Mirror, envelope, headers};

use super::{
    answer::Answer,
    login::{Asker, Challenge},
    message::Message,
    proof::{Proof, Shown, Tries},
    trouble::Trouble,
};
use crate::failure::Failure;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How long a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// A message that could not be sent is tried again after these times.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1500)];

/// How long a server may be silent before it begins its answer, and within it. A gateway sends a sign of life every few
/// seconds; others may work for a while.
pub(super) const SILENCE: Duration = Duration::from_secs(30 * 60);

/// How long it may take for what needs no work.
const PROMPT: Duration = Duration::from_secs(10);

/// The most of a refusal that is read.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Tools whose annotations are remembered.
const MOST_TOOLS: usize = 4096;

/// Pages of the list of tools that are read for one call.
const MOST_PAGES: usize = 100;

/// The server behind the URL.
pub(super) struct Remote {
    url: Uri,
    http: Http,
    proof: Proof,
    session: RefCell<Option<Session>>,
    /// The client's own `initialize`, to be repeated when the session is lost.
    hello: RefCell<Option<Bytes>>,
    /// The revision that the client knows it speaks.
    agreed: RefCell<Option<HeaderValue>>,
    /// Arguments that headers repeat, by tool (spec H-32).
    mirrors: RefCell<HashMap<Box<str>, Vec<Mirror>>>,
}

/// A conversation with the server, as it wants to be reminded of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Session {
    /// None when the server keeps none.
    id: Option<HeaderValue>,
    revision: Option<HeaderValue>,
}

enum Http {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Secure(Client<upstream::egress::Connector, Full<Bytes>>),
}

impl Remote {
    /// What is needed to speak to it. Says nothing yet.
    pub(super) fn new(url: Uri, proof: Proof) -> Result<Remote, Failure> {
        let http = match url.scheme_str() {
            Some("https") => {
                let connector = upstream::egress::connector()
                    .map_err(|error| Failure::system(format!("no authority to trust: {error}")))?;
                Http::Secure(builder().build(connector))
            }
            _ => {
                let mut connector = HttpConnector::new();
                connector.set_connect_timeout(Some(CONNECT_TIME));
                Http::Plain(builder().build(connector))
            }
        };
        Ok(Remote {
            url,
            http,
            proof,
            session: RefCell::default(),
            hello: RefCell::default(),
            agreed: RefCell::default(),
            mirrors: RefCell::default(),
        })
    }

    /// Where it is.
    pub(super) fn url(&self) -> &Uri {
        &self.url
    }

    /// What proves the client to it.
    pub(super) fn proof(&self) -> &Proof {
        &self.proof
    }

    /// The session that is open.
    pub(super) fn session(&self) -> Option<Session> {
        self.session.borrow().clone()
    }

    /// Whether the client has shaken hands and its session is gone.
    pub(super) fn has_lost_session(&self) -> bool {
        self.hello.borrow().is_some() && self.session.borrow().is_none()
    }

    /// Forgets a session that the server does not know any more. Says whether that is news.
    pub(super) fn forget(&self, lost: &Session) -> bool {
        let mut session = self.session.borrow_mut();
        let is_news = session.as_ref() == Some(lost);
        if is_news {
            *session = None;
        }
        is_news
    }

    /// The handshake has failed: nothing is left of it.
    pub(super) fn forget_handshake(&self) {
        *self.session.borrow_mut() = None;
        *self.hello.borrow_mut() = None;
    }

    /// POSTs a message, and returns what comes back as it comes.
    pub(super) async fn post(&self, message: &Message) -> Result<Answer<'_>, Trouble> {
        if message.asks_for(Method::Initialize).is_some() {
            // The client begins anew: whatever was before is over.
            *self.session.borrow_mut() = None;
            *self.hello.borrow_mut() = Some(message.text.clone());
        }
        let era = message.era(self.session.borrow().is_some());
        match self.send_post(message, era).await {
            Err(trouble) => match (message.asks_for(Method::ToolsCall), &trouble) {
                (Some(call), Trouble::Refused(StatusCode::BAD_REQUEST, body)) if is_mismatch(body) => {
                    // An annotation of the tool that we have not seen yet; the call was not made (spec H-32).
                    self.learn_tools(call).await?;
                    self.send_post(message, era).await
                }
                _ => Err(trouble),
            },
            sent => sent,
        }
    }

    async fn send_post(&self, message: &Message, era: Era) -> Result<Answer<'_>, Trouble> {
        let mut fields = self.fields(era);
        if let (Era::Modern, Some(frame)) = (era, message.only()) {
            self.mirror(frame, &mut fields);
        }
        let patience = if message.asked().next().is_some() { SILENCE } else { PROMPT };
        let response = self.send((Verb::POST, Asker::Client), fields, &message.text, patience).await?;
        if message.asks_for(Method::Initialize).is_some() {
            let id = response.headers().get(SESSION).cloned();
            *self.session.borrow_mut() = Some(Session { id, revision: None });
        }
        Ok(Answer::new(self, response, era))
    }

    /// Reads an answer for what we want to know of it ourselves.
    pub(super) fn overhear(&self, asked: &Message, answer: &Frame) {
        if asked.asks_for(Method::Initialize).is_some() {
            let agreed = answer.result_member("protocolVersion");
            let agreed = agreed.and_then(|raw| serde_json::from_str::<String>(raw).ok());
            let mut session = self.session.borrow_mut();
            match (agreed, session.as_mut()) {
                (Some(agreed), Some(session)) => session.revision = HeaderValue::try_from(agreed).ok(),
                _ => *session = None,
            }
            *self.agreed.borrow_mut() = session.as_ref().and_then(|session| session.revision.clone());
            if session.is_none() {
                *self.hello.borrow_mut() = None;
            }
        }
        if asked.asks_for(Method::ToolsList).is_some() {
            self.note_tools(answer);
        }
    }

    fn note_tools(&self, answer: &Frame) -> Option<String> {
        let page = wire::read_page(answer, Kind::Tools).ok()?;
        let mut known = self.mirrors.borrow_mut();
        for tool in &page.items {
            match wire::mirrors(tool.raw()) {
                Ok(mirrors) if !mirrors.is_empty() && known.len() < MOST_TOOLS => {
                    known.insert(tool.key().into(), mirrors);
                }
                Ok(_) | Err(_) => {
                    known.remove(tool.key());
                }
            }
        }
        page.next.map(|next| next.into())
    }

    /// Reads the list of tools as the caller of a tool would.
    async fn learn_tools(&self, call: &Frame) -> Result<(), Trouble> {
        let Some(Ok(envelope)) = wire::envelope(call) else { return Ok(()) };
        let meta = wire::client_meta(None, None, envelope.capabilities);
        let mut cursor = String::new();
        for _ in 0..MOST_PAGES {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":"portcullis-connect","method":"tools/list","params":{{{cursor}"_meta":{meta}}}}}"#
            );
            let broken = |_| Trouble::Broken("the list of tools cannot be asked for".to_owned());
            let list = Message::read(text.into()).map_err(broken)?;
            let page = self.send_post(&list, Era::Modern).await?.only().await?;
            let Some(next) = self.note_tools(&page) else { return Ok(()) };
            cursor = format!(r#""cursor":{},"#, wire::quote(&next));
        }
        Ok(())
    }

    /// Opens a session as the client once did, after the server has lost the first.
    pub(super) async fn renew(&self) -> Result<(), Trouble> {
        let Some(hello) = self.hello.borrow().clone() else { return Ok(()) };
        let broken = |_| Trouble::Broken("the handshake cannot be repeated".to_owned());
        let hello = Message::read(hello).map_err(broken)?;
        let agreed = self.agreed.borrow().clone();
        let answer = self.send_post(&hello, Era::Legacy).await?.only().await;
        match &answer {
            Ok(answer) => self.overhear(&hello, answer),
            Err(_) => *self.session.borrow_mut() = None,
        }
        answer?;
        if *self.agreed.borrow() != agreed {
            self.forget_handshake();
            return Err(Trouble::Broken("it speaks another revision now: start the client again".to_owned()));
        }
        let ready = Message::read(wire::code::notification("notifications/initialized")).map_err(broken)?;
        self.send_post(&ready, Era::Legacy).await.map(|_| ())
    }

    /// GETs the stream of a session, or the rest of one that broke.
    pub(super) async fn get(&self, last_event: Option<&str>) -> Result<Response<Incoming>, Trouble> {
        let mut fields = self.fields(Era::Legacy);
        fields.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(Ok(id)) = last_event.map(HeaderValue::from_str) {
            fields.insert(LAST_EVENT, id);
        }
        self.send((Verb::GET, Asker::Ourselves), fields, &Bytes::new(), PROMPT).await
    }

    /// Ends the session. It would end by itself, later.
    pub(super) async fn end(&self) {
        if self.session.borrow().as_ref().is_some_and(|session| session.id.is_some()) {
            let delete = (Verb::DELETE, Asker::Ourselves);
            let _ = self.send(delete, self.fields(Era::Legacy), &Bytes::new(), PROMPT).await;
        }
    }

    /// What it wants of who shows nothing; none where that is nothing.
    pub(super) async fn challenge(&self) -> Result<Option<Challenge>, Trouble> {
        let ping = Bytes::from_static(br#"{"jsonrpc":"2.0","id":"portcullis-connect","method":"ping"}"#);
        let fields = self.fields(Era::Legacy);
        let answer = self.send_once((&Verb::POST, &Shown::nothing()), &fields, &ping, PROMPT).await?;
        let is_refused = answer.status() == StatusCode::UNAUTHORIZED;
        Ok(is_refused.then(|| Challenge::of(answer.headers()).unwrap_or_default()))
    }

    /// The header fields that every request has.
    fn fields(&self, era: Era) -> HeaderMap {
        let mut fields = HeaderMap::with_capacity(8);
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fields.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let (Era::Legacy, Some(session)) = (era, &*self.session.borrow()) {
            for (name, value) in [(SESSION, &session.id), (REVISION, &session.revision)] {
                if let Some(value) = value {
                    fields.insert(name, value.clone());
                }
            }
        }
        fields
    }

    /// The header fields that repeat parts of a modern body (spec H-28 to H-30).
    fn mirror(&self, frame: &Frame, fields: &mut HeaderMap) {
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                fields.insert(name, value);
            }
        };
        if let Some(Ok(version)) = envelope::version(frame) {
            set(REVISION, &version);
        }
        set(HeaderName::from_static("mcp-method"), frame.method_name());
        let name = frame.method().and_then(|method| headers::name_of(method, frame));
        if let Some(name) = &name {
            set(HeaderName::from_static("mcp-name"), &headers::encode(name));
        }
        let known = self.mirrors.borrow();
        let Some(mirrors) = name.and_then(|name| known.get(&*name)) else { return };
        if frame.method() == Some(Method::ToolsCall) {
            for (param, value) in wire::mirrored(mirrors, frame.param("arguments")) {
                if let Ok(name) = HeaderName::try_from([headers::PARAM_PREFIX, &param].concat()) {
                    set(name, &value);
                }
            }
        }
    }

    /// Sends a request, again while there is no connection, and anew when there is something else to show; anything but
    /// success is trouble.
    async fn send(
        &self,
        (verb, asker): (Verb, Asker),
        fields: HeaderMap,
        body: &Bytes,
        patience: Duration,
    ) -> Result<Response<Incoming>, Trouble> {
        let in_session = fields.contains_key(SESSION);
        let mut tries = Tries::default();
        let response = loop {
            let shown = self.proof.show(asker).await?;
            let response = self.send_once((&verb, &shown), &fields, body, patience).await?;
            if !self.proof.is_renewed(&shown, &response, asker, &mut tries).await? {
                break response;
            }
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(Trouble::Lost);
        }
        let body = timeout(PROMPT, Limited::new(response.into_body(), REFUSAL_BYTES).collect()).await;
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
        Err(Trouble::Refused(status, body.unwrap_or_default()))
    }

    async fn send_once(
        &self,
        (verb, shown): (&Verb, &Shown),
        fields: &HeaderMap,
        body: &Bytes,
        patience: Duration,
    ) -> Result<Response<Incoming>, Trouble> {
        let mut pauses = AGAIN.into_iter();
        loop {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = verb.clone();
            *request.uri_mut() = self.url.clone();
            *request.headers_mut() = fields.clone();
            if let Some(credential) = &shown.header {
                request.headers_mut().insert(header::AUTHORIZATION, credential.clone());
            }
            let sending = async {
                match &self.http {
                    Http::Plain(client) => client.request(request).await,
                    Http::Secure(client) => client.request(request).await,
                }
            };
            let sent = timeout(patience, sending).await;
            let silent = |_| Trouble::Broken(format!("no answer within {} s", patience.as_secs()));
            let error = match sent.map_err(silent)? {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let why = innermost(&error);
            if !error.is_connect() {
                return Err(Trouble::Broken(format!("the connection broke before an answer: {why}")));
            }
            match pauses.next() {
                Some(pause) => sleep(pause).await,
                None => return Err(Trouble::Unreachable(why)),
            }
        }
    }
}

impl Session {
    /// Whether there can be a stream beside it.
    pub(super) fn may_have_stream(&self) -> bool {
        self.revision.is_some()
    }
}

fn builder() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(Duration::from_secs(30));
    builder
}

/// What the error says at its root.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut why = error;
    while let Some(source) = why.source() {
        why = source;
    }
    why.to_string()
}

/// Whether a refusal says that a header is missing or differs from the body.
fn is_mismatch(body: &Bytes) -> bool {
    let message = Message::read(body.clone()).ok();
    let code = message.as_ref().and_then(|message| message.only()?.error_member("code"));
    code == Some(&wire::code::HEADER_MISMATCH.to_string())
}
