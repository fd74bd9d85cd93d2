//! Which era does a message belong to? One endpoint, decided in the order of spec 9.2.
//!
//! This release serves the handshake revisions. A modern request is told so with the error that makes
//! dual-era clients fall back to `initialize` (spec X-17, D13).

use wire::{Era, Frame, Method, Revision, meta};

use crate::{
    arrival::{Head, Verb},
    error::EraError,
};

/// Says whether the message is a legacy one; only those go on.
///
/// # Errors
/// What the sender must be told about its revision.
pub(crate) fn classify(head: &Head, frame: &Frame) -> Result<(), EraError> {
    let envelope = meta::member(frame.param("_meta"), meta::VERSION);
    let method = frame.method();
    if let Some(raw) = envelope {
        return classify_envelope(head, raw);
    }
    // `initialize` negotiates; what the header says of revisions does not matter yet (spec E-02, bug B58).
    if method == Some(Method::Initialize) {
        return Ok(());
    }
    if method == Some(Method::Discover) {
        return Err(EraError::NoEnvelope); // spec E-05
    }
    match named(head)? {
        Some(Era::Modern) => Err(EraError::NoEnvelope), // spec E-03
        Some(Era::Legacy) | None => Ok(()),             // spec E-04, H-16, H-17
    }
}

/// The head alone, for the verbs that carry no message (spec E-07).
///
/// # Errors
/// When the verb does not exist in the revision the header names, or no such revision exists.
pub(crate) fn classify_head(head: &Head) -> Result<(), EraError> {
    match (head.verb, named(head)?) {
        (Verb::Get | Verb::Delete, Some(Era::Modern)) => Err(EraError::NoSuchVerb),
        (Verb::Post | Verb::Get | Verb::Delete, _) => Ok(()),
    }
}

/// A body that names its revision is modern, whatever the session header says (spec E-01), except that a
/// legacy revision with a session and an agreeing header is a legacy message (spec E-06).
fn classify_envelope(head: &Head, raw: &str) -> Result<(), EraError> {
    let version = serde_json::from_str::<std::borrow::Cow<'_, str>>(raw).map_err(|_| EraError::NoEnvelope)?;
    let legacy = Revision::parse(&version).is_some_and(|revision| revision.era() == Era::Legacy);
    let agrees = head.revision.as_deref() == Some(&*version);
    if legacy && agrees && head.session.is_some() {
        return Ok(());
    }
    Err(EraError::NotServed(cut(&version)))
}

/// The era the header names; none without one.
fn named(head: &Head) -> Result<Option<Era>, EraError> {
    let Some(header) = head.revision.as_deref().filter(|header| !header.is_empty()) else {
        return Ok(None);
    };
    match Revision::parse(header) {
        Some(revision) => Ok(Some(revision.era())),
        None => Err(EraError::UnknownHeader(cut(header))),
    }
}

/// Enough of a stranger's text to recognise it by.
fn cut(text: &str) -> Box<str> {
    text.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use expect_test::{Expect, expect};
    use wire::Budget;

    use super::*;

    fn check(header: &str, session: &str, body: &str, expected: &Expect) {
        let some = |text: &str| (!text.is_empty()).then(|| text.into());
        let head = Head {
            verb: Verb::Post,
            endpoint: Default::default(),
            session: some(session),
            revision: some(header),
            authorization: Vec::new(),
            mirror: Default::default(),
            accepts_json: true,
            accepts_events: true,
            peer: ([127, 0, 0, 1], 1).into(),
            received: Instant::now(),
        };
        let frame = Frame::parse(Bytes::copy_from_slice(body.as_bytes()), &Budget::CLIENT).expect("a frame");
        expected.assert_eq(&match classify(&head, &frame) {
            Ok(()) => "legacy".to_owned(),
            Err(error) => error.to_string(),
        });
    }

    const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    const STRAY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}}"#;
    const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    const NAMED: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}"#;

    #[test]
    fn every_row_of_the_classifier() {
        check("", "s", LIST, &expect!["legacy"]);
        check("2025-11-25", "s", LIST, &expect!["legacy"]);
        check("2025-06-18", "s", LIST, &expect!["legacy"]);
        check("2099-01-01", "s", LIST, &expect!["unknown protocol version `2099-01-01` in the header"]);
        check("2099-01-01", "", INITIALIZE, &expect!["legacy"]);
        check("2026-07-28", "", INITIALIZE, &expect!["legacy"]);
        check("2026-07-28", "", LIST, &expect!["the modern header needs a modern envelope"]);
        check("", "", DISCOVER, &expect!["the modern header needs a modern envelope"]);
        check("2025-11-25", "s", STRAY, &expect!["legacy"]);
        check("2026-07-28", "s", MODERN, &expect!["revision `2026-07-28` is not served"]);
        check("2025-11-25", "", NAMED, &expect!["revision `2025-11-25` is not served"]);
        check("2025-11-25", "s", NAMED, &expect!["legacy"]);
    }
}
