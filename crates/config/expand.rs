//! References in operator files: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${secret:NAME}`.
//!
//! A reference is replaced in one scalar after the YAML was read, never in the text of the file, so a
//! value cannot bring structure of its own; and what it brings is not looked through again.

use crate::Files;

/// A scalar with its references replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    /// Something was replaced: the value is not to be shown, only what is written.
    pub(crate) replaced: bool,
    /// A secret is part of the text.
    pub(crate) secret: bool,
}

/// A reference that cannot be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unresolved {
    /// Where it begins, in bytes of the scalar, and how long it is.
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// Replaces all references of a scalar. `upstream` is the upstream the scalar belongs to.
pub(crate) fn expand(
    text: &str,
    files: &dyn Files,
    upstream: Option<&str>,
) -> Result<Expanded, Vec<Unresolved>> {
    let mut done = Expanded { text: String::with_capacity(text.len()), replaced: false, secret: false };
    let mut unresolved = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        done.text.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            done.text.push('$');
            rest = after;
            continue;
        }
        let Some(inside) = rest.strip_prefix('{') else {
            done.text.push('$');
            continue;
        };
        let at = text.len() - rest.len() - 1;
        let Some((inside, after)) = inside.split_once('}') else {
            let hint = "close it with `}`, or write `$$` for a literal `$`".to_owned();
            let message = "a reference `${` is not closed".to_owned();
            unresolved.push(Unresolved { at, len: text.len() - at, message, hint });
            break;
        };
        rest = after;
        done.replaced = true;
        match resolve(inside, files, upstream) {
            Ok((value, secret)) => {
                done.text.push_str(&value);
                done.secret |= secret;
            }
            Err((message, hint)) => unresolved.push(Unresolved { at, len: inside.len() + 3, message, hint }),
        }
    }
    done.text.push_str(rest);
    if unresolved.is_empty() { Ok(done) } else { Err(unresolved) }
}

type Why = (String, String);

fn resolve(inside: &str, files: &dyn Files, upstream: Option<&str>) -> Result<(String, bool), Why> {
    let (source, default) = match inside.split_once(":-") {
        Some((source, default)) => (source, Some(default)),
        None => (inside, None),
    };
    if default.is_some_and(|default| default.contains('$')) {
        let message = format!("the default in `${{{inside}}}` holds a reference of its own");
        return Err((message, "a default is plain text".to_owned()));
    }
    if let Some(name) = source.strip_prefix("secret:") {
        secret_scope(name, upstream)?;
        let found = files.secret(name).filter(|value| !value.is_empty());
        return match found.or_else(|| default.map(str::to_owned)) {
            Some(value) => Ok((value, true)),
            None => Err((
                format!("the secret `{name}` is not set"),
                "provide the secret before the start".to_owned(),
            )),
        };
    }
    let name = source.strip_prefix("env:").unwrap_or(source);
    if !is_variable(name) {
        let hint =
            "write `${VAR}`, `${VAR:-default}`, `${env:VAR}` or `${secret:NAME}`; `$$` is a literal `$`";
        return Err((format!("`${{{inside}}}` is no reference"), hint.to_owned()));
    }
    let found = files.variable(name);
    let value = match default {
        // As in a shell, `:-` also stands in for an empty value.
        Some(default) => Some(found.filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())),
        None => found,
    };
    match value {
        Some(value) => Ok((value, false)),
        None => {
            let hint = format!("set it, or give a default: `${{{source}:-…}}`");
            Err((format!("the environment variable `{name}` is not set"), hint))
        }
    }
}

/// `${secret:UPSTREAM/NAME}` is for that upstream only, a name without a slash for any.
fn secret_scope(name: &str, upstream: Option<&str>) -> Result<(), Why> {
    let (owner, rest) = match name.split_once('/') {
        Some((owner, rest)) => (Some(owner), rest),
        None => (None, name),
    };
    let fits = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(known)
    };
    if !fits(rest) || !owner.is_none_or(fits) {
        let hint = "a name holds letters, digits, `_`, `-` and `.`, with at most one `UPSTREAM/` before it";
        return Err((format!("`{name}` cannot be the name of a secret"), hint.to_owned()));
    }
    match owner {
        Some(owner) if upstream != Some(owner) => {
            let message = format!("the secret `{name}` belongs to the upstream `{owner}`");
            Err((message, "use it there only, or give it a name without a slash".to_owned()))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether this can be the name of an environment variable.
pub(crate) fn is_variable(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter) && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}
