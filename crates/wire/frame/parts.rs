//! What one pass over the text makes of a message: its shape and where its parts stand.

use std::{borrow::Cow, ops::Range};

use super::{FrameError, Shape};
use crate::{
    id::Id,
    method::Method,
    scan::{Member, Outer, Scan},
    text, walk,
};

// INVARIANT: every span lies inside the frame's bytes, on the borders of a JSON value.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) shape: Shape,
    pub(super) id: Option<Id>,
    /// The JSON string; empty for answers.
    pub(super) method: Range<usize>,
    /// The method's name, where it was written with escapes.
    pub(super) decoded_method: Option<Box<str>>,
    pub(super) known_method: Option<Method>,
    /// `params`, `result` or `error`, whichever the shape has.
    pub(super) body: Option<Range<usize>>,
    /// The members of the body, in order.
    pub(super) members: Vec<Member>,
    /// Whether a raw line break stands between its values.
    pub(super) broken_lines: bool,
    /// Whether all of it can be read in one way only.
    pub(super) is_strict: bool,
}

impl Parts {
    pub(super) fn read(found: Scan<'_>) -> Result<Parts, FrameError> {
        let Outer { jsonrpc, id, method, params, result, error, .. } = found.outer;
        let raw = |span: &Range<usize>| found.text.get(span.clone()).unwrap_or_default();
        let version = jsonrpc.as_ref().map(raw).unwrap_or_default();
        // Nearly all spell it so; only the others are read as a string.
        if version != r#""2.0""# && text::string(version.as_bytes()).as_deref() != Some("2.0") {
            return Err(FrameError::BadVersion);
        }
        let bodies = [&params, &result, &error].into_iter().flatten().count();
        let (shape, body) = match (&method, result, error) {
            (Some(_), None, None) if id.is_some() => (Shape::Request, params),
            (Some(_), None, None) => (Shape::Notification, params),
            (None, Some(result), None) => (Shape::Result, Some(result)),
            (None, None, Some(error)) => (Shape::Failure, Some(error)),
            _ => return Err(FrameError::NotAMessage),
        };
        let id = match (shape, id.as_ref().map(raw)) {
            (Shape::Notification, None) => None,
            // Its sender could not read our request: null by JSON-RPC, left out by MCP.
            (Shape::Failure, None | Some("null")) => None,
            (_, Some(id)) => Some(Id::from_raw(id)?),
            (_, None) => return Err(FrameError::BadId),
        };
        let mut decoded_method = None;
        let mut known_method = None;
        if let Some(method) = &method {
            let raw = raw(method);
            known_method =
                raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).and_then(Method::named);
            if known_method.is_none()
                && let Cow::Owned(name) = text::string(raw.as_bytes()).ok_or(FrameError::NotAMessage)?
            {
                known_method = Method::named(&name);
                decoded_method = Some(name.into());
            }
            // The schemas of all revisions want an object; JSON-RPC's arrays are not MCP, and null is
            // neither.
            if body.as_ref().is_some_and(|params| !walk::begins(found.text.as_bytes(), params, b'{')) {
                return Err(FrameError::NotAMessage);
            }
        }
        let mut members = found.inner;
        if bodies > 1 {
            // An answer may carry `params`, which nobody asks for.
            members.retain(|member| body.as_ref().is_some_and(|body| body.contains(&member.value().start)));
        }
        Ok(Parts {
            shape,
            id,
            method: method.unwrap_or_default(),
            decoded_method,
            known_method,
            body,
            members,
            broken_lines: found.broken_lines,
            is_strict: found.is_strict,
        })
    }
}
