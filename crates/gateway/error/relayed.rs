//! An upstream's JSON-RPC error, as far as it concerns the client.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use wire::{Era, Frame, Id, code};

use super::{
    Client, LONGEST, Origin,
    cleaned::{cleaned, cleaned_json},
    told,
};

/// What an upstream answered instead of a result. Its words are a stranger's: cut, without control characters and
/// without internal addresses.
#[derive(Debug, thiserror::Error)]
#[error("error {code} of the upstream")]
pub(crate) struct Relayed {
    /// As the upstream said it; "not found" is the legacy code in either era (spec R-05).
    pub(crate) code: i64,
    /// For people.
    pub(crate) message: String,
    /// For programs, JSON text. `uri` is the client's (spec R-03).
    pub(crate) data: Option<String>,
}

impl Relayed {
    /// Reads the failure of an upstream of this era. `asked` is the resource that was to be read, if one was, by the
    /// client's URI; `uri` makes that of the upstream's.
    pub(crate) fn read(
        answer: &Frame,
        upstream: Era,
        asked: Option<&str>,
        uri: &dyn Fn(&str) -> String,
    ) -> Relayed {
        let said = answer.error_member("code").and_then(|raw| raw.parse().ok());
        let code = match said.unwrap_or(code::INTERNAL_ERROR) {
            // Whoever carries the pages makes an error of his own (spec Q-16); nobody else is shown one.
            code::URL_ELICITATION_REQUIRED => {
                let message = "a page has to be opened first, which cannot be passed on".to_owned();
                return Relayed { code: code::INTERNAL_ERROR, message, data: None };
            }
            // All there is to be wrong with such a request is its URI.
            code::INVALID_PARAMS if upstream == Era::Modern && asked.is_some() => code::RESOURCE_NOT_FOUND,
            code => code,
        };
        let message: Option<Cow<'_, str>> =
            answer.error_member("message").and_then(|raw| serde_json::from_str(raw).ok());
        let message = message.unwrap_or(Cow::Borrowed("the upstream reported an error"));
        let data = answer.error_member("data");
        let data = match data.and_then(named_uri) {
            Some(native) => Some(of_uri(&uri(&native))),
            None if data.is_none() && code == code::RESOURCE_NOT_FOUND => asked.map(of_uri),
            None => data.filter(|data| data.len() <= LONGEST).and_then(cleaned_json),
        };
        Relayed { code, message: cleaned(&message, LONGEST), data }
    }

    /// The JSON-RPC message for the client. What only our own hop is about is not explained to it (spec X-04).
    pub(super) fn message(&self, id: Option<&Id>, client: Client) -> Bytes {
        let (code, _) = told(self.code, Origin::Upstream, client);
        let is_theirs = code == self.code || self.code == code::RESOURCE_NOT_FOUND;
        let message = if is_theirs { &self.message } else { "the upstream could not serve this client" };
        code::failure(id, code, message, self.data.as_deref().filter(|_| is_theirs))
    }
}

fn of_uri(uri: &str) -> String {
    format!("{{\"uri\":{}}}", code::quote(uri))
}

/// `data.uri` of "resource not found".
fn named_uri(data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        uri: String,
    }
    serde_json::from_str::<Named>(data).ok().map(|named| named.uri)
}
