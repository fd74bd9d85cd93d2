//! The headers a modern server reads beside the body: computed from what we send, never copied from a client (spec H-28, H-33).

use crate::caller::Caller;
use crate::error::UpstreamError;
use http::{HeaderName, HeaderValue};
use std::sync::Arc;
use wire::{Method, Revision};

/// `MCP-Protocol-Version`.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Mcp-Session-Id`.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// `Last-Event-ID`.
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";

/// Headers of one request. Of two with one name the later counts.
#[derive(Default)]
pub(crate) struct Heads {
    pub(crate) pairs: Vec<(HeaderName, HeaderValue)>,
    /// Who calls, where its server hears of that.
    pub(crate) caller: Option<Arc<Caller>>,
}

/// The headers of one modern request.
pub(crate) fn modern(
    method: Method,
    name: Option<&str>,
    mirrored: &[(Box<str>, String)],
) -> Result<Heads, UpstreamError> {
    let mut heads = Vec::with_capacity(3 + mirrored.len());
    heads.push((VERSION, HeaderValue::from_static(Revision::R2026_07_28.text())));
    heads.push((METHOD, HeaderValue::from_static(method.name())));
    if let Some(name) = name {
        heads.push((NAME, value(&wire::headers::encode(name))?));
    }
    for (param, text) in mirrored {
        let name = HeaderName::try_from(format!("{PARAM}{param}")).map_err(|_| unsendable())?;
        heads.push((name, value(text)?));
    }
    Ok(Heads { pairs: heads, caller: None })
}

fn value(text: &str) -> Result<HeaderValue, UpstreamError> {
    HeaderValue::from_str(text).map_err(|_| unsendable())
}

fn unsendable() -> UpstreamError {
    UpstreamError::garbled("a header with a character that headers do not carry was not sent")
}
