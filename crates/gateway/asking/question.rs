//! One question, judged and put so that its reader knows who asks (spec Q-06 to Q-14).

use std::borrow::Cow;

use url::Url;
use wire::{
    Change, Method, Revision, code,
    input::{changed, member, members, said},
    meta,
    task::RELATED,
};

use super::{Offer, sampling};

/// The key in `_meta` under which the label of the upstream stands.
const LABEL: &str = "portcullis/upstream";

/// Whom a question is put to, and in whose name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// What the client can be asked.
    pub(crate) offer: &'a Offer,
    /// The revision it speaks.
    pub(crate) revision: Revision,
    /// What it is told the upstream is called; none where there is only one.
    pub(crate) label: Option<&'a str>,
    /// The upstream's id.
    pub(crate) upstream: &'a str,
}

/// Why a question is not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    /// The client cannot be asked such things at all.
    #[error("this client was not declared to answer that")]
    Undeclared(&'static str),
    /// It cannot be asked in this way.
    #[error("this client was not declared to answer that in this way")]
    Mode(&'static str),
    /// Nobody is asked such things.
    #[error("no client is asked that")]
    Unknown,
    /// The question is malformed, or one that the client's revision does not know.
    #[error("{0}")]
    Shape(&'static str),
}

impl Unfit {
    /// What the upstream is told (spec B-20, Q-06).
    pub(crate) fn code(self) -> i64 {
        match self {
            Unfit::Undeclared(_) | Unfit::Unknown => code::METHOD_NOT_FOUND,
            Unfit::Mode(_) | Unfit::Shape(_) => code::INVALID_PARAMS,
        }
    }

    /// What the client would have to declare, JSON text.
    pub(crate) fn needs(self) -> Option<&'static str> {
        match self {
            Unfit::Undeclared(needs) | Unfit::Mode(needs) => Some(needs),
            Unfit::Unknown | Unfit::Shape(_) => None,
        }
    }

    /// The word for records.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Unfit::Undeclared(_) | Unfit::Mode(_) | Unfit::Unknown => "not_offered",
            Unfit::Shape(_) => "refused",
        }
    }
}

/// The longest question that is put, in bytes: many may wait for a client that does not read.
const LARGEST: usize = 256 * 1024;

