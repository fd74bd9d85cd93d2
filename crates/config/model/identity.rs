//! Who may ask.

use std::{path::PathBuf, sync::Arc, time::Duration};

use url::Url;

use super::Secret;

/// What proves a principal of a tenant. There is always at least one way.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Whose tokens are accepted; no issuer twice, neither here nor in two tenants.
    pub issuers: Vec<Issuer>,
    /// Whether API keys are accepted.
    pub keys: bool,
    /// Whether tokens signed with the gateway's own key are accepted.
    pub local: bool,
}

/// The name of the gateway as an issuer: the `iss` of tokens signed with its own key.
pub const LOCAL_ISSUER: &str = "portcullis";

/// One issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The `iss` of its tokens, compared as it stands; never [`LOCAL_ISSUER`].
    pub issuer: Arc<str>,
    /// How its tokens are proved.
    pub proof: TokenProof,
    /// The `aud` of its tokens; the URL of the endpoint when absent.
    pub audience: Option<String>,
    /// How its tokens may be signed; at least one way.
    pub algorithms: Vec<Algorithm>,
    /// How far its clock may differ from ours.
    pub leeway: Duration,
    /// Which of its claims say what.
    pub claims: IssuerClaims,
    /// What a challenge asks for; what is required is among it.
    pub scopes: Vec<String>,
    /// What every token must carry.
    pub required_scopes: Vec<String>,
    /// Scopes that hold others, each with those in its list.
    pub hierarchy: Vec<(String, Vec<String>)>,
}

/// Which claims of a token say what: each a name, or where it begins with `/` a JSON pointer (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerClaims {
    /// Who it is.
    pub principal: String,
    /// The groups.
    pub groups: String,
    /// The scopes; `scope`, or else `scp`, when absent.
    pub scopes: Option<String>,
    /// The tenant; when absent the issuer speaks for one.
    pub tenant: Option<String>,
}

impl Default for IssuerClaims {
    fn default() -> IssuerClaims {
        IssuerClaims { principal: "sub".to_owned(), groups: "groups".to_owned(), scopes: None, tenant: None }
    }
}

/// How tokens of an issuer are proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenProof {
    /// By their signature, with these keys.
    Keys(JwksSource),
    /// The same, with the keys that its metadata name (RFC 8414, OpenID Connect Discovery): this is the URL that the issuer
    /// is called, https, or on this machine.
    KeysOfMetadata(Url),
    /// By asking the issuer (RFC 7662).
    Introspection(Introspection),
}

/// How an issuer is asked about tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introspection {
    /// Where; as the metadata of the issuer say when absent, whose name then is a URL.
    pub url: Option<Url>,
    /// Our name there.
    pub client_id: String,
    /// What proves that name.
    pub client_secret: Secret,
    /// For how long an answer is believed.
    pub cache: Duration,
}

/// Where the public keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// In this file.
    File(PathBuf),
    /// At this URL: https, or on this machine.
    Url(Url),
}

/// A way to sign a token; each with a key pair, so that who checks cannot sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of RFC 7518 and RFC 8037")]
pub enum Algorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}
