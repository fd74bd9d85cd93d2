//! The `Authorization` header → the one credential in it.

use super::flaw::Flaw;
use crate::{arrival::Head, tokens::key};

/// Longer tokens are not looked at (security row 14).
pub(crate) const LONGEST: usize = 8 * 1024;

/// What was shown. Nothing of it is believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown<'a> {
    /// It looks like one of our API keys.
    Key(&'a str),
    /// Anything else.
    Token(&'a str),
}

/// The token in it; none when there is something else, such as an API key.
pub(crate) fn token(head: &Head) -> Option<&str> {
    match read(&head.authorization.0) {
        Ok(Shown::Token(token)) => Some(token),
        Ok(Shown::Key(_)) | Err(_) => None,
    }
}

/// Reads the values of the header. More than one leaves open who asks, so nobody does.
pub(super) fn read(values: &[Box<str>]) -> Result<Shown<'_>, Flaw> {
    let value = match values {
        [] => return Err(Flaw::Missing),
        [value] => value.trim_matches([' ', '\t']),
        [_, _, ..] => return Err(Flaw::Malformed),
    };
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    // Another scheme, or none of a token: nothing was shown that we could refuse (RFC 6750 3.1).
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Flaw::Missing);
    }
    let token = rest.trim_start_matches(' ');
    if token.is_empty() {
        return Err(Flaw::Missing);
    }
    // Whole passes: they look at many bytes at a time, where a search would look at one.
    let bytes = || token.as_bytes().iter();
    if bytes().fold(false, |found, byte| found | matches!(byte, b' ' | b'\t' | b',')) {
        return Err(Flaw::Malformed);
    }
    if token.len() > LONGEST || !bytes().fold(true, |plain, byte| plain & matches!(byte, b'!'..=b'~')) {
        return Err(Flaw::Unreadable);
    }
    Ok(if token.starts_with(key::PREFIX) { Shown::Key(token) } else { Shown::Token(token) })
}

#[cfg(test)]
mod tests {
    use super::{Flaw, LONGEST, Shown, read};

    #[test]
    fn one_bearer_credential_is_read_and_nothing_else() {
        let long = format!("Bearer {}", "a".repeat(LONGEST + 1));
        for (values, expected) in [
            (&[][..], Err(Flaw::Missing)),
            (&["Bearer a.b.c"], Ok(Shown::Token("a.b.c"))),
            (&["bEARER   a.b.c "], Ok(Shown::Token("a.b.c"))),
            (&["Bearer pck_x"], Ok(Shown::Key("pck_x"))),
            (&["Bearer"], Err(Flaw::Missing)),
            (&["Bearer  "], Err(Flaw::Missing)),
            (&[""], Err(Flaw::Missing)),
            (&["Basic YTpi"], Err(Flaw::Missing)),
            (&["a.b.c"], Err(Flaw::Missing)),
            (&["Bearer\ta.b.c"], Err(Flaw::Missing)),
            (&["Bearer a.b.c, Bearer d.e.f"], Err(Flaw::Malformed)),
            (&["Bearer a.b.c d.e.f"], Err(Flaw::Malformed)),
            (&["Bearer a.b.c", "Bearer a.b.c"], Err(Flaw::Malformed)),
            (&["Bearer \u{a0}a.b.c"], Err(Flaw::Unreadable)),
            (&["Bearer a\u{0}"], Err(Flaw::Unreadable)),
            (&[long.as_str()], Err(Flaw::Unreadable)),
        ] {
            let values: Vec<Box<str>> = values.iter().map(|value| (*value).into()).collect();
            assert_eq!(read(&values), expected, "{values:.60?}");
        }
    }
}
