//! What is said before the first request, in both eras, and how the answers are read (spec 1.3, 9.3).

use crate::connection::Facts;
use crate::declared::Declared;
use crate::error::UpstreamError;
use bytes::Bytes;
use wire::{Frame, Id, Revision, Shape};

/// spec B-21: exactly one, before the first request.
pub(crate) const INITIALIZED: Bytes =
    Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);

/// Names a server gets from us, whoever the client is (spec B-37).
fn client_info() -> String {
    format!(r#"{{"name":"portcullis","version":{}}}"#, wire::code::quote(env!("CARGO_PKG_VERSION")))
}

/// The question that tells the eras apart.
pub(crate) fn discover(id: &Id) -> Bytes {
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{},"method":"server/discover","params":{{"_meta":{{"{}":"{}","{}":{},"{}":{{}}}}}}}}"#,
        id.raw(),
        wire::meta::VERSION,
        Revision::R2026_07_28.text(),
        wire::meta::CLIENT_INFO,
        client_info(),
        wire::meta::CAPABILITIES,
    ))
}

/// The legacy handshake, with the capabilities of the one client behind the seat (spec Q-01).
pub(crate) fn initialize(id: &Id, declared: &Declared) -> Bytes {
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{},"method":"initialize","params":{{"protocolVersion":"{}","capabilities":{},"clientInfo":{}}}}}"#,
        id.raw(),
        Revision::LATEST_LEGACY.text(),
        declared.raw(),
        client_info(),
    ))
}

/// Legacy servers are asked this when a request got no answer (spec P-12).
pub(crate) fn ping(id: &Id) -> Bytes {
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, id.raw()))
}

/// What an answer to `server/discover` makes of a server.
#[derive(Debug)]
pub(crate) enum Era {
    /// It does not know the question.
    Legacy,
    /// It knows it, and takes a handshake for a legacy revision.
    Both,
    /// It speaks a modern revision that we do.
    Modern(Facts),
    /// It says that it speaks our revision, and yet does not answer.
    Again,
    /// It is modern and of no use to us.
    Foreign(&'static str),
}

/// Only what no legacy server says makes a server modern; never one code alone (spec E-12). With `modern` off the modern revision
/// is none of ours.
pub(crate) fn era(answer: &Frame, modern: bool) -> Era {
    let versions = match answer.shape() {
        Shape::Result => answer.result_member("supportedVersions").and_then(texts),
        Shape::Failure => refused(answer),
        Shape::Request | Shape::Notification => None,
    };
    let Some(versions) = versions else { return Era::Legacy };
    let named = |wanted: &dyn Fn(Revision) -> bool| {
        versions.iter().any(|version| Revision::parse(version).is_some_and(wanted))
    };
    match (named(&is_modern), named(&is_legacy)) {
        (true, _) if modern && answer.shape() == Shape::Result => Era::Modern(discovered(answer)),
        (true, _) if modern => Era::Again,
        (_, true) => Era::Both,
        (true, false) => Era::Foreign("it speaks only the modern era"),
        (false, false) => Era::Foreign("it speaks no revision of the protocol that we do"),
    }
}

/// The revisions that a modern error names. `None`: the error is not one of theirs.
fn refused(answer: &Frame) -> Option<Vec<String>> {
    if !matches!(code(answer), Some(wire::code::UNSUPPORTED_VERSION..=wire::code::HEADER_MISMATCH)) {
        return None;
    }
    let data = answer.error_member("data");
    Some(wire::meta::member(data, "supported").and_then(texts).unwrap_or_default())
}

/// The code of an error answer.
pub(crate) fn code(answer: &Frame) -> Option<i64> {
    answer.error_member("code").and_then(|raw| raw.trim().parse().ok())
}

pub(crate) fn is_legacy(revision: Revision) -> bool {
    Revision::LEGACY.contains(&revision)
}

fn is_modern(revision: Revision) -> bool {
    !is_legacy(revision)
}

fn texts(raw: &str) -> Option<Vec<String>> {
    serde_json::from_str(raw).ok()
}

fn object(answer: &Frame, key: &str) -> Option<String> {
    answer.result_member(key).filter(|raw| raw.starts_with('{')).map(str::to_owned)
}

fn discovered(answer: &Frame) -> Facts {
    let server = wire::meta::member(answer.result_member("_meta"), wire::meta::SERVER_INFO);
    Facts {
        revision: Revision::R2026_07_28,
        capabilities: object(answer, "capabilities").unwrap_or_else(|| "{}".to_owned()),
        instructions: answer.result_member("instructions").and_then(|raw| serde_json::from_str(raw).ok()),
        server: server.filter(|raw| raw.starts_with('{')).unwrap_or("{}").to_owned(),
    }
}

/// What the answer to `initialize` says about the server.
pub(crate) fn initialized(answer: &Frame) -> Result<Facts, UpstreamError> {
    if answer.shape() == Shape::Failure {
        let code = code(answer).unwrap_or_default();
        return Err(UpstreamError::garbled(format!("it refused to initialize with code {code}")));
    }
    let version: String = answer
        .result_member("protocolVersion")
        .and_then(|raw| serde_json::from_str(raw).ok())
        .ok_or_else(|| UpstreamError::garbled("the answer to initialize names no protocolVersion"))?;
    // spec B-19: what we do not implement ends the connection.
    let revision = Revision::parse(&version).filter(|revision| is_legacy(*revision)).ok_or_else(|| {
        UpstreamError::incompatible("it insists on a revision of the protocol that we do not speak")
    })?;
    Ok(Facts {
        revision,
        capabilities: object(answer, "capabilities").unwrap_or_else(|| "{}".to_owned()),
        instructions: answer.result_member("instructions").and_then(|raw| serde_json::from_str(raw).ok()),
        server: object(answer, "serverInfo").unwrap_or_else(|| "{}".to_owned()),
    })
}
