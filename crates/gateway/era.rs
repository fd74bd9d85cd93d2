//! Which era does a message belong to? One endpoint, decided in the order of spec 9.2 and H-36.

use std::borrow::Cow;

use wire::{
    EnvelopeError, Era, Form, Frame, Method, Revision, Shape,
    headers::{self, HeaderError, Sent},
    meta,
};

use crate::{
    arrival::{Head, Transport, Verb},
    error::EraError,
    logging::Level,
};

/// The longest method name that is looked at, in bytes.
const LONGEST_METHOD: usize = 256;

/// The era of a message. A modern one has a whole envelope, and headers that agree with it.
///
/// # Errors
/// What the sender must be told about its revision.
pub(crate) fn classify(head: &Head, frame: &Frame) -> Result<Era, EraError> {
    if frame.method_name().len() > LONGEST_METHOD {
        return Err(EraError::NoMessage("the method's name is too long"));
    }
    let named = meta::member(frame.param("_meta"), meta::VERSION);
    if head.endpoint.transport == Transport::Sse {
        return classify_oldest(named);
    }
    let Some(raw) = named else { return classify_bare(head, frame) };
    let version: Cow<'_, str> = serde_json::from_str(raw).map_err(|_| EraError::NoEnvelope(meta::VERSION))?;
    let revision = Revision::parse(&version);
    let agrees = head.revision.as_deref() == Some(&*version);
    // A legacy revision with a session and an agreeing header is a legacy message (spec E-06); in every other
    // case a body that names its revision is modern, whatever the session header says (spec E-01).
    let legacy = revision.is_some_and(|revision| revision.era() == Era::Legacy);
    if legacy && agrees && head.session.is_some() {
        return Ok(Era::Legacy);
    }
    if !agrees {
        return Err(EraError::VersionHeader);
    }
    if revision != Some(Revision::R2026_07_28) {
        return Err(EraError::NotServed(cut(&version)));
    }
    match wire::envelope(frame) {
        Some(Ok(envelope)) if envelope.log_level.is_some_and(|raw| Level::read(raw).is_none()) => {
            return Err(EraError::LogLevel);
        }
        Some(Ok(_)) => (),
        Some(Err(EnvelopeError::NoCapabilities | EnvelopeError::BadCapabilities)) => {
            return Err(EraError::NoEnvelope(meta::CAPABILITIES));
        }
        Some(Err(EnvelopeError::NoVersion | EnvelopeError::BadVersion)) | None => {
            return Err(EraError::NoEnvelope(meta::VERSION));
        }
    }
    check_headers(head, frame)?;
    Ok(Era::Modern)
}

/// A message on HTTP+SSE, where handshakes alone say the revision (spec S-06).
fn classify_oldest(named: Option<&str>) -> Result<Era, EraError> {
    let Some(raw) = named else { return Ok(Era::Legacy) };
    let version: Option<Cow<'_, str>> = serde_json::from_str(raw).ok();
    match version.and_then(|version| Revision::parse(&version)).map(Revision::era) {
        Some(Era::Legacy) => Ok(Era::Legacy),
        Some(Era::Modern) | None => Err(EraError::Oldest),
    }
}

