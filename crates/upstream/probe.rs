//! Which era does this server speak? And the handshake that follows (spec 9.3, 1.3).

use crate::connection::{Facts, Wait};
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Incoming};
use crate::link::{Link, Manner};
use crate::spec::{EraFound, Patience};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use wire::{Frame, Id, Revision, Shape};

/// How to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Ask `server/discover` first.
    Discover,
    /// Straight to `initialize`: the server is known, or known not to survive the question.
    Initialize,
}

/// A finished handshake.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    pub(crate) found: EraFound,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It said no, or something that is no answer.
    By(UpstreamError),
    /// It is modern, by its own word, and did not take the handshake after the probe.
    Modern(UpstreamError),
    /// It said nothing.
    Silent,
    /// Its process went away, or reads no more.
    Gone,
}

impl From<UpstreamError> for Refused {
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::NotRunning { .. } | UpstreamError::Exited { .. } => Self::Gone,
            UpstreamError::TimedOut { .. } => Self::Silent,
            UpstreamError::Busy
            | UpstreamError::TooLarge { .. }
            | UpstreamError::Garbled { .. }
            | UpstreamError::Incompatible { .. }
            | UpstreamError::TooMany { .. } => Self::By(error),
        }
    }
}

/// Names a server gets from us, whoever the client is (spec B-37).
fn client_info() -> String {
    format!(r#"{{"name":"portcullis","version":{}}}"#, wire::code::quote(env!("CARGO_PKG_VERSION")))
}

/// Opens the conversation. The caller bounds the time in all and watches the process.
pub(crate) async fn open(link: &Arc<Link>, opening: Opening, patience: &Patience) -> Result<Opened, Refused> {
    let mut found = EraFound::Legacy;
    // Kept until the end: a slow server may answer after we went on, and that answer may explain the next one.
    let mut question = None;
    let mut modern = None;
    if opening == Opening::Discover {
        let exchange = question.insert(discover(link, patience)?);
        // Silence: legacy servers may ignore what they do not know (spec E-12).
        if let Ok(incoming) = tokio::time::timeout(patience.probe, exchange.next()).await {
            match heard(incoming)? {
                Era::Legacy => {}
                // It offers both; we speak legacy to upstreams.
                Era::Both => found = EraFound::Modern,
                // Servers that name only the modern revision here often take a handshake all the same, and the
                // handshake is all we speak to upstreams in this release. Those that refuse it said why.
                Era::Modern(why) => (found, modern) = (EraFound::Modern, Some(why)),
            }
        }
    }
    match initialize(link, patience).await {
        Ok(facts) => Ok(Opened { facts, found }),
        Err(refused) => Err(match (modern, question) {
            (Some(why), _) => Refused::Modern(UpstreamError::incompatible(why)),
            (None, Some(mut question)) => explain(&mut question, refused).await,
            (None, None) => refused,
        }),
    }
}

fn discover(link: &Arc<Link>, patience: &Patience) -> Result<Exchange, Refused> {
    let info = client_info();
    let build = |id: &Id| {
        Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"server/discover","params":{{"_meta":{{"{}":"{}","{}":{info},"{}":{{}}}}}}}}"#,
            id.raw(),
            wire::meta::VERSION,
            Revision::R2026_07_28.text(),
            wire::meta::CLIENT_INFO,
            wire::meta::CAPABILITIES,
        ))
    };
    link.send(&build, all(patience.start), Manner::Quiet).map_err(Refused::from)
}

fn all(time: Duration) -> Wait {
    Wait { first: time, most: time, progress: false }
}

enum Era {
    Legacy,
    Both,
    /// Only modern, with the reason we cannot use it.
    Modern(String),
}

fn heard(incoming: Incoming) -> Result<Era, Refused> {
    match incoming {
        Incoming::Answer(frame) => Ok(era(&frame)),
        Incoming::Progress(_) => Ok(Era::Legacy),
        Incoming::Failed(UpstreamError::Exited { .. } | UpstreamError::NotRunning { .. }) => {
            Err(Refused::Gone)
        }
        // An answer that breaks the protocol is as good as silence.
        Incoming::Failed(_) => Ok(Era::Legacy),
    }
}

/// Only what no legacy server says makes a server modern; never one code alone (spec E-12).
fn era(answer: &Frame) -> Era {
    let versions = match answer.shape() {
        Shape::Result => answer.result_member("supportedVersions").and_then(texts),
        Shape::Failure => {
            let code = answer.error_member("code").and_then(|raw| raw.trim().parse::<i64>().ok());
            if !matches!(code, Some(-32022..=-32020)) {
                return Era::Legacy;
            }
            let supported =
                answer.error_member("data").and_then(|data| wire::meta::member(Some(data), "supported"));
            Some(supported.and_then(texts).unwrap_or_default())
        }
        Shape::Request | Shape::Notification => None,
    };
    match versions {
        None => Era::Legacy,
        Some(versions) if versions.iter().any(|version| Revision::parse(version).is_some_and(is_legacy)) => {
            Era::Both
        }
        Some(versions) if versions.iter().any(|version| Revision::parse(version).is_some()) => {
            Era::Modern("it speaks only the modern era, which comes with the next release".to_owned())
        }
        Some(_) => Era::Modern("it speaks no revision of the protocol that we do".to_owned()),
    }
}

fn is_legacy(revision: Revision) -> bool {
    Revision::LEGACY.contains(&revision)
}

fn texts(raw: &str) -> Option<Vec<String>> {
    serde_json::from_str(raw).ok()
}

/// A server that was slow to start may have answered the question while we were already initializing.
async fn explain(question: &mut Exchange, refused: Refused) -> Refused {
    let answered = tokio::time::timeout(Duration::ZERO, question.next()).await;
    match answered.map(heard) {
        Ok(Ok(Era::Modern(why))) => Refused::Modern(UpstreamError::incompatible(why)),
        _ => refused,
    }
}

async fn initialize(link: &Arc<Link>, patience: &Patience) -> Result<Facts, Refused> {
    let info = client_info();
    let build = |id: &Id| {
        Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"initialize","params":{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{info}}}}}"#,
            id.raw(),
            Revision::LATEST_LEGACY.text(),
        ))
    };
    let mut exchange = link.send(&build, all(patience.start), Manner::Quiet)?;
    let answer = match exchange.next().await {
        Incoming::Answer(frame) => frame,
        Incoming::Failed(error) => return Err(error.into()),
        Incoming::Progress(_) => return Err(Refused::By(UpstreamError::garbled("progress for initialize"))),
    };
    let facts = facts(&answer)?;
    // spec B-21: exactly one, before the first request.
    let initialized = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    link.tell(initialized)?;
    Ok(facts)
}

fn facts(answer: &Frame) -> Result<Facts, UpstreamError> {
    if answer.shape() == Shape::Failure {
        let code =
            answer.error_member("code").and_then(|raw| raw.trim().parse::<i64>().ok()).unwrap_or_default();
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
    let object =
        |key: &str| answer.result_member(key).filter(|raw| raw.starts_with('{')).unwrap_or("{}").to_owned();
    Ok(Facts {
        revision,
        capabilities: object("capabilities"),
        instructions: answer.result_member("instructions").and_then(|raw| serde_json::from_str(raw).ok()),
        server: object("serverInfo"),
    })
}

#[cfg(test)]
mod tests;
