//! Between eras: what differs on the wire between a client and an upstream that speak different revisions.
//! No check, limit or record knows of it (invariant 10).

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use upstream::{Facts, UpstreamError};
use wire::{Edit, Era, Frame, Id, Method, Pieces, code, meta, shape, uris};

use crate::handshake;

/// Values a completion may have (spec K-03).
const COMPLETIONS: usize = 100;

/// `_meta` of a request, for an upstream of this era: hop keys are ours, the progress token is `token`, all
/// else is the client's. None when nothing is left.
pub(crate) fn request_meta(facts: &Facts, client: Option<&str>, token: Option<u64>) -> Option<String> {
    match facts.revision.era() {
        Era::Legacy if client.is_none() && token.is_none() => None,
        Era::Legacy => meta::for_upstream(client, token),
        // Questions that begin upstream are not carried yet, so no client capability is declared (spec X-01).
        Era::Modern => Some(wire::client_meta(client, token, "{}")),
    }
}

/// Members that every modern result of ours has, each with its leading comma. What is listed here may change
/// at any time and depends on who asks, so nobody may keep it (spec U-19).
pub(crate) fn modern_members(with_server: bool) -> String {
    let mut members = String::from(",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\"");
    if with_server {
        members.push_str(&format!(",\"_meta\":{{\"{}\":{}}}", meta::SERVER_INFO, handshake::server_info()));
    }
    members
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
    (upstream, client): (Era, Era),
    method: Method,
    rewrite: &dyn Fn(&str) -> String,
) -> Result<Pieces, UpstreamError> {
    // In either era: what a legacy server says of types must not reach a modern client as a promise.
    if shape::result_type(answer).is_some_and(|kind| kind != "complete") {
        let why = "it asks for input, which this release does not carry";
        return Err(UpstreamError::Garbled { why: why.into() });
    }
    if method == Method::Complete
        && let Some(short) = shortened(answer, id, client)
    {
        return Ok(Pieces::one(short));
    }
    let shaped = match (upstream, client) {
        (Era::Legacy, Era::Legacy) => Vec::new(),
        (Era::Modern, Era::Legacy) => shape::to_legacy(answer),
        (Era::Legacy | Era::Modern, Era::Modern) => {
            // A resource of one caller is nobody else's, whatever the upstream says (spec U-19, R-09).
            let hints = shape::Hints { ttl_ms: 0, private: true };
            shape::to_modern(answer, (method == Method::ResourcesRead).then_some(&hints))
        }
    };
    Ok(answer.answer(id, &shape::merge(uri_edits(answer, method, rewrite), shaped)))
}

fn uri_edits(answer: &Frame, method: Method, rewrite: &dyn Fn(&str) -> String) -> Vec<Edit> {
    match method {
        Method::ToolsCall => uris::edits(answer, uris::Carrier::CallResult, rewrite),
        Method::PromptsGet => uris::edits(answer, uris::Carrier::PromptResult, rewrite),
        Method::ResourcesRead => uris::edits(answer, uris::Carrier::ReadResult, rewrite),
        _ => Vec::new(),
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

/// An upstream's JSON-RPC error, as far as it concerns the client. Its text is a stranger's: cut, and free
/// of control characters (spec Z-05). Codes that speak about our own hop never pass (spec X-04), and "not
/// found" has another code in each era (spec R-05).
pub(crate) fn error(answer: &Frame, id: &Id, client: Era, rewrite: &dyn Fn(&str) -> String) -> Bytes {
    const LONGEST: usize = 2048;
    let said = answer.error_member("code").and_then(|raw| raw.parse::<i64>().ok());
    let code = match said {
        Some(code::RESOURCE_NOT_FOUND) if client == Era::Modern => code::INVALID_PARAMS,
        Some(code) if !(-32099..=-32020).contains(&code) => code,
        Some(_) | None => code::INTERNAL_ERROR,
    };
    let message = answer
        .error_member("message")
        .and_then(|raw| serde_json::from_str::<String>(raw).ok())
        .unwrap_or_else(|| "the upstream reported an error".to_owned());
    let message: String = message.chars().filter(|c| !c.is_control() || *c == '\n').take(LONGEST).collect();
    let data = answer.error_member("data").filter(|data| data.len() <= 4 * LONGEST);
    match data.and_then(|data| named_uri(data).map(|uri| rewrite(&uri))) {
        Some(uri) => {
            code::failure(Some(id), code, &message, Some(&format!("{{\"uri\":{}}}", code::quote(&uri))))
        }
        None => code::failure(Some(id), code, &message, data),
    }
}

/// `data.uri` of "resource not found", which must be the URI the client knows (spec ).
fn named_uri(data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        uri: String,
    }
    serde_json::from_str::<Named>(data).ok().map(|named| named.uri)
}
