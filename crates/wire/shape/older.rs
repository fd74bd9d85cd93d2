//! What older revisions cannot read, as edits: structured output, links, audio (spec T-10, M-03).
//!
//! Members that a revision does not know are harmless and stay; kinds of content it does not know are not.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

use super::{edited, reshaped};
use crate::{
    Carrier, Revision, digest,
    frame::{Edit, Frame},
    scan::{Key, Member},
    task::Support,
    text, walk,
};

/// What a revision has of structured output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structured {
    /// Any JSON value.
    Any,
    /// Objects; and its tools say whether they take tasks.
    WithTasks,
    /// Objects.
    Objects,
    /// Nothing.
    Nothing,
}

impl From<Revision> for Structured {
    fn from(revision: Revision) -> Structured {
        if revision.has_any_structured_content() {
            Structured::Any
        } else if revision == Revision::R2025_11_25 {
            Structured::WithTasks
        } else if revision.has_structured_content() {
            Structured::Objects
        } else {
            Structured::Nothing
        }
    }
}

const STRUCTURED: &str = "structuredContent";
const CONTENT: &str = "content";
const OUTPUT_SCHEMA: &str = "outputSchema";
const EXECUTION: &str = "execution";
const LINK: &str = "resource_link";
const AUDIO: &str = "audio";
/// Where audio was the only content of a message there has to be some.
const NO_AUDIO: &str = r#"{"type":"text","text":"(audio, which this revision of MCP cannot carry)"}"#;

/// A tool's definition as a revision takes it; none when that is what it is. `execution` belongs to 2025-11-25 alone
/// (spec T-15). There the server's own stays (bug B01), and one is put in where it has none and its calls can become
/// `tasks`.
pub fn definition(tool: &[u8], takes: Structured, tasks: Support) -> Option<Bytes> {
    let may_have = |word: &str| memchr::memmem::find(tool, word.as_bytes()).is_some();
    let tells = takes == Structured::WithTasks;
    let is_mute =
        tells && tasks != Support::Forbidden && walk::member(tool, 0..tool.len(), EXECUTION).is_none();
    if !may_have(EXECUTION) && !may_have(OUTPUT_SCHEMA) && !may_have("\\u") && !is_mute {
        return None;
    }
    let whole = 0..tool.len();
    let schema = walk::member(tool, whole.clone(), OUTPUT_SCHEMA);
    let is_taken = match takes {
        Structured::Any => true,
        Structured::WithTasks | Structured::Objects => {
            schema.is_none_or(|schema| is_of_objects(tool, schema))
        }
        Structured::Nothing => false,
    };
    let members = walk::members(tool, whole.clone()).map(|(key, value)| Member::new(key, value));
    let leaves =
        |key: Key| (!tells && key.says(EXECUTION, tool)) || (!is_taken && key.says(OUTPUT_SCHEMA, tool));
    let added = match tasks {
        Support::Optional if is_mute => r#""execution":{"taskSupport":"optional"}"#,
        Support::Required if is_mute => r#""execution":{"taskSupport":"required"}"#,
        Support::Optional | Support::Required | Support::Forbidden => "",
    };
    let edits = reshaped(whole, &members.collect::<Vec<_>>(), &leaves, added);
    (!edits.is_empty()).then(|| edited(tool, &edits).into())
}

fn is_of_objects(tool: &[u8], schema: Range<usize>) -> bool {
    let of = walk::member(tool, schema, "type");
    of.and_then(|of| text::string(tool.get(of)?)).as_deref() == Some("object")
}

/// Structured output that a client cannot read.
pub(super) struct Unreadable {
    span: Range<usize>,
    /// `content` is missing, or no list: nothing can be added to it.
    is_alone: bool,
}

impl Unreadable {
    /// That of `answer`, if it has any.
    pub(super) fn find(answer: &Frame, carrier: Option<Carrier>, client: Revision) -> Option<Unreadable> {
        let takes = Structured::from(client);
        if carrier != Some(Carrier::CallResult) || takes == Structured::Any {
            return None;
        }
        let span = answer.result_span(STRUCTURED)?;
        let is_read = takes != Structured::Nothing && walk::begins(answer.bytes(), &span, b'{');
        let is_alone = content_list(answer, Carrier::CallResult).is_none();
        (!is_read).then_some(Unreadable { span, is_alone })
    }

    /// Which members of the result leave because of it.
    pub(super) fn leaves(&self, key: Key, bytes: &[u8]) -> bool {
        key.says(STRUCTURED, bytes) || (self.is_alone && key.says(CONTENT, bytes))
    }

    /// The member that says it instead, when there is no content that could.
    pub(super) fn added(&self, answer: &Frame) -> String {
        if self.is_alone { format!("\"{CONTENT}\":[{}]", as_text(answer, &self.span)) } else { String::new() }
    }
}

