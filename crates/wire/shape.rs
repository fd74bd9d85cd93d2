//! Results between the eras, as edits of the upstream's answer (spec X-03).

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

use crate::{
    Carrier, Revision,
    frame::{Edit, Frame},
    meta,
    scan::{Key, Member},
    text, walk,
};

mod older;

use older::Unreadable;
pub use older::{Structured, content, definition};

/// How long a result may be kept, and by whom (spec U-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// For so many milliseconds.
    pub ttl_ms: u64,
    /// Only for the caller it was made for.
    pub private: bool,
}

const RESULT_TYPE: &str = "resultType";
const TTL: &str = "ttlMs";
const SCOPE: &str = "cacheScope";
const META: &str = "_meta";
const COMPLETE: &str = "complete";

/// The edits that make a modern result: complete, unless it says of what type it is, and ours by `serverInfo`
/// (spec B-13, B-30). `hints` replace those of the upstream; a result that is not complete has none of either
/// (spec U-18). Without `hints` the upstream's members stay.
pub fn to_modern(answer: &Frame, hints: Option<&Hints>) -> Vec<Edit> {
    let Some((result, members)) = answer.result_object() else { return Vec::new() };
    let bytes = answer.bytes();
    let result_type = result_type(answer);
    let mut added = String::new();
    let mut add = |parts: &[&str]| {
        if !added.is_empty() {
            added.push(',');
        }
        added.extend(parts.iter().copied());
    };
    if result_type.is_none() {
        add(&["\"", RESULT_TYPE, "\":\"", COMPLETE, "\""]);
    }
    if let Some(hints) = hints
        && result_type.is_none_or(|said| said == COMPLETE)
    {
        let scope = if hints.private { "private" } else { "public" };
        add(&["\"", TTL, "\":", &hints.ttl_ms.to_string(), ",\"", SCOPE, "\":\"", scope, "\""]);
    }
    let meta = meta_object(answer);
    if meta.is_none() {
        add(&["\"", META, "\":{\"", meta::SERVER_INFO, "\":", meta::IMPLEMENTATION, "}"]);
    }
    let leaves = |key: Key| {
        let is_hint = key.says(TTL, bytes) || key.says(SCOPE, bytes);
        (is_hint && hints.is_some()) || (meta.is_none() && key.says(META, bytes))
    };
    let mut edits = reshaped(result, members, &leaves, &added);
    if let Some((span, members)) = &meta {
        let identity = ["\"", meta::SERVER_INFO, "\":", meta::IMPLEMENTATION].concat();
        edits.extend(reshaped(span.clone(), members, &|key| meta::is_of_hop(key, bytes), &identity));
    }
    sorted(edits)
}

/// The edits that make a result of an older revision: without structured output that it cannot read, which its content
/// says then (spec T-10). All else stays as it is.
pub fn to_older(answer: &Frame, carrier: Option<Carrier>, client: Revision) -> Vec<Edit> {
    let Some(unreadable) = Unreadable::find(answer, carrier, client) else { return Vec::new() };
    let Some((result, members)) = answer.result_object() else { return Vec::new() };
    let leaves = |key: Key| unreadable.leaves(key, answer.bytes());
    reshaped(result, members, &leaves, &unreadable.added(answer))
}

