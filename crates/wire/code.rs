//! JSON-RPC error codes, and answers of our own (spec 10).

use bytes::Bytes;

pub use crate::text::quote;
use crate::{era::Era, id::Id};

/// Not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but no message we take.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method, or not for this peer.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Params that do not fit, among them unknown and hidden names.
pub const INVALID_PARAMS: i64 = -32602;
/// Anything that failed behind the door.
pub const INTERNAL_ERROR: i64 = -32603;
/// No such resource; legacy only (spec R-05).
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A person has to visit a URL first; 2025-11-25 only.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// A header says another thing than the body; modern only.
pub const HEADER_MISMATCH: i64 = -32020;
/// The client did not declare what the answer needs; modern only.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// A revision that is not served; modern only.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// An error answer. Without an id when the request's could not be read (spec D12). `data` is JSON text.
pub fn failure(id: Option<&Id>, code: i64, message: &str, data: Option<&str>) -> Bytes {
    let mut out = String::with_capacity(
        message.len() + data.map_or(0, str::len) + id.map_or(0, |id| id.raw().len()) + 96,
    );
    out.push_str(r#"{"jsonrpc":"2.0""#);
    if let Some(id) = id {
        out.push_str(r#","id":"#);
        out.push_str(id.raw());
    }
    out.push_str(r#","error":{"code":"#);
    out.push_str(&code.to_string());
    out.push_str(r#","message":"#);
    crate::text::write_quoted(&mut out, message);
    if let Some(data) = data {
        out.push_str(r#","data":"#);
        out.push_str(data);
    }
    out.push_str("}}");
    out.into()
}

/// A result answer. `result` is JSON text.
pub fn success(id: &Id, result: &str) -> Bytes {
    [r#"{"jsonrpc":"2.0","id":"#, id.raw(), r#","result":"#, result, "}"].concat().into()
}

/// An error answer whose error was written before, JSON text.
pub fn error(id: &Id, error: &str) -> Bytes {
    [r#"{"jsonrpc":"2.0","id":"#, id.raw(), r#","error":"#, error, "}"].concat().into()
}

/// A tool's result that tells the model what went wrong (`isError`). `data` is a JSON object for programs,
/// under our own `_meta` key.
pub fn tool_error(id: &Id, era: Era, text: &str, data: &str) -> Bytes {
    let text = quote(text);
    let kind = match era {
        Era::Legacy => "",
        Era::Modern => r#""resultType":"complete","#, // spec B-30
    };
    let result = format!(
        r#"{{{kind}"content":[{{"type":"text","text":{text}}}],"isError":true,"_meta":{{"portcullis/error":{data}}}}}"#
    );
    success(id, &result)
}

/// A notification without params.
pub fn notification(method: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":{}}}"#, quote(method)).into()
}

#[cfg(test)]
mod tests;
