//! Reads the lists of one upstream, page by page and within bounds.

use std::{collections::HashSet, sync::Arc};

use upstream::Connection;
use wire::Kind;

use super::super::{Source, shelf::Shown};
use crate::bridge;

/// Items of the kinds that have no bound of their own.
const MOST_ITEMS: usize = 10_000;
/// Pages of one list.
const MOST_PAGES: usize = 1_000;
/// Bytes of one list in all, and of one item.
const LIST_BYTES: usize = 16 * 1024 * 1024;
const ITEM_BYTES: usize = 512 * 1024;
/// The longest cursor that is sent back, in bytes.
const CURSOR_BYTES: usize = 8 * 1024;
/// Remarks that are kept of one reading.
const MOST_REMARKS: usize = 100;

/// All items of one list, page by page. A server that repeats a cursor, never ends or says too much is cut
/// short, and what it said until then counts (spec U-04).
pub(super) async fn read_list(
    connection: &Arc<Connection>,
    source: &Source,
    kind: Kind,
    remarks: &mut Remarks,
) -> Result<Vec<wire::Item>, String> {
    if !connection.facts().has(capability(kind)) {
        return Ok(Vec::new());
    }
    let most = if kind == Kind::Tools { source.config.max_tools } else { MOST_ITEMS };
    let member = kind.member();
    let (mut items, mut bytes, mut seen) = (Vec::new(), 0, 0);
    let mut cursors = HashSet::new();
    let mut cursor: Option<Box<str>> = None;
    for _ in 0..MOST_PAGES {
        let page = match read_page(connection, source, kind, cursor.as_deref()).await? {
            Some(page) => page,
            None => return Ok(items),
        };
        seen += page.items.len() + page.broken.len();
        for broken in page.broken {
            let name = printable(broken.key.as_deref().unwrap_or("without a name"));
            let number = broken.position + 1;
            remarks.push(|| format!("{member} `{name}` (number {number}) is left out: {}", broken.why));
        }
        for item in page.items {
            if item.raw().len() > ITEM_BYTES {
                let name = printable(item.key());
                remarks.push(|| format!("{member} `{name}` is left out: more than {ITEM_BYTES} bytes"));
                continue;
            }
            bytes += item.raw().len();
            items.push(item);
        }
        if seen > most || bytes > LIST_BYTES {
            remarks.push(|| {
                format!("more than {most} {member}, or {LIST_BYTES} bytes of them: the rest is left out")
            });
            items.truncate(most);
            return Ok(items);
        }
        let Some(next) = page.next else { return Ok(items) };
        if next.len() > CURSOR_BYTES || !cursors.insert(next.clone()) {
            remarks.push(|| format!("{member}: a cursor came twice or is too long, the list ends there"));
            return Ok(items);
        }
        cursor = Some(next);
    }
    remarks.push(|| format!("{member}: more than {MOST_PAGES} pages, the list ends there"));
    Ok(items)
}

/// What the operator should know of one reading, within bounds.
#[derive(Default)]
pub(in crate::catalog) struct Remarks {
    kept: Vec<String>,
    more: usize,
}

impl Remarks {
    /// Keeps a remark while there is room, and counts it otherwise.
    pub(in crate::catalog) fn push(&mut self, remark: impl FnOnce() -> String) {
        if self.kept.len() < MOST_REMARKS {
            self.kept.push(remark());
        } else {
            self.more += 1;
        }
    }

    pub(super) fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.kept.push(format!("and {} more remarks", self.more));
        }
        self.kept
    }
}

/// An upstream's text, safe to print and short.
pub(in crate::catalog) fn printable(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

/// One page; none when the server does not have the method after all.
async fn read_page(
    connection: &Arc<Connection>,
    source: &Source,
    kind: Kind,
    cursor: Option<&str>,
) -> Result<Option<wire::Page>, String> {
    let method = kind.list_method().name();
    let mut members = Vec::new();
    if let Some(cursor) = cursor {
        members.push(format!("\"cursor\":{}", wire::code::quote(cursor)));
    }
    if let Some(meta) = bridge::request_meta(connection.facts(), None, None, &bridge::Sender::ourselves()) {
        members.push(format!("\"_meta\":{meta}"));
    }
    let params = format!("{{{}}}", members.join(","));
    let list = source.config.timeouts.list;
    let wait = upstream::Wait { first: list, most: list, progress: false };
    let build = |id: &wire::Id| {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}",
            id.raw()
        );
        bytes::Bytes::from(line)
    };
    let mut exchange = {
        let method = kind.list_method();
        let outbound = upstream::Outbound { method, name: None, mirrored: &[], caller: None, build: &build };
        connection.send_outbound(&outbound, wait).map_err(|error| error.to_string())?
    };
    loop {
        match exchange.next().await {
            upstream::Incoming::Progress(_)
            | upstream::Incoming::Question(_)
            | upstream::Incoming::Told(_)
            | upstream::Incoming::Later => (),
            upstream::Incoming::Failed(error) => return Err(error.to_string()),
            upstream::Incoming::Answer(answer) if answer.error().is_some() => {
                let code = answer.error_member("code").unwrap_or_default();
                return if code == "-32601" { Ok(None) } else { Err(format!("it answered error {code}")) };
            }
            upstream::Incoming::Answer(answer) => {
                return wire::read_page(&answer, kind).map(Some).map_err(|error| error.to_string());
            }
        }
    }
}

fn capability(kind: Kind) -> &'static str {
    match kind {
        Kind::Tools => "tools",
        Kind::Resources | Kind::Templates => "resources",
        Kind::Prompts => "prompts",
    }
}

/// A pattern that matches nothing is most likely a typo, and the operator hears of it (bug B25).
pub(super) fn note_idle_filters(source: &Source, shelves: &[Option<Vec<Shown>>; 4], remarks: &mut Remarks) {
    let [tools, resources, templates, prompts] = shelves;
    let config = &source.config;
    let filters = [
        ("tools", &config.tools, [tools.as_ref(), None]),
        ("resources", &config.resources, [resources.as_ref(), templates.as_ref()]),
        ("prompts", &config.prompts, [prompts.as_ref(), None]),
    ];
    for (what, filter, read) in filters {
        if read.iter().flatten().next().is_none() {
            continue;
        }
        for pattern in filter.patterns() {
            let mut natives = read.iter().flatten().flat_map(|shelf| shelf.iter());
            if !natives.any(|shown| pattern.matches(&shown.native)) {
                let text = &pattern.text;
                remarks.push(|| format!("the filter `{text}` matches none of its {what}"));
            }
        }
    }
}
