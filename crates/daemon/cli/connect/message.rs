//! One line of the client: what is in it, and in which era it is said.

use bytes::Bytes;
use wire::{Budget, Era, Frame, FrameError, Id, Method, Revision, Shape, code, envelope};

/// What is read of either side. The server has bounds of its own, and tells them.
const BUDGET: Budget = Budget { bytes: 64 << 20, ..Budget::UPSTREAM };

/// A line that holds at least one message.
#[derive(Debug)]
pub(super) struct Message {
    /// As the client wrote it.
    pub(super) text: Bytes,
    /// The one message, or those of a batch.
    frames: Vec<Frame>,
}

impl Message {
    /// Reads a line of the client, or one message of the server.
    pub(super) fn read(text: Bytes) -> Result<Message, FrameError> {
        let parse = |text| Frame::parse(text, &BUDGET);
        let frames = match parse(text.clone()) {
            Ok(frame) => vec![frame],
            Err(FrameError::Batch) => {
                let all = wire::split(&text, &BUDGET)?;
                all.into_iter().map(parse).collect::<Result<_, _>>()?
            }
            Err(error) => return Err(error),
        };
        if frames.is_empty() { Err(FrameError::NotAMessage) } else { Ok(Message { text, frames }) }
    }

    /// The only message of the line.
    pub(super) fn only(&self) -> Option<&Frame> {
        match self.frames.as_slice() {
            [frame] => Some(frame),
            _ => None,
        }
    }

    /// The only message, when it is a request of this method.
    pub(super) fn asks_for(&self, method: Method) -> Option<&Frame> {
        self.only().filter(|frame| frame.shape() == Shape::Request && frame.method() == Some(method))
    }

    /// The ids that have to be answered.
    pub(super) fn asked(&self) -> impl Iterator<Item = &Id> {
        self.frames.iter().filter(|frame| frame.shape() == Shape::Request).filter_map(Frame::id)
    }

    /// The answers in it.
    pub(super) fn answers(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().filter(|frame| matches!(frame.shape(), Shape::Result | Shape::Failure))
    }

    /// A modern message says its revision itself; a legacy one may repeat that of its session (spec E-06).
    pub(super) fn era(&self, in_session: bool) -> Era {
        let Some(Ok(version)) = self.only().and_then(envelope::version) else { return Era::Legacy };
        match Revision::parse(&version).map(Revision::era) {
            Some(Era::Legacy) if in_session => Era::Legacy,
            Some(Era::Legacy | Era::Modern) | None => Era::Modern,
        }
    }

    /// The request that a `notifications/cancelled` names.
    pub(super) fn cancels(&self) -> Option<Id> {
        let frame = self.only().filter(|frame| frame.method() == Some(Method::Cancelled))?;
        Id::from_raw(frame.param("requestId")?).ok()
    }
}

/// The answer to a line that is no message. It goes without an id, which cannot be read without doubt.
pub(super) fn unreadable(error: &FrameError) -> Bytes {
    let code = if error.is_parse_error() { code::PARSE_ERROR } else { code::INVALID_REQUEST };
    code::failure(None, code, &error.to_string(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Result<Message, FrameError> {
        Message::read(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_line_is_one_message_or_a_batch() {
        let one = read(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).unwrap();
        assert_eq!(one.asked().map(Id::raw).collect::<Vec<_>>(), ["\"a\""]);
        let batch = read(
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"result":{}}]"#,
        );
        let batch = batch.unwrap();
        assert!(batch.only().is_none());
        assert_eq!(batch.asked().map(Id::raw).collect::<Vec<_>>(), ["1"]);
        assert_eq!(batch.answers().count(), 1);
        for (text, code) in
            [("hello", "-32700"), ("[]", "-32600"), ("7", "-32600"), (r#"[{"id":1}]"#, "-32600")]
        {
            let error = unreadable(&read(text).unwrap_err());
            assert!(String::from_utf8_lossy(&error).contains(code), "{text}");
        }
    }

    #[test]
    fn the_era_is_said_in_the_body() {
        let bare = read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        assert_eq!(bare.era(true), Era::Legacy);
        assert_eq!(bare.era(false), Era::Legacy);
        for (version, in_session) in [("2026-07-28", Era::Modern), ("2025-11-25", Era::Legacy)] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}"}}}}}}"#
            );
            let named = Message::read(text.into()).unwrap();
            assert_eq!((named.era(true), named.era(false)), (in_session, Era::Modern), "{version}");
        }
    }

    #[test]
    fn a_cancellation_names_its_request() {
        let cancelled =
            read(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}"#);
        assert_eq!(cancelled.unwrap().cancels(), Some(Id::from_raw("\"7\"").unwrap()));
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).unwrap().cancels(), None);
    }
}