/// The params of a question, the text of an object, as the client is to see them.
///
/// # Errors
/// When the client cannot, or must not, be asked this.
pub(crate) fn put(method: &str, params: &str, terms: &Terms<'_>) -> Result<(Method, String), Unfit> {
    let method = Method::named(method).ok_or(Unfit::Unknown)?;
    if params.len() > LARGEST {
        return Err(Unfit::Shape("the question is too long"));
    }
    let meta = meta_of(params, terms.label);
    let mut changes = vec![
        Change { key: "_meta", value: meta.map(Cow::Owned) },
        // We carry no tasks: a question that asks for one is an ordinary one.
        Change { key: "task", value: None },
    ];
    match method {
        Method::ElicitationCreate => elicitation(params, terms, &mut changes)?,
        Method::SamplingCreate if !terms.offer.samples() => {
            return Err(Unfit::Undeclared(r#"{"sampling":{}}"#));
        }
        Method::SamplingCreate => {
            let with_tools = ["tools", "toolChoice"].iter().any(|key| member(params, key).is_some());
            if with_tools && !terms.offer.samples_with_tools() {
                return Err(Unfit::Mode(r#"{"sampling":{"tools":{}}}"#)); // spec Q-08
            }
            sampling::check(params, terms.revision)?;
            if member(params, "includeContext").is_some() {
                // It would cover every server behind us (spec Q-07).
                changes.push(Change { key: "includeContext", value: Some("\"none\"".into()) });
            }
        }
        Method::RootsList if terms.offer.has_roots() => (),
        Method::RootsList => return Err(Unfit::Undeclared(r#"{"roots":{}}"#)),
        _ => return Err(Unfit::Unknown),
    }
    Ok((method, changed(params, &changes)))
}

/// `_meta` without what concerns the hop it came by, and with the label.
fn meta_of(params: &str, label: Option<&str>) -> Option<String> {
    let kept = meta::for_upstream(member(params, "_meta").filter(|raw| raw.starts_with('{')), None);
    // A server's own id of a task is nobody's business; whoever asks in a task names it by ours.
    let kept = kept.map(|kept| match member(&kept, RELATED) {
        Some(_) => changed(&kept, &[Change { key: RELATED, value: None }]),
        None => kept,
    });
    let Some(label) = label else { return kept };
    let mark = Change { key: LABEL, value: Some(Cow::Owned(code::quote(label))) };
    Some(changed(kept.as_deref().unwrap_or("{}"), &[mark]))
}

fn elicitation<'a>(params: &str, terms: &Terms<'_>, changes: &mut Vec<Change<'a>>) -> Result<(), Unfit> {
    const FORM: &str = r#"{"elicitation":{"form":{}}}"#;
    const URL: &str = r#"{"elicitation":{"url":{}}}"#;
    let mode = member(params, "mode").map(|raw| said(raw).ok_or(Unfit::Shape("`mode` is no text")));
    let mode = mode.transpose()?.unwrap_or(Cow::Borrowed("form"));
    let message = member(params, "message").and_then(said).ok_or(Unfit::Shape("`message` is missing"))?;
    match &*mode {
        "form" if !terms.offer.elicits() => return Err(Unfit::Undeclared(FORM)),
        "url" if !terms.offer.elicits() => return Err(Unfit::Undeclared(URL)),
        "form" if !terms.offer.shows_forms() => return Err(Unfit::Mode(FORM)),
        "url" if !terms.offer.opens_urls() => return Err(Unfit::Mode(URL)),
        "form" => form(params, terms.revision)?,
        "url" => changes.push(url(params, terms)?),
        _ => return Err(Unfit::Shape("this `mode` is not known")),
    }
    if terms.revision < Revision::R2025_11_25 {
        changes.push(Change { key: "mode", value: None }); // spec Q-12
    }
    if let Some(label) = terms.label {
        // Whoever reads it must know who asks (spec Q-11).
        let message = code::quote(&format!("[{label}] {message}"));
        changes.push(Change { key: "message", value: Some(Cow::Owned(message)) });
    }
    Ok(())
}

/// A form must not ask for secrets (spec Q-13), and must be one that the client's revision knows (spec Q-12).
fn form(params: &str, revision: Revision) -> Result<(), Unfit> {
    let schema = member(params, "requestedSchema").filter(|raw| raw.starts_with('{'));
    let schema = schema.ok_or(Unfit::Shape("`requestedSchema` is missing"))?;
    let fields = member(schema, "properties").filter(|raw| raw.starts_with('{'));
    let fields = fields.ok_or(Unfit::Shape("`requestedSchema` has no `properties`"))?;
    for (name, field) in members(fields) {
        let format = member(field, "format").and_then(said);
        if is_secret(&name) || format.is_some_and(|format| format == "password") {
            return Err(Unfit::Shape("a form must not ask for secrets"));
        }
        let is_list = member(field, "type").and_then(said).is_some_and(|kind| kind == "array");
        let is_new = ["oneOf", "anyOf", "items"].iter().any(|key| member(field, key).is_some());
        if revision < Revision::R2025_11_25 && (is_list || is_new) {
            return Err(Unfit::Shape("this client does not know such fields"));
        }
    }
    Ok(())
}

/// Whether a field is named like something that nobody should type into a form.
fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 8] =
        ["password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "apikey"];
    const PAIRS: [&str; 4] = ["api key", "private key", "access key", "secret key"];
    // `apiKey`, `api_key` and `API-KEY` are two words each.
    let mut words = String::new();
    let mut was_small = false;
    for c in name.chars() {
        match c {
            c if !c.is_alphanumeric() => words.push(' '),
            c => {
                if was_small && c.is_uppercase() {
                    words.push(' ');
                }
                words.extend(c.to_lowercase());
            }
        }
        was_small = c.is_lowercase();
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    words.iter().any(|word| WORDS.contains(word)) || PAIRS.iter().any(|pair| words.join(" ").contains(pair))
}

/// The URL stays as it is and is never fetched; the id becomes one of its upstream's (spec Q-14, Q-15).
fn url<'a>(params: &str, terms: &Terms<'_>) -> Result<Change<'a>, Unfit> {
    let url = member(params, "url").and_then(said).ok_or(Unfit::Shape("`url` is missing"))?;
    if !is_fit(&url) {
        return Err(Unfit::Shape("`url` must be https"));
    }
    let id = match terms.revision {
        Revision::R2026_07_28 => None, // it has no such ids
        _ => Some(match member(params, "elicitationId").and_then(said) {
            Some(native) => exposed_id(terms.upstream, &native),
            // A modern server gives none, and will never name it again.
            None => exposed_id(terms.upstream, &fresh().ok_or(Unfit::Shape("no id could be made"))?),
        }),
    };
    Ok(Change { key: "elicitationId", value: id.map(|id| Cow::Owned(code::quote(&id))) })
}

fn fresh() -> Option<String> {
    let mut random = [0; 12];
    getrandom::fill(&mut random).ok()?;
    Some(hex::encode(random))
}

/// Whether people may be sent there: https, or a page of this machine.
pub(super) fn is_fit(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let here = ["localhost", "127.0.0.1", "[::1]"];
    url.scheme() == "https"
        || (url.scheme() == "http" && url.host_str().is_some_and(|host| here.contains(&host)))
}

/// The id of an elicitation as clients know it: an upstream's own (spec Q-15).
pub(super) fn exposed_id(upstream: &str, native: &str) -> String {
    format!("{upstream}:{native}")
}

#[cfg(test)]
mod tests;
