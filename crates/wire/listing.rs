//! List pages as raw items: what an upstream lists is kept as it wrote it, and one bad item hides no other.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use crate::{
    frame::{Edit, Frame, FrameError, Shape},
    method::Kind,
    scan, shape, text, walk,
};

/// One page of a list.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The good items, in the order of the upstream.
    pub items: Vec<Item>,
    /// The others.
    pub broken: Vec<Broken>,
    /// The cursor of the next page, decoded. The empty string is a cursor too (spec U-01).
    pub next: Option<Box<str>>,
}

/// One item of a list, as its upstream wrote it.
// INVARIANT: `raw` is a JSON object, and `name` the place of the string that names it.
#[derive(Clone, Debug)]
pub struct Item {
    raw: Arc<str>,
    key: Arc<str>,
    name: Range<usize>,
}

/// An item that cannot be shown (spec T-14, bug B10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Where it stood in the page, from 0.
    pub position: usize,
    /// Its name, if it has one.
    pub key: Option<Box<str>>,
    /// What is wrong.
    pub why: &'static str,
}

/// Why an answer is no list page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// The answer is an error, or no answer.
    #[error("the answer holds no result")]
    NoResult,
    /// The member that holds the list is missing or no array.
    #[error("the result holds no list")]
    NoList,
    /// `nextCursor` is not a string.
    #[error("the cursor is no string")]
    BadCursor,
}

/// Reads one page.
pub fn read_page(answer: &Frame, kind: Kind) -> Result<Page, ListingError> {
    if answer.shape() != Shape::Result {
        return Err(ListingError::NoResult);
    }
    let bytes = answer.bytes();
    let list = answer.result_span(kind.member()).ok_or(ListingError::NoList)?;
    // How some servers write an empty list (bug B31).
    let is_null = bytes.get(list.clone()) == Some(b"null");
    if !is_null && !walk::begins(bytes, &list, b'[') {
        return Err(ListingError::NoList);
    }
    let mut page = Page::default();
    for (position, span) in walk::elements(bytes, list).enumerate() {
        let raw = text::plain(bytes.get(span).unwrap_or_default());
        let item = if answer.is_strict() { Item::read(raw, kind) } else { Item::read_strictly(raw, kind) };
        match item {
            Ok(item) => page.items.push(item),
            Err((key, why)) => page.broken.push(Broken { position, key, why }),
        }
    }
    page.next = match answer.result_member("nextCursor") {
        // Some servers write null for the last page.
        None | Some("null") => None,
        Some(cursor) => Some(text::string(cursor.as_bytes()).ok_or(ListingError::BadCursor)?.into()),
    };
    Ok(page)
}

/// The `result` of a list request. Never null, and without a cursor on the last page (bug B31).
pub fn render(kind: Kind, items: &[Bytes], next: Option<&str>) -> Bytes {
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut out = Vec::with_capacity(size + next.map_or(0, str::len) + 64);
    out.extend_from_slice(b"{\"");
    out.extend_from_slice(kind.member().as_bytes());
    out.extend_from_slice(b"\":[");
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.push(b']');
    if let Some(next) = next {
        out.extend_from_slice(b",\"nextCursor\":");
        out.extend_from_slice(text::quote(next).as_bytes());
    }
    out.push(b'}');
    out.into()
}

impl Item {
    /// Reads an item of an answer that was not read strictly: what two readers could take for two tools is
    /// shown as none (security 35).
    fn read_strictly(raw: &str, kind: Kind) -> Result<Item, (Option<Box<str>>, &'static str)> {
        match scan::check(raw.as_bytes()) {
            Ok(()) => Item::read(raw, kind),
            Err(FrameError::DuplicateKey { .. }) => Err((only_name(raw.as_bytes(), kind), "duplicate key")),
            // The grammar was checked with the answer, so nothing else is left.
            Err(_) => Err((only_name(raw.as_bytes(), kind), "lone surrogate")),
        }
    }

    fn read(raw: &str, kind: Kind) -> Result<Item, (Option<Box<str>>, &'static str)> {
        let bytes = raw.as_bytes();
        let whole = 0..bytes.len();
        if !walk::begins(bytes, &whole, b'{') {
            return Err((None, "not an object"));
        }
        let Some(name) = walk::member(bytes, whole.clone(), kind.key()) else {
            return Err((None, "no name"));
        };
        let Some(key) = bytes.get(name.clone()).and_then(text::string) else {
            return Err((None, "a name that is no string"));
        };
        if kind == Kind::Tools {
            check_schema(bytes, whole).map_err(|why| (Some(text::excerpt(&key)), why))?;
        }
        let key = key.into();
        Ok(Item { raw: raw.into(), key, name })
    }

    /// The name or URI by which the upstream knows it, decoded.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// All of it, as the upstream wrote it.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The JSON text of one of its members.
    pub fn member(&self, key: &str) -> Option<&str> {
        self.raw.get(walk::member(self.raw.as_bytes(), 0..self.raw.len(), key)?)
    }

    /// The item as the client sees it: under another name or URI, and with the URIs of its `_meta` rewritten
    /// (spec T-16). All else stays byte for byte.
    pub fn exposed(&self, key: &str, uri: &dyn Fn(&str) -> String) -> Bytes {
        let bytes = self.raw.as_bytes();
        let edit = |span: Range<usize>, shown: &str| Edit { span, text: text::quote(shown).into() };
        let mut edits = Vec::new();
        if *key != *self.key {
            edits.push(edit(self.name.clone(), key));
        }
        for span in self.app_uris() {
            let Some(native) = bytes.get(span.clone()).and_then(text::string) else { continue };
            let shown = uri(&native);
            if shown != native {
                edits.push(edit(span, &shown));
            }
        }
        edits.sort_by_key(|edit| edit.span.start);
        let mut out = shape::edited(bytes, &edits);
        text::on_one_line(&mut out);
        out.into()
    }

    /// Where `_meta.ui.resourceUri` and its older spelling `_meta["ui/resourceUri"]` stand.
    fn app_uris(&self) -> impl Iterator<Item = Range<usize>> {
        let bytes = self.raw.as_bytes();
        let meta = walk::member(bytes, 0..bytes.len(), "_meta");
        let older = meta.clone().and_then(|meta| walk::member(bytes, meta, "ui/resourceUri"));
        let ui = meta.and_then(|meta| walk::member(bytes, meta, "ui"));
        let newer = ui.and_then(|ui| walk::member(bytes, ui, "resourceUri"));
        older.into_iter().chain(newer)
    }
}

/// The name of a broken item, if it has just one.
fn only_name(item: &[u8], kind: Kind) -> Option<Box<str>> {
    let mut names = walk::members(item, 0..item.len()).filter(|(key, _)| key.says(kind.key(), item));
    let (_, name) = names.next()?;
    if names.next().is_some() {
        return None;
    }
    text::string(item.get(name)?).map(|name| text::excerpt(&name))
}

fn check_schema(tool: &[u8], whole: Range<usize>) -> Result<(), &'static str> {
    let Some(schema) = walk::member(tool, whole, "inputSchema") else {
        return Err("no inputSchema");
    };
    if !walk::begins(tool, &schema, b'{') {
        return Err("an inputSchema that is no object");
    }
    if let Some(of) = walk::member(tool, schema.clone(), "type")
        && tool.get(of).and_then(text::string).as_deref() != Some("object")
    {
        return Err("an inputSchema of another type than object");
    }
    if let Some(properties) = walk::member(tool, schema, "properties")
        && !walk::begins(tool, &properties, b'{')
    {
        return Err("an inputSchema whose properties are no object");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
