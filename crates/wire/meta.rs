//! The reserved keys of `_meta`: read them, and take off those that describe only one hop (spec B-13).

use std::ops::Range;

use crate::{scan::Key, text, walk};

/// The revision a modern request is written in.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What a modern client can do.
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// What a modern client calls itself.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What a modern server calls itself.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The least severe log message a modern request wants to see.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The listen request a modern notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// What the gateway calls itself, to clients and to upstreams (spec B-37): JSON text.
pub const IMPLEMENTATION: &str =
    concat!(r#"{"name":"portcullis","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

const PROGRESS_TOKEN: &str = "progressToken";
const HOP: [&str; 6] = [VERSION, CAPABILITIES, CLIENT_INFO, SERVER_INFO, LOG_LEVEL, SUBSCRIPTION_ID];

/// The JSON text of `_meta.progressToken`, if it is a string or an integer of at most 256 bytes (spec U-10).
pub fn progress_token(meta: Option<&str>) -> Option<&str> {
    let token = member(meta, PROGRESS_TOKEN)?;
    let is_text = token.starts_with('"');
    let is_integer = token.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    // It comes back with every progress notification: the bound of ids holds for it too.
    ((is_text || is_integer) && token.len() <= crate::id::MOST_BYTES).then_some(token)
}

/// The JSON text of a member of `_meta`.
pub fn member<'a>(meta: Option<&'a str>, key: &str) -> Option<&'a str> {
    let meta = meta?;
    meta.get(walk::member(meta.as_bytes(), 0..meta.len(), key)?)
}

/// `_meta` as an upstream may see it: without the keys of the hop it came by, and with our progress token in
/// place of the client's. `None` when nothing is left.
pub fn for_upstream(meta: Option<&str>, token: Option<u64>) -> Option<String> {
    if meta.is_none() && token.is_none() {
        return None;
    }
    let meta = meta.unwrap_or_default();
    let bytes = meta.as_bytes();
    let mut out = String::with_capacity(meta.len() + 40);
    let mut token = token.map(|token| token.to_string());
    let mut add = |key: Range<usize>, value: &str| {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push_str(text::plain(bytes.get(key).unwrap_or_default()));
        out.push(':');
        out.push_str(value);
    };
    for (key, value) in walk::members(bytes, 0..bytes.len()) {
        if is_of_hop(key, bytes) {
            continue;
        }
        if !key.says(PROGRESS_TOKEN, bytes) {
            add(key.quoted(), meta.get(value).unwrap_or_default());
        } else if let Some(token) = token.take() {
            add(key.quoted(), &token);
        }
    }
    if let Some(token) = token {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.extend(["\"", PROGRESS_TOKEN, "\":", &token]);
    }
    if out.is_empty() {
        return None;
    }
    out.push('}');
    Some(out)
}

/// Whether the key describes only the hop it came by.
pub(crate) fn is_of_hop(key: Key, text: &[u8]) -> bool {
    HOP.iter().any(|name| key.says(name, text))
}

#[cfg(test)]
mod tests;
