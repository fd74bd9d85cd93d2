//! The modern envelope: what `_meta` of every modern request says about its sender (spec B-26 to B-28, E-01).

use std::borrow::Cow;

use crate::{era::Revision, frame::Frame, meta, text};

/// What a modern request says about its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The revision it is written in, in the client's words; it may be one that nobody knows.
    pub version: Cow<'a, str>,
    /// What the client can do: the text of a JSON object.
    pub capabilities: &'a str,
    /// The least severe log message it wants to see: JSON text, not looked at.
    pub log_level: Option<&'a str>,
}

/// Why an envelope is none: -32602 with status 400 (spec B-27).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The revision is missing. Only a header can tell that there should be one (spec E-03), so this is for
    /// its reader: [`envelope`] takes such a request for a legacy one.
    #[error("`_meta` holds no `{}`", meta::VERSION)]
    NoVersion,
    /// The capabilities are missing.
    #[error("`_meta` holds no `{}`", meta::CAPABILITIES)]
    NoCapabilities,
    /// The revision is no string.
    #[error("`{}` is no string", meta::VERSION)]
    BadVersion,
    /// The capabilities are no object.
    #[error("`{}` is no object", meta::CAPABILITIES)]
    BadCapabilities,
}

/// The envelope of a request. `None` when it names no revision: then it is a legacy one, whatever other
/// reserved keys it holds (spec E-01, E-04).
pub fn envelope(frame: &Frame) -> Option<Result<Envelope<'_>, EnvelopeError>> {
    let version = version(frame)?;
    let meta = frame.param("_meta");
    let read = || {
        let version = version?;
        let capabilities = meta::member(meta, meta::CAPABILITIES).ok_or(EnvelopeError::NoCapabilities)?;
        if !capabilities.starts_with('{') {
            return Err(EnvelopeError::BadCapabilities);
        }
        Ok(Envelope { version, capabilities, log_level: meta::member(meta, meta::LOG_LEVEL) })
    };
    Some(read())
}

/// The revision of a request alone: whether it is served comes before what the client can do (spec H-36).
pub fn version(frame: &Frame) -> Option<Result<Cow<'_, str>, EnvelopeError>> {
    let raw = meta::member(frame.param("_meta"), meta::VERSION)?;
    Some(text::string(raw.as_bytes()).ok_or(EnvelopeError::BadVersion))
}

/// `_meta` of a request to a modern upstream: without the keys of the hop it came by, with our progress token
/// in place of the client's, and with an envelope of our own (spec B-13, B-37). `capabilities` is the text of
/// a JSON object. What else the client wrote stays byte for byte.
pub fn client_meta(meta: Option<&str>, token: Option<u64>, capabilities: &str) -> String {
    let kept = meta::for_upstream(meta, token);
    let size = kept.as_ref().map_or(0, String::len) + capabilities.len() + meta::IMPLEMENTATION.len() + 160;
    let mut out = String::with_capacity(size);
    out.extend(["{\"", meta::VERSION, "\":\"", Revision::R2026_07_28.text()]);
    out.extend(["\",\"", meta::CAPABILITIES, "\":", capabilities]);
    out.extend([",\"", meta::CLIENT_INFO, "\":", meta::IMPLEMENTATION]);
    match kept.as_deref().and_then(|kept| kept.strip_prefix('{')) {
        Some(members) => out.extend([",", members]),
        None => out.push('}'),
    }
    out
}

#[cfg(test)]
mod tests;
