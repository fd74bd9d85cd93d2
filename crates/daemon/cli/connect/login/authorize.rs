//! One login: the question that the browser takes to the authorization server, and the answer that it brings back.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use config::Secret;
use url::{Url, form_urlencoded};

use super::{
    discovery::{Authority, OFFLINE},
    error::LoginError,
};

/// The longest word of an authorization server that is repeated, in bytes.
const WORD_BYTES: usize = 64;

/// A login that was begun.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Goes there and back once; none when it is back.
    state: Option<String>,
    /// What proves that the code was asked for by us (RFC 7636).
    verifier: Secret,
    /// Who was asked: kept from before the browser leaves (spec A-24).
    issuer: String,
    says_issuer: bool,
    redirect: String,
}

/// What the browser brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Something else than the answer to this login.
    Stray,
    /// The answer.
    Ours(Result<Secret, LoginError>),
}

impl Attempt {
    /// Begins a login whose answer is awaited at `redirect`.
    pub(super) fn new(authority: &Authority, redirect: String) -> Result<Attempt, LoginError> {
        Ok(Attempt {
            state: Some(random()?),
            verifier: Secret::new(random()?),
            issuer: authority.issuer.clone(),
            says_issuer: authority.says_issuer,
            redirect,
        })
    }

    pub(super) fn verifier(&self) -> &Secret {
        &self.verifier
    }

    pub(super) fn redirect(&self) -> &str {
        &self.redirect
    }

    /// Where the browser goes.
    pub(super) fn place(
        &self,
        authority: &Authority,
        client_id: &str,
        resource: &str,
        scopes: &[String],
    ) -> Url {
        let digest = wire::digest_of(self.verifier.expose().as_bytes());
        let mut place = authority.authorization.clone();
        place.set_fragment(None);
        let mut query = place.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("state", self.state.as_deref().unwrap_or_default())
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(digest.0))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", resource);
        if !scopes.is_empty() {
            query.append_pair("scope", &scopes.join(" "));
        }
        // Without the question, the scope counts for nothing (OpenID Connect Core 11).
        if scopes.iter().any(|scope| scope == OFFLINE) {
            query.append_pair("prompt", "consent");
        }
        drop(query);
        place
    }

    /// Judges what came back.
    pub(super) fn judge(&mut self, query: &str) -> Answer {
        let fields: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let all = |name: &str| {
            fields
                .iter()
                .filter(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
                .collect::<Vec<_>>()
        };
        match all("state").as_slice() {
            [state] if Some(*state) == self.state.as_deref() => self.state = None,
            _ => return Answer::Stray,
        }
        let is_theirs = match all("iss").as_slice() {
            [] => !self.says_issuer,
            [issuer] => *issuer == self.issuer,
            _ => false,
        };
        // Of another's answer nothing is shown, its error neither (spec A-24).
        if !is_theirs {
            return Answer::Ours(Err(LoginError::WrongIssuer));
        }
        Answer::Ours(match (all("code").as_slice(), all("error").as_slice()) {
            ([code], []) if !code.is_empty() => Ok(Secret::new((*code).to_owned())),
            ([], [error]) => Err(LoginError::Refused("the login", word(error))),
            _ => Err(LoginError::NoCode),
        })
    }
}

/// A word for an error, as far as it is one (RFC 6749 5.2).
pub(super) fn word(text: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    match (1..=WORD_BYTES).contains(&text.len()) && text.bytes().all(is_word) {
        true => text.to_owned(),
        false => "without a word why".to_owned(),
    }
}

