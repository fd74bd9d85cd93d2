//! Between eras: what differs on the wire between a client and an upstream that speak different revisions.
//! No check, limit or record knows of it (invariant 10).

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use upstream::{Facts, UpstreamError};
use wire::{Carrier, Era, Frame, Id, Method, Pieces, Revision, code, meta, shape, uris};

use crate::{
    asking::Offer,
    handshake,
    logging::{Level, with_level},
};

/// Values a completion may have (spec K-03).
const COMPLETIONS: usize = 100;

/// Who sends a request, as far as a modern upstream may know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    /// What the client can be asked.
    pub(crate) offer: &'a Offer,
    /// How much of the server's log it wants to hear.
    pub(crate) level: Option<Level>,
    /// Whether its call may become a task.
    pub(crate) tasks: bool,
}

impl Sender<'static> {
    /// The gateway, for itself.
    pub(crate) fn ourselves() -> Sender<'static> {
        Sender { offer: Offer::nothing(), level: None, tasks: false }
    }
}

/// `_meta` of a request, for an upstream of this era: hop keys are ours, the progress token is `token`, all
/// else is the client's. None when nothing is left.
pub(crate) fn request_meta(
    facts: &Facts,
    client: Option<&str>,
    token: Option<u64>,
    sender: &Sender<'_>,
) -> Option<String> {
    match facts.revision.era() {
        Era::Legacy if client.is_none() && token.is_none() => None,
        Era::Legacy => meta::for_upstream(client, token),
        // What the client can be asked goes with each request, never more (spec X-01).
        Era::Modern => {
            let capabilities = match sender.tasks {
                true => wire::task::declared(&sender.offer.envelope()),
                false => sender.offer.envelope(),
            };
            let meta = wire::client_meta(client, token, &capabilities);
            Some(with_level(meta, sender.level))
        }
    }
}

/// Members that every modern result of ours has, each with its leading comma. What is listed here may change
/// at any time and depends on who asks, so nobody may keep it (spec U-19).
pub(crate) fn modern_members(with_server: bool) -> String {
    let mut members = String::from(",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\"");
    if with_server {
        members.push_str(&server_meta());
    }
    members
}

/// Who answers, as a member of a modern result, with its leading comma.
pub(crate) fn server_meta() -> String {
    format!(",\"_meta\":{{\"{}\":{}}}", meta::SERVER_INFO, handshake::server_info())
}

/// An answer of ours that has no content of its own.
pub(crate) fn empty_result(era: Era) -> &'static str {
    match era {
        Era::Legacy => "{}",
        Era::Modern => "{\"resultType\":\"complete\"}",
    }
}

/// An upstream's result, as the client's era has it, under the client's id and with our URIs.
///
/// # Errors
/// When the result is one that only the upstream's era knows.
pub(crate) fn result(
    answer: &Frame,
    id: &Id,
    (upstream, revision): (Era, Revision),
    method: Method,
    rewrite: &dyn Fn(&str) -> String,
) -> Result<Pieces, UpstreamError> {
    let client = revision.era();
    // In either era: what a legacy server says of types must not reach a modern client as a promise.
    if shape::result_type(answer).is_some_and(|kind| kind != "complete") {
        let why = "the result is of a type that is not carried";
        return Err(UpstreamError::Garbled { why: why.into() });
    }
    if method == Method::Complete
        && let Some(short) = shortened(answer, id, client)
    {
        return Ok(Pieces::one(short));
    }
    let carrier = carrier(method);
    let shaped = match (upstream, client) {
        (Era::Legacy, Era::Legacy) => shape::to_older(answer, carrier, revision),
        (Era::Modern, Era::Legacy) => shape::to_legacy(answer, carrier, revision),
        (Era::Legacy | Era::Modern, Era::Modern) => {
            // A resource of one caller is nobody else's, whatever the upstream says (spec U-19, R-09).
            let hints = shape::Hints { ttl_ms: 0, private: true };
            shape::to_modern(answer, (method == Method::ResourcesRead).then_some(&hints))
        }
    };
    let content = carrier.map_or_else(Vec::new, |carrier| {
        let older = shape::content(answer, carrier, revision, rewrite);
        shape::merge(uris::edits(answer, carrier, rewrite), older)
    });
    Ok(answer.answer(id, &shape::merge(content, shaped)))
}

fn carrier(method: Method) -> Option<Carrier> {
    match method {
        Method::ToolsCall => Some(Carrier::CallResult),
        Method::PromptsGet => Some(Carrier::PromptResult),
        Method::ResourcesRead => Some(Carrier::ReadResult),
        _ => None,
    }
}

/// A completion of nothing.
pub(crate) fn no_completions(id: &Id, client: Era) -> Bytes {
    completion(id, client, &[], None, false)
}

/// A completion with more values than there may be, cut; none when it has not too many.
fn shortened(answer: &Frame, id: &Id, client: Era) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct Completion<'a> {
        #[serde(borrow)]
        values: Vec<&'a RawValue>,
        #[serde(borrow, default)]
        total: Option<&'a RawValue>,
    }
    let said: Completion<'_> = serde_json::from_str(answer.result_member("completion")?).ok()?;
    let kept = said.values.get(..COMPLETIONS)?;
    if kept.len() == said.values.len() {
        return None;
    }
    let values: Vec<&str> = kept.iter().map(|value| value.get()).collect();
    Some(completion(id, client, &values, said.total.map(RawValue::get), true))
}

fn completion(id: &Id, client: Era, values: &[&str], total: Option<&str>, more: bool) -> Bytes {
    let total = total.map(|total| format!(",\"total\":{total}")).unwrap_or_default();
    let kind = match client {
        Era::Legacy => "",
        Era::Modern => ",\"resultType\":\"complete\"",
    };
    let values = values.join(",");
    let completion = format!("{{\"completion\":{{\"values\":[{values}]{total},\"hasMore\":{more}}}{kind}}}");
    code::success(id, &completion)
}
