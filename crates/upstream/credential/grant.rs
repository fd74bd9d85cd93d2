//! Asking an authorization server for a token (RFC 6749 4.4, RFC 7523, RFC 8693, RFC 8707).

use super::discovery::{Discovery, Endpoint, unreadable};
use super::key::ClientKey;
use super::vault::{NoToken, Token};
use crate::egress::{Client, EgressError, Form, post};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The longest token, in bytes.
const LONGEST: usize = 16 * 1024;
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How a token is got.
#[derive(Clone)]
pub struct Grant {
    /// Who issues it.
    pub server: TokenServer,
    /// Our name there.
    pub client_id: String,
    /// What proves that name.
    pub proof: ClientProof,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// What the token is for.
    pub resource: String,
}

/// Who issues tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenServer {
    /// By the URL of its token endpoint, which the operator wrote.
    Endpoint(Url),
    /// By its name as the operator wrote it, and the URL that this is: its metadata say the rest.
    Issuer(String, Url),
}

/// What proves us to an authorization server.
#[derive(Clone)]
pub enum ClientProof {
    /// A secret we share.
    Secret(String),
    /// A key of ours.
    Key(Arc<ClientKey>),
}

impl Grant {
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let kind = |proof: &ClientProof| matches!(proof, ClientProof::Secret(_));
        self.server == other.server
            && self.client_id == other.client_id
            && self.scopes == other.scopes
            && self.resource == other.resource
            && kind(&self.proof) == kind(&other.proof)
    }

    pub(super) fn has_secret_of(&self, other: &Self) -> bool {
        match (&self.proof, &other.proof) {
            (ClientProof::Secret(ours), ClientProof::Secret(theirs)) => ours == theirs,
            (ClientProof::Key(ours), ClientProof::Key(theirs)) => ours.is_same(theirs),
            (ClientProof::Secret(_) | ClientProof::Key(_), _) => false,
        }
    }

    pub(super) fn secret(&self) -> Option<String> {
        match &self.proof {
            ClientProof::Secret(secret) => Some(secret.clone()),
            ClientProof::Key(_) => None,
        }
    }
}

impl fmt::Debug for Grant {
    /// Secrets are never printed.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Grant")
            .field("server", &self.server)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

/// What is asked: a token of our own, or one in exchange for `subject`.
pub(super) fn form(grant: &Grant, subject: Option<&str>, audience: Option<&str>) -> Form {
    let mut form = match subject {
        None => vec![("grant_type", "client_credentials".to_owned())],
        Some(subject) => vec![
            ("grant_type", EXCHANGE.to_owned()),
            ("subject_token", subject.to_owned()),
            ("subject_token_type", ACCESS_TOKEN.to_owned()),
            ("requested_token_type", ACCESS_TOKEN.to_owned()),
        ],
    };
    form.push(("resource", grant.resource.clone()));
    if let (Some(audience), Some(_)) = (audience, subject) {
        form.push(("audience", audience.to_owned()));
    }
    if !grant.scopes.is_empty() {
        form.push(("scope", grant.scopes.join(" ")));
    }
    form
}

/// Asks, and reads the answer.
pub(super) async fn ask(
    grant: &Grant,
    form: Form,
    client: &Client,
    discovery: &Discovery,
) -> Result<Token, NoToken> {
    let endpoint = discovery.endpoint(client).await?;
    let request = request(grant, form, &endpoint).ok_or(NoToken::new("it cannot be proven who asks"))?;
    let answer = match client.fetch(&endpoint.to, request).await {
        Ok(answer) => answer,
        Err(error) => {
            if error == EgressError::Unreachable {
                discovery.forget();
            }
            return Err(NoToken::new(unreadable(&error)));
        }
    };
    match answer.status() {
        StatusCode::OK => read(answer.body()),
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            discovery.forget();
            Err(NoToken::new("its token server has moved"))
        }
        _ => Err(NoToken::new(refusal(answer.body()))),
    }
}

fn request(grant: &Grant, mut form: Form, endpoint: &Endpoint) -> Option<Request<Bytes>> {
    let mut headers = HeaderMap::new();
    match &grant.proof {
        ClientProof::Secret(secret) => {
            endpoint.secret.show((&grant.client_id, secret), &mut headers, &mut form)?;
        }
        ClientProof::Key(key) => {
            form.push(("client_id", grant.client_id.clone()));
            form.push(("client_assertion_type", ASSERTION.to_owned()));
            form.push(("client_assertion", key.assertion(&grant.client_id, &endpoint.audience)?));
        }
    }
    Some(post(form, headers))
}

/// What we read of an answer. A refresh token in it is not even looked at (spec A-26).
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Value,
    #[serde(default)]
    issued_token_type: Option<String>,
}

fn read(body: &[u8]) -> Result<Token, NoToken> {
    const UNREADABLE: NoToken =
        NoToken { words: "its token server answered with something else than a token", is_new: true };
    let answer: Answer = serde_json::from_slice(body).map_err(|_| UNREADABLE)?;
    let is_bearer = answer.token_type.eq_ignore_ascii_case("bearer");
    let is_ours = answer.issued_token_type.is_none_or(|kind| kind == ACCESS_TOKEN || kind == JWT);
    let text = answer.access_token;
    let is_token =
        (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
    if !is_bearer || !is_ours || !is_token {
        return Err(UNREADABLE);
    }
    // Some write the number as text.
    let seconds = match &answer.expires_in {
        Value::Number(number) => number.as_f64().map(|seconds| seconds.clamp(0.0, 1e9)),
        Value::String(text) => text.parse::<u32>().ok().map(f64::from),
        _ => None,
    };
    let life = seconds.map(Duration::from_secs_f64);
    if life.is_some_and(|life| life < Duration::from_secs(1)) {
        return Err(NoToken::new("its token server gave a token that is over"));
    }
    Token::new(text, life).ok_or(UNREADABLE)
}

/// Why it was refused, by the words of the standard; others are not repeated.
fn refusal(body: &[u8]) -> &'static str {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let error = serde_json::from_slice::<Refusal>(body).map(|refusal| refusal.error).unwrap_or_default();
    match error.as_str() {
        "invalid_client" => "its token server does not know us (invalid_client)",
        "unauthorized_client" => "its token server does not serve us so (unauthorized_client)",
        "invalid_grant" => "its token server does not take the caller's token (invalid_grant)",
        "invalid_scope" => "its token server does not grant the scopes (invalid_scope)",
        "invalid_target" => "its token server has no token for this upstream (invalid_target)",
        "unsupported_grant_type" => "its token server does not do that (unsupported_grant_type)",
        "invalid_request" => "its token server does not understand us (invalid_request)",
        _ => "its token server gave no token",
    }
}
