//! JSON-RPC frames: the bytes as they arrived, and where their parts stand.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use bytes::Bytes;

use crate::{
    code,
    digest::{self, Digest},
    id::Id,
    method::Method,
    pieces::Pieces,
    scan::{self, Budget, Member, Root, Scan},
    text, walk,
};

mod parts;

use parts::Parts;

/// One JSON-RPC message. Owns its bytes and copies none of them; a clone shares them.
#[derive(Clone)]
pub struct Frame {
    bytes: Bytes,
    parts: Arc<Parts>,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Has a method and an id.
    Request,
    /// Has a method and no id.
    Notification,
    /// An answer that holds a result.
    Result,
    /// An answer that holds an error. Has no id when its sender could not read the request.
    Failure,
}

/// A member of `params` as it is to leave.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// Which member.
    pub key: &'a str,
    /// Its value as JSON text; `None` leaves it out.
    pub value: Option<Cow<'a, str>>,
}

/// A stretch of an answer's bytes that is replaced as it leaves.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Where, in the frame's bytes.
    pub span: Range<usize>,
    /// What takes its place; the whole stays JSON.
    pub text: Bytes,
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// More bytes than the budget has.
    #[error("longer than {limit} bytes")]
    TooLarge {
        /// The most bytes.
        limit: usize,
    },
    /// More nesting than the budget has.
    #[error("nested too deep")]
    TooDeep,
    /// More values than the budget has.
    #[error("too many values")]
    TooManyNodes,
    /// Not JSON.
    #[error("not JSON at byte {at}: {why}")]
    Syntax {
        /// Where reading stopped.
        at: usize,
        /// What stood there.
        why: &'static str,
    },
    /// An object holds a key twice, perhaps in two spellings: two readers may take two values.
    #[error("`{key}` stands twice in one object")]
    DuplicateKey {
        /// The start of the key.
        key: Box<str>,
    },
    /// A key differs only in letter case from one that matters: a lenient reader may take it for that one.
    #[error("`{key}` is nearly a reserved key")]
    Ambiguous {
        /// The start of the key.
        key: Box<str>,
    },
    /// An array: several messages in one (spec B-07).
    #[error("a batch")]
    Batch,
    /// The id is missing where it is needed, or neither a string nor an integer, or too long.
    #[error("the id is neither a string nor an integer of at most 256 bytes")]
    BadId,
    /// `jsonrpc` is not `"2.0"`.
    #[error("`jsonrpc` is not `2.0`")]
    BadVersion,
    /// JSON, but neither a request, a notification nor an answer.
    #[error("neither a request, a notification nor an answer")]
    NotAMessage,
}

impl FrameError {
    /// Whether the bytes were not even JSON (-32700); else they are an invalid request (-32600).
    pub fn is_parse_error(&self) -> bool {
        matches!(self, FrameError::Syntax { .. })
    }
}

/// The id of a message that was refused, where it can be read without doubt (spec Z-02). Text that is no JSON
/// at all is answered without one (spec D12); do not ask for it then.
pub fn readable_id(bytes: &[u8]) -> Option<Id> {
    std::str::from_utf8(bytes).ok()?;
    let mut members = walk::members(bytes, 0..bytes.len());
    let mut found = None;
    for (key, value) in members.by_ref() {
        if key.says("id", bytes) && found.replace(value).is_some() {
            return None;
        }
    }
    if !members.ends_text() {
        return None;
    }
    Id::from_raw(text::plain(bytes.get(found?)?)).ok()
}

/// The messages of a batch, each a share of its bytes that nobody has read yet (spec B-07). What could be read in two
/// ways is refused as a whole.
pub fn split(batch: &Bytes, budget: &Budget) -> Result<Vec<Bytes>, FrameError> {
    if scan::scan(batch, budget)?.root != Root::Array {
        return Err(FrameError::NotAMessage);
    }
    Ok(walk::elements(batch, 0..batch.len()).map(|element| batch.slice(element)).collect())
}

impl Frame {
    /// Reads one message. What could be read in two ways is refused.
    pub fn parse(bytes: Bytes, budget: &Budget) -> Result<Frame, FrameError> {
        let parts = Frame::parts(scan::scan(&bytes, budget)?)?;
        Ok(Frame { bytes, parts: Arc::new(parts) })
    }

