//! Where an authorization server takes requests for tokens: as the operator says, or as its metadata do (spec ).

use super::grant::TokenServer;
use super::vault::NoToken;
use crate::egress::{self, Client, Destination, EgressError, Metadata, MetadataError, Named, SecretPlace};
use arc_swap::ArcSwapOption;
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
    /// Where the server wants to be shown the secret.
    pub(super) secret: SecretPlace,
}

/// Finds the endpoint of one server.
pub(super) struct Discovery {
    server: TokenServer,
    known: ArcSwapOption<(Instant, Endpoint)>,
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
                return Ok(Endpoint { to, audience: url.to_string(), secret: SecretPlace::Header });
            }
            TokenServer::Issuer(issuer, url) => (issuer, url),
        };
        if let Some(known) = &*self.known.load()
            && known.0.elapsed() < REFRESH
        {
            return Ok(known.1.clone());
        }
        let metadata =
            egress::metadata(client, issuer, url).await.map_err(|why| NoToken::new(unfound(&why)))?;
        let endpoint = endpoint(&metadata, issuer, url)?;
        self.known.store(Some(Arc::new((Instant::now(), endpoint.clone()))));
        Ok(endpoint)
    }

    /// What was found is of no use any more.
    pub(super) fn forget(&self) {
        self.known.store(None);
    }
}

fn endpoint(metadata: &Metadata, issuer: &str, url: &Url) -> Result<Endpoint, NoToken> {
    let text = metadata.token_endpoint.as_deref();
    let text = text.ok_or(NoToken::new("the metadata of its authorization server name no token endpoint"))?;
    // The operator named the server, and no other.
    let to = egress::check(text, &Named::of([url]))
        .map_err(|_| NoToken::new("the metadata of its authorization server lead where we do not go"))?;
    let secret = SecretPlace::of(metadata.token_endpoint_auth_methods_supported.as_deref());
    Ok(Endpoint { to, audience: issuer.to_owned(), secret })
}

/// Why nothing is known of a server.
fn unfound(error: &MetadataError) -> &'static str {
    match error {
        MetadataError::None => "its authorization server has no metadata",
        MetadataError::Another => "the metadata of its authorization server name another",
        MetadataError::Unreadable => "the metadata of its authorization server cannot be read",
        MetadataError::Egress(error) => unreadable(error),
    }
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
