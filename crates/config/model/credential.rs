//! What proves the gateway to a server.

use std::path::PathBuf;

use url::Url;

use super::Secret;

/// What proves us to an upstream over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Nothing.
    None,
    /// Headers with fixed values; the names in lower case, none twice.
    Headers(Vec<(String, Secret)>),
    /// A token for ourselves.
    Client(Grant),
    /// A token for the calling principal, in exchange for the one it showed.
    Exchange {
        /// How we get it.
        grant: Grant,
        /// The name of the upstream at the authorization server.
        audience: Option<String>,
    },
    /// Who calls.
    Principal {
        /// What is told in headers of its own; the names in lower case, none twice.
        headers: Vec<(Fact, String)>,
        /// Whether the same is told in a signed token.
        sign: bool,
    },
}

impl Credential {
    /// Whether it differs between principals: then a connection must not be shared by them.
    pub fn is_for_principals(&self) -> bool {
        match self {
            Credential::None | Credential::Headers(_) | Credential::Client(_) => false,
            Credential::Exchange { .. } | Credential::Principal { .. } => true,
        }
    }
}

/// How a token is got from an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who issues it.
    pub server: TokenServer,
    /// Our name there.
    pub client_id: String,
    /// What proves that name.
    pub proof: ClientProof,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// What the token is for (RFC 8707).
    pub resource: String,
}

/// An authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenServer {
    /// By the URL of its token endpoint: https, or on this machine.
    Endpoint(Url),
    /// By its name, as it is written, and the URL that this is: its metadata say the rest.
    Issuer(String, Url),
}

/// What proves us to an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientProof {
    /// A secret we share.
    Secret(Secret),
    /// A key of ours (RFC 7523).
    Key {
        /// Where it is, PEM.
        file: PathBuf,
        /// Its `kid`.
        id: Option<String>,
        /// How it signs.
        algorithm: Signing,
    },
}

/// How a key of ours signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signing {
    /// ECDSA on P-256.
    Es256,
    /// RSA with SHA-256.
    Rs256,
    /// Ed25519.
    EdDsa,
}

/// What may be told of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// Its name within its issuer.
    Subject,
    /// Its tenant.
    Tenant,
    /// Its groups.
    Groups,
    /// Who vouches for it.
    Issuer,
}
