//! What the gateway says of itself: to `initialize`, and to `server/discover` (spec B-23, B-29).

use wire::{Capability, Revision, code};

use crate::{bridge, catalog::View, session::Session};

const NAME_AND_TITLE: &str = "\"name\":\"portcullis\",\"title\":\"Portcullis\"";

/// `serverInfo`, raw JSON.
pub(crate) fn server_info() -> String {
    format!("{{{NAME_AND_TITLE},\"version\":\"{}\"}}", env!("CARGO_PKG_VERSION"))
}

/// The result of `initialize`, with what the upstreams say that this client may know of.
pub(crate) fn introduction(session: &Session, view: &View, instructions: Option<&str>) -> String {
    let mut result = format!(
        "{{\"protocolVersion\":\"{}\",\"capabilities\":{},\"serverInfo\":{}",
        session.revision.text(),
        with(&with(&view.capabilities, &view.extras.passed), tasks(session, view)),
        server_info(),
    );
    push_instructions(&mut result, instructions);
    result.push('}');
    result
}

/// What a session is promised (spec B-24): what the view has, and tasks only where its revision and its servers do.
pub(crate) fn promised(session: &Session, view: &View) -> Vec<Capability> {
    let tasks = tasks(session, view);
    let holds = |capability: &Capability| match capability {
        Capability::Tasks => !tasks.is_empty(),
        Capability::TasksList => tasks == TASKS,
        _ => true,
    };
    view.promised.iter().copied().filter(holds).collect()
}

const TASKS: &str = r#","tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#;
/// Who cannot be told apart from others is shown no list (spec U-32).
const TASKS_UNLISTED: &str = r#","tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}"#;

fn tasks(session: &Session, view: &View) -> &'static str {
    let has_them = session.revision == Revision::R2025_11_25 && view.extras.takes_tasks;
    match (has_them, session.principal.issuer.is_empty()) {
        (false, _) => "",
        (true, true) => TASKS_UNLISTED,
        (true, false) => TASKS,
    }
}

/// An object with further members, which begin with a comma.
fn with(object: &str, members: &str) -> String {
    match object.strip_suffix('}') {
        Some("{") => format!("{{{}}}", members.trim_start_matches(',')),
        Some(open) => format!("{open}{members}}}"),
        None => object.to_owned(),
    }
}

/// The result of `server/discover`. Every revision that is served is named, those too that begin with a
/// handshake (spec D3).
pub(crate) fn discovery(view: &View, instructions: Option<&str>) -> String {
    let versions: Vec<String> =
        Revision::ALL.iter().rev().map(|revision| format!("\"{}\"", revision.text())).collect();
    let capabilities = with(&view.capabilities, &view.extras.extensions);
    let mut result =
        format!("{{\"supportedVersions\":[{}],\"capabilities\":{capabilities}", versions.join(","));
    push_instructions(&mut result, instructions);
    result.push_str(&bridge::modern_members(true));
    result.push('}');
    result
}

fn push_instructions(result: &mut String, instructions: Option<&str>) {
    if let Some(instructions) = instructions {
        result.push_str(",\"instructions\":");
        result.push_str(&code::quote(instructions));
    }
}
