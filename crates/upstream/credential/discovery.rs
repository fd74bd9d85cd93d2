//! Where an authorization server takes requests for tokens: as the operator says, or as its metadata do (spec ).

use super::grant::TokenServer;
use super::vault::NoToken;
use crate::egress::{self, Client, Destination, EgressError, Named};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::Request;
use http::header::ACCEPT;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// Metadata are read again after so long.
const REFRESH: Duration = Duration::from_secs(60 * 60);

/// Where tokens are asked for, and how we may prove ourselves there.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) to: Destination,
    /// What an assertion of ours is addressed to.
    pub(super) audience: String,
    /// The server wants the secret in the form, and not in a header.
    pub(super) secret_in_form: bool,
}

/// Finds the endpoint of one server.
pub(super) struct Discovery {
    server: TokenServer,
    known: ArcSwapOption<(Instant, Endpoint)>,
}

/// What we read of the metadata (RFC 8414). A token of any other member is not ours to look at.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    token_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl Discovery {
    pub(super) fn of(server: &TokenServer) -> Self {
        Self { server: server.clone(), known: ArcSwapOption::empty() }
    }

    /// The endpoint, from memory if it was found lately.
    pub(super) async fn endpoint(&self, client: &Client) -> Result<Endpoint, NoToken> {
        let (issuer, url) = match &self.server {
            TokenServer::Endpoint(url) => {
                let to = Destination::written(url.clone());
                return Ok(Endpoint { to, audience: url.to_string(), secret_in_form: false });
            }
            TokenServer::Issuer(issuer, url) => (issuer, url),
        };
        if let Some(known) = &*self.known.load()
            && known.0.elapsed() < REFRESH
        {
            return Ok(known.1.clone());
        }
        let endpoint = endpoint(&read(client, issuer, url).await?, issuer, url)?;
        self.known.store(Some(Arc::new((Instant::now(), endpoint.clone()))));
        Ok(endpoint)
    }

    /// What was found is of no use any more.
    pub(super) fn forget(&self) {
        self.known.store(None);
    }
}

/// The first of its well-known documents that is one.
async fn read(client: &Client, issuer: &str, url: &Url) -> Result<Metadata, NoToken> {
    let mut why = "its authorization server has no metadata";
    for place in metadata_places(url) {
        let Ok(request) = Request::get("/").header(ACCEPT, "application/json").body(Bytes::new()) else {
            continue;
        };
        let answer = match client.fetch(&Destination::written(place), request).await {
            Ok(answer) if answer.status() == http::StatusCode::OK => answer,
            Ok(_) => continue,
            Err(error) => return Err(NoToken::new(unreadable(&error))),
        };
        match serde_json::from_slice::<Metadata>(answer.body()) {
            // spec A-17: not a letter may differ.
            Ok(metadata) if metadata.issuer == issuer => return Ok(metadata),
            Ok(_) => return Err(NoToken::new("the metadata of its authorization server name another")),
            Err(_) => why = "the metadata of its authorization server cannot be read",
        }
    }
    Err(NoToken::new(why))
}

/// Where the metadata of an issuer may be, in this order (spec A-16).
pub fn metadata_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url
    };
    paths.into_iter().map(at).collect()
}

fn endpoint(metadata: &Metadata, issuer: &str, url: &Url) -> Result<Endpoint, NoToken> {
    let text = metadata.token_endpoint.as_deref();
    let text = text.ok_or(NoToken::new("the metadata of its authorization server name no token endpoint"))?;
    // The operator named the server, and no other.
    let to = egress::check(text, &Named::of([url]))
        .map_err(|_| NoToken::new("the metadata of its authorization server lead where we do not go"))?;
    let methods = metadata.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
    let takes = |method: &str| methods.iter().any(|one| one == method);
    let secret_in_form = takes("client_secret_post") && !takes("client_secret_basic");
    Ok(Endpoint { to, audience: issuer.to_owned(), secret_in_form })
}

/// Why a server could not be asked.
pub(super) fn unreadable(error: &EgressError) -> &'static str {
    match error {
        EgressError::Refused(_) => "its authorization server leads where we do not go",
        EgressError::Unreachable => "its token server cannot be reached",
        EgressError::Slow => "its token server did not answer in time",
        EgressError::TooLarge => "its token server answered too much",
    }
}
