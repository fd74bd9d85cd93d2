//! What may be written about who may ask.

use crate::choice::Signature;
use crate::credential::{Audience, Claim, ClientId, ClientSecret, IntrospectionUrl, IssuerName, Jwks, Scope};
use crate::model::Algorithm;
use crate::quantity::Time;
use crate::reader::At;
use crate::section::{Map, section};

section! { "identity"
    /// Who may ask. A request needs a token of one of the issuers, an API key, or a token of the gateway's own.
    Identity {
        /// Whose tokens are accepted.
        "issuers" issuers: Vec<At<Issuer>> = Vec::new();
        /// Whether the API keys of this tenant are accepted.
        "keys" keys: bool = true;
        /// Whether tokens are accepted that the gateway itself issued for this tenant.
        "local" local: bool = true;
    }
    refused {}
}

section! { "identity.issuers"
    /// One issuer of tokens. It may stand in several tenants only if `claims.tenant` says for which of them a token is.
    Issuer {
        /// The `iss` of its tokens, exactly.
        "issuer" issuer: IssuerName, required;
        /// Its public keys as a JWK set: a file, relative to this one, or an https URL. When it is left out, the metadata of
        /// the issuer say where they are.
        "jwks" jwks: Jwks;
        /// Whether and how the issuer is asked about each token, instead of checking a signature.
        "introspection" introspection: Introspection;
        /// The `aud` of its tokens, where the issuer cannot write the URL of the endpoint there.
        "audience" audience: Audience;
        /// How its tokens may be signed. What a token says of itself decides nothing.
        "algorithms" algorithms: Vec<At<Signature>> =
            [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA].map(|one| At::nowhere(Signature(one))).to_vec();
        /// How far its clock may differ from ours: for `exp`, `nbf` and `iat`.
        "leeway" leeway: Time<0, 300_000> = Time::seconds(30);
        /// Which claims say what.
        "claims" claims: Claims = Claims::default();
        /// The scopes that a challenge asks for.
        "scopes" scopes: Vec<At<Scope>> = Vec::new();
        /// The scopes that every token must carry; a challenge asks for them too. Without one of them the answer is 403.
        "required_scopes" required_scopes: Vec<At<Scope>> = Vec::new();
        /// Scopes that hold others: whoever carries the one carries those in its list, and what they hold in turn.
        "scope_hierarchy" scope_hierarchy: Map<Scope, Vec<At<Scope>>> = Map::default();
    }
    refused {}
}

section! { "identity.issuers.claims"
    /// Which claims of a token say what: the name of a claim, or where it begins with `/`, a JSON pointer to one
    /// further inside, such as `/realm_access/roles`.
    Claims {
        /// Who it is.
        "principal" principal: Claim = Claim("sub".into());
        /// The groups it belongs to: a list of texts.
        "groups" groups: Claim = Claim("groups".into());
        /// The scopes it carries: a list of texts, or one text with spaces between. `scope`, or else `scp`, when left out.
        "scopes" scopes: Claim;
        /// The tenant it is for, by its name. A token without it, or for another tenant, is not accepted.
        "tenant" tenant: Claim;
    }
    refused {}
}

section! { "identity.issuers.introspection"
    /// The issuer is asked about each token (RFC 7662): for tokens that say nothing themselves. A tenant may have one such
    /// issuer.
    Introspection {
        /// Where it is asked: https, or on this machine. When it is left out, the metadata of the issuer say where.
        "url" url: IntrospectionUrl;
        /// The name that the issuer knows the gateway by.
        "client_id" client_id: ClientId, required;
        /// The secret it gave the gateway, such as `"${secret:NAME}"`.
        "client_secret" client_secret: ClientSecret, required;
        /// For how long an answer is believed, but never beyond the end of the token: a token that is revoked at the
        /// issuer is refused after this long.
        "cache" cache: Time<0, 300_000> = Time::seconds(30);
    }
    refused {}
}
