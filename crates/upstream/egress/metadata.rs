//! What authorization servers say of themselves (RFC 8414, OpenID Connect Discovery).

use super::{Client, Destination, EgressError};
use bytes::Bytes;
use http::header::ACCEPT;
use http::{Request, StatusCode};
use serde::Deserialize;
use url::Url;

/// What we read of the metadata. Of no endpoint is it known that we may go there: see [`super::check`].
#[derive(Debug, Clone, Deserialize)]
pub struct Metadata {
    /// The name it gives itself.
    pub issuer: String,
    /// Where tokens are asked for.
    pub token_endpoint: Option<String>,
    /// How clients prove themselves there.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Where its public keys are.
    pub jwks_uri: Option<String>,
    /// Where it is asked about tokens (RFC 7662).
    pub introspection_endpoint: Option<String>,
    /// How clients prove themselves there.
    pub introspection_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Why there are no metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// They are in none of the places where they may be.
    #[error("it has no metadata")]
    None,
    /// They are those of another server (spec A-17).
    #[error("its metadata name another issuer")]
    Another,
    /// They are no metadata.
    #[error("its metadata cannot be read")]
    Unreadable,
    /// The server cannot be asked.
    #[error("{0}")]
    Egress(#[from] EgressError),
}

/// The first of its well-known documents that is one. `issuer` is the name of the server as the operator wrote it, and
/// `url` the URL that this is.
pub async fn metadata(client: &Client, issuer: &str, url: &Url) -> Result<Metadata, MetadataError> {
    let mut why = MetadataError::None;
    for place in metadata_places(url) {
        let Ok(request) = Request::get("/").header(ACCEPT, "application/json").body(Bytes::new()) else {
            continue;
        };
        let answer = client.fetch(&Destination::written(place), request).await?;
        if answer.status() != StatusCode::OK {
            continue;
        }
        match serde_json::from_slice::<Metadata>(answer.body()) {
            // spec A-17: not a letter may differ.
            Ok(metadata) if metadata.issuer == issuer => return Ok(metadata),
            Ok(_) => return Err(MetadataError::Another),
            Err(_) => why = MetadataError::Unreadable,
        }
    }
    Err(why)
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
