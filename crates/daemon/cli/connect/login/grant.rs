//! What is asked of an authorization server directly: a token for a code, a new one for an old one, the end of one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use config::Secret;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use upstream::egress::{self, Destination, Form};

use super::{
    authorize::{Attempt, word},
    client::{Client, Refusal},
    discovery::{Authority, Reach},
    error::LoginError,
};

/// The longest token, in bytes.
const TOKEN_BYTES: usize = 16 * 1024;

/// A token is taken for over so long before it is.
const LEEWAY: Duration = Duration::from_secs(15);

/// The longest that a token lasts, whatever is said of it.
const LONGEST_LIFE: f64 = 1e9;

/// What a login leaves.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// Who gave it, to which client of its, and for what.
    pub(super) issuer: String,
    pub(super) client: Client,
    pub(super) resource: String,
    pub(super) scopes: Vec<String>,
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// When it is over, in seconds since 1970, if that is known.
    pub(super) expires: Option<u64>,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Value,
    refresh_token: Option<String>,
    scope: Option<String>,
}

impl Token {
    /// Whether another one is to be had before it is shown.
    pub(super) fn is_over(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= now() + LEEWAY.as_secs())
    }

    /// Redeems a code (spec A-23).
    pub(super) async fn for_code(
        reach: &Reach,
        authority: &Authority,
        (client, resource): (Client, String),
        (attempt, code): (&Attempt, Secret),
        scopes: Vec<String>,
    ) -> Result<Token, LoginError> {
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.expose().to_owned()),
            ("redirect_uri", attempt.redirect().to_owned()),
            ("code_verifier", attempt.verifier().expose().to_owned()),
            ("resource", resource.clone()),
        ];
        let answer = ask(reach, authority, &client, form).await?;
        let issuer = authority.issuer.clone();
        let empty = Secret::new(String::new());
        let asked = Token { issuer, client, resource, scopes, access: empty, refresh: None, expires: None };
        asked.renewed(answer)
    }

    /// Has it replaced by a new one; none where there is nothing to do that with, or it counts for nothing any more.
    pub(super) async fn refreshed(
        &self,
        reach: &Reach,
        authority: &Authority,
    ) -> Result<Option<Token>, LoginError> {
        let Some(refresh) = &self.refresh else { return Ok(None) };
        let form = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh.expose().to_owned()),
            ("resource", self.resource.clone()),
        ];
        match ask(reach, authority, &self.client, form).await {
            Ok(answer) => self.clone().renewed(answer).map(Some),
            Err(LoginError::Refused(_, word))
                if ["invalid_grant", "invalid_client", "unauthorized_client"].contains(&word.as_str()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives it up (RFC 7009), if the authorization server wants to hear of that.
    pub(super) async fn revoke(&self, reach: &Reach, authority: &Authority) -> Result<(), LoginError> {
        const WHAT: &str = "to revoke the token";
        let Some(to) = &authority.revocation else { return Ok(()) };
        let (token, kind) = match &self.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&self.access, "access_token"),
        };
        let form = vec![("token", token.expose().to_owned()), ("token_type_hint", kind.to_owned())];
        post(reach, authority, &self.client, (to, WHAT), form).await.map(|_| ())
    }

    /// As it is after an answer. A refresh token that is not replaced stays (RFC 6749 6).
    fn renewed(mut self, answer: Answer) -> Result<Token, LoginError> {
        let is_token = |text: &str| {
            (1..=TOKEN_BYTES).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'!'..=b'~'))
        };
        if !answer.token_type.eq_ignore_ascii_case("bearer") || !is_token(&answer.access_token) {
            return Err(unreadable("it is no bearer token"));
        }
        // Some write the number as text.
        let seconds = match &answer.expires_in {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse::<u32>().ok().map(f64::from),
            _ => None,
        };
        self.expires = seconds.map(|seconds| {
            now().saturating_add(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_LIFE)).as_secs())
        });
        self.access = Secret::new(answer.access_token);
        self.refresh = answer.refresh_token.filter(|text| is_token(text)).map(Secret::new).or(self.refresh);
        if let Some(scope) = answer.scope {
            self.scopes = scope.split_ascii_whitespace().map(str::to_owned).collect();
        }
        Ok(self)
    }
}

async fn ask(
    reach: &Reach,
    authority: &Authority,
    client: &Client,
    form: Form,
) -> Result<Answer, LoginError> {
    let body = post(reach, authority, client, (&authority.token, "a token"), form).await?;
    serde_json::from_slice(&body).map_err(|_| unreadable("it is something else"))
}

async fn post(
    reach: &Reach,
    authority: &Authority,
    client: &Client,
    (to, what): (&Destination, &'static str),
    mut form: Form,
) -> Result<Bytes, LoginError> {
    let mut headers = HeaderMap::new();
    client.prove(authority, &mut headers, &mut form)?;
    let (status, body) =
        reach.fetch(to, egress::post(form, headers)).await.map_err(|error| unreadable(&error.to_string()))?;
    if status == StatusCode::OK {
        return Ok(body);
    }
    let said = serde_json::from_slice::<Refusal>(&body);
    Err(LoginError::Refused(what, said.map_or(status.to_string(), |said| word(&said.error))))
}

fn unreadable(why: &str) -> LoginError {
    LoginError::Unreadable("the answer to a request for a token", why.to_owned())
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held() -> Token {
        Token {
            issuer: "https://as".to_owned(),
            client: Client { id: "us".to_owned(), secret: None },
            resource: "https://h/mcp".to_owned(),
            scopes: vec!["a".to_owned()],
            access: Secret::new("old".to_owned()),
            refresh: Some(Secret::new("r1".to_owned())),
            expires: None,
        }
    }

    fn renewed(more: Value) -> Result<Token, LoginError> {
        let mut answer = json!({ "access_token": "new", "token_type": "Bearer" });
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        held().renewed(serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn an_answer_replaces_what_it_names_and_nothing_else() {
        let bare = renewed(json!({})).unwrap();
        assert_eq!((bare.access.expose(), bare.refresh.unwrap().expose()), ("new", "r1"));
        assert_eq!((bare.scopes, bare.expires), (vec!["a".to_owned()], None));
        let full = renewed(json!({ "refresh_token": "r2", "scope": "b c", "expires_in": 60 })).unwrap();
        assert_eq!((full.refresh.unwrap().expose(), full.scopes.join(" ")), ("r2", "b c".to_owned()));
    }

    #[test]
    fn what_is_no_bearer_token_is_refused() {
        for answer in [
            json!({ "token_type": "DPoP" }),
            json!({ "access_token": "" }),
            json!({ "access_token": "a b" }),
            json!({ "access_token": "a\r\nx: y" }),
            json!({ "access_token": "x".repeat(TOKEN_BYTES + 1) }),
        ] {
            assert!(renewed(answer.clone()).is_err(), "{answer}");
        }
        assert!(renewed(json!({ "token_type": "bearer" })).is_ok());
    }

    #[test]
    fn a_token_is_over_a_little_early() {
        for (life, over) in [
            (json!(0), true),
            (json!(LEEWAY.as_secs()), true),
            (json!(LEEWAY.as_secs() + 60), false),
            (json!("3600"), false),
            (json!("0"), true),
            (json!(-1e300), true),
            (json!(1e300), false),
            (json!("NaN"), false),
            (json!(null), false),
        ] {
            assert_eq!(renewed(json!({ "expires_in": life })).unwrap().is_over(), over, "{life}");
        }
    }
}
