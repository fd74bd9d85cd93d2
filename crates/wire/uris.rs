//! Where results name resources, so that their URIs can be rewritten (spec R-03).

use std::ops::Range;

use bytes::Bytes;

use crate::{
    frame::{Edit, Frame},
    text, walk,
};

/// Which kind of result it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Of `tools/call`: content blocks.
    CallResult,
    /// Of `prompts/get`: messages with content.
    PromptResult,
    /// Of `resources/read`: contents.
    ReadResult,
}

impl Carrier {
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Carrier::CallResult => "content",
            Carrier::PromptResult => "messages",
            Carrier::ReadResult => "contents",
        }
    }
}

/// One edit for every URI in `answer` that is another for the client. Only URIs in the places MCP gives them are touched; text that looks
/// like one is not.
pub fn edits(answer: &Frame, carrier: Carrier, rewrite: &dyn Fn(&str) -> String) -> Vec<Edit> {
    let mut edits = Vec::new();
    let bytes = answer.bytes();
    let Some(list) = answer.result_span(carrier.member()) else { return edits };
    if !may_hold_uri(bytes.get(list.clone()).unwrap_or_default()) {
        return edits;
    }
    let mut add = |span: Range<usize>| {
        let Some(uri) = bytes.get(span.clone()).and_then(text::string) else { return };
        let shown = rewrite(&uri);
        if shown != uri {
            edits.push(Edit { span, text: Bytes::from(text::quote(&shown)) });
        }
    };
    for element in walk::elements(bytes, list) {
        match carrier {
            Carrier::CallResult => block(bytes, element, &mut add),
            Carrier::ReadResult => uri_of(bytes, element, &mut add),
            Carrier::PromptResult => message(bytes, element, &mut add),
        }
    }
    edits
}

/// Up to so many bytes a search for one letter costs less than preparing one for words.
const SHORT: usize = 256;

/// Most results hold no URI, and a search is cheaper than a walk. A key may be written with escapes.
fn may_hold_uri(text: &[u8]) -> bool {
    if text.len() <= SHORT {
        let is_part = |at| {
            let (before, behind) = text.split_at_checked(at).unwrap_or_default();
            (before.ends_with(b"\"") && behind.starts_with(b"uri\"")) || before.ends_with(b"\\")
        };
        return memchr::memchr_iter(b'u', text).any(is_part);
    }
    memchr::memmem::find(text, b"\"uri\"").is_some() || memchr::memmem::find(text, b"\\u").is_some()
}

/// The content of a message is one block or, in some revisions, several.
fn message(bytes: &[u8], span: Range<usize>, add: &mut dyn FnMut(Range<usize>)) {
    let Some(content) = walk::member(bytes, span, "content") else { return };
    if walk::begins(bytes, &content, b'[') {
        walk::elements(bytes, content).for_each(|element| block(bytes, element, add));
    } else {
        block(bytes, content, add);
    }
}

fn block(bytes: &[u8], span: Range<usize>, add: &mut dyn FnMut(Range<usize>)) {
    let of = walk::member(bytes, span.clone(), "type");
    match of.and_then(|of| text::string(bytes.get(of)?)).as_deref() {
        Some("resource_link") => uri_of(bytes, span, add),
        Some("resource") => {
            if let Some(resource) = walk::member(bytes, span, "resource") {
                uri_of(bytes, resource, add);
            }
        }
        _ => {}
    }
}

fn uri_of(bytes: &[u8], span: Range<usize>, add: &mut dyn FnMut(Range<usize>)) {
    if let Some(uri) = walk::member(bytes, span, "uri") {
        add(uri);
    }
}

#[cfg(test)]
mod tests;