/// The edits within the content of a result: links become text, audio leaves, and structured output that leaves is
/// there as text. `uri` makes the client's URI of the upstream's.
pub fn content(
    answer: &Frame,
    carrier: Carrier,
    client: Revision,
    uri: &dyn Fn(&str) -> String,
) -> Vec<Edit> {
    let structured = Unreadable::find(answer, Some(carrier), client).map(|found| found.span);
    let knows_all = client.has_resource_links() && client.has_audio();
    if carrier == Carrier::ReadResult || (knows_all && structured.is_none()) {
        return Vec::new();
    }
    let Some(list) = content_list(answer, carrier) else { return Vec::new() };
    let bytes = answer.bytes();
    let mut edits = Vec::new();
    if carrier == Carrier::PromptResult {
        for message in walk::elements(bytes, list) {
            let Some(content) = walk::member(bytes, message, CONTENT) else { continue };
            let is_list = walk::begins(bytes, &content, b'[');
            let mut blocks: Vec<_> = walk::elements(bytes, content.clone()).collect();
            if !is_list {
                blocks = vec![content];
            }
            for block in blocks {
                match Block::read(bytes, &block, client) {
                    Block::Link => edits.extend(link(bytes, block, uri)),
                    Block::Audio => edits.push(Edit { span: block, text: NO_AUDIO.into() }),
                    Block::Readable => {}
                }
            }
        }
        return edits;
    }
    // Where the last block ends that stays or left, and whether one stayed.
    let (mut before, mut stays, mut is_said) = (list.start + 1, false, false);
    let mut blocks = walk::elements(bytes, list.clone()).peekable();
    while let Some(block) = blocks.next() {
        let end = block.end;
        match Block::read(bytes, &block, client) {
            Block::Audio => {
                // A comma goes along: the one before it after a block that stays, else the one behind it.
                let next = blocks.peek().map_or(end, |next| next.start);
                let span = if stays { before..end } else { block.start..next };
                edits.push(Edit { span, text: Bytes::new() });
            }
            Block::Link => {
                edits.extend(link(bytes, block, uri));
                stays = true;
            }
            Block::Readable => {
                is_said = is_said || structured.as_ref().is_some_and(|span| says(bytes, &block, span));
                stays = true;
            }
        }
        before = end;
    }
    if let Some(span) = structured.filter(|_| !is_said) {
        let comma = if stays { "," } else { "" };
        let end = list.end.saturating_sub(1);
        edits.push(Edit { span: end..end, text: [comma, &as_text(answer, &span)].concat().into() });
    }
    edits
}

/// What an older revision makes of a block of content.
enum Block {
    Readable,
    Link,
    Audio,
}

impl Block {
    fn read(bytes: &[u8], span: &Range<usize>, client: Revision) -> Block {
        match member_text(bytes, span, "type").as_deref() {
            Some(LINK) if !client.has_resource_links() => Block::Link,
            Some(AUDIO) if !client.has_audio() => Block::Audio,
            _ => Block::Readable,
        }
    }
}

fn content_list(answer: &Frame, carrier: Carrier) -> Option<Range<usize>> {
    answer.result_span(carrier.member()).filter(|list| walk::begins(answer.bytes(), list, b'['))
}

/// A link as text: what it is called and where it leads. Its other members are harmless and stay.
fn link(bytes: &[u8], block: Range<usize>, uri: &dyn Fn(&str) -> String) -> Option<Edit> {
    let of = walk::member(bytes, block.clone(), "type")?;
    if walk::member(bytes, block.clone(), "text").is_some() {
        return Some(Edit { span: of, text: Bytes::from_static(b"\"text\"") });
    }
    let mut said = String::new();
    let title = member_text(bytes, &block, "title").or_else(|| member_text(bytes, &block, "name"));
    if let Some(title) = title {
        said.extend([&*title, ": "]);
    }
    if let Some(native) = member_text(bytes, &block, "uri") {
        said.push_str(&uri(&native));
    }
    if let Some(description) = member_text(bytes, &block, "description") {
        said.extend(["\n", &*description]);
    }
    Some(Edit { span: of, text: format!("\"text\",\"text\":{}", text::quote(&said)).into() })
}

fn member_text<'a>(bytes: &'a [u8], object: &Range<usize>, key: &str) -> Option<Cow<'a, str>> {
    text::string(bytes.get(walk::member(bytes, object.clone(), key)?)?)
}

/// Whether a block of text says what the structured output says.
fn says(bytes: &[u8], block: &Range<usize>, structured: &Range<usize>) -> bool {
    let said = member_text(bytes, block, "text");
    let structured = text::plain(bytes.get(structured.clone()).unwrap_or_default());
    said.is_some_and(|said| *said == *structured || digest::digest(&said) == digest::digest(structured))
}

fn as_text(answer: &Frame, structured: &Range<usize>) -> String {
    let json = text::plain(answer.bytes().get(structured.clone()).unwrap_or_default());
    format!("{{\"type\":\"text\",\"text\":{}}}", text::quote(json))
}

#[cfg(test)]
mod tests;