    /// Reads one message, and where only parts of its result could be read in two ways (an object that holds
    /// a key twice, half a surrogate pair) leaves them to who reads the result. Only for results that are
    /// taken apart: such a part must not travel on.
    pub fn parse_leniently(bytes: Bytes, budget: &Budget) -> Result<Frame, FrameError> {
        let parts = Frame::parts(scan::scan_leniently(&bytes, budget)?)?;
        Ok(Frame { bytes, parts: Arc::new(parts) })
    }

    fn parts(found: Scan<'_>) -> Result<Parts, FrameError> {
        match found.root {
            Root::Object => Parts::read(found),
            Root::Array => Err(FrameError::Batch),
            Root::Scalar => Err(FrameError::NotAMessage),
        }
    }

    /// Whether all of it can be read in one way only. Never false for what [`Frame::parse`] returned.
    pub fn is_strict(&self) -> bool {
        self.parts.is_strict
    }

    /// What it is.
    pub fn shape(&self) -> Shape {
        self.parts.shape
    }

    /// Its id, as it was written.
    pub fn id(&self) -> Option<&Id> {
        self.parts.id.as_ref()
    }

    /// The name of its method, decoded; empty for answers.
    pub fn method_name(&self) -> &str {
        match &self.parts.decoded_method {
            Some(name) => name,
            None => self.text(&self.parts.method).trim_matches('"'),
        }
    }

    /// Its method, if MCP has it.
    pub fn method(&self) -> Option<Method> {
        self.parts.known_method
    }

    /// All of it, as it arrived.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The text of `params`, an object.
    pub fn params(&self) -> Option<&str> {
        self.body(|shape| matches!(shape, Shape::Request | Shape::Notification))
    }

    /// The JSON text of a member of `params`.
    pub fn param(&self, key: &str) -> Option<&str> {
        self.params_member(key).map(|span| self.text(&span))
    }

