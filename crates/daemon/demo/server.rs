//! A small MCP server: the handshake and the dispatch that both demo servers share.

use serde_json::{Map, Value, json};
use wire::{Era, Revision};

use super::stdio::Pipe;

/// What one demo server offers.
pub(super) trait Server {
    /// Its name, as in `serverInfo`.
    fn name(&self) -> &'static str;
    /// Its capabilities.
    fn capabilities(&self) -> Value;
    /// What it tells a model about itself.
    fn instructions(&self) -> &'static str;
    /// Answers any request but the handshake.
    fn answer(&mut self, request: &Request<'_>, pipe: &mut Pipe) -> Result<Value, Fault>;
}

/// A request, taken apart.
pub(super) struct Request<'a> {
    pub(super) id: &'a Value,
    pub(super) method: &'a str,
    pub(super) params: &'a Map<String, Value>,
}

/// Why there is no result.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// An error of the protocol.
    Error { code: i64, message: String },
    /// The request was cancelled: no answer.
    Cancelled,
}

/// Answers messages until the input ends.
pub(super) fn serve(server: &mut dyn Server, pipe: &mut Pipe) {
    while let Some(message) = pipe.next() {
        if let Some(answer) = reply(server, &message, pipe) {
            pipe.write(&answer);
        }
    }
}

/// The answer to one message, if it is a request.
pub(super) fn reply(server: &mut dyn Server, message: &Value, pipe: &mut Pipe) -> Option<Value> {
    // Notifications have no id, and none of them needs anything done.
    let id = message.get("id")?;
    let method = message.get("method")?.as_str()?;
    let none = Map::new();
    let params = message.get("params").and_then(Value::as_object).unwrap_or(&none);
    let result = match method {
        "initialize" => Ok(hello(server, params)),
        "ping" => Ok(json!({})),
        _ => server.answer(&Request { id, method, params }, pipe),
    };
    match result {
        Ok(result) => Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })),
        Err(Fault::Error { code, message }) => {
            Some(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }))
        }
        Err(Fault::Cancelled) => None,
    }
}

/// Agrees to any handshake revision, and offers the latest to everybody else.
fn hello(server: &dyn Server, params: &Map<String, Value>) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str).and_then(Revision::parse);
    let agreed = asked.filter(|revision| revision.era() == Era::Legacy).unwrap_or(Revision::LATEST_LEGACY);
    json!({
        "protocolVersion": agreed.text(),
        "capabilities": server.capabilities(),
        "serverInfo": { "name": server.name(), "version": env!("CARGO_PKG_VERSION") },
        "instructions": server.instructions(),
    })
}

impl Request<'_> {
    /// A parameter that must be a string.
    pub(super) fn text(&self, key: &str) -> Result<&str, Fault> {
        text(self.params, key)
    }

    /// An object among the parameters; none counts as empty.
    pub(super) fn object(&self, key: &str) -> Map<String, Value> {
        self.params.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// `_meta.progressToken`.
    pub(super) fn progress_token(&self) -> Option<&Value> {
        self.params.get("_meta")?.get("progressToken")
    }
}

impl Fault {
    /// A parameter that makes no sense.
    pub(super) fn params(message: impl Into<String>) -> Fault {
        Fault::Error { code: wire::code::INVALID_PARAMS, message: message.into() }
    }

    /// A method that this server does not have.
    pub(super) fn method(method: &str) -> Fault {
        Fault::Error { code: wire::code::METHOD_NOT_FOUND, message: format!("unknown method `{method}`") }
    }
}

/// A member that must be a string.
pub(super) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a str, Fault> {
    object.get(key).and_then(Value::as_str).ok_or_else(|| Fault::params(format!("`{key}` must be a string")))
}

/// A tool's result with one text, and the same for programs.
pub(super) fn told(text: impl Into<String>, structured: &Value) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }], "structuredContent": structured })
}

/// A tool's result that says what went wrong, for the model to try otherwise.
pub(super) fn failed(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }], "isError": true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{clock::Clock, stdio::tests::pipe};

    #[test]
    fn the_handshake_agrees_to_what_it_knows() {
        for (asked, agreed) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("2099-01-01", "2025-11-25"),
        ] {
            let hello = json!({ "id": "a", "method": "initialize", "params": { "protocolVersion": asked } });
            let (mut pipe, written, open) = pipe(&[hello]);
            drop(open);
            serve(&mut Clock, &mut pipe);
            assert_eq!(written.messages()[0]["result"]["protocolVersion"], agreed);
            assert_eq!(written.messages()[0]["id"], "a");
        }
    }

    #[test]
    fn notifications_and_answers_get_no_answer() {
        let silent = [
            json!({ "method": "notifications/initialized" }),
            json!({ "id": 1, "result": {} }),
            json!([1]),
            json!({ "id": 2, "method": "no/such" }),
        ];
        let (mut pipe, written, open) = pipe(&silent);
        drop(open);
        serve(&mut Clock, &mut pipe);
        let messages = written.messages();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0]["error"]["code"], -32601);
    }
}