/// A message that does not name its revision.
fn classify_bare(head: &Head, frame: &Frame) -> Result<Era, EraError> {
    match frame.method() {
        // `initialize` negotiates; what the header says of revisions does not matter yet (spec E-02, bug B58).
        Some(Method::Initialize) => Ok(Era::Legacy),
        Some(Method::Discover) => Err(EraError::NoEnvelope(meta::VERSION)), // spec E-05
        // Nobody is asked anything in the modern era, so nobody answers (spec H-06).
        None if matches!(frame.shape(), Shape::Result | Shape::Failure)
            && named(head)? == Some(Era::Modern) =>
        {
            Err(EraError::NoMessage("answers are not sent in the modern era"))
        }
        _ => match named(head)? {
            Some(Era::Modern) => Err(EraError::NoEnvelope(meta::VERSION)), // spec E-03
            Some(Era::Legacy) | None => Ok(Era::Legacy),                   // spec E-04, H-16, H-17
        },
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

/// What the head repeats of the body, for the checks of `wire`.
pub(crate) fn sent(head: &Head) -> Sent<'_> {
    Sent {
        version: head.revision.as_deref(),
        method: head.mirror.method.as_deref(),
        name: head.mirror.name.as_deref(),
        params: &head.mirror.params,
    }
}

/// `Mcp-Method` and `Mcp-Name`. A method that does not exist is told so first (spec H-36), and notifications
/// need no headers (spec D5).
fn check_headers(head: &Head, frame: &Frame) -> Result<(), EraError> {
    let exists = frame.method().is_some_and(|method| {
        let row = method.row();
        row.form == Form::Request && row.exists_in(Revision::R2026_07_28)
    });
    if frame.shape() != Shape::Request || !exists {
        return Ok(());
    }
    if let Some(header) = &head.mirror.repeated {
        return Err(HeaderError::Repeated { header: header.to_string().into() }.into());
    }
    Ok(headers::check_method_and_name(&sent(head), frame)?)
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
    use crate::arrival::{Endpoint, Mirrored};

    fn check(header: &str, session: &str, body: &str, expected: &Expect) {
        check_mirrored(header, session, ("", ""), body, expected);
    }

    fn check_mirrored(header: &str, session: &str, mirrored: (&str, &str), body: &str, expected: &Expect) {
        check_by(Transport::Streamable, (header, session), mirrored, body, expected);
    }

    fn check_by_sse(header: &str, body: &str, expected: &Expect) {
        check_by(Transport::Sse, (header, "key"), ("", ""), body, expected);
    }

    fn check_by(
        transport: Transport,
        (header, session): (&str, &str),
        (method, name): (&str, &str),
        body: &str,
        expected: &Expect,
    ) {
        let some = |text: &str| (!text.is_empty()).then(|| text.into());
        let head = Head {
            verb: Verb::Post,
            endpoint: Endpoint { transport, ..Endpoint::default() },
            session: some(session),
            revision: some(header),
            last_event: None,
            authorization: Default::default(),
            mirror: Mirrored { method: some(method), name: some(name), params: Vec::new(), repeated: None },
            accepts_json: true,
            accepts_events: true,
            peer: ([127, 0, 0, 1], 1).into(),
            received: Instant::now(),
        };
        let frame = Frame::parse(Bytes::copy_from_slice(body.as_bytes()), &Budget::CLIENT).expect("a frame");
        expected.assert_eq(&match classify(&head, &frame) {
            Ok(Era::Legacy) => "legacy".to_owned(),
            Ok(Era::Modern) => "modern".to_owned(),
            Err(error) => error.to_string(),
        });
    }

    const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    const STRAY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}}"#;
    const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    const HALF: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    const NAMED: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}"#;
    const V999: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v999"}}}"#;
    const GONE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"foo/bar","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

    #[test]
    fn a_message_without_an_envelope_is_legacy_unless_its_header_says_modern() {
        check("", "s", LIST, &expect!["legacy"]);
        check("2025-11-25", "s", LIST, &expect!["legacy"]);
        check("2025-06-18", "s", LIST, &expect!["legacy"]);
        check("2099-01-01", "s", LIST, &expect!["unknown protocol version `2099-01-01` in the header"]);
        check("2099-01-01", "", INITIALIZE, &expect!["legacy"]);
        check("2026-07-28", "", INITIALIZE, &expect!["legacy"]);
        check("2026-07-28", "", LIST, &expect!["`_meta` lacks `io.modelcontextprotocol/protocolVersion`"]);
        check("", "", DISCOVER, &expect!["`_meta` lacks `io.modelcontextprotocol/protocolVersion`"]);
        check("2025-11-25", "s", STRAY, &expect!["legacy"]);
    }

    #[test]
    fn a_message_that_names_its_revision_is_modern() {
        let list = ("tools/list", "");
        check_mirrored("2026-07-28", "", list, MODERN, &expect!["modern"]);
        check_mirrored("2026-07-28", "stale", list, MODERN, &expect!["modern"]);
        check_mirrored(
            "",
            "",
            list,
            MODERN,
            &expect!["`MCP-Protocol-Version` and the body name different revisions"],
        );
        check_mirrored(
            "2025-11-25",
            "",
            list,
            MODERN,
            &expect!["`MCP-Protocol-Version` and the body name different revisions"],
        );
        check("2026-07-28", "", HALF, &expect!["`_meta` lacks `io.modelcontextprotocol/clientCapabilities`"]);
        check("v999", "", V999, &expect!["revision `v999` is not served"]);
        check("2025-11-25", "", NAMED, &expect!["revision `2025-11-25` is not served"]);
        check("2025-11-25", "s", NAMED, &expect!["legacy"]);
        check("2026-07-28", "", GONE, &expect!["modern"]);
    }

    #[test]
    fn the_oldest_transport_carries_the_handshake_revisions_whatever_its_header_says() {
        let refused = expect!["HTTP+SSE carries the revisions up to 2025-11-25: speak later ones at `/mcp`"];
        for header in ["", "2024-11-05", "2026-07-28", "2099-01-01"] {
            for body in [LIST, INITIALIZE, DISCOVER, STRAY, NAMED] {
                check_by_sse(header, body, &expect!["legacy"]);
            }
            for body in [MODERN, HALF, V999] {
                check_by_sse(header, body, &refused);
            }
        }
    }

    #[test]
    fn the_headers_of_a_modern_request_repeat_its_method() {
        for (method, fits) in
            [("tools/list", true), ("TOOLS/LIST", false), ("tools/call", false), ("", false)]
        {
            let method = Some(method).filter(|method| !method.is_empty());
            let sent = Sent { version: None, method, name: None, params: &[] };
            let frame = Frame::parse(MODERN.into(), &Budget::CLIENT).expect("a frame");
            assert_eq!(headers::check_method_and_name(&sent, &frame).is_ok(), fits, "{method:?}");
        }
    }
}
