//! A client with a credential that asks the same in either era: in a session, or with an envelope.

use std::cell::Cell;

use serde_json::{Value, json};
use wire::Era;

use crate::{
    client::Client,
    daemon::Daemon,
    http::{Answer, Request, Stream},
};

/// Somebody at an endpoint, in one era.
#[derive(Debug)]
pub struct Asker {
    /// What it sends with. In the legacy era it has a session.
    pub client: Client,
    /// Its era.
    pub era: Era,
    capabilities: Value,
    last: Cell<u64>,
}

impl Asker {
    /// Whoever has this credential, at this path, with these capabilities.
    ///
    /// # Panics
    /// When the handshake is refused.
    pub fn new(daemon: &Daemon, path: &str, token: &str, era: Era, capabilities: Value) -> Asker {
        let mut client = daemon.stranger();
        path.clone_into(&mut client.path);
        client.token = Some(token.to_owned());
        if era == Era::Legacy {
            let answer = client.initialize_with("2025-11-25", &capabilities.to_string());
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        Asker { client, era, capabilities, last: Cell::new(1000) }
    }

    /// A message with these params, to be changed before it is sent.
    pub fn request(&self, method: &str, params: &Value) -> Request {
        self.last.set(self.last.get() + 1);
        let mut params = params.clone();
        let named = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str()).map(str::to_owned);
        if self.era == Era::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        let body = json!({ "jsonrpc": "2.0", "id": self.last.get(), "method": method, "params": params });
        let request = self.client.post(body.to_string());
        match self.era {
            Era::Legacy => request,
            Era::Modern => {
                let request = request.with("mcp-protocol-version", "2026-07-28").with("mcp-method", method);
                named.iter().fold(request, |request, name| request.with("mcp-name", name))
            }
        }
    }

    /// Sends it, and reads the whole answer.
    pub fn send(&self, method: &str, params: &Value) -> Answer {
        self.client.send(&self.request(method, params))
    }

    /// Sends it, and reads the answer as it comes.
    pub fn begin(&self, method: &str, params: &Value) -> Stream {
        self.client.begin(&self.request(method, params)).stream()
    }

    /// The result of what must have one.
    ///
    /// # Panics
    /// When it has none.
    pub fn result(&self, method: &str, params: &Value) -> Value {
        let answer = self.send(method, params);
        let message = answer.messages().pop().unwrap_or_default();
        assert!(message.get("result").is_some(), "{method} {params}: {} {:?}", answer.status, answer.text());
        message["result"].clone()
    }

    /// Status and bytes of the answer, with the id and these names of the caller's own made equal: what is hidden is told
    /// like what is missing.
    pub fn told(&self, method: &str, params: &Value, names: &[&str]) -> (u16, String) {
        let answer = self.send(method, params);
        let id = format!("\"id\":{},", self.last.get());
        let text = answer.text().replacen(&id, "\"id\":0,", 1);
        (answer.status, names.iter().fold(text, |text, name| text.replace(name, "NAME")))
    }
}
