//! What must not be read in a log message, whoever may read it: our credentials for its upstream, and what looks like
//! anybody's (spec U-16, security 59).
//!
//! Every string is looked at, keys included. What is split over several strings, or encoded once more, is not found.

use std::borrow::Cow;

use wire::code;

/// What stands in the place of a secret.
const BLANK: &str = "***";

/// Words whose values are secrets, in any letter case, with `_` and `-` left out.
const NAMES: [&str; 15] = [
    "accesstoken",
    "apikey",
    "authorization",
    "clientsecret",
    "cookie",
    "idtoken",
    "passwd",
    "password",
    "privatekey",
    "proxyauthorization",
    "refreshtoken",
    "secret",
    "secretkey",
    "setcookie",
    "xapikey",
];

/// What stands before a credential in a header.
const SCHEMES: [&str; 2] = ["basic", "bearer"];

/// The shortest that is taken for a credential behind one of them, and so long that it is none of a sentence's words.
const SHORTEST: usize = 8;
const LONG: usize = 20;

/// JSON text without the secrets in its strings; none when there are none.
pub(super) fn json(text: &str, secrets: &[impl AsRef<str>]) -> Option<String> {
    let mut out = String::new();
    let (mut done, mut at, mut is_secret) = (0, 0, false);
    while let Some(from) = text.get(at..).and_then(|rest| rest.find('"')).map(|found| at + found) {
        let Some(end) = string_end(text, from) else { break };
        let raw = text.get(from..end).unwrap_or_default();
        let said: Cow<'_, str> = serde_json::from_str(raw).unwrap_or(Cow::Borrowed(raw));
        let is_key = text.get(end..).is_some_and(|rest| rest.trim_ascii_start().starts_with(':'));
        let blank = match is_secret && !is_key {
            true if said != BLANK => Some(BLANK.to_owned()),
            true => None,
            false => plain(&said, secrets),
        };
        if let Some(blank) = blank {
            out.push_str(text.get(done..from).unwrap_or_default());
            out.push_str(&code::quote(&blank));
            done = end;
        }
        // Only the string right behind the colon is its value.
        is_secret = is_key
            && is_name(&said)
            && text
                .get(end..)
                .is_some_and(|rest| rest.trim_ascii_start().get(1..).is_some_and(begins_string));
        at = end;
    }
    if done == 0 {
        return None;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Some(out)
}

/// Text without secrets; none when there are none.
pub(super) fn plain(text: &str, secrets: &[impl AsRef<str>]) -> Option<String> {
    let mut blank: Option<String> = None;
    for secret in secrets {
        let now = blank.as_deref().unwrap_or(text);
        if now.contains(secret.as_ref()) {
            blank = Some(now.replace(secret.as_ref(), BLANK));
        }
    }
    let found = credentials(blank.as_deref().unwrap_or(text));
    found.or(blank)
}

/// Text without what looks like a credential: what follows `Bearer`, what a word such as `password` is said to be, a signed
/// token, a key of ours.
fn credentials(text: &str) -> Option<String> {
    let mut out = String::new();
    let (mut done, mut before) = (0, "");
    let mut after_word = 0;
    for (from, word) in words(text) {
        let between = text.get(after_word..from).unwrap_or_default();
        let is_value = is_name(before) && between.contains([':', '=']);
        let is_shown = SCHEMES.iter().any(|scheme| before.eq_ignore_ascii_case(scheme))
            && is_no_prose(word)
            && between.chars().all(|letter| letter.is_whitespace() || letter == ':');
        let is_scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
        if (is_value && !is_scheme) || is_shown || is_token(word) {
            out.push_str(text.get(done..from).unwrap_or_default());
            out.push_str(BLANK);
            done = from + word.len();
        }
        after_word = from + word.len();
        before = word;
    }
    if done == 0 {
        return None;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Some(out)
}

/// A signed token, or an API key of ours.
fn is_token(word: &str) -> bool {
    let signed = word.starts_with("eyJ") && word.len() >= 32 && word.matches('.').count() == 2;
    signed || (word.starts_with("pck_") && word.len() >= 32)
}

/// Whether a word cannot be part of a sentence such as `bearer authentication failed`.
fn is_no_prose(word: &str) -> bool {
    word.len() >= LONG || (word.len() >= SHORTEST && !word.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Whether a word names a secret. Of `headers.authorization` the end counts.
fn is_name(word: &str) -> bool {
    let end = word.rsplit(['.', '/']).next().unwrap_or_default();
    let plain: String = end.chars().filter(|letter| !matches!(letter, '_' | '-')).collect();
    NAMES.iter().any(|name| plain.eq_ignore_ascii_case(name))
}

/// The words of a text and where they begin: runs of what credentials are written with.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~+/-".contains(byte);
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.as_bytes().get(at..)?;
        let from = at + rest.iter().position(is_part)?;
        let length = text.as_bytes().get(from..)?.iter().take_while(|byte| is_part(byte)).count();
        at = from + length;
        Some((from, text.get(from..at)?))
    })
}

fn begins_string(text: &str) -> bool {
    text.trim_ascii_start().starts_with('"')
}

/// The place behind the string that begins at `from`.
fn string_end(text: &str, from: usize) -> Option<usize> {
    let mut escaped = false;
    let inside = text.as_bytes().get(from + 1..)?;
    let close = inside.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some(from + close + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRETS: [&str; 2] = ["Bearer gho_0123456789", "gho_0123456789"];

    #[test]
    fn credentials_are_blanked_wherever_they_stand() {
        let signed = format!("eyJhbGciOiJSUzI1NiJ9.{}.c2ln", "x".repeat(20));
        let key = format!("pck_abcdef_{}", "k".repeat(49));
        for (text, want) in [
            (r#""plain token of text, 12345678""#, None),
            (r#"{"n":1.0,"e":"\u00e9","list":[true,null]}"#, None),
            (r#""with gho_0123456789.""#, Some(r#""with ***.""#)),
            (r#""g\u0068o_0123456789""#, Some(r#""***""#)),
            (
                r#"{"gho_0123456789":1,"a":["x gho_0123456789 \"y\""]}"#,
                Some(r#"{"***":1,"a":["x *** \"y\""]}"#),
            ),
            (r#""Authorization: Bearer abcdefg8""#, Some(r#""Authorization: Bearer ***""#)),
            (r#""authorization=abc, x=y""#, Some(r#""authorization=***, x=y""#)),
            (r#""req.headers.AUTHORIZATION = zz""#, Some(r#""req.headers.AUTHORIZATION = ***""#)),
            (r#""basic dXNlcjpwYXNz==""#, Some(r#""basic ***==""#)),
            (r#""bearer of news""#, None),
            (r#""Basic authentication failed""#, None),
            (r#"{"password" : "p","other":"q"}"#, Some(r#"{"password" : "***","other":"q"}"#)),
            (r#"{"password":{"a":"b"},"Api-Key":7}"#, None),
            (r#"{"API_KEY":"k\"k"}"#, Some(r#"{"API_KEY":"***"}"#)),
            (r#"["password","x"]"#, None),
            (r#""password: hunter2""#, Some(r#""password: ***""#)),
            (r#""the password was wrong""#, None),
            (&format!(r#""a {signed} b""#), Some(r#""a *** b""#)),
            (&format!(r#""{key}""#), Some(r#""***""#)),
            ("7", None),
            (r#""un\"ended"#, None),
        ] {
            assert_eq!(json(text, &SECRETS).as_deref(), want, "{text}");
        }
    }
}
