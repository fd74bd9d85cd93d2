//! What one pass over the text makes of a message: its shape and where its parts stand.

use std::{borrow::Cow, ops::Range};

use super::{FrameError, Shape};
use crate::{
    id::Id,
    method::Method,
    scan::{Member, Scan},
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
    pub(super) fn read(bytes: &[u8], found: Scan) -> Result<Parts, FrameError> {
        let outer = |name: &str| {
            let member = found.outer.iter().find(|member| member.key.says(name, bytes));
            member.map(|member| member.value())
        };
        let raw = |span: &Range<usize>| text::plain(bytes.get(span.clone()).unwrap_or_default());
        if outer("jsonrpc").and_then(|span| text::string(bytes.get(span)?)).as_deref() != Some("2.0") {
            return Err(FrameError::BadVersion);
        }
        let (id, method) = (outer("id"), outer("method"));
        let (shape, body) = match (&method, outer("result"), outer("error")) {
            (Some(_), None, None) if id.is_some() => (Shape::Request, outer("params")),
            (Some(_), None, None) => (Shape::Notification, outer("params")),
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
            let name =
                text::string(bytes.get(method.clone()).unwrap_or_default()).ok_or(FrameError::NotAMessage)?;
            known_method = Method::named(&name);
            if let Cow::Owned(name) = name {
                decoded_method = Some(name.into());
            }
            // The schemas of all revisions want an object; JSON-RPC's arrays are not MCP, and null is
            // neither.
            if body.as_ref().is_some_and(|params| !walk::begins(bytes, params, b'{')) {
                return Err(FrameError::NotAMessage);
            }
        }
        let mut members = found.inner;
        // An answer may carry `params`, which nobody asks for.
        members.retain(|member| body.as_ref().is_some_and(|body| body.contains(&member.value().start)));
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
