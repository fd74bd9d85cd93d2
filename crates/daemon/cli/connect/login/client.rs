//! As whom we ask an authorization server: a client that the user registered, else one that it registers (spec A-18).

use std::path::PathBuf;

use bytes::Bytes;
use config::Secret;
use http::{HeaderMap, Request, StatusCode, header};
use serde::Deserialize;
use upstream::egress::Form;

use super::{
    authorize::word,
    discovery::{Authority, Reach},
    error::LoginError,
};
use crate::failure::Failure;

/// What is registered, beside where the browser comes back to.
const NAME: &str = "Portcullis";

/// A client of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) id: String,
    /// None where it can keep none: a public client.
    pub(super) secret: Option<Secret>,
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Refusal {
    pub(super) error: String,
}

impl Client {
    /// The one that the user registered.
    pub(super) fn named(id: String, secret_file: Option<PathBuf>) -> Result<Client, Failure> {
        let secret = secret_file.map(|file| {
            let text = std::fs::read_to_string(&file).map_err(|error| {
                Failure::usage(format!("cannot read the secret file {}: {error}", file.display()))
            })?;
            Ok(Secret::new(text.trim().to_owned()))
        });
        Ok(Client { id, secret: secret.transpose()? })
    }

    /// Registers one (RFC 7591), as a program on its user's machine (spec A-20).
    pub(super) async fn register(
        reach: &Reach,
        authority: &Authority,
        redirect: &str,
    ) -> Result<Client, LoginError> {
        const WHAT: &str = "to register us";
        let Some(to) = &authority.registration else {
            return Err(LoginError::NoRegistration(authority.issuer.clone()));
        };
        // No scopes: a client that names some is held to them, and a later login may need more.
        let document = serde_json::json!({
            "client_name": NAME,
            "application_type": "native",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        });
        let request = Request::post("/")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Bytes::from(document.to_string()));
        let unreadable = |why: String| LoginError::Unreadable("the answer to our registration", why);
        let request = request.map_err(|error| unreadable(error.to_string()))?;
        let (status, body) = reach.fetch(to, request).await.map_err(|error| unreadable(error.to_string()))?;
        if !matches!(status, StatusCode::OK | StatusCode::CREATED) {
            let said = serde_json::from_slice::<Refusal>(&body);
            return Err(LoginError::Refused(WHAT, said.map_or(status.to_string(), |said| word(&said.error))));
        }
        let registered: Registered =
            serde_json::from_slice(&body).map_err(|_| unreadable("there is no name in it".to_owned()))?;
        Ok(Client { id: registered.client_id, secret: registered.client_secret.map(Secret::new) })
    }

    /// Adds what proves it to a request of its own.
    pub(super) fn prove(
        &self,
        authority: &Authority,
        head: &mut HeaderMap,
        form: &mut Form,
    ) -> Result<(), LoginError> {
        let Some(secret) = &self.secret else {
            form.push(("client_id", self.id.clone()));
            return Ok(());
        };
        let shown = authority.secret.show((&self.id, secret.expose()), head, form);
        shown.ok_or_else(|| LoginError::Machine("no header can hold the secret".to_owned()))
    }
}