/// The edits that make a legacy result: without its type, its hints and the keys of the hop in `_meta`, and
/// without a `_meta` that held only those; and what [`to_older`] does.
pub fn to_legacy(answer: &Frame, carrier: Option<Carrier>, client: Revision) -> Vec<Edit> {
    let Some((result, members)) = answer.result_object() else { return Vec::new() };
    let bytes = answer.bytes();
    let meta = meta_object(answer);
    let is_of_hop = |key: Key| meta::is_of_hop(key, bytes);
    let is_only_of_hop = meta.as_ref().is_some_and(|(_, members)| {
        !members.is_empty() && members.iter().all(|member| is_of_hop(member.key))
    });
    let unreadable = Unreadable::find(answer, carrier, client);
    let leaves = |key: Key| {
        [RESULT_TYPE, TTL, SCOPE].iter().any(|name| key.says(name, bytes))
            || (is_only_of_hop && key.says(META, bytes))
            || unreadable.as_ref().is_some_and(|unreadable| unreadable.leaves(key, bytes))
    };
    let added = unreadable.as_ref().map(|unreadable| unreadable.added(answer)).unwrap_or_default();
    let mut edits = reshaped(result, members, &leaves, &added);
    if let Some((span, members)) = meta.filter(|_| !is_only_of_hop) {
        edits.extend(reshaped(span, &members, &is_of_hop, ""));
    }
    sorted(edits)
}

/// What `resultType` says; `None` when it is absent, which means complete. What is no string is given as its
/// JSON text, which is no type that anybody knows (spec B-31).
pub fn result_type(answer: &Frame) -> Option<Cow<'_, str>> {
    let raw = answer.result_member(RESULT_TYPE)?;
    Some(text::string(raw.as_bytes()).unwrap_or(Cow::Borrowed(raw)))
}

/// Two lists of edits as one, in the order of their places. Where two overlap, the one that begins first
/// stays.
pub fn merge(a: Vec<Edit>, b: Vec<Edit>) -> Vec<Edit> {
    if a.is_empty() && b.is_empty() {
        return a;
    }
    let mut end = 0;
    let mut edits = sorted(a.into_iter().chain(b).collect());
    edits.retain(|edit| {
        let is_free = edit.span.start >= end;
        if is_free {
            end = edit.span.end;
        }
        is_free
    });
    edits
}

/// Where `_meta` of the result stands and what it holds, if it is an object.
fn meta_object(answer: &Frame) -> Option<(Range<usize>, Vec<Member>)> {
    let bytes = answer.bytes();
    let span = answer.result_span(META).filter(|span| walk::begins(bytes, span, b'{'))?;
    let members = walk::members(bytes, span.clone()).map(|(key, value)| Member::new(key, value));
    let members = members.collect();
    Some((span, members))
}

/// The edits that let some `members` leave the object at `object`, and put `added` members first. Whatever
/// stays keeps its bytes, and what is put in and taken out again leaves no trace.
fn reshaped(
    object: Range<usize>,
    members: &[Member],
    leaves: &dyn Fn(Key) -> bool,
    added: &str,
) -> Vec<Edit> {
    let mut edits = Vec::new();
    // Where the last member ends that stays or left, and whether one stayed.
    let mut before = object.start + 1;
    let mut stays = false;
    for (position, member) in members.iter().enumerate() {
        let value = member.value();
        if leaves(member.key) {
            // A comma goes along: the one before it after a member that stays, else the one behind it.
            let next = members.get(position + 1).map(|next| next.key.quoted().start);
            let span =
                if stays { before..value.end } else { member.key.quoted().start..next.unwrap_or(value.end) };
            edits.push(Edit { span, text: Bytes::new() });
        } else {
            stays = true;
        }
        before = value.end;
    }
    if !added.is_empty() {
        let comma = if stays { "," } else { "" };
        let at = members.first().map_or(object.start + 1, |first| first.key.quoted().start);
        edits.push(Edit { span: at..at, text: [added, comma].concat().into() });
    }
    edits
}

/// `text` with these edits, which have to be in order and apart.
pub(crate) fn edited(text: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut at = 0;
    for edit in edits {
        out.extend_from_slice(text.get(at..edit.span.start).unwrap_or_default());
        out.extend_from_slice(&edit.text);
        at = edit.span.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    out
}

/// In the order of their places; what is put in before a byte comes before what takes the byte's place.
fn sorted(mut edits: Vec<Edit>) -> Vec<Edit> {
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    edits
}

#[cfg(test)]
mod tests;