/// 256 bits that nobody guesses.
fn random() -> Result<String, LoginError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| LoginError::Machine(format!("there is no randomness: {error}")))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use upstream::egress::{Destination, SecretPlace};

    use super::*;

    const REDIRECT: &str = "http://127.0.0.1:7000/callback";

    fn authority(says_issuer: bool) -> Authority {
        let url = |text: &str| Url::parse(text).unwrap();
        Authority {
            issuer: "https://as/t1".to_owned(),
            authorization: url("https://as/authorize?tenant=1"),
            token: Destination::written(url("https://as/token")),
            registration: None,
            revocation: None,
            says_issuer,
            has_offline: true,
            secret: SecretPlace::Header,
        }
    }

    impl Attempt {
        /// A login at an authorization server that does not say who it is.
        pub(in super::super) fn for_tests(redirect: &str) -> Attempt {
            Attempt::new(&authority(false), redirect.to_owned()).unwrap()
        }

        pub(in super::super) fn state(&self) -> &str {
            self.state.as_deref().unwrap()
        }
    }

    fn begun(says_issuer: bool) -> (Attempt, String) {
        let attempt = Attempt::new(&authority(says_issuer), REDIRECT.to_owned()).unwrap();
        let state = attempt.state.clone().unwrap();
        (attempt, state)
    }

    #[test]
    fn the_question_names_everything_that_the_answer_is_bound_to() {
        let (attempt, state) = begun(true);
        let scopes = ["a".to_owned(), "offline_access".to_owned()];
        let place = attempt.place(&authority(true), "us", "https://h/mcp", &scopes);
        let digest = wire::digest_of(attempt.verifier().expose().as_bytes()).0;
        let challenge = URL_SAFE_NO_PAD.encode(digest);
        let pairs: Vec<(String, String)> = place.query_pairs().into_owned().collect();
        let expected = [
            ("tenant", "1"),
            ("response_type", "code"),
            ("client_id", "us"),
            ("redirect_uri", REDIRECT),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", "https://h/mcp"),
            ("scope", "a offline_access"),
            ("prompt", "consent"),
        ];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(place.path(), "/authorize");
        let bare = attempt.place(&authority(true), "us", "https://h/mcp", &[]);
        assert!(!bare.as_str().contains("scope") && !bare.as_str().contains("prompt"), "{bare}");
        assert!(!format!("{attempt:?}").contains(attempt.verifier().expose()));
    }

    #[test]
    fn an_answer_counts_only_from_who_was_asked() {
        let good = || Answer::Ours(Ok(Secret::new("c1".to_owned())));
        let wrong = || Answer::Ours(Err(LoginError::WrongIssuer));
        let refused = |word: &str| Answer::Ours(Err(LoginError::Refused("the login", word.to_owned())));
        for (says_issuer, rest, expected) in [
            (true, "&code=c1&iss=https%3A%2F%2Fas%2Ft1", good()),
            (true, "&code=c1", wrong()),
            (true, "&code=c1&iss=https%3A%2F%2Fas%2Ft1%2F", wrong()),
            (true, "&code=c1&iss=https%3A%2F%2Fas%2Ft1&iss=https%3A%2F%2Fas%2Ft1", wrong()),
            (true, "&error=access_denied&iss=https%3A%2F%2Fother", wrong()),
            (true, "&error=access_denied", wrong()),
            (true, "&error=access_denied&iss=https%3A%2F%2Fas%2Ft1", refused("access_denied")),
            (true, "&error=%1b%5B2J&iss=https%3A%2F%2Fas%2Ft1", refused("without a word why")),
            (false, "&code=c1", good()),
            (false, "&code=c1&iss=https%3A%2F%2Fother", wrong()),
            (false, "&code=c1&code=c2", Answer::Ours(Err(LoginError::NoCode))),
            (false, "&code=c1&error=e", Answer::Ours(Err(LoginError::NoCode))),
            (false, "&code=", Answer::Ours(Err(LoginError::NoCode))),
            (false, "", Answer::Ours(Err(LoginError::NoCode))),
        ] {
            let (mut attempt, state) = begun(says_issuer);
            assert_eq!(attempt.judge(&format!("state={state}{rest}")), expected, "{says_issuer} {rest}");
        }
    }

    #[test]
    fn a_state_is_good_once() {
        let (mut attempt, state) = begun(false);
        let (_, other) = begun(false);
        for query in [
            "",
            "code=c",
            "state=&code=c",
            &format!("state={other}&code=c"),
            &format!("state={state}&state={state}"),
        ] {
            assert_eq!(attempt.judge(query), Answer::Stray, "{query}");
        }
        let good = format!("state={state}&code=c");
        assert!(matches!(attempt.judge(&good), Answer::Ours(Ok(_))));
        assert_eq!(attempt.judge(&good), Answer::Stray);
    }
}
