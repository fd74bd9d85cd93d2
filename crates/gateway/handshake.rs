//! What the gateway says of itself: to `initialize`, and to `server/discover` (spec B-23, B-29).

use wire::{Revision, code};

use crate::{bridge, catalog::View};

const NAME_AND_TITLE: &str = "\"name\":\"portcullis\",\"title\":\"Portcullis\"";

/// `serverInfo`, raw JSON.
pub(crate) fn server_info() -> String {
    format!("{{{NAME_AND_TITLE},\"version\":\"{}\"}}", env!("CARGO_PKG_VERSION"))
}

/// The result of `initialize`.
pub(crate) fn introduction(revision: Revision, view: &View) -> String {
    let mut result = format!(
        "{{\"protocolVersion\":\"{}\",\"capabilities\":{},\"serverInfo\":{}",
        revision.text(),
        view.capabilities,
        server_info(),
    );
    push_instructions(&mut result, view);
    result.push('}');
    result
}

/// The result of `server/discover`. Every revision that is served is named, those too that begin with a
/// handshake (spec D3).
pub(crate) fn discovery(view: &View) -> String {
    let versions: Vec<String> =
        Revision::ALL.iter().rev().map(|revision| format!("\"{}\"", revision.text())).collect();
    let mut result =
        format!("{{\"supportedVersions\":[{}],\"capabilities\":{}", versions.join(","), view.capabilities);
    push_instructions(&mut result, view);
    result.push_str(&bridge::modern_members(true));
    result.push('}');
    result
}

fn push_instructions(result: &mut String, view: &View) {
    if let Some(instructions) = &view.instructions {
        result.push_str(",\"instructions\":");
        result.push_str(&code::quote(instructions));
    }
}
