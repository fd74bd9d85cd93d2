//! A client of the handshake revisions that sends what it is told to.

use std::{cell::Cell, net::SocketAddr};

use serde_json::Value;
use wire::Kind;

use crate::http::{Answer, Connection, Request, Stream};

/// One client, with or without a session. Each request has a connection of its own.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    /// The endpoint.
    pub path: String,
    /// What it sends as `Mcp-Session-Id`.
    pub session: Option<String>,
    /// What it sends as `MCP-Protocol-Version`.
    pub revision: Option<String>,
    /// What it shows as a bearer credential.
    pub token: Option<String>,
    last_id: Cell<u64>,
}

/// A request that was sent and not answered yet. Dropping it closes the connection.
#[derive(Debug)]
pub struct Pending {
    /// Its id.
    pub id: u64,
    connection: Connection,
}

impl Client {
    /// A client that has not said anything yet.
    pub fn new(address: SocketAddr, path: &str) -> Client {
        Client {
            address,
            path: path.to_owned(),
            session: None,
            revision: None,
            token: None,
            last_id: Cell::new(0),
        }
    }

    /// A client with a session of the latest of these revisions.
    pub fn open(address: SocketAddr, path: &str) -> Client {
        let mut client = Client::new(address, path);
        let answer = client.initialize("2025-11-25");
        assert_eq!(answer.status, 200, "{}", answer.text());
        client
    }

    /// Shakes hands; what comes of it is kept.
    pub fn initialize(&mut self, revision: &str) -> Answer {
        self.initialize_with(revision, "{}")
    }

    /// Shakes hands with these raw capabilities.
    pub fn initialize_with(&mut self, revision: &str, capabilities: &str) -> Answer {
        let params = format!(
            r#"{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{{"name":"testkit","version":"1"}}}}"#
        );
        let answer = self.request("initialize", &params);
        if let Some(session) = answer.header("mcp-session-id") {
            self.session = Some(session.to_owned());
            let agreed = answer.message()["result"]["protocolVersion"].as_str().unwrap().to_owned();
            self.revision = Some(agreed);
            assert_eq!(self.notify("notifications/initialized", "{}").status, 202);
        }
        answer
    }

    /// A POST of this body with the session's headers, to be changed before it is sent.
    pub fn post(&self, body: impl Into<Vec<u8>>) -> Request {
        self.dressed(Request::post(&self.path, body))
    }

    /// A bodiless request with the session's headers.
    pub fn bare(&self, verb: &str) -> Request {
        self.dressed(Request::new(verb, &self.path)).with("accept", "text/event-stream")
    }

    fn dressed(&self, mut request: Request) -> Request {
        if let Some(session) = &self.session {
            request = request.with("mcp-session-id", session);
        }
        if let Some(token) = &self.token {
            request = request.with("authorization", &format!("Bearer {token}"));
        }
        if let Some(revision) = &self.revision {
            request = request.with("mcp-protocol-version", revision);
        }
        request
    }

    /// Sends a request of HTTP and reads the answer.
    pub fn send(&self, request: &Request) -> Answer {
        self.begin(request).answer()
    }

    /// Sends a request of HTTP on a connection of its own.
    pub fn begin(&self, request: &Request) -> Connection {
        let mut connection = Connection::open(self.address);
        connection.send(&request.bytes(self.address));
        connection
    }

    /// Sends a body as it is.
    pub fn say(&self, body: &str) -> Answer {
        self.send(&self.post(body))
    }

    fn numbered(&self, method: &str, params: &str) -> (u64, String) {
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        (id, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
    }

    /// Sends a request with raw params.
    pub fn request(&self, method: &str, params: &str) -> Answer {
        self.say(&self.numbered(method, params).1)
    }

    /// The result of a request that must have one.
    pub fn result(&self, method: &str, params: &str) -> Value {
        let answer = self.request(method, params);
        let message = answer.messages().pop().unwrap_or_default();
        assert!(message.get("result").is_some(), "{method} {params}: {} {:?}", answer.status, answer.text());
        message["result"].clone()
    }

    /// The error of a request that must fail.
    pub fn error(&self, method: &str, params: &str) -> Value {
        let answer = self.request(method, params);
        let message = answer.messages().pop().unwrap_or_default();
        assert!(message.get("error").is_some(), "{method} {params}: {} {:?}", answer.status, answer.text());
        message["error"].clone()
    }

    /// Calls a tool.
    pub fn call(&self, tool: &str, arguments: &str) -> Value {
        self.result("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))
    }

    /// Sends a request and does not wait for the answer.
    pub fn start(&self, method: &str, params: &str) -> Pending {
        let (id, body) = self.numbered(method, params);
        Pending { id, connection: self.begin(&self.post(body)) }
    }

    /// Sends a notification with raw params.
    pub fn notify(&self, method: &str, params: &str) -> Answer {
        self.say(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
    }

    /// Opens the session's stream.
    pub fn listen(&self) -> Stream {
        let stream = self.begin(&self.bare("GET")).stream();
        assert_eq!(stream.head.status, 200);
        stream
    }

    /// Ends the session.
    pub fn delete(&self) -> Answer {
        self.send(&self.bare("DELETE"))
    }

    /// Every item of a list, over all its pages.
    pub fn list(&self, kind: Kind) -> Vec<Value> {
        self.pages(kind)
            .into_iter()
            .flat_map(|page| page[kind.member()].as_array().unwrap().clone())
            .collect()
    }

    /// The pages of a list.
    pub fn pages(&self, kind: Kind) -> Vec<Value> {
        let mut pages = Vec::new();
        let mut params = "{}".to_owned();
        loop {
            let page = self.result(kind.list_method().name(), &params);
            let next = page.get("nextCursor").cloned();
            pages.push(page);
            match next {
                Some(cursor) => params = serde_json::json!({ "cursor": cursor }).to_string(),
                None => return pages,
            }
            assert!(pages.len() < 1000, "the list has no end");
        }
    }

    /// The names (or URIs) of a list, in its order.
    pub fn names(&self, kind: Kind) -> Vec<String> {
        let items = self.list(kind);
        items.iter().map(|item| item[kind.key()].as_str().unwrap().to_owned()).collect()
    }
}

impl Pending {
    /// Waits for the whole response.
    pub fn answer(mut self) -> Answer {
        self.connection.answer()
    }

    /// Waits for the head of a response whose body comes piece by piece.
    pub fn stream(self) -> Stream {
        self.connection.stream()
    }
}
