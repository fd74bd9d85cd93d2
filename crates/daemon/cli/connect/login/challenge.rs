//! What a refusal says it wants: the Bearer challenge (RFC 9110 11.6.1, RFC 6750, RFC 9728).

use http::{HeaderMap, header};

/// What is read of a Bearer challenge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Challenge {
    /// Where the document about the server is.
    pub(super) resource_metadata: Option<String>,
    /// The scopes that are wanted.
    pub(super) scopes: Vec<String>,
    /// The word for what is wrong.
    error: Option<String>,
}

impl Challenge {
    /// The Bearer challenge among all; the one that says where the document is, if there are several.
    pub(in super::super) fn of(headers: &HeaderMap) -> Option<Challenge> {
        let mut found: Vec<Challenge> = Vec::new();
        for value in headers.get_all(header::WWW_AUTHENTICATE) {
            let Ok(text) = value.to_str() else { continue };
            read(text, &mut found);
        }
        let best = found.iter().position(|challenge| challenge.resource_metadata.is_some()).unwrap_or(0);
        (!found.is_empty()).then(|| found.swap_remove(best))
    }

    /// The same with other scopes.
    pub(super) fn with_scopes(&self, scopes: Vec<String>) -> Challenge {
        Challenge { scopes, ..self.clone() }
    }

    /// Whether the token is good and its scopes are too few.
    pub(in super::super) fn wants_scopes(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope") && !self.scopes.is_empty()
    }
}

/// Adds the Bearer challenges of one header value, which may hold challenges of other schemes too.
fn read(text: &str, found: &mut Vec<Challenge>) {
    let mut is_bearer = false;
    for element in elements(text) {
        let (word, rest) = split_token(element);
        let mut param = (word, rest);
        if !rest.trim_start().starts_with('=') {
            is_bearer = word.eq_ignore_ascii_case("bearer");
            if is_bearer {
                found.push(Challenge::default());
            }
            param = split_token(rest.trim_start());
        }
        let Some(value) = param.1.trim_start().strip_prefix('=').map(|value| unquoted(value.trim())) else {
            continue;
        };
        let Some(challenge) = found.last_mut().filter(|_| is_bearer) else { continue };
        match param.0.to_ascii_lowercase().as_str() {
            "resource_metadata" => challenge.resource_metadata = Some(value),
            "scope" => challenge.scopes = value.split_ascii_whitespace().map(str::to_owned).collect(),
            "error" => challenge.error = Some(value),
            _ => (),
        }
    }
}

/// What stands between commas that are not quoted.
fn elements(text: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text.split(move |letter| {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' => return !quoted,
            _ => (),
        }
        false
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn split_token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut escaped = false;
    inner
        .chars()
        .filter(|&letter| {
            escaped = letter == '\\' && !escaped;
            !escaped
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Option<Challenge> {
        let values = values.iter().map(|value| (header::WWW_AUTHENTICATE, value.parse().unwrap()));
        Challenge::of(&values.collect())
    }

    #[test]
    fn the_bearer_challenge_is_found_among_others() {
        let place = "https://h/.well-known/oauth-protected-resource";
        let bearer = format!(r#"Bearer resource_metadata="{place}", scope="a b""#);
        for values in [
            &[bearer.as_str()][..],
            &["Basic realm=\"x, Bearer scope=\\\"no\\\"\"", &bearer],
            &["Negotiate", "Bearer", &bearer],
            &[&format!("Basic realm=\"x\", {bearer}, Digest realm=y, scope=\"other\"")],
            &[&format!("bearer realm=\"a\\\"b\" , SCOPE = \"a b\",resource_metadata={place}")],
        ] {
            let found = of(values).unwrap_or_else(|| panic!("{values:?}"));
            assert_eq!(found.resource_metadata.as_deref(), Some(place), "{values:?}");
            assert_eq!(found.scopes, ["a", "b"], "{values:?}");
        }
        assert_eq!(of(&["Bearer"]), Some(Challenge::default()));
        assert_eq!(of(&["Negotiate abc==", "Basic"]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn more_scopes_are_wanted_only_where_they_are_named() {
        for (value, wanted) in [
            (r#"Bearer error="insufficient_scope", scope="b""#, true),
            (r#"Bearer error="insufficient_scope""#, false),
            (r#"Bearer error="invalid_token", scope="b""#, false),
        ] {
            assert_eq!(of(&[value]).unwrap().wants_scopes(), wanted, "{value}");
        }
    }
}
