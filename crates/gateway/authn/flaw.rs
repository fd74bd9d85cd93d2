//! What is wrong with a credential: in full for the operator, in one word for whoever shows it.

use crate::error::AuthnError;

/// Why nobody was identified. Holds no part of what was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    #[error("no credential")]
    Missing,
    #[error("several credentials, or a header that cannot be read")]
    Malformed,
    #[error("no token that can be read")]
    Unreadable,
    #[error("a header that tokens must not have, or one of the wrong kind")]
    Header,
    #[error("not signed in a way that is accepted from this issuer")]
    Algorithm,
    #[error("from an issuer that is not accepted")]
    Issuer,
    #[error("the keys of the issuer are not known yet")]
    NoKeys,
    #[error("signed with a key that the issuer does not publish")]
    UnknownKey,
    #[error("its issuer does not know it, or could not be asked")]
    Unknown,
    #[error("a signature that does not fit")]
    Signature,
    #[error("claim `{0}` is missing or not what it must be")]
    Claim(&'static str),
    #[error("a token, but no access token")]
    Kind,
    #[error("valid for longer than is accepted")]
    Lifetime,
    #[error("not valid yet")]
    Early,
    #[error("expired")]
    Expired,
    #[error("revoked")]
    Revoked,
    #[error("for another audience")]
    Audience,
    #[error("of another tenant, or of one that does not take this kind of credential")]
    Tenant,
    #[error("no API key of ours")]
    Key,
    #[error("an API key that is not for this virtual server")]
    Server,
    #[error("without the scopes that this endpoint needs")]
    Scope,
}

impl Flaw {
    /// What the asker is told. Only who holds a genuine credential learns that it has expired or was revoked;
    /// everything else looks the same, other people's tenants included.
    pub(super) fn told(self) -> AuthnError {
        let why = match self {
            Flaw::Missing => return AuthnError::Missing,
            Flaw::Malformed => return AuthnError::Malformed,
            // Hidden equals missing: the key is good, and this endpoint does not exist for it.
            Flaw::Server => return AuthnError::NoEndpoint,
            Flaw::Scope => return AuthnError::Scope,
            Flaw::Expired => "expired",
            Flaw::Revoked => "revoked",
            Flaw::Unreadable
            | Flaw::Header
            | Flaw::Algorithm
            | Flaw::Issuer
            | Flaw::NoKeys
            | Flaw::UnknownKey
            | Flaw::Unknown
            | Flaw::Signature
            | Flaw::Claim(_)
            | Flaw::Kind
            | Flaw::Lifetime
            | Flaw::Early
            | Flaw::Audience
            | Flaw::Tenant
            | Flaw::Key => "invalid",
        };
        AuthnError::Refused(why)
    }
}