    /// A member of `params`, decoded, if it is a JSON string.
    pub fn param_text(&self, key: &str) -> Option<Cow<'_, str>> {
        text::string(self.bytes.get(self.params_member(key)?)?)
    }

    /// The digest of a member of `params`: that of [`digest`](crate::digest()), without reading its text again.
    pub fn param_digest(&self, key: &str) -> Option<Digest> {
        // INVARIANT: `params` are read strictly in every frame; only results may be spoilt.
        self.bytes.get(self.params_member(key)?).map(digest::digest_of_value)
    }

    /// The text of `result`, any JSON value.
    pub fn result(&self) -> Option<&str> {
        self.body(|shape| shape == Shape::Result)
    }

    /// The JSON text of a member of `result`.
    pub fn result_member(&self, key: &str) -> Option<&str> {
        self.result_span(key).map(|span| self.text(&span))
    }

    /// The text of `error`. Whether it is what an error has to be is not looked at.
    pub fn error(&self) -> Option<&str> {
        self.body(|shape| shape == Shape::Failure)
    }

    /// The JSON text of a member of `error`.
    pub fn error_member(&self, key: &str) -> Option<&str> {
        let is_failure = self.parts.shape == Shape::Failure;
        is_failure.then(|| self.member(key))?.map(|span| self.text(&span))
    }

    /// Where a member of `result` stands.
    pub(crate) fn result_span(&self, key: &str) -> Option<Range<usize>> {
        (self.parts.shape == Shape::Result).then(|| self.member(key))?
    }

    /// Where `result` stands and which members it has, if it is an object.
    pub(crate) fn result_object(&self) -> Option<(Range<usize>, &[Member])> {
        let body = self.parts.body.as_ref().filter(|_| self.parts.shape == Shape::Result)?;
        walk::begins(&self.bytes, body, b'{').then_some((body.clone(), &self.parts.members))
    }

    /// A share of its bytes; empty when `span` is not inside them.
    pub fn slice(&self, span: Range<usize>) -> Bytes {
        if self.bytes.get(span.clone()).is_none() {
            return Bytes::new();
        }
        self.bytes.slice(span)
    }

    /// The request or notification rebuilt from what was checked, on one line. The members of `params` keep
    /// their order and their text; members of the outer object that JSON-RPC does not know stay behind.
    pub fn forward(&self, id: Option<&Id>, changes: &[Change<'_>]) -> Bytes {
        let added: usize = changes
            .iter()
            .map(|change| change.key.len() + change.value.as_ref().map_or(0, |text| text.len()) + 4)
            .sum();
        let mut out = Vec::with_capacity(self.bytes.len() + added + id.map_or(0, |id| id.raw().len()) + 64);
        out.extend_from_slice(br#"{"jsonrpc":"2.0""#);
        if let Some(id) = id {
            out.extend_from_slice(br#","id":"#);
            out.extend_from_slice(id.raw().as_bytes());
        }
        out.extend_from_slice(br#","method":"#);
        out.extend_from_slice(self.bytes.get(self.parts.method.clone()).unwrap_or_default());
        if self.parts.body.is_some() || changes.iter().any(|change| change.value.is_some()) {
            out.extend_from_slice(br#","params":{"#);
            self.write_params(&mut out, changes);
            out.push(b'}');
        }
        out.push(b'}');
        text::on_one_line(&mut out);
        out.into()
    }

    /// The answer under another id. The result is shared, not copied; `edits` that overlap or lie outside it
    /// are left out.
    pub fn answer(&self, id: &Id, edits: &[Edit]) -> Pieces {
        let name = match self.parts.shape {
            Shape::Result => "result",
            Shape::Failure => "error",
            Shape::Request | Shape::Notification => {
                return Pieces::one(code::failure(Some(id), code::INTERNAL_ERROR, "not an answer", None));
            }
        };
        let mut pieces = Pieces::with_capacity(edits.len() * 2 + 3);
        pieces.push_as_is([r#"{"jsonrpc":"2.0","id":"#, id.raw(), r#",""#, name, r#"":"#].concat().into());
        let body = self.parts.body.clone().unwrap_or_default();
        let mut order: Vec<&Edit> = edits.iter().collect();
        // What is put in before a byte comes before what takes the byte's place.
        order.sort_by_key(|edit| (edit.span.start, edit.span.end));
        let mut at = body.start;
        for edit in order {
            if edit.span.start < at || edit.span.end < edit.span.start || edit.span.end > body.end {
                continue;
            }
            self.push_share(&mut pieces, at..edit.span.start);
            if !edit.text.is_empty() {
                pieces.push(edit.text.clone());
            }
            at = edit.span.end;
        }
        self.push_share(&mut pieces, at..body.end);
        pieces.push_as_is(Bytes::from_static(b"}"));
        pieces
    }

    fn push_share(&self, pieces: &mut Pieces, span: Range<usize>) {
        if span.is_empty() {
            return;
        }
        let share = self.slice(span);
        if self.parts.broken_lines { pieces.push(share) } else { pieces.push_as_is(share) }
    }

    fn write_params(&self, out: &mut Vec<u8>, changes: &[Change<'_>]) {
        let mut is_first = true;
        let mut separate = |out: &mut Vec<u8>| {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
        };
        for member in &self.parts.members {
            let value = match changes.iter().find(|change| member.key.says(change.key, &self.bytes)) {
                Some(Change { value: Some(value), .. }) => value.as_bytes(),
                Some(Change { value: None, .. }) => continue,
                None => self.bytes.get(member.value()).unwrap_or_default(),
            };
            separate(out);
            out.extend_from_slice(self.bytes.get(member.key.quoted()).unwrap_or_default());
            out.push(b':');
            out.extend_from_slice(value);
        }
        for (position, change) in changes.iter().enumerate() {
            let Some(value) = &change.value else { continue };
            let is_repeated = || changes.iter().take(position).any(|earlier| earlier.key == change.key);
            if self.member(change.key).is_some() || is_repeated() {
                continue;
            }
            separate(out);
            out.extend_from_slice(text::quote(change.key).as_bytes());
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
    }

    fn body(&self, has: impl Fn(Shape) -> bool) -> Option<&str> {
        let body = self.parts.body.as_ref()?;
        has(self.parts.shape).then(|| self.text(body))
    }

    fn params_member(&self, key: &str) -> Option<Range<usize>> {
        matches!(self.parts.shape, Shape::Request | Shape::Notification).then(|| self.member(key))?
    }

    fn member(&self, key: &str) -> Option<Range<usize>> {
        let member = self.parts.members.iter().find(|member| member.key.says(key, &self.bytes))?;
        Some(member.value())
    }

    fn text(&self, span: &Range<usize>) -> &str {
        text::plain(self.bytes.get(span.clone()).unwrap_or_default())
    }
}

/// What it is, not what it holds: arguments and results do not belong into logs.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = f.debug_struct("Frame");
        lines.field("shape", &self.shape()).field("method", &self.method_name()).field("id", &self.id());
        lines.field("bytes", &self.bytes.len()).finish()
    }
}

#[cfg(test)]
mod tests;
